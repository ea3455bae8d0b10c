package config

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
)

// ByteSize is a number of bytes.
type ByteSize uint64

// Units of ByteSize.
const (
	KiB ByteSize = 1 << 10
	MiB ByteSize = 1 << 20
	GiB ByteSize = 1 << 30
)

type unit struct {
	name string
	size uint64
}

// sizeUnits are matched without regard to case. There is no bare K, M or G: it
// means 1000 to some and 1024 to others.
var sizeUnits = []unit{
	{"B", 1},
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12},
}

const sizeWant = "want a number of bytes or one with B, KB, MB, GB, TB (powers of 1000) or KiB, MiB, GiB, TiB (of 1024), such as 64 MiB"

// ParseSize reads "1048576", "64 MiB", "2MB" or "1.5 GiB"; "unlimited" and
// "none" are 0, as keys with such a meaning say.
func ParseSize(text string) (ByteSize, error) {
	s := strings.TrimSpace(text)
	if isWord(s, "unlimited", "none") {
		return 0, nil
	}
	number, rest := splitNumber(s)
	u, ok := findUnit(sizeUnits, strings.TrimSpace(rest))
	if number == "" || !ok {
		return 0, errWant(sizeWant)
	}
	n, err := scale(number, u)
	if err != nil {
		return 0, fmt.Errorf("%w; %s", err, sizeWant)
	}
	return ByteSize(n), nil
}

// ParseMaxTopicSize reads the size limit of a topic as it travels on the wire:
// "unlimited" is math.MaxUint64, "0" and "server_default" are 0, which leaves
// the choice to the server.
func ParseMaxTopicSize(text string) (uint64, error) {
	s := strings.TrimSpace(text)
	switch {
	case isWord(s, "unlimited"):
		return math.MaxUint64, nil
	case isWord(s, "server_default"):
		return 0, nil
	case isWord(s, "none"):
		return 0, errWant(sizeWant + ", unlimited or server_default")
	}
	n, err := ParseSize(s)
	return uint64(n), err
}

// String returns the shortest exact form that ParseSize reads back.
func (b ByteSize) String() string {
	best := sizeUnits[0]
	for _, u := range sizeUnits {
		if b != 0 && uint64(b)%u.size == 0 && u.size > best.size {
			best = u
		}
	}
	return strconv.FormatUint(uint64(b)/best.size, 10) + " " + best.name
}

// splitNumber parts the leading decimal number, digits and at most one point,
// from what follows.
func splitNumber(s string) (number, rest string) {
	i, points := 0, 0
	for i < len(s) && (s[i] >= '0' && s[i] <= '9' || s[i] == '.' && points == 0) {
		if s[i] == '.' {
			points++
		}
		i++
	}
	if strings.Trim(s[:i], ".") == "" {
		return "", s
	}
	return s[:i], s[i:]
}

// findUnit returns the size of the unit with this name, 1 for no name.
func findUnit(units []unit, name string) (uint64, bool) {
	if name == "" {
		return 1, true
	}
	for _, u := range units {
		if strings.EqualFold(u.name, name) {
			return u.size, true
		}
	}
	return 0, false
}

// scale multiplies a decimal number with a unit, exactly.
func scale(number string, size uint64) (uint64, error) {
	whole, fraction, _ := strings.Cut(number, ".")
	n := uint64(0)
	if whole != "" {
		var err error
		if n, err = strconv.ParseUint(whole, 10, 64); err != nil {
			return 0, errWant("the number is too large")
		}
	}
	high, n := bits.Mul64(n, size)
	part, err := scaleFraction(strings.TrimRight(fraction, "0"), size)
	if err != nil {
		return 0, err
	}
	sum, carry := bits.Add64(n, part, 0)
	if high != 0 || carry != 0 {
		return 0, errWant("the number is too large")
	}
	return sum, nil
}

// fractionDigitsMax keeps ten to the power of the digits within 64 bits.
const fractionDigitsMax = 18

func scaleFraction(digits string, size uint64) (uint64, error) {
	if digits == "" {
		return 0, nil
	}
	if len(digits) > fractionDigitsMax {
		return 0, errWant("the fraction is too fine")
	}
	numerator, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return 0, errWant("the fraction is not a number")
	}
	denominator := uint64(1)
	for range digits {
		denominator *= 10
	}
	high, low := bits.Mul64(numerator, size)
	quotient, remainder := bits.Div64(high, low, denominator)
	if remainder != 0 {
		return 0, errWant("the fraction is too fine for the unit")
	}
	return quotient, nil
}

func isWord(s string, words ...string) bool {
	for _, w := range words {
		if strings.EqualFold(s, w) {
			return true
		}
	}
	return false
}
