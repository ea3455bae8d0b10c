package config

import (
	"math"
	"testing"
	"time"

	"github.com/BurntSushi/toml"
)

func TestParseSize(t *testing.T) {
	for text, want := range map[string]ByteSize{
		"0": 0, "unlimited": 0, "None": 0, "1": 1, "1048576": MiB, "1 B": 1,
		"64 MiB": 64 * MiB, "64MiB": 64 * MiB, " 64  mib ": 64 * MiB, "2 MB": 2_000_000, "1.5 GiB": 3 * GiB / 2,
		"0.5 KiB": 512, ".5 KB": 500, "500 MB": 500_000_000, "4 GB": 4_000_000_000, "1 TiB": 1024 * GiB,
		"18446744073709551615": math.MaxUint64, "16777215 TiB": 16777215 * 1024 * GiB,
	} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("ParseSize(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", " ", "-1", "MiB", "1 M", "1 parsec", "1.2.3 MiB", "0.3 B", "1.0000000000000000001 MiB",
		"18446744073709551616", "16777216 TiB", "1e3", "0x10", "1 MiB 2 KiB", "٣", ".", "1,5 MiB"} {
		if got, err := ParseSize(text); err == nil {
			t.Errorf("ParseSize(%q) = %d, want an error", text, got)
		}
	}
}

func TestSizeString(t *testing.T) {
	for size, want := range map[ByteSize]string{
		0: "0 B", 1: "1 B", 1023: "1023 B", KiB: "1 KiB", 64 * MiB: "64 MiB", 500_000_000: "500 MB", 4_000_000_000: "4 GB",
		2176 * MiB: "2176 MiB", 1500: "1500 B", math.MaxUint64: "18446744073709551615 B",
	} {
		if got := size.String(); got != want {
			t.Errorf("%d prints as %q, want %q", uint64(size), got, want)
		}
	}
}

func TestParseMaxTopicSize(t *testing.T) {
	for text, want := range map[string]uint64{"unlimited": math.MaxUint64, "0": 0, "server_default": 0, "1 GiB": 1 << 30} {
		if got, err := ParseMaxTopicSize(text); err != nil || got != want {
			t.Errorf("ParseMaxTopicSize(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
	if got, err := ParseMaxTopicSize("none"); err == nil {
		t.Errorf(`ParseMaxTopicSize("none") = %d, want an error: it says neither`, got)
	}
}

func TestParseDuration(t *testing.T) {
	day := 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "disabled": 0, "Unlimited": 0, "none": 0, "500ms": 500 * time.Millisecond, "10 s": 10 * time.Second,
		"1h 30m": 90 * time.Minute, "1h30m": 90 * time.Minute, "1 h": time.Hour, "7 days": 7 * day, "1 m": time.Minute,
		"1M": 2_630_016 * time.Second, "1 year": 31_557_600 * time.Second, "2 weeks": 14 * day, "1.5s": 1500 * time.Millisecond,
		"1h 1m 1s": time.Hour + time.Minute + time.Second, "3us": 3 * time.Microsecond, "3µs": 3 * time.Microsecond, "1ns": 1,
		"9223372036854775807ns": math.MaxInt64,
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("ParseDuration(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "30", "s", "-1s", "1 fortnight", "1h 30", "1H", "9223372036854775808ns", "9223372036854775807ns 1ns",
		"300 y", "1s,2s", "0.5ns", "1..5s", "+1s"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("ParseDuration(%q) = %v, want an error", text, got)
		}
	}
}

func TestParseExpiry(t *testing.T) {
	for text, want := range map[string]uint64{
		"none": ExpiryNever, "unlimited": ExpiryNever, "never_expire": ExpiryNever, "0": ExpiryServerDefault,
		"default": ExpiryServerDefault, "server_default": ExpiryServerDefault, "1 h": 3_600_000_000, "1us": 1,
		"4294967295s": 4294967295 * 1_000_000,
	} {
		if got, err := ParseExpiry(text); err != nil || got != want {
			t.Errorf("ParseExpiry(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "1", "4294967296s", "disabled", "1ns", "forever"} {
		if got, err := ParseExpiry(text); err == nil {
			t.Errorf("ParseExpiry(%q) = %d, want an error", text, got)
		}
	}
}

func TestParseList(t *testing.T) {
	for text, want := range map[string]string{
		"[]": "[]", "": "[]", "a": "[a]", "a,b": "[a, b]", "[a,b]": "[a, b]", `["a", 'b']`: "[a, b]", "[ * ]": "[*]",
	} {
		got, err := parseList(text)
		if err != nil || valueText(&got) != want {
			t.Errorf("parseList(%q) = %q, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"[a", "a]", "a,,b", "[,]", `[""]`} {
		if got, err := parseList(text); err == nil {
			t.Errorf("parseList(%q) = %q, want an error", text, got)
		}
	}
}

// The parsers take text from people: they never panic, and what they accept
// prints in a form that reads back as the same value.

func FuzzParseSize(f *testing.F) {
	for _, text := range []string{"64 MiB", "1.5 GB", "unlimited", "18446744073709551615", "0.000001 TiB", "1 M"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { readsBack(t, text, ParseSize, ByteSize.String) })
}

func FuzzParseDuration(f *testing.F) {
	for _, text := range []string{"1h 30m", "7 days", "500ms", "0", "1.5y2M", "9223372036854775807ns"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { readsBack(t, text, ParseDuration, FormatDuration) })
}

func FuzzParseExpiry(f *testing.F) {
	for _, text := range []string{"never_expire", "server_default", "1h", "4294967295s", "1us"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		readsBack(t, text, ParseExpiry, func(us uint64) string { return Expiry(us).String() })
	})
}

func readsBack[T comparable](t *testing.T, text string, parse func(string) (T, error), format func(T) string) {
	t.Helper()
	value, err := parse(text)
	if err != nil {
		return
	}
	again, err := parse(format(value))
	if err != nil || again != value {
		t.Errorf("%q is %v, prints as %q and reads back as %v, %v", text, value, format(value), again, err)
	}
}

// FuzzFile: no file makes Load panic, what loads is valid, and every key of a
// file that parses is found on a line of it.
func FuzzFile(f *testing.F) {
	f.Add(Sample())
	f.Add(CurrentTOML(rosterOf(3), Bound{}))
	f.Add("a.b = [1,\n2]\n[[cluster.nodes]]\nname = '''\n[x]\n'''\nports = {tcp = 1}\n[cluster.nodes.ports]\nquic = 2\n")
	f.Add("[a.'b.c']\n\"d\\\"\" = \"#\" # x\n")
	f.Fuzz(func(t *testing.T, text string) {
		l := &loader{cfg: Default(), given: map[*key]given{}}
		l.sources.of = map[string]Source{}
		l.applyTOML("f", text)
		l.finish()
		if len(l.problems) == 0 && l.cfg.Validate() != nil {
			t.Errorf("loads without a problem but is invalid: %v", l.cfg.Validate())
		}
		indexLines(text)
	})
}

// FuzzQuote: every text survives being written to a file.
func FuzzQuote(f *testing.F) {
	for _, text := range []string{"", `"`, `\`, "a\nb\t\x00\x7f", "é☃", `\u0041`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		text = string([]rune(text)) // a file holds no invalid UTF-8
		var got struct{ V string }
		if _, err := toml.Decode("v = "+quoteTOML(text), &got); err != nil || got.V != text {
			t.Errorf("%q is written as %s and reads back as %q, %v", text, quoteTOML(text), got.V, err)
		}
	})
}
