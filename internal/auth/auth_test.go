package auth

import (
	"errors"
	"strings"
	"testing"
)

// cheap keeps the tests fast; what it costs has no bearing on what they check.
func cheap() Params { return Params{MemoryKiB: 8, Passes: 1, Lanes: 1} }

var salt = [SaltLen]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}

func TestHashGolden(t *testing.T) {
	got := Hash([]byte("iggy"), salt, Params{MemoryKiB: 64, Passes: 2, Lanes: 1})
	want := "$argon2id$v=19$m=64,t=2,p=1$AQIDBAUGBwgJCgsMDQ4PEA$4ZPUPE2oWpZAl77owTcfQsoqTsJFnD+rv3qvR4AqyHI"
	if got != want {
		t.Fatalf("hash of iggy\ngot  %s\nwant %s", got, want)
	}
}

func TestVerify(t *testing.T) {
	hash := Hash([]byte("secret"), salt, cheap())
	for _, tc := range []struct {
		password string
		want     bool
	}{{"secret", true}, {"secreT", false}, {"", false}, {"secret ", false}, {"secre", false}} {
		got, err := Verify(hash, []byte(tc.password))
		if err != nil || got != tc.want {
			t.Errorf("Verify of %q: got %v, %v, want %v", tc.password, got, err, tc.want)
		}
	}
}

func TestVerifyEmptyPassword(t *testing.T) {
	hash := Hash(nil, salt, cheap())
	if ok, err := Verify(hash, []byte{}); !ok || err != nil {
		t.Fatalf("empty password against its own hash: got %v, %v", ok, err)
	}
}

func TestVerifyTakesParametersOfTheHash(t *testing.T) {
	hash := Hash([]byte("old"), salt, Params{MemoryKiB: 32, Passes: 3, Lanes: 2})
	if ok, err := Verify(hash, []byte("old")); !ok || err != nil {
		t.Fatalf("hash with other parameters than the default: got %v, %v", ok, err)
	}
}

func TestRefusedHashes(t *testing.T) {
	good := Hash([]byte("x"), salt, cheap())
	fields := strings.Split(good, "$")
	with := func(i int, s string) string {
		changed := append([]string(nil), fields...)
		changed[i] = s
		return strings.Join(changed, "$")
	}
	for name, hash := range map[string]string{
		"empty":              "",
		"plain text":         "hunter2",
		"argon2i":            with(1, "argon2i"),
		"old version":        with(2, "v=16"),
		"no version":         with(2, ""),
		"memory too large":   with(3, "m=1048577,t=1,p=1"),
		"memory too small":   with(3, "m=7,t=1,p=1"),
		"memory not 32 bits": with(3, "m=4294967304,t=1,p=1"),
		"no passes":          with(3, "m=8,t=0,p=1"),
		"too many passes":    with(3, "m=8,t=65,p=1"),
		"no lanes":           with(3, "m=8,t=1,p=0"),
		"too many lanes":     with(3, "m=1024,t=1,p=33"),
		"two parameters":     with(3, "m=8,t=1"),
		"other order":        with(3, "t=1,m=8,p=1"),
		"leading zero":       with(3, "m=08,t=1,p=1"),
		"sign":               with(3, "m=+8,t=1,p=1"),
		"short salt":         with(4, "AAAA"),
		"long salt":          with(4, strings.Repeat("A", 1<<16)),
		"bad salt":           with(4, "!!!!!!!!!!!!!!!!!!!!!!"),
		"short key":          with(5, "AAAA"),
		"empty key":          with(5, ""),
		"long key":           with(5, strings.Repeat("A", 1<<16)),
		"line break":         with(5, fields[5]+"\n"),
		"extra field":        good + "$",
		"leading text":       "x" + good,
	} {
		if ok, err := Verify(hash, []byte("x")); ok || !errors.Is(err, ErrFormat) {
			t.Errorf("%s: got %v, %v, want ErrFormat", name, ok, err)
		}
	}
}

func TestErrorsDoNotQuoteTheInput(t *testing.T) {
	if err := Check("$hunter2$hunter2$hunter2$hunter2$hunter2"); strings.Contains(err.Error(), "hunter2") {
		t.Fatalf("error %q quotes what was stored", err)
	}
}

func TestHashPanicsOnBadParameters(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Fatal("hash with no passes: no panic")
		}
	}()
	Hash([]byte("x"), salt, Params{MemoryKiB: 8, Lanes: 1})
}

func FuzzParse(f *testing.F) {
	f.Add(Hash([]byte("x"), salt, cheap()))
	f.Add("$argon2id$v=19$m=8,t=1,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAA")
	f.Add("$argon2id$v=19$m=,t=,p=$$")
	f.Fuzz(func(t *testing.T, hash string) {
		e, err := parse(hash)
		if err == nil && e.String() != hash {
			t.Fatalf("accepted %q but writes it as %q", hash, e.String())
		}
	})
}
