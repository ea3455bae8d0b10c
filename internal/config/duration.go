package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// durationUnits are matched exactly: m is a minute and M a month.
var durationUnits = []struct {
	names string // separated by blanks; the first is the one written
	size  time.Duration
}{
	{"y year years yr yrs", 31_557_600 * time.Second}, // 365.25 days
	{"M month months", 2_630_016 * time.Second},       // 30.44 days
	{"w week weeks", 7 * 24 * time.Hour},
	{"d day days", 24 * time.Hour},
	{"h hour hours hr hrs", time.Hour},
	{"m minute minutes min mins", time.Minute},
	{"s second seconds sec secs", time.Second},
	{"ms millisecond milliseconds msec millis", time.Millisecond},
	{"us µs μs microsecond microseconds usec micros", time.Microsecond},
	{"ns nanosecond nanoseconds nsec nanos", time.Nanosecond},
}

const durationWant = "want a time with units, such as 500ms, 10 s, 1h 30m or 7 days"

// ParseDuration reads a sum of numbers with units: "500ms", "10 s", "1h30m",
// "1h 30m", "7 days". "0", "unlimited", "disabled" and "none" are zero, as keys
// with such a meaning say. A bare number other than 0 is refused: its unit
// would be a guess. Negative times do not exist.
func ParseDuration(text string) (time.Duration, error) {
	s := strings.TrimSpace(text)
	if isWord(s, "0", "unlimited", "disabled", "none") {
		return 0, nil
	}
	if s == "" {
		return 0, errWant(durationWant)
	}
	var total time.Duration
	for s != "" {
		part, rest, err := cutDuration(s)
		if err != nil {
			return 0, err
		}
		if part > math.MaxInt64-total {
			return 0, errWant("the time is too long")
		}
		total += part
		s = strings.TrimLeft(rest, " ")
	}
	return total, nil
}

// cutDuration reads one number with its unit from the front of s.
func cutDuration(s string) (time.Duration, string, error) {
	number, rest := splitNumber(s)
	rest = strings.TrimLeft(rest, " ")
	end := strings.IndexAny(rest, " 0123456789.")
	if end < 0 {
		end = len(rest)
	}
	size, ok := durationUnit(rest[:end])
	if number == "" || !ok {
		return 0, "", errWant(durationWant)
	}
	n, err := scale(number, uint64(size))
	if err != nil {
		return 0, "", fmt.Errorf("%w; %s", err, durationWant)
	}
	if n > math.MaxInt64 {
		return 0, "", errWant("the time is too long")
	}
	return time.Duration(n), rest[end:], nil
}

func durationUnit(name string) (time.Duration, bool) {
	if name == "" {
		return 0, false
	}
	for _, u := range durationUnits {
		for candidate := range strings.FieldsSeq(u.names) {
			if candidate == name {
				return u.size, true
			}
		}
	}
	return 0, false
}

// FormatDuration returns the form that ParseDuration reads back: "1h 30m".
// Years and months are not written, they are too uneven to be read with ease.
func FormatDuration(d time.Duration) string {
	if d <= 0 {
		return "0s"
	}
	var parts []string
	for _, u := range durationUnits[3:] {
		if n := d / u.size; n > 0 {
			name, _, _ := strings.Cut(u.names, " ")
			parts = append(parts, strconv.FormatInt(int64(n), 10)+name)
			d %= u.size
		}
	}
	return strings.Join(parts, " ")
}

// The two values of an expiry that are no time, as they travel on the wire.
const (
	ExpiryServerDefault uint64 = 0
	ExpiryNever         uint64 = math.MaxUint64
)

// expiryMax is the longest expiry: 2^32-1 seconds, some 136 years.
const expiryMax = math.MaxUint32 * time.Second

// ParseExpiry reads an expiry into µs as it travels on the wire: "none",
// "unlimited" and "never_expire" are ExpiryNever, "0", "default" and
// "server_default" are ExpiryServerDefault, anything else is a duration of at
// most 2^32-1 seconds and at least 1 µs.
func ParseExpiry(text string) (uint64, error) {
	s := strings.TrimSpace(text)
	switch {
	case isWord(s, "none", "unlimited", "never_expire"):
		return ExpiryNever, nil
	case isWord(s, "0", "default", "server_default"):
		return ExpiryServerDefault, nil
	case isWord(s, "disabled"):
		return 0, errWant(durationWant + ", never_expire or server_default")
	}
	d, err := ParseDuration(s)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%w, never_expire or server_default", err)
	case d > expiryMax:
		return 0, errWant(fmt.Sprintf("want at most %d seconds", uint32(math.MaxUint32)))
	case d > 0 && d < time.Microsecond:
		return 0, errWant("want at least 1us")
	}
	return uint64(d / time.Microsecond), nil
}

// Expiry is a time after which something ends, in µs as on the wire.
type Expiry uint64

// String returns the form that ParseExpiry reads back.
func (e Expiry) String() string {
	switch uint64(e) {
	case ExpiryNever:
		return "never_expire"
	case ExpiryServerDefault:
		return "server_default"
	}
	if uint64(e) > math.MaxInt64/1000 {
		return strconv.FormatUint(uint64(e), 10) + "us"
	}
	return FormatDuration(time.Duration(e) * time.Microsecond)
}
