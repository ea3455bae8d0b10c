package cipher

import (
	"fmt"
	"slices"
)

// Ring seals under one key and opens under that and older ones. The nil Ring is that
// of a node without a key.
type Ring struct {
	current *Key
	all     []*Key
}

// NewRing is a ring of the key to seal under, and of others that may have been used
// before it.
func NewRing(current *Key, older ...*Key) *Ring {
	return &Ring{current: current, all: append([]*Key{current}, older...)}
}

// Current is the id of the key that is sealed under; zero without one.
func (r *Ring) Current() ID {
	if r == nil {
		return ID{}
	}
	return r.current.id
}

// Seal appends plain, sealed under the current key, to dst. They must not overlap.
func (r *Ring) Seal(dst, plain, about []byte) []byte { return r.current.Seal(dst, plain, about) }

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
	plain, err := k.open(dst, sealed, about)
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
		return fmt.Errorf("%w: data are sealed from the first start on or never; copy them into a new directory through a client", ErrClear)
	}
	_, err := r.find(sealedUnder)
	return err
}
