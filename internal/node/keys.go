package node

import (
	"errors"
	"fmt"
	"io"
	"os"

	"galgo/internal/cipher"
	"galgo/internal/config"
)

// keyFileMax bounds a file of keys, in bytes.
const keyFileMax = 16 << 10

// ErrKeyFile: the file of the keys cannot be used.
var ErrKeyFile = errors.New("node: system.encryption.key_file")

// Keys are those that the configuration names; nil if nothing is to be sealed. No error
// tells any of them.
func Keys(c config.Encryption) (*cipher.Ring, error) {
	if !c.Enabled {
		return nil, nil
	}
	text := c.Key
	if c.KeyFile != "" {
		var err error
		if text, err = readKeyFile(c.KeyFile); err != nil {
			return nil, err
		}
	}
	ring, err := cipher.ParseRing(text + "\n" + c.OlderKeys)
	switch {
	case err != nil && c.KeyFile != "":
		return nil, fmt.Errorf("%w: %s: %w", ErrKeyFile, c.KeyFile, err)
	case err != nil:
		return nil, fmt.Errorf("node: system.encryption.key: %w", err)
	}
	return ring, nil
}

// readKeyFile reads a file that nobody but its owner may read.
func readKeyFile(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrKeyFile, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrKeyFile, err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return "", fmt.Errorf("%w: %s may be read by others than its owner (%v); chmod 600 %s", ErrKeyFile, name, mode, name)
	}
	b, err := io.ReadAll(io.LimitReader(f, keyFileMax+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: %w", ErrKeyFile, err)
	case len(b) > keyFileMax:
		return "", fmt.Errorf("%w: %s has more than %d bytes", ErrKeyFile, name, keyFileMax)
	}
	return string(b), nil
}
