package config

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"
)

// Display returns what a server says of its configuration at start: the file that
// was read and every key that is in effect, with its value and where it came from,
// a line each. Secrets are hidden.
func Display(c Config, sources Sources) string {
	var b strings.Builder
	if sources.File == "" {
		b.WriteString("configuration, without a file:\n")
	} else {
		fmt.Fprintf(&b, "configuration, with the file %s:\n", printable(sources.File))
	}
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range Rows(c, sources) {
		fmt.Fprintf(w, "  %s\t%s\t%s\n", row.Key, printable(row.Value), printable(row.Source))
	}
	w.Flush() // a builder takes everything
	return b.String()
}

// printable keeps values from steering a terminal or breaking a table, and makes
// empty ones visible.
func printable(s string) string {
	if s == "" || !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
		return strconv.Quote(s)
	}
	return s
}
