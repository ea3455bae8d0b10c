package config

import (
	"fmt"
	"os"
	"path/filepath"
)

// CurrentName is the file below system.path and system.runtime.path that
// describes the running server to those who started it.
const CurrentName = "current_config.toml"

// CurrentPath returns where c's server writes its current configuration.
func (c Config) CurrentPath() string {
	return filepath.Join(c.System.Path, c.System.Runtime.Path, CurrentName)
}

// WriteCurrent writes the text of [CurrentTOML] to path in one step: others wait
// for the file to appear and must never see half of it. It is not synced, as it
// says nothing about a server that is gone.
func WriteCurrent(path, text string) error {
	const readableByOwner, directory = 0o600, 0o755
	if err := os.MkdirAll(filepath.Dir(path), directory); err != nil {
		return fmt.Errorf("directory of the current configuration: %w", err)
	}
	partial := path + ".partial"
	if err := os.WriteFile(partial, []byte(text), readableByOwner); err != nil {
		return fmt.Errorf("current configuration: %w", err)
	}
	if err := os.Rename(partial, path); err != nil {
		return fmt.Errorf("current configuration: %w", err)
	}
	return nil
}
