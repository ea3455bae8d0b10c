package galgo

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
)

// ValueKind is the type of a key or value in user headers and options.
type ValueKind uint8

// The kinds of values. Numbers are little-endian and as wide as their name says.
const (
	KindRaw     ValueKind = 1
	KindString  ValueKind = 2
	KindBool    ValueKind = 3
	KindInt8    ValueKind = 4
	KindInt16   ValueKind = 5
	KindInt32   ValueKind = 6
	KindInt64   ValueKind = 7
	KindInt128  ValueKind = 8
	KindUint8   ValueKind = 9
	KindUint16  ValueKind = 10
	KindUint32  ValueKind = 11
	KindUint64  ValueKind = 12
	KindUint128 ValueKind = 13
	KindFloat32 ValueKind = 14
	KindFloat64 ValueKind = 15
)

// valueKinds has the name and the width in bytes of each kind; width 0 is any.
var valueKinds = [...]struct {
	name  string
	width int
}{
	KindRaw: {"raw", 0}, KindString: {"string", 0}, KindBool: {"bool", 1},
	KindInt8: {"int8", 1}, KindInt16: {"int16", 2}, KindInt32: {"int32", 4},
	KindInt64: {"int64", 8}, KindInt128: {"int128", 16},
	KindUint8: {"uint8", 1}, KindUint16: {"uint16", 2}, KindUint32: {"uint32", 4},
	KindUint64: {"uint64", 8}, KindUint128: {"uint128", 16},
	KindFloat32: {"float32", 4}, KindFloat64: {"float64", 8},
}

// String is the name of the kind.
func (k ValueKind) String() string {
	if k.Known() {
		return valueKinds[k].name
	}
	return "kind " + strconv.Itoa(int(k))
}

// Known reports whether the protocol defines the kind. Others may travel.
func (k ValueKind) Known() bool { return k >= KindRaw && int(k) < len(valueKinds) }

// Width is the number of bytes of a value of this kind, 0 if any number does.
func (k ValueKind) Width() int {
	if k.Known() {
		return valueKinds[k].width
	}
	return 0
}

// Bounds of a Value's data in bytes.
const (
	ValueMin = 1
	ValueMax = 255
)

// Value is a typed key or value of user headers and options.
type Value struct {
	Kind ValueKind
	Data []byte // 1..255 bytes
}

// Header is a user header of a message, or an option of a topic. User headers
// take any kind as key, options a string.
type Header struct {
	Key   Value
	Value Value
}

// RawValue holds bytes as they are.
func RawValue(b []byte) Value { return Value{KindRaw, b} }

// StringValue holds text.
func StringValue(s string) Value { return Value{KindString, []byte(s)} }

// BoolValue holds one byte, 0 or 1.
func BoolValue(v bool) Value {
	if v {
		return Value{KindBool, []byte{1}}
	}
	return Value{KindBool, []byte{0}}
}

// Int8Value holds a signed number of 1 byte.
func Int8Value(v int8) Value { return Value{KindInt8, []byte{byte(v)}} }

// Int16Value holds a signed number of 2 bytes.
func Int16Value(v int16) Value { return Value{KindInt16, le.AppendUint16(nil, uint16(v))} }

// Int32Value holds a signed number of 4 bytes.
func Int32Value(v int32) Value { return Value{KindInt32, le.AppendUint32(nil, uint32(v))} }

// Int64Value holds a signed number of 8 bytes.
func Int64Value(v int64) Value { return Value{KindInt64, le.AppendUint64(nil, uint64(v))} }

// Int128Value holds a signed number of 16 bytes, little-endian.
func Int128Value(v [16]byte) Value { return Value{KindInt128, v[:]} }

// Uint8Value holds a number of 1 byte.
func Uint8Value(v uint8) Value { return Value{KindUint8, []byte{v}} }

// Uint16Value holds a number of 2 bytes.
func Uint16Value(v uint16) Value { return Value{KindUint16, le.AppendUint16(nil, v)} }

// Uint32Value holds a number of 4 bytes.
func Uint32Value(v uint32) Value { return Value{KindUint32, le.AppendUint32(nil, v)} }

// Uint64Value holds a number of 8 bytes.
func Uint64Value(v uint64) Value { return Value{KindUint64, le.AppendUint64(nil, v)} }

// Uint128Value holds a number of 16 bytes, little-endian.
func Uint128Value(v [16]byte) Value { return Value{KindUint128, v[:]} }

// Float32Value holds an IEEE-754 number of 4 bytes.
func Float32Value(v float32) Value {
	return Value{KindFloat32, le.AppendUint32(nil, math.Float32bits(v))}
}

// Float64Value holds an IEEE-754 number of 8 bytes.
func Float64Value(v float64) Value {
	return Value{KindFloat64, le.AppendUint64(nil, math.Float64bits(v))}
}

var le = binary.LittleEndian

// String shows the value for people. Data of a width that its kind does not have
// is shown in hexadecimal, as raw bytes are.
func (v Value) String() string {
	if w := v.Kind.Width(); w != 0 && w != len(v.Data) {
		return hex.EncodeToString(v.Data)
	}
	switch v.Kind {
	case KindString:
		return string(v.Data)
	case KindBool:
		return strconv.FormatBool(v.Data[0] != 0)
	case KindFloat32:
		return strconv.FormatFloat(float64(math.Float32frombits(le.Uint32(v.Data))), 'g', -1, 32)
	case KindFloat64:
		return strconv.FormatFloat(math.Float64frombits(le.Uint64(v.Data)), 'g', -1, 64)
	case KindInt8, KindInt16, KindInt32, KindInt64, KindInt128:
		return v.signed().String()
	case KindUint8, KindUint16, KindUint32, KindUint64, KindUint128:
		return v.unsigned().String()
	}
	return hex.EncodeToString(v.Data)
}

func (v Value) unsigned() *big.Int {
	b := slices.Clone(v.Data)
	slices.Reverse(b)
	return new(big.Int).SetBytes(b)
}

func (v Value) signed() *big.Int {
	n := v.unsigned()
	if v.Data[len(v.Data)-1]&0x80 != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(v.Data))))
	}
	return n
}

// Uint64 is the number in a value of an unsigned kind up to 8 bytes wide.
func (v Value) Uint64() (uint64, error) {
	w := v.Kind.Width()
	if v.Kind < KindUint8 || v.Kind > KindUint64 || w != len(v.Data) {
		return 0, fmt.Errorf("value of kind %s and %d bytes is no unsigned number of up to 8", v.Kind, len(v.Data))
	}
	var b [8]byte
	copy(b[:], v.Data)
	return le.Uint64(b[:]), nil
}
