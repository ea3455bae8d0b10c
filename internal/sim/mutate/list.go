package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// mutation takes one rule out of galgo.
type mutation struct {
	name  string
	rule  string // what holds without it, and where that is written
	edits []edit
}

// edit replaces a text that stands once in a file.
type edit struct{ file, find, put string }

// parseList reads a list of mutations:
//
//	mutation <name>
//	rule <text>
//	file <path>
//	find
//	<lines>
//	put
//	<lines>
//	end
//
// with file..end as often as needed. Lines that begin with # between mutations, and
// empty ones, are skipped.
func parseList(text string) (list []mutation, err error) {
	lines := strings.Split(text, "\n")
	for n := 0; n < len(lines); n++ {
		line := lines[n]
		word, rest, _ := strings.Cut(line, " ")
		switch {
		case line == "" || word == "#":
		case word == "mutation":
			list = append(list, mutation{name: rest})
		case len(list) == 0:
			return nil, fmt.Errorf("line %d: %q before the first mutation", n+1, line)
		case word == "rule":
			list[len(list)-1].rule = rest
		case word == "file":
			e := edit{file: rest}
			if e.find, e.put, n, err = parseEdit(lines, n+1); err != nil {
				return nil, err
			}
			m := &list[len(list)-1]
			m.edits = append(m.edits, e)
		default:
			return nil, fmt.Errorf("line %d: %q", n+1, line)
		}
	}
	return list, checkList(list)
}

func parseEdit(lines []string, n int) (find, put string, end int, err error) {
	if n >= len(lines) || lines[n] != "find" {
		return "", "", 0, fmt.Errorf("line %d: want find", n+1)
	}
	to := &find
	for n++; n < len(lines); n++ {
		switch lines[n] {
		case "put":
			to = &put
		case "end":
			return find, put, n, nil
		default:
			*to += lines[n] + "\n"
		}
	}
	return "", "", 0, fmt.Errorf("line %d: no end", n)
}

func checkList(list []mutation) error {
	seen := map[string]bool{}
	for _, m := range list {
		if m.name == "" || m.rule == "" || len(m.edits) == 0 || seen[m.name] {
			return fmt.Errorf("mutation %q has no name of its own, no rule or no edit", m.name)
		}
		seen[m.name] = true
	}
	return nil
}

// apply returns the changed files of the tree below root, by path from there.
func (m *mutation) apply(root string) (map[string][]byte, error) {
	changed := map[string][]byte{}
	for _, e := range m.edits {
		text, ok := changed[e.file]
		if !ok {
			var err error
			if text, err = os.ReadFile(filepath.Join(root, e.file)); err != nil {
				return nil, err
			}
		}
		if n := bytes.Count(text, []byte(e.find)); n != 1 || e.find == e.put {
			return nil, fmt.Errorf("mutation %s: its text stands %d times in %s, want once", m.name, n, e.file)
		}
		changed[e.file] = bytes.Replace(text, []byte(e.find), []byte(e.put), 1)
	}
	return changed, nil
}
