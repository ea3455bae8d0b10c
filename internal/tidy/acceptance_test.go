package tidy

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// acceptanceLines is how many lines each list has that docs/acceptance.md answers:
// those of the specification by section, and the public failures by kind.
var acceptanceLines = map[string]int{
	"D": 27, "W": 27, "R": 23, "T": 27, "N": 30,
	"PF-wire": 4, "PF-client": 4, "PF-storage": 21, "PF-config": 2,
}

var acceptanceRow = regexp.MustCompile(`(?m)^\| ((?:PF-)?[A-Za-z0-9.]+)-(\d+) \|([^|]*)\|(.*)\|$`)

// TestAcceptanceIsComplete fails when a line is missing, stands twice or has no
// answer.
func TestAcceptanceIsComplete(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "acceptance.md"))
	if err != nil {
		t.Fatal(err)
	}
	answers := map[string]int{}
	for _, m := range acceptanceRow.FindAllStringSubmatch(string(text), -1) {
		number := strings.TrimLeft(m[2], "0")
		answers[m[1]+"-"+number]++
		if strings.TrimSpace(m[4]) == "" {
			t.Errorf("line %s-%s has no answer", m[1], m[2])
		}
	}
	for list, n := range acceptanceLines {
		for i := 1; i <= n; i++ {
			if line := fmt.Sprintf("%s-%d", list, i); answers[line] != 1 {
				t.Errorf("line %s stands %d times, want once", line, answers[line])
			}
		}
	}
}
