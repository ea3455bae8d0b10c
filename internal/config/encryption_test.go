package config

import (
	"strings"
	"testing"
)

// Who seals has one key, as a person can make it. No problem tells it.
func TestEncryptionKeys(t *testing.T) {
	const good, other = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "HxECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	for _, c := range []struct {
		name string
		e    Encryption
		says []string // nothing: it is valid
	}{
		{"off", Encryption{Key: "nonsense"}, nil},
		{"a key", Encryption{Enabled: true, Key: good}, nil},
		{"a file", Encryption{Enabled: true, KeyFile: "disk.key"}, nil},
		{"older ones", Encryption{Enabled: true, Key: good, OlderKeys: other + ", " + good}, nil},
		{"none", Encryption{Enabled: true}, []string{"system.encryption.key", "openssl rand -base64 32", "key_file"}},
		{"two", Encryption{Enabled: true, Key: good, KeyFile: "disk.key"}, []string{"system.encryption.key_file", "not both"}},
		{"short", Encryption{Enabled: true, Key: good[4:]}, []string{"system.encryption.key", "32 bytes"}},
		{"hexadecimal", Encryption{Enabled: true, Key: strings.Repeat("0f", 32)}, []string{"system.encryption.key", "32 bytes"}},
		{"an older one is none", Encryption{Enabled: true, Key: good, OlderKeys: other + ",," + good}, []string{"system.encryption.older_keys", "32 bytes"}},
	} {
		config := Default()
		config.System.Encryption = c.e
		err := config.Validate()
		if (err == nil) != (c.says == nil) {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.says == nil {
			continue
		}
		wantText(t, err, c.says...)
		for _, secret := range []string{c.e.Key, c.e.OlderKeys} {
			if secret != "" && strings.Contains(err.Error(), secret) {
				t.Errorf("%s: the key is told", c.name)
			}
		}
	}
}
