package tidy

import (
	"os"
	"path/filepath"
	"testing"
)

// TestRequiredFiles: what a newcomer and CI look for first.
func TestRequiredFiles(t *testing.T) {
	for name, why := range map[string]string{
		"README.md":         "what galgo is, the command that runs it, the command that tests it",
		"ARCHITECTURE.md":   "one page with a picture",
		"CONTRIBUTING.md":   "how to build, test and change it",
		"LICENSE":           "the Apache License 2.0",
		"Makefile":          "the targets that people and CI call",
		".ci/run":           "what must pass before a change lands",
		"tools/go.mod":      "the developers' tools, at fixed versions",
		"docs/formats.md":   "the bytes of every file galgo writes",
		"cmd/galgo/main.go": "the one binary",
	} {
		if info, err := os.Stat(filepath.Join(root, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s is missing or empty: it holds %s", name, why)
		}
	}
}

func TestCIIsExecutable(t *testing.T) {
	info, err := os.Stat(filepath.Join(root, ".ci/run"))
	if err != nil {
		t.Fatalf("%v: write what must pass before a change lands", err)
	}
	if info.Mode().Perm()&0o111 == 0 {
		t.Errorf(".ci/run has mode %v: run chmod +x .ci/run", info.Mode().Perm())
	}
}

// TestNoCgo: the binary is static and runs in any container.
func TestNoCgo(t *testing.T) {
	tree := mustTree(t)
	for _, p := range tree.pkgs {
		for _, s := range p.sources {
			if at, ok := s.imports()["C"]; ok {
				t.Errorf("%s: no cgo; use golang.org/x/sys for system calls and Go for the rest", tree.where(at))
			}
		}
	}
}
