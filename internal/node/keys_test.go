package node

import (
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"galgo/internal/cipher"
	"galgo/internal/config"
)

func keyText(fill byte) string {
	return base64.StdEncoding.EncodeToString([]byte(strings.Repeat(string(rune(fill)), cipher.KeySize)))
}

func keyID(t *testing.T, fill byte) cipher.ID {
	t.Helper()
	k, err := cipher.ParseKey(keyText(fill))
	if err != nil {
		t.Fatal(err)
	}
	return k.ID()
}

// Keys come from the configuration or from a file that nobody else may read; the first is
// the one to seal under.
func TestKeys(t *testing.T) {
	file := func(mode os.FileMode, text string) string {
		name := filepath.Join(t.TempDir(), "disk.key")
		if err := errors.Join(os.WriteFile(name, []byte(text), 0o600), os.Chmod(name, mode)); err != nil {
			t.Fatal(err)
		}
		return name
	}
	if ring, err := Keys(config.Encryption{Key: keyText('a')}); ring != nil || err != nil {
		t.Errorf("not enabled: %v, %v", ring, err)
	}
	for name, c := range map[string]config.Encryption{
		"configured": {Key: keyText('a'), OlderKeys: keyText('b') + "," + keyText('c')},
		"in a file":  {KeyFile: file(0o600, keyText('a')+"\n"+keyText('b')+"\n"), OlderKeys: keyText('c')},
		"read-only":  {KeyFile: file(0o400, keyText('a')+"\n"+keyText('b')+"\n"+keyText('c'))},
	} {
		c.Enabled = true
		ring, err := Keys(c)
		if err != nil || ring.Current() != keyID(t, 'a') || !ring.Holds(keyID(t, 'b')) || !ring.Holds(keyID(t, 'c')) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, c := range map[string]struct{ file, says string }{
		"no file":            {filepath.Join(t.TempDir(), "none"), "none"},
		"others may read it": {file(0o640, keyText('a')), "chmod 600"},
		"no key":             {file(0o600, "nonsense"), "openssl rand -base64 32"},
		"nothing":            {file(0o600, ""), "openssl rand -base64 32"},
		"too long":           {file(0o600, strings.Repeat(keyText('a')+"\n", 1000)), "bytes"},
	} {
		_, err := Keys(config.Encryption{Enabled: true, KeyFile: c.file})
		if !errors.Is(err, ErrKeyFile) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), c.file) || strings.Contains(err.Error(), keyText('a')) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
