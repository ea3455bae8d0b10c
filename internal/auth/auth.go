// Package auth hashes passwords and checks them: argon2id in the PHC string
// form, computed in bounded number because each computation takes memory. It
// makes access tokens and hashes them too.
//
// Plain passwords are never kept, logged or put into an error, nor are tokens.
package auth

import (
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/crypto/argon2"
)

// Lengths of what a hash is made of, in bytes.
const (
	SaltLen = 16
	keyLen  = 32
)

// Bounds of the parameters that a stored hash may ask for. A stored hash comes
// from the replicated state; these keep a damaged one from taking the machine.
const (
	maxMemoryKiB = 1 << 20 // 1 GiB
	maxPasses    = 64
	maxLanes     = 32
	maxSaltLen   = 64
	maxKeyLen    = 64
	minSaltLen   = 8
	minKeyLen    = 16
)

// ErrFormat says that a stored hash is not an argon2id PHC string within bounds.
var ErrFormat = errors.New("auth: not an argon2id hash")

// Params are the cost of a hash.
type Params struct {
	MemoryKiB uint32 // 8 x Lanes … 1 GiB
	Passes    uint32 // 1 … 64
	Lanes     uint8  // 1 … 32
}

// DefaultParams is the cost of new hashes: 19 MiB, two passes, one lane, the
// smallest setting that OWASP's password storage advice names for argon2id.
func DefaultParams() Params { return Params{MemoryKiB: 19 * 1024, Passes: 2, Lanes: 1} }

// Validate says which parameter is out of range.
func (p Params) Validate() error {
	switch {
	case p.Lanes < 1 || p.Lanes > maxLanes:
		return fmt.Errorf("%w: %d lanes, want 1..%d", ErrFormat, p.Lanes, maxLanes)
	case p.Passes < 1 || p.Passes > maxPasses:
		return fmt.Errorf("%w: %d passes, want 1..%d", ErrFormat, p.Passes, maxPasses)
	case p.MemoryKiB < 8*uint32(p.Lanes) || p.MemoryKiB > maxMemoryKiB:
		return fmt.Errorf("%w: memory %d KiB, want %d..%d", ErrFormat, p.MemoryKiB, 8*uint32(p.Lanes), maxMemoryKiB)
	}
	return nil
}

// Hash is the PHC string of a password:
//
//	$argon2id$v=19$m=<KiB>,t=<passes>,p=<lanes>$<salt>$<key>
//
// with salt and key in base64 without padding. The salt is an input, so that
// equal inputs give equal hashes; it must be random and used once. Hash panics
// when the parameters are out of range: they come from configuration that was
// validated, never from input.
func Hash(password []byte, salt [SaltLen]byte, params Params) string {
	if err := params.Validate(); err != nil {
		panic(fmt.Sprintf("auth: hash with unchecked parameters: %v", err))
	}
	return encoded{params: params, salt: salt[:], key: derive(password, salt[:], params, keyLen)}.String()
}

// Verify says whether password is the one that hash was made of, in a time
// that does not depend on where they differ. It costs what the hash's own
// parameters ask for. The error is ErrFormat when hash is not well formed.
func Verify(hash string, password []byte) (bool, error) {
	want, err := parse(hash)
	if err != nil {
		return false, err
	}
	got := derive(password, want.salt, want.params, uint32(len(want.key)))
	return subtle.ConstantTimeCompare(got, want.key) == 1, nil
}

// Check says whether hash is a well-formed argon2id string within bounds.
func Check(hash string) error {
	_, err := parse(hash)
	return err
}

func derive(password, salt []byte, p Params, length uint32) []byte {
	return argon2.IDKey(password, salt, p.Passes, p.MemoryKiB, p.Lanes, length)
}

// encoded is a PHC string taken apart.
type encoded struct {
	params Params
	salt   []byte
	key    []byte
}

func (e encoded) String() string {
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version,
		e.params.MemoryKiB, e.params.Passes, e.params.Lanes,
		base64.RawStdEncoding.EncodeToString(e.salt), base64.RawStdEncoding.EncodeToString(e.key))
}

// parse accepts exactly what String writes. Its errors do not quote the input:
// what was stored in place of a hash may be a password.
func parse(hash string) (encoded, error) {
	parts := strings.Split(hash, "$")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" {
		return encoded{}, ErrFormat
	}
	if parts[2] != "v="+strconv.Itoa(argon2.Version) {
		return encoded{}, fmt.Errorf("%w: unknown version", ErrFormat)
	}
	params, err := parseParams(parts[3])
	if err != nil {
		return encoded{}, err
	}
	salt, err := parseBytes(parts[4], minSaltLen, maxSaltLen)
	if err != nil {
		return encoded{}, fmt.Errorf("%w: salt", err)
	}
	key, err := parseBytes(parts[5], minKeyLen, maxKeyLen)
	if err != nil {
		return encoded{}, fmt.Errorf("%w: key", err)
	}
	e := encoded{params: params, salt: salt, key: key}
	if e.String() != hash {
		return encoded{}, fmt.Errorf("%w: not in canonical form", ErrFormat)
	}
	return e, nil
}

func parseParams(s string) (Params, error) {
	fields := strings.Split(s, ",")
	if len(fields) != 3 {
		return Params{}, fmt.Errorf("%w: want three parameters", ErrFormat)
	}
	m, errM := parseNumber(fields[0], "m=", 32)
	t, errT := parseNumber(fields[1], "t=", 32)
	p, errP := parseNumber(fields[2], "p=", 8)
	if err := errors.Join(errM, errT, errP); err != nil {
		return Params{}, err
	}
	params := Params{MemoryKiB: uint32(m), Passes: uint32(t), Lanes: uint8(p)}
	return params, params.Validate()
}

func parseNumber(field, prefix string, bits int) (uint64, error) {
	digits, ok := strings.CutPrefix(field, prefix)
	if !ok {
		return 0, fmt.Errorf("%w: want parameter %s", ErrFormat, prefix)
	}
	n, err := strconv.ParseUint(digits, 10, bits)
	if err != nil {
		return 0, fmt.Errorf("%w: parameter %s is no number of %d bits", ErrFormat, prefix, bits)
	}
	return n, nil
}

func parseBytes(s string, lowest, highest int) ([]byte, error) {
	if base64.RawStdEncoding.DecodedLen(len(s)) > highest {
		return nil, fmt.Errorf("%w: longer than %d bytes", ErrFormat, highest)
	}
	b, err := base64.RawStdEncoding.DecodeString(s)
	if err != nil || len(b) < lowest {
		return nil, fmt.Errorf("%w: want base64 of %d..%d bytes", ErrFormat, lowest, highest)
	}
	return b, nil
}
