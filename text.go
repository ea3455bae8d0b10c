package galgo

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// ParseByteSize reads a size as people write it: digits, perhaps a fraction, and a
// unit: none or B, then K, M, G, T, P, E with nothing or B behind it for powers of
// 1000, with i or iB for powers of 1024, in any case. "1 GiB", "1.5mb", "4096".
// The size must be a whole number of bytes below 2^64.
func ParseByteSize(text string) (uint64, error) {
	number, unit := cutNumber(strings.TrimSpace(text))
	scale, ok := byteUnit(strings.ToLower(strings.TrimSpace(unit)))
	if !ok {
		return 0, fmt.Errorf("byte size %q: unknown unit %q, want for example KB or KiB", text, unit)
	}
	n, ok := scaleDecimal(number, scale)
	if !ok {
		return 0, fmt.Errorf("byte size %q: want a whole number of bytes below 2^64", text)
	}
	return n, nil
}

// cutNumber splits text behind its leading digits and points.
func cutNumber(text string) (number, rest string) {
	i := strings.IndexFunc(text, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if i < 0 {
		return text, ""
	}
	return text[:i], text[i:]
}

func byteUnit(unit string) (scale uint64, ok bool) {
	unit = strings.TrimSuffix(unit, "b")
	if unit == "" {
		return 1, true
	}
	base := uint64(1000)
	if strings.HasSuffix(unit, "i") {
		base, unit = 1024, strings.TrimSuffix(unit, "i")
	}
	power := strings.Index("kmgtpe", unit)
	if len(unit) != 1 || power < 0 {
		return 0, false
	}
	scale = 1
	for range power + 1 {
		scale *= base
	}
	return scale, true
}

// scaleDecimal is number times scale, if that is whole and below 2^64.
func scaleDecimal(number string, scale uint64) (uint64, bool) {
	whole, fraction, point := strings.Cut(number, ".")
	if point && fraction == "" {
		return 0, false
	}
	n, err := strconv.ParseUint(whole, 10, 64)
	if err != nil {
		return 0, false
	}
	high, total := bits.Mul64(n, scale)
	if high != 0 {
		return 0, false
	}
	part, ok := fractionOf(fraction, scale)
	sum, carry := bits.Add64(total, part, 0)
	return sum, ok && carry == 0
}

// fractionOf is 0.fraction times scale, if that is whole.
func fractionOf(fraction string, scale uint64) (uint64, bool) {
	if fraction == "" {
		return 0, true
	}
	const digitsMax = 18 // 10^18 is below 2^64
	if len(fraction) > digitsMax {
		return 0, false
	}
	n, err := strconv.ParseUint(fraction, 10, 64)
	if err != nil {
		return 0, false
	}
	divisor := uint64(1)
	for range len(fraction) {
		divisor *= 10
	}
	high, low := bits.Mul64(n, scale)
	quotient, remainder := bits.Div64(high, low, divisor) // high < divisor since n < divisor
	return quotient, remainder == 0
}

// DurationTextMax is the longest duration that ParseDuration takes, in seconds.
const DurationTextMax = 1<<32 - 1

// durationUnits are in nanoseconds. A month is 30.44 days, a year 365.25.
var durationUnits = []struct {
	ns    uint64
	names string
}{
	{1, " nanos nsec ns "},
	{1_000, " micros usec us µs "},
	{1_000_000, " millis msec ms "},
	{1_000_000_000, " seconds second secs sec s "},
	{60 * 1_000_000_000, " minutes minute mins min m "},
	{3600 * 1_000_000_000, " hours hour hrs hr h "},
	{86_400 * 1_000_000_000, " days day d "},
	{604_800 * 1_000_000_000, " weeks week wks wk w "},
	{2_630_016 * 1_000_000_000, " months month M "},
	{31_557_600 * 1_000_000_000, " years year yrs yr y "},
}

// ParseDuration reads a duration as people write it, as one or more whole numbers
// with units: "7 days", "1h 30m", "250ms". The result is in µs, rounded down, and
// at most DurationTextMax seconds.
func ParseDuration(text string) (µs uint64, err error) {
	var ns uint64
	rest := strings.TrimSpace(text)
	if rest == "" {
		return 0, fmt.Errorf("duration is empty, want for example \"7 days\"")
	}
	for rest != "" {
		var part uint64
		if part, rest, err = cutDuration(rest); err != nil {
			return 0, fmt.Errorf("duration %q: %w", text, err)
		}
		if ns += part; ns > DurationTextMax*1_000_000_000 {
			return 0, fmt.Errorf("duration %q: longer than %d s", text, uint64(DurationTextMax))
		}
	}
	return ns / 1000, nil
}

// cutDuration takes a number and a unit off the front of text. The result is at
// most twice the limit, so that a sum of two does not wrap around.
func cutDuration(text string) (ns uint64, rest string, err error) {
	number, rest := cutNumber(text)
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return 0, "", fmt.Errorf("want a whole number before %q", rest)
	}
	rest = strings.TrimLeft(rest, " ")
	end := strings.IndexFunc(rest, func(r rune) bool { return r == ' ' || r >= '0' && r <= '9' })
	if end < 0 {
		end = len(rest)
	}
	unit := rest[:end]
	for _, u := range durationUnits {
		if unit != "" && strings.Contains(u.names, " "+unit+" ") {
			high, low := bits.Mul64(n, u.ns)
			if high != 0 || low > DurationTextMax*1_000_000_000 {
				return 0, "", fmt.Errorf("longer than %d s", uint64(DurationTextMax))
			}
			return low, strings.TrimLeft(rest[end:], " "), nil
		}
	}
	return 0, "", fmt.Errorf("unknown unit %q, want for example s, m, h or days", unit)
}
