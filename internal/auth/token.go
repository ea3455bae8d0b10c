package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
)

// tokenBytes are the random bytes of a personal access token.
const tokenBytes = 50

// NewToken makes a personal access token: random bytes in base64, 68 characters. Who
// has it may sign in, so it goes to the one who asked for it and is kept nowhere.
func NewToken() string {
	secret := make([]byte, tokenBytes)
	rand.Read(secret) // never fails: the runtime ends the process instead
	return base64.StdEncoding.EncodeToString(secret)
}

// HashToken is what is stored of a token. With 400 random bits nothing is to be
// guessed, so that a fast hash is enough, and looking one up tells nothing by its time:
// whoever tries does not choose the hash.
func HashToken(token string) [sha256.Size]byte { return sha256.Sum256([]byte(token)) }
