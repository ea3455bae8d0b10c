package cli

import (
	"strconv"
	"strings"

	"galgo"
)

// parseID reads an identifier: a number or a name.
func parseID(what, s string) (galgo.Identifier, error) {
	id, err := galgo.ParseIdentifier(s)
	if err != nil {
		return id, usagef("%s %q: %v", what, s, err)
	}
	return id, nil
}

func parseStreamTopic(args []string) (stream, topic galgo.Identifier, err error) {
	if stream, err = parseID("STREAM", args[0]); err != nil {
		return stream, topic, err
	}
	topic, err = parseID("TOPIC", args[1])
	return stream, topic, err
}

func parseUint32(what, s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		return 0, usagef("%s %q: want a number of 0..4294967295", what, s)
	}
	return uint32(n), nil
}

func parseUint64(what, s string) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, usagef("%s %q: want a number of 0..18446744073709551615", what, s)
	}
	return n, nil
}

// parseOption reads an option of a topic, KEY=VALUE. The value travels as text; the
// server knows what kind it should be.
func parseOption(s string) (galgo.Header, error) {
	key, value, ok := strings.Cut(s, "=")
	if !ok || key == "" || value == "" {
		return galgo.Header{}, usagef("option %q: want KEY=VALUE; galgo options topic lists the keys", s)
	}
	return galgo.Header{Key: galgo.StringValue(key), Value: galgo.StringValue(value)}, nil
}

// parseHeader reads a user header, KEY:KIND:VALUE.
func parseHeader(s string) (galgo.Header, error) {
	key, rest, _ := strings.Cut(s, ":")
	kind, value, ok := strings.Cut(rest, ":")
	if !ok || key == "" {
		return galgo.Header{}, usagef("header %q: want KEY:KIND:VALUE, such as n:uint32:7", s)
	}
	v, err := parseValue(kind, value)
	if err != nil {
		return galgo.Header{}, usagef("header %q: %v", s, err)
	}
	return galgo.Header{Key: galgo.StringValue(key), Value: v}, nil
}

func parseValue(kind, s string) (v galgo.Value, err error) {
	signed := func(bits int) (n int64) { n, err = strconv.ParseInt(s, 10, bits); return n }
	unsigned := func(bits int) (n uint64) { n, err = strconv.ParseUint(s, 10, bits); return n }
	float := func(bits int) (n float64) { n, err = strconv.ParseFloat(s, bits); return n }
	switch kind {
	case "raw":
		v = galgo.RawValue([]byte(s))
	case "string":
		v = galgo.StringValue(s)
	case "bool":
		var b bool
		b, err = strconv.ParseBool(s)
		v = galgo.BoolValue(b)
	case "int8":
		v = galgo.Int8Value(int8(signed(8)))
	case "int16":
		v = galgo.Int16Value(int16(signed(16)))
	case "int32":
		v = galgo.Int32Value(int32(signed(32)))
	case "int64":
		v = galgo.Int64Value(signed(64))
	case "uint8":
		v = galgo.Uint8Value(uint8(unsigned(8)))
	case "uint16":
		v = galgo.Uint16Value(uint16(unsigned(16)))
	case "uint32":
		v = galgo.Uint32Value(uint32(unsigned(32)))
	case "uint64":
		v = galgo.Uint64Value(unsigned(64))
	case "float32":
		v = galgo.Float32Value(float32(float(32)))
	case "float64":
		v = galgo.Float64Value(float(64))
	default:
		return v, usagef("kind %q: want raw, string, bool, int8..int64, uint8..uint64, float32 or float64", kind)
	}
	return v, err
}
