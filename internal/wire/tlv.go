package wire

import (
	"strconv"
	"unicode/utf8"

	"galgo"
)

// Bounds of user headers and of options.
const (
	UserHeadersMax    = 100_000 // bytes of a message's user headers
	OptionsBytesMax   = 100_000 // bytes of an options block
	OptionsEntriesMax = 1024    // entries of an options block
)

// Headers and options are entries back to back, each a key field and a value
// field:
//
//	off  size  field
//	  0     1  kind    not 0; above 15 is structurally legal
//	  1     4  length  1..255
//	  5        data

func appendField(b []byte, v galgo.Value) []byte {
	if v.Kind == 0 || len(v.Data) < galgo.ValueMin || len(v.Data) > galgo.ValueMax {
		panic("wire: field of kind " + strconv.Itoa(int(v.Kind)) + " and " + strconv.Itoa(len(v.Data)) + " bytes")
	}
	return append(le.AppendUint32(append(b, byte(v.Kind)), uint32(len(v.Data))), v.Data...)
}

func (c *cursor) field(name string) galgo.Value {
	kind := galgo.ValueKind(c.u8(name + " kind"))
	if kind == 0 {
		c.fail(name+" kind", "kind 0")
	}
	n := c.u32(name + " length")
	if c.err == nil && (n < galgo.ValueMin || n > galgo.ValueMax) {
		c.fail(name+" length", strconv.FormatUint(uint64(n), 10)+" bytes, want 1..255")
	}
	return galgo.Value{Kind: kind, Data: c.take(name, uint64(n))}
}

func (c *cursor) entry() galgo.Header {
	return galgo.Header{Key: c.field("key"), Value: c.field("value")}
}

// AppendUserHeaders appends the entries of a message's user headers. An entry that
// cannot travel is a CodeInvalidHeaderKey or CodeInvalidHeaderValue Error, more
// than UserHeadersMax bytes CodeTooBigUserHeaders.
func AppendUserHeaders(b []byte, headers []galgo.Header) ([]byte, error) {
	start := len(b)
	for _, h := range headers {
		if err := validateValue(h.Key, galgo.CodeInvalidHeaderKey); err != nil {
			return nil, err
		}
		if err := validateValue(h.Value, galgo.CodeInvalidHeaderValue); err != nil {
			return nil, err
		}
		b = appendField(appendField(b, h.Key), h.Value)
	}
	if n := len(b) - start; n > UserHeadersMax {
		return nil, galgo.Errorf(galgo.CodeTooBigUserHeaders, "user headers of %d bytes, limit %d", n, UserHeadersMax)
	}
	return b, nil
}

// validateValue checks that a value can travel and that its data fit its kind.
func validateValue(v galgo.Value, code galgo.Code) error {
	if v.Kind == 0 || len(v.Data) < galgo.ValueMin || len(v.Data) > galgo.ValueMax {
		return galgo.Errorf(code, "kind %d with %d bytes, want a kind above 0 and 1..255 bytes", v.Kind, len(v.Data))
	}
	if w := v.Kind.Width(); w != 0 && w != len(v.Data) {
		return galgo.Errorf(code, "%s of %d bytes, want %d", v.Kind, len(v.Data), w)
	}
	if v.Kind == galgo.KindString && !utf8.Valid(v.Data) {
		return galgo.Errorf(code, "string is not UTF-8")
	}
	return nil
}

// DecodeUserHeaders reads the entries of a message's user headers, which must use
// up b. Data alias b. Kinds are not checked against widths: servers do not either.
func DecodeUserHeaders(b []byte) ([]galgo.Header, error) {
	c := read("user headers", b)
	var headers []galgo.Header
	for c.err == nil && c.left() > 0 {
		headers = append(headers, c.entry())
	}
	if c.err != nil {
		return nil, c.err
	}
	return headers, nil
}

// Options is a block of options as it travels: string keys, each once, with typed
// values. One that a decoder returned is well formed.
type Options []byte

// NewOptions encodes options in the order given. It returns a
// CodeInvalidOptionValue Error for one that cannot travel, and
// CodeOptionsBlockTooLarge above the limits.
func NewOptions(entries []galgo.Header) (Options, error) {
	if len(entries) > OptionsEntriesMax {
		return nil, galgo.Errorf(galgo.CodeOptionsBlockTooLarge, "%d options, limit %d", len(entries), OptionsEntriesMax)
	}
	var b Options
	for _, e := range entries {
		for _, v := range []galgo.Value{e.Key, e.Value} {
			if err := validateValue(v, galgo.CodeInvalidOptionValue); err != nil {
				return nil, err
			}
		}
		b = appendField(appendField(b, e.Key), e.Value)
	}
	if len(b) > OptionsBytesMax {
		return nil, galgo.Errorf(galgo.CodeOptionsBlockTooLarge, "options of %d bytes, limit %d", len(b), OptionsBytesMax)
	}
	if err := b.Validate(); err != nil {
		return nil, galgo.Errorf(galgo.CodeInvalidOptionValue, "%v", err)
	}
	return b, nil
}

// Validate checks the structure of the block. The error is an ErrUndecodable.
func (o Options) Validate() error {
	c := read("options", o)
	c.optionEntries(func(galgo.Header) {})
	return c.err
}

// Entries lists the options of a well-formed block in its order; data alias it.
// The error is an ErrUndecodable.
func (o Options) Entries() ([]galgo.Header, error) {
	c := read("options", o)
	var entries []galgo.Header
	c.optionEntries(func(e galgo.Header) { entries = append(entries, e) })
	if c.err != nil {
		return nil, c.err
	}
	return entries, nil
}

// optionEntries reads the block to its end and hands on each entry.
func (c *cursor) optionEntries(yield func(galgo.Header)) {
	if c.left() > OptionsBytesMax {
		c.fail("options", strconv.Itoa(c.left())+" bytes, limit "+strconv.Itoa(OptionsBytesMax))
		return
	}
	seen := map[string]bool{}
	for c.err == nil && c.left() > 0 {
		at := c.off
		e := c.entry()
		if c.err != nil {
			return
		}
		if reason := optionFault(e, seen); reason != "" {
			c.off = at
			c.fail("option", reason)
			return
		}
		seen[string(e.Key.Data)] = true
		yield(e)
	}
}

func optionFault(e galgo.Header, seen map[string]bool) string {
	switch {
	case e.Key.Kind != galgo.KindString:
		return "key of kind " + e.Key.Kind.String() + ", want string"
	case !utf8.Valid(e.Key.Data):
		return "key is not UTF-8"
	case seen[string(e.Key.Data)]:
		return "key " + strconv.Quote(string(e.Key.Data)) + " comes twice"
	case len(seen) == OptionsEntriesMax:
		return "more than " + strconv.Itoa(OptionsEntriesMax) + " entries"
	}
	return ""
}

// options takes the rest of the body, which must be a well-formed block.
func (c *cursor) options() Options { return c.checkOptions(c.rest()) }

// options32 takes a block behind its length.
func (c *cursor) options32(field string) Options { return c.checkOptions(c.bytes32(field)) }

func (c *cursor) checkOptions(b []byte) Options {
	if c.err != nil || len(b) == 0 {
		return nil
	}
	if err := Options(b).Validate(); err != nil {
		c.off -= len(b)
		c.fail("options", err.Error())
		return nil
	}
	return Options(b)
}
