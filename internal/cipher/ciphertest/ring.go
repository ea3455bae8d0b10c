// Package ciphertest has keys for tests, so that what they seal is the same in every run.
package ciphertest

import (
	"bytes"
	"math/rand/v2"

	"galgo/internal/cipher"
)

// Ring is a ring of keys that are made of these bytes, the current one first. Its nonces
// repeat themselves from run to run: never use it for anything that is to stay secret.
func Ring(fills ...byte) *cipher.Ring {
	var keys []*cipher.Key
	for _, f := range fills {
		k, err := cipher.NewKey(bytes.Repeat([]byte{f}, cipher.KeySize))
		if err != nil {
			panic(err)
		}
		keys = append(keys, k)
	}
	rng := rand.New(rand.NewPCG(uint64(fills[0]), 1))
	return cipher.NewRing(keys[0], keys[1:]...).WithNonces(func(b []byte) {
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
	})
}
