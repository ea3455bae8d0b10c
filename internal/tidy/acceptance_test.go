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
	"10.1": 11, "10.2": 13, "10.3": 17, "10.4": 11, "10.5": 11, "10.7": 18, "10.8": 18,
	"Q": 35, "P": 15, "E": 21, "M": 17, "X": 20, "F": 17, "A": 36, "K": 9, "S": 27,
	"D": 27, "W": 27, "R": 23, "T": 27, "N": 30, "H": 14, "Z": 8, "C": 23,
	"PF-groups": 9, "7.7": 6, "PF-wire": 4, "PF-client": 4, "PF-storage": 21, "PF-config": 2, "PF-recovery": 19, "PF-consensus": 11, "PF-auth": 3, "PF-ops": 10,
}

var (
	acceptanceRow = regexp.MustCompile(`^\| ((?:PF-)?[A-Za-z0-9.]+)-(\d+) \|([^|]*)\|(.*)\|$`)
	partsToCome   = regexp.MustCompile(`^\s*(\*differently\*[^|]* )?with (mending of damage from peers)\b`)
)

// scriptNames are the scripts that a row names, by how they begin.
var scriptNames = regexp.MustCompile("`vsrtest.TestScripts` \\(([^)]*)\\)")

func checkScripts(t *testing.T, answer string) {
	t.Helper()
	for _, m := range scriptNames.FindAllStringSubmatch(answer, -1) {
		for name := range strings.SplitSeq(m[1], ", ") {
			found, err := filepath.Glob(filepath.Join(root, "internal/vsr/vsrtest/testdata", name+"*.txt"))
			if err != nil || len(found) == 0 {
				t.Errorf("there is no script that begins with %q (%v)", name, err)
			}
		}
	}
}

// tableRows yields the rows of all tables of a document in docs, without heads.
func tableRows(t *testing.T, name string) (rows []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		head := i+1 < len(lines) && strings.HasPrefix(lines[i+1], "| ---")
		if strings.HasPrefix(line, "|") && !strings.HasPrefix(line, "| ---") && !head {
			rows = append(rows, line)
		}
	}
	return rows
}

// TestAcceptanceIsComplete fails when a line is missing, stands twice, or neither
// names a test nor says why there is none.
func TestAcceptanceIsComplete(t *testing.T) {
	answers := map[string]int{}
	for _, row := range tableRows(t, "acceptance.md") {
		m := acceptanceRow.FindStringSubmatch(row)
		if m == nil {
			t.Errorf("no row of a line: %s", row)
			continue
		}
		var n int
		if _, err := fmt.Sscanf(m[2], "%d", &n); err != nil || n == 0 || n > acceptanceLines[m[1]] {
			t.Errorf("there is no line %s-%s", m[1], m[2])
		}
		answers[fmt.Sprintf("%s-%d", m[1], n)]++
		checkScripts(t, m[4])
		if !testName.MatchString(m[4]) && !strings.Contains(m[4], "*differently*: ") && !partsToCome.MatchString(m[4]) {
			t.Errorf("line %s-%s has no answer:%s", m[1], m[2], m[4])
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

// TestGuardsAreAnswered fails when a row of docs/guards.md has neither a test that
// fails without the guard nor a word on why none does.
func TestGuardsAreAnswered(t *testing.T) {
	rows := tableRows(t, "guards.md")
	for _, row := range rows {
		cells := strings.Split(strings.Trim(row, "|"), " | ")
		if len(cells) != 3 || !testName.MatchString(cells[2]) && len(strings.Fields(cells[2])) < 4 {
			t.Errorf("a guard needs the file that it stands in, and a test or a reason: %s", row)
		}
	}
	if len(rows) < 300 {
		t.Errorf("%d guards, which are fewer than were tried", len(rows))
	}
}
