package galgo

import (
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestHashKey(t *testing.T) {
	for text, want := range map[string]uint32{
		"": 0x02cc5d05, "a": 0x550d7456, "abc": 0x32d153ff, "order-key-1": 0x0d3fe0e1, "consumer-1": 0x4fc4e2ab,
		"test-consumer": 0xd543f15c, "0123456789abcdef": 0xc2c45b69, "0123456789abcdefghijklmnopqrstuvwxyz": 0x9aa38e7e,
		"vec-order-key-1": 2147551997,
	} {
		if got := HashKey([]byte(text)); got != want {
			t.Errorf("hash of %q is %08x, want %08x", text, got, want)
		}
	}
	if got := HashKey([]byte{42, 0, 0, 0, 0, 0, 0, 0}); got != 2332451213 {
		t.Errorf("hash of 42 in 8 bytes is %d, want 2332451213", got)
	}
	for text, want := range map[string]uint32{"": 1, "a": 0, "test-consumer": 1, "0123456789abcdef": 1, "vec-order-key-1": 2} {
		if got := KeyPartition([]byte(text), 3); got != want {
			t.Errorf("key %q goes to partition %d of 3, want %d", text, got, want)
		}
	}
}

func TestOffsetKey(t *testing.T) {
	for _, c := range []struct {
		consumer Consumer
		key      uint32
		ok       bool
	}{
		{Consumer{ConsumerSingle, NumericID(7)}, 7, true},
		{Consumer{ConsumerSingle, NamedID("consumer-1")}, 1338303147, true},
		{Consumer{ConsumerSingle, NamedID("test-consumer")}, 3577999708, true},
		{Consumer{ConsumerGroup, NumericID(7)}, 7, true},
		{Consumer{ConsumerGroup, NamedID("group")}, 0, false},
		{Consumer{}, 0, false},
	} {
		if key, ok := c.consumer.OffsetKey(); key != c.key || ok != c.ok {
			t.Errorf("%s has offset key %d, %v, want %d, %v", c.consumer, key, ok, c.key, c.ok)
		}
	}
}

func TestParseIdentifier(t *testing.T) {
	for text, want := range map[string]Identifier{
		"0": NumericID(0), "7": NumericID(7), "4294967295": NumericID(math.MaxUint32),
		"4294967296": NamedID("4294967296"), "-1": NamedID("-1"), "orders": NamedID("orders"), "7a": NamedID("7a"),
		" 7": NamedID(" 7"), strings.Repeat("n", 255): NamedID(strings.Repeat("n", 255)),
	} {
		got, err := ParseIdentifier(text)
		if err != nil || got != want {
			t.Errorf("%q is %+v, %v, want %+v", text, got, err, want)
		}
		if want.Kind == IdentifierNamed && got.String() != text {
			t.Errorf("%q is shown as %q", text, got)
		}
	}
	for _, text := range []string{"", strings.Repeat("n", 256), "\xff"} {
		if _, err := ParseIdentifier(text); !errors.Is(err, &Error{Code: CodeInvalidIdentifier}) {
			t.Errorf("%q: %v, want an invalid identifier", text, err)
		}
	}
	if err := (Identifier{}).Validate(); err == nil {
		t.Error("an identifier of kind 0 is valid")
	}
}

// TestCodeTable: sorted, without gaps in names, and each number with a constant.
func TestCodeTable(t *testing.T) {
	if len(codeTable) != 238 {
		t.Errorf("%d codes, want 238", len(codeTable))
	}
	names := map[string]bool{}
	for i, info := range codeTable {
		if i > 0 && codeTable[i-1].code >= info.code {
			t.Errorf("code %d is out of order", info.code)
		}
		if names[info.name] || info.name == "" || info.text == "" {
			t.Errorf("code %d: name %q, text %q", info.code, info.name, info.text)
		}
		names[info.name] = true
		if info.code.String() != info.name || info.code.Text() != info.text || !info.code.Known() {
			t.Errorf("code %d is shown as %s", info.code, info.code)
		}
	}
	for code, name := range map[Code]string{
		1: "Error", 3: "InvalidCommand", 20: "ResourceNotFound", 41: "Unauthorized", 57: "TransientNotCommitted",
		1009: "StreamIdNotFound", 2010: "TopicIdNotFound", 4042: "InvalidOptionValue", 14003: "IncompatibleProtocolVersion",
		17: "Code(17)", 0: "Ok",
	} {
		if code.String() != name {
			t.Errorf("code %d is %s, want %s", uint32(code), code, name)
		}
	}
	for _, info := range codeTable {
		if want := info.code == 57 || info.code == 58; info.code.Retriable() != want {
			t.Errorf("%s retriable: %v", info.code, info.code.Retriable())
		}
	}
}

func TestErrors(t *testing.T) {
	err := fmt.Errorf("create stream: %w", Errorf(CodeStreamNameAlreadyExists, "stream %q", "orders"))
	if !errors.Is(err, &Error{Code: CodeStreamNameAlreadyExists}) || errors.Is(err, &Error{Code: CodeError}) {
		t.Error("errors match by code")
	}
	if code, ok := CodeOf(err); !ok || code != CodeStreamNameAlreadyExists {
		t.Errorf("code %s, %v", code, ok)
	}
	if _, ok := CodeOf(errors.New("other")); ok {
		t.Error("an error without a code has one")
	}
	if got, want := err.Error(), `create stream: StreamNameAlreadyExists (1012): stream "orders"`; got != want {
		t.Errorf("error %q, want %q", got, want)
	}
	if got, want := (&Error{Code: CodeUnauthorized}).Error(), "Unauthorized (41): signed in, but not allowed to do this"; got != want {
		t.Errorf("error %q, want %q", got, want)
	}
}

func TestValues(t *testing.T) {
	for _, c := range []struct {
		value Value
		text  string
	}{
		{RawValue([]byte{0xde, 0xad}), "dead"},
		{StringValue("text"), "text"},
		{BoolValue(true), "true"},
		{BoolValue(false), "false"},
		{Int8Value(-1), "-1"},
		{Int16Value(math.MinInt16), "-32768"},
		{Int32Value(-3), "-3"},
		{Int64Value(math.MinInt64), "-9223372036854775808"},
		{Int128Value([16]byte{15: 0x80}), "-170141183460469231731687303715884105728"},
		{Uint8Value(255), "255"},
		{Uint16Value(16), "16"},
		{Uint32Value(math.MaxUint32), "4294967295"},
		{Uint64Value(math.MaxUint64), "18446744073709551615"},
		{Uint128Value([16]byte{8: 1}), "18446744073709551616"},
		{Float32Value(1.5), "1.5"},
		{Float64Value(-0.1), "-0.1"},
		{Value{KindUint64, []byte{1}}, "01"},
		{Value{200, []byte{1, 2}}, "0102"},
		{Value{KindBool, nil}, ""},
	} {
		if got := c.value.String(); got != c.text {
			t.Errorf("%s of %x is shown as %q, want %q", c.value.Kind, c.value.Data, got, c.text)
		}
	}
	for _, v := range []Value{Int64Value(1), Uint128Value([16]byte{}), StringValue("1"), {KindUint32, []byte{1, 2}}} {
		if _, err := v.Uint64(); err == nil {
			t.Errorf("%s of %d bytes is taken as a number", v.Kind, len(v.Data))
		}
	}
	for _, v := range []Value{Uint8Value(200), Uint16Value(200), Uint32Value(200), Uint64Value(200)} {
		if n, err := v.Uint64(); n != 200 || err != nil {
			t.Errorf("%s: %d, %v", v.Kind, n, err)
		}
	}
}

func TestParseByteSize(t *testing.T) {
	for text, want := range map[string]uint64{
		"0": 0, "4096": 4096, "1 B": 1, "1KB": 1000, "1 KiB": 1024, "1k": 1000, "1 ki": 1024, "2 gib": 2 << 30,
		"1.5 GiB": 3 << 29, "1.5mb": 1_500_000, "1 GB": 1e9, "3 TiB": 3 << 40, "1PB": 1e15, "15 EiB": 15 << 60,
		"18446744073709551615": math.MaxUint64, " 7 KB ": 7000, "0.5KiB": 512, "0.000001 MB": 1,
	} {
		if got, err := ParseByteSize(text); got != want || err != nil {
			t.Errorf("%q is %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "B", "KiB", "-1", "1 XB", "1 KBB", "1 kib b", "1.", ".5 KB", "1.2.3", "0.5", "0.1 KiB", "16 EiB",
		"18446744073709551616", "99999999999999999999", "1 kg", "1e3", "0.0000000000000000001 EB", "18.5 EB", "unlimited", "1 iB",
	} {
		if got, err := ParseByteSize(text); err == nil {
			t.Errorf("%q is taken as %d", text, got)
		}
	}
}

func TestParseDuration(t *testing.T) {
	const second = 1_000_000
	for text, want := range map[string]uint64{
		"1s": second, "7 days": 7 * 86400 * second, "1h 30m": 5400 * second, "1h30m": 5400 * second, "250ms": 250_000,
		"10us": 10, "10µs": 10, "1500ns": 1, "2 weeks": 14 * 86400 * second, "1month": 2_630_016 * second,
		"1M": 2_630_016 * second, "1m": 60 * second, "1 year": 31_557_600 * second, "0s": 0, "3 hrs 1 sec": 10_801 * second,
		"4294967295s": 4294967295 * second,
	} {
		if got, err := ParseDuration(text); got != want || err != nil {
			t.Errorf("%q is %d µs, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "5", "s", "1.5h", "-1s", "1 parsec", "4294967296s", "4294967295s 1s", "99999999999999999999s", "18446744073709551615 years",
		"281474976710656 weeks", "4294967295s 18446744073709551615ns", "1h,", "1 h m"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("%q is taken as %d µs", text, got)
		}
	}
}

// FuzzText: no text of a person panics, and what is taken stays in bounds.
func FuzzText(f *testing.F) {
	for _, text := range []string{"1.5 GiB", "1h 30m", "7 days", "orders", "4294967295s"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if µs, err := ParseDuration(text); err == nil && µs > DurationTextMax*1_000_000 {
			t.Fatalf("%q is %d µs", text, µs)
		}
		if size, err := ParseByteSize(text); err == nil && strings.Trim(text, "0123456789") == "" {
			if want, err := strconv.ParseUint(text, 10, 64); err != nil || size != want {
				t.Fatalf("%q is %d bytes, want %d", text, size, want)
			}
		}
		if id, err := ParseIdentifier(text); (err == nil) != (id.Validate() == nil) {
			t.Fatalf("%q is %+v, %v", text, id, err)
		}
	})
}

func TestPermissions(t *testing.T) {
	p := Permissions{Streams: []StreamPermissions{
		{StreamID: 9, ReadStream: true},
		{StreamID: 7, Topics: []TopicPermissions{{TopicID: 4, ReadTopic: true}, {TopicID: 3, PollMessages: true}}},
	}}
	c := p.Clone()
	c.Sort()
	if c.Streams[0].StreamID != 7 || c.Streams[0].Topics[0].TopicID != 3 {
		t.Errorf("sorted: %+v", c)
	}
	if p.Streams[0].StreamID != 9 || p.Streams[1].Topics[0].TopicID != 4 {
		t.Errorf("sorting a clone changed the original: %+v", p)
	}
	if missing := p.Stream(8); missing.StreamID != 8 || missing.ReadStream || missing.Topics != nil {
		t.Errorf("a stream without an entry: %+v", missing)
	}
	if !p.Stream(9).ReadStream || !p.Stream(7).Topic(3).PollMessages || p.Stream(7).Topic(5) != (TopicPermissions{TopicID: 5}) {
		t.Error("lookup by id")
	}
}

// TestImportsStandardLibraryOnly keeps the vocabulary free of everything else.
func TestImportsStandardLibraryOnly(t *testing.T) {
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	banned := []string{"os", "net", "time", "sync", "math/rand", "math/rand/v2", "context", "io"}
	for _, file := range files {
		if !strings.HasSuffix(file.Name(), ".go") || strings.HasSuffix(file.Name(), "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file.Name(), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range parsed.Imports {
			path, _ := strconv.Unquote(i.Path.Value)
			if strings.Contains(path, ".") || strings.HasPrefix(path, "galgo") || slices.Contains(banned, path) {
				t.Errorf("%s imports %s; this package is values alone", file.Name(), path)
			}
		}
	}
}
