package wire

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"math/big"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"galgo"
)

// vector is a line of testdata: a frame with what it means. The requests were
// captured from stock clients, the replies were shown to them. Some bytes differ
// from run to run there (client ids, sessions, numbers), but the header words tell
// them, so all bytes are compared.
type vector struct {
	Name      string         `json:"name"`
	SDK       string         `json:"sdk"`
	Frame     string         `json:"frame"`
	Operation Operation      `json:"operation"`
	Code      Command        `json:"code"`
	Outcome   string         `json:"outcome"`
	Header    map[string]any `json:"header"`
	Fields    map[string]any `json:"fields"`
	Hex       string         `json:"hex"`
}

func loadVectors(t *testing.T, file string, want int) []vector {
	t.Helper()
	data, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var all []vector
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var v vector
		d := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			t.Fatalf("%s line %d: %v", file, len(all)+1, err)
		}
		all = append(all, v)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if len(all) != want {
		t.Fatalf("%s has %d vectors, want %d", file, len(all), want)
	}
	return all
}

func (v *vector) bytes(t *testing.T) []byte {
	t.Helper()
	b, err := hex.DecodeString(v.Hex)
	if err != nil {
		t.Fatalf("%s: %v", v.Name, err)
	}
	return b
}

// words reads the fields of a vector, which describe values in words, and knows
// which of them nobody asked for.
type words struct {
	t    *testing.T
	m    map[string]any
	used map[string]bool
}

func newWords(t *testing.T, m map[string]any) *words {
	return &words{t: t, m: m, used: map[string]bool{}}
}

// finish fails for fields that were not compared. The ones listed are remarks.
func (w *words) finish() {
	w.t.Helper()
	remarks := []string{"state", "why", "note", "asked", "asked_expiry", "batch_origin_timestamp"}
	for k := range w.m {
		if !w.used[k] && !slices.Contains(remarks, k) {
			w.t.Errorf("field %q was not compared", k)
		}
	}
}

func (w *words) get(key string) any {
	w.t.Helper()
	v, ok := w.m[key]
	if !ok {
		w.t.Fatalf("no field %q", key)
	}
	w.used[key] = true
	return v
}

func (w *words) str(key string) string {
	w.t.Helper()
	s, ok := w.get(key).(string)
	if !ok {
		w.t.Fatalf("field %q is no string", key)
	}
	return s
}

func (w *words) bool(key string) bool {
	b, ok := w.get(key).(bool)
	return ok && b
}

func (w *words) u64(key string) uint64 {
	w.t.Helper()
	return number(w.t, w.get(key))
}

func (w *words) u32(key string) uint32 { return uint32(w.u64(key)) }

func number(t *testing.T, v any) uint64 {
	t.Helper()
	var text string
	switch v := v.(type) {
	case json.Number:
		text = v.String()
	case string:
		text = v
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%v is no number: %v", v, err)
	}
	return n
}

func (w *words) ident(key string) galgo.Identifier { return identOf(w.t, w.get(key)) }

func identOf(t *testing.T, v any) galgo.Identifier {
	if name, ok := v.(string); ok {
		return galgo.NamedID(name)
	}
	return galgo.NumericID(uint32(number(t, v)))
}

func (w *words) consumer() galgo.Consumer {
	kind, id, _ := strings.Cut(w.str("consumer"), " ")
	consumer := galgo.Consumer{Kind: galgo.ConsumerSingle}
	if kind == "group" {
		consumer.Kind = galgo.ConsumerGroup
	}
	var err error
	if consumer.ID, err = galgo.ParseIdentifier(id); err != nil {
		w.t.Fatal(err)
	}
	return consumer
}

// partition reads a number, a number with a remark, or none.
func (w *words) partition() OptionalPartition {
	v := w.get("partition")
	if s, ok := v.(string); ok {
		head, _, _ := strings.Cut(s, " ")
		if head == "none" {
			return OptionalPartition{}
		}
		v = head
	}
	return Partition(uint32(number(w.t, v)))
}

func (w *words) strategy() galgo.PollingStrategy {
	parts := strings.Fields(w.str("strategy"))
	switch parts[0] {
	case "offset":
		return galgo.FromOffset(number(w.t, parts[1]))
	case "timestamp":
		return galgo.FromTimestamp(number(w.t, parts[1]))
	case "first":
		return galgo.FromFirst()
	case "last":
		return galgo.FromLast()
	case "next":
		return galgo.FromNext()
	}
	w.t.Fatalf("strategy %q", parts)
	return galgo.PollingStrategy{}
}

// inParentheses reads the number in a text such as "quorum (1)".
func inParentheses(t *testing.T, text string) uint8 {
	t.Helper()
	_, rest, _ := strings.Cut(text, "(")
	digits, _, _ := strings.Cut(rest, ")")
	return uint8(number(t, digits))
}

// value reads a typed value such as "u64 60000000 (60 s in microseconds)".
func value(t *testing.T, text string) galgo.Value {
	t.Helper()
	kind, data, _ := strings.Cut(text, " ")
	if kind == "string" {
		return galgo.StringValue(data)
	}
	data, _, _ = strings.Cut(data, " (")
	kinds := map[string]galgo.ValueKind{
		"u32": galgo.KindUint32, "u64": galgo.KindUint64, "int8": galgo.KindInt8, "int16": galgo.KindInt16,
		"int32": galgo.KindInt32, "int64": galgo.KindInt64, "int128": galgo.KindInt128, "uint8": galgo.KindUint8,
		"uint16": galgo.KindUint16, "uint32": galgo.KindUint32, "uint64": galgo.KindUint64, "uint128": galgo.KindUint128,
	}
	switch kind {
	case "bool":
		return galgo.BoolValue(data == "true")
	case "raw":
		b, err := hex.DecodeString(data)
		if err != nil {
			t.Fatal(err)
		}
		return galgo.RawValue(b)
	case "float32", "float64":
		f, err := strconv.ParseFloat(data, 64)
		if err != nil {
			t.Fatal(err)
		}
		if kind == "float32" {
			return galgo.Float32Value(float32(f))
		}
		return galgo.Float64Value(f)
	}
	n, ok := new(big.Int).SetString(data, 10)
	if !ok || kinds[kind] == 0 {
		t.Fatalf("value %q", text)
	}
	return galgo.Value{Kind: kinds[kind], Data: littleEndian(n, kinds[kind].Width())}
}

// littleEndian is the two's complement of n in so many bytes.
func littleEndian(n *big.Int, width int) []byte {
	if n.Sign() < 0 {
		n = new(big.Int).Add(n, new(big.Int).Lsh(big.NewInt(1), uint(8*width)))
	}
	b := n.FillBytes(make([]byte, width))
	slices.Reverse(b)
	return b
}

// optionWords reads options in the order of their keys.
func optionWords(t *testing.T, v any) Options {
	t.Helper()
	m := v.(map[string]any)
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	var entries []galgo.Header
	for _, k := range keys {
		entries = append(entries, galgo.Header{Key: galgo.StringValue(k), Value: value(t, m[k].(string))})
	}
	o, err := NewOptions(entries)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// sorted is the same block in the order of keys.
func (o Options) sorted(t *testing.T) Options {
	t.Helper()
	entries, err := o.Entries()
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(entries, func(a, b galgo.Header) int { return bytes.Compare(a.Key.Data, b.Key.Data) })
	s, err := NewOptions(entries)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// diff shows where two byte strings part.
func diff(t *testing.T, what string, got, want []byte) {
	t.Helper()
	if bytes.Equal(got, want) {
		return
	}
	at := 0
	for at < len(got) && at < len(want) && got[at] == want[at] {
		at++
	}
	t.Errorf("%s: %d bytes, want %d, differ from byte %d on:\ngot  %x\nwant %x", what, len(got), len(want), at, got[at:], want[at:])
}
