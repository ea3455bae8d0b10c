package config

import (
	"strings"
	"testing"
)

func TestDisplay(t *testing.T) {
	file := writeFile(t, "[system]\nshards = 2\npath = \"a\\u001b[2Jb\"\n")
	c, s := mustLoad(t, LoadInput{File: file, Env: []string{"GALGO_ROOT_USERNAME=admin", "GALGO_ROOT_PASSWORD=letmein"}})
	text := Display(c, s)
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if want := "configuration, with the file " + file + ":"; lines[0] != want {
		t.Errorf("the first line is %q, want %q", lines[0], want)
	}
	found := map[string]string{}
	for _, line := range lines[1:] {
		key, rest, _ := strings.Cut(strings.TrimSpace(line), "  ")
		found[key] = strings.Join(strings.Fields(rest), " ")
	}
	for key, want := range map[string]string{
		"system.shards":          "2 " + file + ":2",
		"system.path":            `"a\x1b[2Jb" ` + file + ":3",
		"root.username":          "admin GALGO_ROOT_USERNAME",
		"root.password":          "****** GALGO_ROOT_PASSWORD",
		"tcp.advertised_address": `"" default`,
		"wal.file_size":          "64 MiB default",
	} {
		if found[key] != want {
			t.Errorf("%s is shown as %q, want %q", key, found[key], want)
		}
	}
	if len(found) != len(activeKeys()) || len(lines) != len(found)+1 {
		t.Errorf("%d lines with %d keys, want one for each of %d keys:\n%s", len(lines), len(found), len(activeKeys()), text)
	}
}

func TestDisplayWithoutAFile(t *testing.T) {
	c, s := mustLoad(t, LoadInput{})
	if text := Display(c, s); !strings.HasPrefix(text, "configuration, without a file:\n  display_config ") {
		t.Errorf("got %q", text[:min(len(text), 100)])
	}
}
