package wire

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"galgo"
)

func option(key string, v galgo.Value) galgo.Header {
	return galgo.Header{Key: galgo.StringValue(key), Value: v}
}

func block(t testing.TB, entries ...galgo.Header) Options {
	t.Helper()
	o, err := NewOptions(entries)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestGoldenOptions pins a block that several SDKs pin too, and the one that the
// server fills in.
func TestGoldenOptions(t *testing.T) {
	explicit := block(t, option("enforce_fsync", galgo.BoolValue(true)), option("segment_size", galgo.Uint64Value(1<<30)))
	diff(t, "explicit", explicit, unhex(t, `
		020d000000 656e666f7263655f6673796e63 03 01000000 01
		020c000000 7365676d656e745f73697a65 0c 08000000 0000004000000000`))
	o := DefaultTopicOptions()
	diff(t, "explicit of a default", o.AppendExplicit(nil), nil)
	derived := o.AppendDerived(nil)
	diff(t, "derived of a default", derived, unhex(t, `
		0215000000 636f6d7072657373696f6e5f616c676f726974686d 0204000000 6e6f6e65
		020d000000 656e666f7263655f6673796e63 0301000000 00
		020e000000 6d61785f746f7069635f73697a65 0c08000000 ffffffffffffffff
		020e000000 6d6573736167655f657870697279 0c08000000 ffffffffffffffff
		0219000000 6d657373616765735f72657175697265645f746f5f73617665 0b04000000 00040000
		0214000000 707265616c6c6f636174655f7365676d656e7473 0301000000 00
		020c000000 7365676d656e745f73697a65 0c08000000 0000004000000000
		0221000000 73697a655f6f665f6d657373616765735f72657175697265645f746f5f73617665 0c08000000 0000100000000000`))
	if len(derived) != 274 {
		t.Errorf("derived block of %d bytes, want 274", len(derived))
	}
}

// TestCatalogueIsComplete holds the catalogue against what is parsed and derived.
func TestCatalogueIsComplete(t *testing.T) {
	catalogue := galgo.TopicOptionCatalogue()
	if len(catalogue) != optionCount {
		t.Fatalf("%d options described, %d parsed", len(catalogue), optionCount)
	}
	o := DefaultTopicOptions()
	for _, c := range catalogue {
		i, ok := optionIndex(c.Key)
		if !ok || optionSpecs[i].updatable != c.Updatable {
			t.Errorf("option %s: parsed %v, updatable %v", c.Key, ok, c.Updatable)
			continue
		}
		if got := optionSpecs[i].get(&o); got.Kind != c.Default.Kind || !bytes.Equal(got.Data, c.Default.Data) {
			t.Errorf("option %s defaults to %s %s, described as %s %s", c.Key, got.Kind, got, c.Default.Kind, c.Default)
		}
		if c.Description == "" {
			t.Errorf("option %s has no description", c.Key)
		}
	}
	for i := 1; i < optionCount; i++ {
		if optionSpecs[i-1].key >= optionSpecs[i].key {
			t.Errorf("key %s is out of order", optionSpecs[i].key)
		}
	}
	if got := DescribeOptions(galgo.ScopeTopic); len(got) != optionCount || got[0].Key != galgo.OptionCompressionAlgorithm || got[1].Key != galgo.OptionMessageExpiry {
		t.Errorf("described: %v", got)
	}
	if got := DescribeOptions(galgo.ScopeStream); len(got) != 0 {
		t.Errorf("streams have options: %v", got)
	}
}

// TestOptionValues goes through the accepted forms of each key: what is resolved,
// whether it counts as sent, and what is refused.
func TestOptionValues(t *testing.T) {
	str, u8, u32, u64 := galgo.StringValue, galgo.Uint8Value, galgo.Uint32Value, galgo.Uint64Value
	bad := galgo.CodeInvalidOptionValue
	for _, c := range []struct {
		key     string
		value   galgo.Value
		want    any // resolved; nil is the default
		code    galgo.Code
		derived bool // counts as not sent
	}{
		{key: "compression_algorithm", value: str("none"), want: galgo.CompressionNone},
		{key: "compression_algorithm", value: str("GZip"), want: galgo.CompressionGzip},
		{key: "compression_algorithm", value: u8(2), want: galgo.CompressionGzip},
		{key: "compression_algorithm", value: u8(1), want: galgo.CompressionNone},
		{key: "compression_algorithm", value: u8(0), code: bad},
		{key: "compression_algorithm", value: u8(3), code: bad},
		{key: "compression_algorithm", value: str("lz4"), code: bad},
		{key: "compression_algorithm", value: u32(1), code: bad},

		{key: "message_expiry", value: u64(1000), want: uint64(1000)},
		{key: "message_expiry", value: u64(galgo.Never), want: galgo.Never},
		{key: "message_expiry", value: u64(0), derived: true},
		{key: "message_expiry", value: str("7 days"), want: uint64(7 * 86400 * 1e6)},
		{key: "message_expiry", value: str("1h 30m"), want: uint64(5400 * 1e6)},
		{key: "message_expiry", value: str("never_expire"), want: galgo.Never},
		{key: "message_expiry", value: str("Unlimited"), want: galgo.Never},
		{key: "message_expiry", value: str("none"), want: galgo.Never},
		{key: "message_expiry", value: str("server_default"), derived: true},
		{key: "message_expiry", value: str("default"), derived: true},
		{key: "message_expiry", value: str("4294967295s"), want: uint64(4294967295 * 1e6)},
		{key: "message_expiry", value: str("4294967296s"), code: bad},
		{key: "message_expiry", value: str("soon"), code: bad},
		{key: "message_expiry", value: u32(1000), code: bad},
		{key: "message_expiry", value: galgo.Value{Kind: galgo.KindUint64, Data: []byte{1, 2, 3}}, code: bad},

		{key: "max_topic_size", value: u64(1 << 30), want: uint64(1 << 30)},
		{key: "max_topic_size", value: u64(1<<30 - 1), code: galgo.CodeInvalidTopicSize},
		{key: "max_topic_size", value: str("2 GiB"), want: uint64(2 << 30)},
		{key: "max_topic_size", value: str("unlimited"), want: galgo.Never},
		{key: "max_topic_size", value: str("server_default"), derived: true},
		{key: "max_topic_size", value: str("0"), derived: true},
		{key: "max_topic_size", value: u64(0), derived: true},
		{key: "max_topic_size", value: str("much"), code: bad},
		{key: "max_topic_size", value: galgo.Int64Value(1 << 40), code: bad},

		{key: "segment_size", value: u64(1 << 20), want: uint64(1 << 20)},
		{key: "segment_size", value: u64(1 << 30), want: uint64(1 << 30)},
		{key: "segment_size", value: u64(1<<20 + 512), want: uint64(1<<20 + 512)},
		{key: "segment_size", value: str("64 MiB"), want: uint64(64 << 20)},
		{key: "segment_size", value: u64(0), derived: true},
		{key: "segment_size", value: str("0"), derived: true},
		{key: "segment_size", value: u64(1<<20 - 512), code: bad},
		{key: "segment_size", value: u64(1<<30 + 512), code: bad},
		{key: "segment_size", value: u64(1<<20 + 1), code: bad},
		{key: "segment_size", value: str("unlimited"), code: bad},

		{key: "enforce_fsync", value: galgo.BoolValue(true), want: true},
		{key: "enforce_fsync", value: galgo.BoolValue(false), want: false},
		{key: "enforce_fsync", value: str("true"), want: true},
		{key: "enforce_fsync", value: str("false"), want: false},
		{key: "enforce_fsync", value: str("yes"), code: bad},
		{key: "enforce_fsync", value: galgo.Value{Kind: galgo.KindBool, Data: []byte{2}}, code: bad},
		{key: "enforce_fsync", value: galgo.Value{Kind: galgo.KindBool, Data: []byte{0, 0}}, code: bad},
		{key: "enforce_fsync", value: u8(1), code: bad},

		{key: "messages_required_to_save", value: u32(1), want: uint32(1)},
		{key: "messages_required_to_save", value: u32(16_777_216), want: uint32(16_777_216)},
		{key: "messages_required_to_save", value: str("500"), want: uint32(500)},
		{key: "messages_required_to_save", value: u32(0), code: bad},
		{key: "messages_required_to_save", value: str("0"), code: bad},
		{key: "messages_required_to_save", value: u32(16_777_217), code: bad},
		{key: "messages_required_to_save", value: str("-1"), code: bad},
		{key: "messages_required_to_save", value: u64(7), code: bad},

		{key: "size_of_messages_required_to_save", value: u64(4096), want: uint64(4096)},
		{key: "size_of_messages_required_to_save", value: u64(1 << 30), want: uint64(1 << 30)},
		{key: "size_of_messages_required_to_save", value: str("1MB"), want: uint64(1_000_000)},
		{key: "size_of_messages_required_to_save", value: u64(0), derived: true},
		{key: "size_of_messages_required_to_save", value: u64(1<<30 + 1), code: bad},

		{key: "preallocate_segments", value: galgo.BoolValue(true), want: true},
		{key: "preallocate_segments", value: str("false"), want: false},
		{key: "preallocate_segments", value: str("False"), code: bad},

		{key: "not_a_real_option", value: str("1"), code: galgo.CodeUnsupportedOptionKey},
		{key: "Segment_Size", value: u64(1 << 20), code: galgo.CodeUnsupportedOptionKey},
	} {
		name := fmt.Sprintf("%s = %s %s", c.key, c.value.Kind, c.value)
		o, err := ParseTopicOptions(rawBlock(c.key, c.value), 1)
		if code, _ := galgo.CodeOf(err); code != c.code {
			t.Errorf("%s: %v, want %s", name, err, c.code)
			continue
		}
		if err != nil {
			continue
		}
		checkResolved(t, name, &o, c.key, c.want, c.derived)
	}
}

// rawBlock is a block of one option whose data may not fit its kind.
func rawBlock(key string, v galgo.Value) Options {
	return appendField(appendField(nil, galgo.StringValue(key)), v)
}

func checkResolved(t *testing.T, name string, o *TopicOptions, key string, want any, derived bool) {
	t.Helper()
	i, _ := optionIndex(key)
	defaults := DefaultTopicOptions()
	shown := optionSpecs[i].get(o)
	wantShown := optionSpecs[i].get(&defaults).String()
	if want != nil {
		wantShown = fmt.Sprint(want)
	}
	if shown.String() != wantShown {
		t.Errorf("%s resolves to %s, want %s", name, shown, wantShown)
	}
	if o.Explicit(key) == derived {
		t.Errorf("%s counts as sent: %v", name, o.Explicit(key))
	}
	explicit, derivedBlock := Options(o.AppendExplicit(nil)), Options(o.AppendDerived(nil))
	all, err := Options(append(bytes.Clone(explicit), derivedBlock...)).Entries()
	if err != nil || len(all) != optionCount {
		t.Errorf("%s: both blocks have %d keys, %v", name, len(all), err)
	}
	if !derived {
		diff(t, name+" is stored in its own kind", explicit, block(t, option(key, shown)))
	}
}

func TestDurability(t *testing.T) {
	for value, want := range map[string]Durability{"": DurabilityDefault, "true": DurabilityFsync, "false": DurabilityMemory} {
		var b Options
		if value != "" {
			b = block(t, option("enforce_fsync", galgo.StringValue(value)))
		}
		o, err := ParseTopicOptions(b, 1)
		if err != nil || o.Durability() != want {
			t.Errorf("enforce_fsync %q: %d, %v, want %d", value, o.Durability(), err, want)
		}
		state, _, err := DecodeTopicOptionsState(o.AppendState(nil))
		if err != nil || state != o {
			t.Errorf("enforce_fsync %q does not survive its state: %+v, %v", value, state, err)
		}
	}
}

func TestOptionsTogether(t *testing.T) {
	u64, yes := galgo.Uint64Value, galgo.BoolValue(true)
	for _, c := range []struct {
		name       string
		entries    []galgo.Header
		partitions uint32
		code       galgo.Code
	}{
		{"size equal to the segment", []galgo.Header{option("max_topic_size", u64(1<<20)), option("segment_size", u64(1<<20))}, 1, galgo.CodeOK},
		{"size below the segment", []galgo.Header{option("max_topic_size", u64(1<<20)), option("segment_size", u64(2<<20))}, 1, galgo.CodeInvalidTopicSize},
		{"64 GiB preallocated", []galgo.Header{option("preallocate_segments", yes)}, 64, galgo.CodeOK},
		{"more preallocated", []galgo.Header{option("preallocate_segments", yes)}, 65, galgo.CodeInvalidOptionValue},
		{"more, not preallocated", nil, 1000, galgo.CodeOK},
		{"small segments preallocated", []galgo.Header{option("preallocate_segments", yes), option("segment_size", u64(1<<20))}, 1000, galgo.CodeOK},
	} {
		_, err := ParseTopicOptions(block(t, c.entries...), c.partitions)
		if code, _ := galgo.CodeOf(err); code != c.code {
			t.Errorf("%s: %v, want %s", c.name, err, c.code)
		}
	}
}

func TestUpdate(t *testing.T) {
	created, err := ParseTopicOptions(block(t,
		option("message_expiry", galgo.Uint64Value(1000)), option("segment_size", galgo.Uint64Value(1<<20))), 1)
	must(t, err)

	updated, err := created.Update(block(t, option("max_topic_size", galgo.StringValue("2 MiB")), option("message_expiry", galgo.Uint64Value(0))))
	must(t, err)
	if updated.MaxTopicSize != 2<<20 || updated.MessageExpiry != 1000 || updated.SegmentSize != 1<<20 {
		t.Errorf("updated: %+v", updated)
	}
	diff(t, "what was sent is kept as sent", updated.AppendExplicit(nil), block(t,
		option("max_topic_size", galgo.StringValue("2 MiB")), option("message_expiry", galgo.Uint64Value(0)), option("segment_size", galgo.Uint64Value(1<<20))))
	if created.Explicit("max_topic_size") {
		t.Error("an update changed the options it started from")
	}
	state, rest, err := DecodeTopicOptionsState(append(updated.AppendState(nil), 9))
	if err != nil || state != updated || len(rest) != 1 {
		t.Errorf("state: %+v, %v", state, err)
	}

	for _, c := range []struct {
		entry   galgo.Header
		code    galgo.Code
		without galgo.Code // what is said without the topic
	}{
		{option("segment_size", galgo.Uint64Value(1<<20)), galgo.CodeUnsupportedOptionKey, galgo.CodeUnsupportedOptionKey},
		{option("enforce_fsync", galgo.BoolValue(true)), galgo.CodeUnsupportedOptionKey, galgo.CodeUnsupportedOptionKey},
		{option("nothing", galgo.BoolValue(true)), galgo.CodeUnsupportedOptionKey, galgo.CodeUnsupportedOptionKey},
		{option("message_expiry", galgo.BoolValue(true)), galgo.CodeInvalidOptionValue, galgo.CodeInvalidOptionValue},
		{option("max_topic_size", galgo.Uint64Value(1<<20-1)), galgo.CodeInvalidTopicSize, galgo.CodeOK},
		{option("max_topic_size", galgo.Uint64Value(1<<20)), galgo.CodeOK, galgo.CodeOK},
	} {
		_, err := created.Update(block(t, c.entry))
		if code, _ := galgo.CodeOf(err); code != c.code {
			t.Errorf("update of %s: %v, want %s", c.entry.Key, err, c.code)
		}
		if code, _ := galgo.CodeOf(CheckTopicUpdate(block(t, c.entry))); code != c.without {
			t.Errorf("check of %s: %s, want %s", c.entry.Key, code, c.without)
		}
	}
	if same, err := created.Update(nil); err != nil || same != created {
		t.Errorf("an empty update: %+v, %v", same, err)
	}
}

func TestOptionsStructure(t *testing.T) {
	field := func(kind byte, length uint32, data string) []byte {
		return append(le.AppendUint32([]byte{kind}, length), data...)
	}
	entry := func(parts ...[]byte) Options { return bytes.Join(parts, nil) }
	value := field(2, 1, "v")
	many := func(n int) Options {
		var b Options
		for i := range n {
			b = append(b, rawBlock(fmt.Sprintf("key-%d", i), galgo.BoolValue(true))...)
		}
		return b
	}
	long := func(n int) Options { // entries of 255-byte values
		var b Options
		for i := range n {
			b = append(b, rawBlock(fmt.Sprintf("%05d", i), galgo.RawValue(make([]byte, 255)))...)
		}
		return b
	}
	for name, c := range map[string]struct {
		block Options
		ok    bool
	}{
		"empty":                {nil, true},
		"one":                  {entry(field(2, 1, "k"), value), true},
		"value of kind 200":    {entry(field(2, 1, "k"), field(200, 1, "v")), true},
		"key alone":            {field(2, 1, "k"), false},
		"key of kind 0":        {entry(field(0, 1, "k"), value), false},
		"key of kind raw":      {entry(field(1, 1, "k"), value), false},
		"value of kind 0":      {entry(field(2, 1, "k"), field(0, 1, "v")), false},
		"key of length 0":      {entry(field(2, 0, ""), value), false},
		"value of length 0":    {entry(field(2, 1, "k"), field(2, 0, "")), false},
		"value of length 255":  {entry(field(2, 1, "k"), field(2, 255, strings.Repeat("v", 255))), true},
		"value of length 256":  {entry(field(2, 1, "k"), field(2, 256, strings.Repeat("v", 256))), false},
		"length of 2^32-1":     {entry(field(2, 1, "k"), field(2, 1<<32-1, "v")), false},
		"key is not UTF-8":     {entry(field(2, 1, "\xff"), value), false},
		"value is not UTF-8":   {entry(field(2, 1, "k"), field(2, 1, "\xff")), true},
		"key twice":            {entry(field(2, 1, "k"), value, field(2, 1, "k"), value), false},
		"cut in a value":       {entry(field(2, 1, "k"), field(2, 2, "v")), false},
		"1024 entries":         {many(1024), true},
		"1025 entries":         {many(1025), false},
		"just below 100 kB":    {long(369), true},
		"just above 100 kB":    {long(371), false},
		"byte behind an entry": {entry(field(2, 1, "k"), value, []byte{2}), false},
	} {
		err := c.block.Validate()
		if c.ok != (err == nil) || err != nil && !errors.Is(err, ErrUndecodable) {
			t.Errorf("%s: %v", name, err)
		}
		_, requestErr := DecodeCreateStreamRequest(append([]byte{1, 's'}, c.block...))
		if (requestErr == nil) != c.ok {
			t.Errorf("%s in a request: %v", name, requestErr)
		}
	}
}
