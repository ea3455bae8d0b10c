package peer

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
)

// SecretMin is the least length of a shared secret in bytes: what both ends prove with
// it is shown to whoever asks, who may then try secrets at leisure.
const SecretMin = 32

// keys prove that a node knows the shared secret. While a secret is being replaced the
// one before is accepted too, and never used. The zero value proves nothing.
type keys struct {
	own      []byte
	accepted [][]byte
}

func newKeys(secret, previous []byte) (keys, error) {
	if len(secret) == 0 {
		return keys{}, nil
	}
	var k keys
	for _, s := range [][]byte{secret, previous} {
		switch {
		case len(s) == 0:
			continue
		case len(s) < SecretMin:
			return keys{}, fmt.Errorf("peer: a shared secret has %d bytes, want at least %d", len(s), SecretMin)
		}
		key, err := hkdf.Key(sha256.New, s, nil, "galgo links: proof of the shared secret", macSize)
		if err != nil {
			return keys{}, err
		}
		k.accepted = append(k.accepted, key)
	}
	k.own = k.accepted[0]
	return k, nil
}

func (k *keys) prove() bool { return k.own != nil }

// side says who proves what, so that no proof serves for another.
type side byte

const (
	sideAccepted side = 1 + iota // who accepted the connection
	sideDialed                   // who dialed it
	sideVerdict                  // who accepted it, of the verdict
)

// transcript is what was said in a handshake, and over which TLS session.
type transcript struct {
	hello, challenge, verdict []byte
	binding                   []byte // empty without TLS
}

// proof is the authentication code of all that was said.
func (t *transcript) proof(key []byte, s side) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte{byte(s)})
	for _, part := range [][]byte{t.hello, t.challenge, t.verdict, t.binding} {
		n := len(part)
		m.Write([]byte{byte(n), byte(n >> 8)})
		m.Write(part)
	}
	return m.Sum(nil)
}

// sign returns the proof of this node; zeros without a secret.
func (k *keys) sign(t *transcript, s side) []byte {
	if !k.prove() {
		return make([]byte, macSize)
	}
	return t.proof(k.own, s)
}

// verify checks the proof of the other node.
func (k *keys) verify(t *transcript, s side, proof []byte) error {
	if !k.prove() {
		return nil
	}
	for _, key := range k.accepted {
		if hmac.Equal(t.proof(key, s), proof) {
			return nil
		}
	}
	return ErrProof
}
