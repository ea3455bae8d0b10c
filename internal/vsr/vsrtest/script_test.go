package vsrtest

import (
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write what is seen into the scripts; review the difference")

// TestScripts plays testdata/*.txt. The expectation is the whole trace.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts in testdata: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { play(t, file) })
	}
}

func play(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var s Script
	var seen strings.Builder
	for i, block := range strings.Split(strings.TrimSpace(string(text)), "\n\n") {
		commands, _, _ := strings.Cut(block, "\n----")
		if i > 0 {
			seen.WriteString("\n")
		}
		seen.WriteString(commands + "\n")
		out, played := playBlock(t, file, &s, commands)
		if played {
			seen.WriteString("----\n" + out)
		}
	}
	if seen.String() == string(text) {
		return
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(seen.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("%s differs (go test ./internal/vsr/vsrtest -run TestScripts -rewrite writes it anew):\n%s", file, difference(string(text), seen.String()))
}

func playBlock(t *testing.T, file string, s *Script, commands string) (out string, played bool) {
	for line := range strings.Lines(commands) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		played = true
		got, err := s.Run(line)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if got != "" {
			out += got + "\n"
		}
	}
	return out, played
}

// difference shows the lines from the first that differs on.
func difference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	at := 0
	for at < min(len(w), len(g)) && w[at] == g[at] {
		at++
	}
	part := func(lines []string) string {
		return strings.Join(lines[min(at, len(lines)):min(at+8, len(lines))], "\n  ")
	}
	return "got from line " + strconv.Itoa(at+1) + ":\n  " + part(g) + "\nwant:\n  " + part(w)
}
