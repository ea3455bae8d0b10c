package auth

import (
	"encoding/hex"
	"testing"
)

func TestTokens(t *testing.T) {
	seen := map[string]bool{}
	for range 100 {
		token := NewToken()
		if len(token) != 68 || seen[token] {
			t.Fatalf("token of %d characters, seen before: %t", len(token), seen[token])
		}
		seen[token] = true
	}
	// The hash is on disk: it must not change.
	hash := HashToken("token")
	if got, want := hex.EncodeToString(hash[:]), "3c469e9d6c5875d37a43f353d4f88e61fcf812c66eee3457465a40b0da4153e0"; got != want {
		t.Errorf("hash %s, want %s", got, want)
	}
}
