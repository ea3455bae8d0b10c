package config

import (
	"strconv"
	"strings"
)

// indexLines returns the line, from 1, on which each key and table of a valid
// TOML file stands, by dotted name. Elements of arrays of tables are numbered
// from 0: cluster.nodes.0.name. Keys within inline tables are not found; their
// table is.
func indexLines(text string) map[string]int {
	s := &lineScanner{lines: map[string]int{}, counts: map[string]int{}}
	for i, line := range strings.Split(text, "\n") {
		s.line(i+1, line)
	}
	return s.lines
}

type lineScanner struct {
	lines  map[string]int
	counts map[string]int // elements seen of each array of tables
	table  string         // the table that keys belong to
	depth  int            // open brackets of a value that spans lines
	quote  string         // the delimiter of a text that is open: ", ', """ or '''
}

func (s *lineScanner) line(number int, line string) {
	if s.depth > 0 || s.quote != "" {
		s.value(line)
		return
	}
	line = strings.TrimSpace(line)
	switch {
	case line == "" || line[0] == '#':
	case strings.HasPrefix(line, "[["):
		path, _ := scanKey(line[2:])
		name := s.resolve(path)
		s.table = name + "." + strconv.Itoa(s.counts[name])
		s.counts[name]++
		s.note(name, number)
		s.note(s.table, number)
	case line[0] == '[':
		path, _ := scanKey(line[1:])
		s.table = s.resolve(path)
		s.note(s.table, number)
	default:
		path, rest := scanKey(line)
		s.note(strings.Join(append([]string{s.table}, path...), "."), number)
		s.value(strings.TrimPrefix(rest, "="))
	}
}

// note remembers the first line of a name.
func (s *lineScanner) note(name string, number int) {
	name = strings.TrimPrefix(name, ".")
	if _, ok := s.lines[name]; !ok {
		s.lines[name] = number
	}
}

// resolve puts the number of the newest element after each array of tables
// that the path leads through, but not after its last part.
func (s *lineScanner) resolve(path []string) string {
	name := ""
	for i, part := range path {
		if name != "" {
			name += "."
		}
		name += part
		if n := s.counts[name]; n > 0 && i < len(path)-1 {
			name += "." + strconv.Itoa(n-1)
		}
	}
	return name
}

// scanKey reads a dotted key, which may be quoted, up to = or ].
func scanKey(s string) (path []string, rest string) {
	for {
		s = strings.TrimLeft(s, " \t")
		var part string
		if s != "" && (s[0] == '"' || s[0] == '\'') {
			end := strings.IndexByte(s[1:], s[0])
			if end < 0 {
				return path, ""
			}
			part, s = s[1:end+1], s[end+2:]
		} else {
			end := strings.IndexAny(s, ".=] \t")
			if end < 0 {
				return append(path, s), ""
			}
			part, s = s[:end], s[end:]
		}
		if strings.Contains(part, ".") || part == "" {
			part = strconv.Quote(part)
		}
		path = append(path, part)
		s = strings.TrimLeft(s, " \t")
		if s == "" || s[0] != '.' {
			return path, s
		}
		s = s[1:]
	}
}

// value follows a value, or a line of it, to learn whether it goes on.
func (s *lineScanner) value(text string) {
	for text != "" {
		if s.quote != "" {
			text = s.insideQuote(text)
			continue
		}
		switch c := text[0]; c {
		case '#':
			return
		case '[', '{':
			s.depth++
		case ']', '}':
			s.depth--
		case '"', '\'':
			s.quote = string(c)
			if triple := strings.Repeat(s.quote, 3); strings.HasPrefix(text, triple) {
				s.quote = triple
			}
			text = text[len(s.quote):]
			continue
		}
		text = text[1:]
	}
	if len(s.quote) == 1 {
		s.quote = "" // such a text cannot span lines
	}
}

// insideQuote returns what follows the end of the open text, or "" if it does
// not end here.
func (s *lineScanner) insideQuote(text string) string {
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && s.quote[0] == '"' {
			i++
			continue
		}
		if strings.HasPrefix(text[i:], s.quote) {
			rest := text[i+len(s.quote):]
			s.quote = ""
			return rest
		}
	}
	return ""
}
