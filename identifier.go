package galgo

import (
	"fmt"
	"strconv"
	"unicode/utf8"
)

// IdentifierKind tells how an Identifier names its thing.
type IdentifierKind uint8

// The kinds of identifiers.
const (
	IdentifierNumeric IdentifierKind = 1
	IdentifierNamed   IdentifierKind = 2
)

// Identifier names a stream, topic, user, consumer or group by number or by name.
// A name is looked up as it stands: "1" means the thing called 1.
type Identifier struct {
	Kind IdentifierKind
	ID   uint32 // if numeric
	Name string // if named, 1..255 bytes of UTF-8
}

// NumericID is the identifier of the thing numbered id.
func NumericID(id uint32) Identifier { return Identifier{Kind: IdentifierNumeric, ID: id} }

// NamedID is the identifier of the thing called name; Validate tells whether name
// can be one.
func NamedID(name string) Identifier { return Identifier{Kind: IdentifierNamed, Name: name} }

// ParseIdentifier reads what a person typed: a decimal number below 2^32 is a
// numeric identifier, all else a name. A name made of digits needs NamedID.
func ParseIdentifier(text string) (Identifier, error) {
	if id, err := strconv.ParseUint(text, 10, 32); err == nil {
		return NumericID(uint32(id)), nil
	}
	id := NamedID(text)
	return id, id.Validate()
}

// Validate returns a CodeInvalidIdentifier Error if the identifier cannot travel.
func (i Identifier) Validate() error {
	switch i.Kind {
	case IdentifierNumeric:
		return nil
	case IdentifierNamed:
		return ValidateName(i.Name)
	}
	return Errorf(CodeInvalidIdentifier, "kind %d is neither numeric (1) nor named (2)", i.Kind)
}

// ValidateName returns a CodeInvalidIdentifier Error unless name has 1..255 bytes
// of UTF-8.
func ValidateName(name string) error {
	if len(name) < 1 || len(name) > NameMax {
		return Errorf(CodeInvalidIdentifier, "name has %d bytes, want 1..%d", len(name), NameMax)
	}
	if !utf8.ValidString(name) {
		return Errorf(CodeInvalidIdentifier, "name %q is not UTF-8", name)
	}
	return nil
}

// String is the number in digits, or the name.
func (i Identifier) String() string {
	switch i.Kind {
	case IdentifierNumeric:
		return strconv.FormatUint(uint64(i.ID), 10)
	case IdentifierNamed:
		return i.Name
	}
	return fmt.Sprintf("identifier of kind %d", i.Kind)
}
