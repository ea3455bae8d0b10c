package cipher

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
)

// KeysMax bounds the keys of a ring.
const KeysMax = 64

// Ring seals under one key and opens under that and older ones. The nil Ring is that
// of a node without a key.
type Ring struct {
	current *Key
	all     []*Key
	nonces  func([]byte) // nil: crypto/rand
}

// NewRing is a ring of the key to seal under, and of others that may have been used
// before it.
func NewRing(current *Key, older ...*Key) *Ring {
	return &Ring{current: current, all: append([]*Key{current}, older...)}
}

// ParseRing reads keys as an operator writes them, the current one first, with commas or
// white space between. The error says nothing of the text.
func ParseRing(text string) (*Ring, error) {
	words := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\n' || r == '\r' })
	switch {
	case len(words) == 0:
		return nil, ErrKey
	case len(words) > KeysMax:
		return nil, fmt.Errorf("cipher: %d keys, at most %d", len(words), KeysMax)
	}
	keys := make([]*Key, len(words))
	for i, w := range words {
		k, err := ParseKey(w)
		if err != nil {
			return nil, fmt.Errorf("key %d of %d: %w", i+1, len(words), err)
		}
		keys[i] = k
	}
	return NewRing(keys[0], keys[1:]...), nil
}

// WithNonces has the nonces come from elsewhere, so that a simulation repeats itself. It
// is for tests: two equal nonces under one key give away what was sealed under them.
func (r *Ring) WithNonces(fill func([]byte)) *Ring {
	return &Ring{current: r.current, all: r.all, nonces: fill}
}

func (r *Ring) nonce() (n [nonceSize]byte) {
	if r.nonces != nil {
		r.nonces(n[:])
	} else {
		rand.Read(n[:]) // never fails: the runtime ends the process instead
	}
	return n
}

// Holds reports whether the ring has the key of that id.
func (r *Ring) Holds(id ID) bool {
	_, err := r.find(id)
	return err == nil
}

// Current is the id of the key that is sealed under; zero without one.
func (r *Ring) Current() ID {
	if r == nil {
		return ID{}
	}
	return r.current.id
}

// Seal appends plain, sealed under the current key, to dst. They must not overlap.
func (r *Ring) Seal(dst, plain, about []byte) []byte {
	nonce := r.nonce()
	return r.current.sealWith(&nonce, dst, plain, about)
}

// Open appends to dst what was sealed. After an error dst is as it was.
func (r *Ring) Open(dst, sealed, about []byte) ([]byte, error) {
	id, ok := IDOf(sealed)
	if !ok {
		return dst, fmt.Errorf("%w: %d bytes, want at least %d", ErrSealed, len(sealed), Overhead)
	}
	k, err := r.find(id)
	if err != nil {
		return dst, err
	}
	nonce, text := sealed[idSize:idSize+nonceSize], sealed[idSize+nonceSize:]
	plain, err := k.open(dst, nonce, text, about)
	if err != nil {
		return dst, err
	}
	return plain, nil
}

func (r *Ring) find(id ID) (*Key, error) {
	if r == nil {
		return nil, fmt.Errorf("%w: it is sealed under key %v", ErrKeyMissing, id)
	}
	i := slices.IndexFunc(r.all, func(k *Key) bool { return k.id == id })
	if i < 0 {
		return nil, fmt.Errorf("%w: it is key %v, and the one configured is %v", ErrKeyUnknown, id, r.current.id)
	}
	return r.all[i], nil
}

// Admit decides whether data that say under which key they are sealed (zero: under
// none) may be opened with this ring. Whoever opens a directory asks before it changes
// anything there.
func (r *Ring) Admit(sealedUnder ID) error {
	switch {
	case sealedUnder == ID{} && r == nil:
		return nil
	case sealedUnder == ID{}:
		return ErrClear
	}
	_, err := r.find(sealedUnder)
	return err
}
