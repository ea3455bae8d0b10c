package cli

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"galgo"
)

const (
	outputTable = "table"
	outputJSON  = "json"
)

// table is data for people. Its first row is the header.
type table [][]string

// add appends a row. Values print as they would in a message.
func (t *table) add(values ...any) {
	row := make([]string, len(values))
	for i, v := range values {
		row[i] = fmt.Sprint(v)
	}
	*t = append(*t, row)
}

// print writes data: v as JSON, or the table.
func (e *env) print(v any, t table) error {
	if e.globals.output == outputJSON {
		return e.printJSON(v)
	}
	w := tabwriter.NewWriter(e.program.Stdout, 0, 0, 2, ' ', 0)
	for _, row := range t {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = printable(cell)
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	return w.Flush()
}

func (e *env) printJSON(v any) error {
	enc := json.NewEncoder(e.program.Stdout)
	enc.SetEscapeHTML(false)
	if isTerminal(e.program.Stdout) {
		enc.SetIndent("", "  ")
	}
	return enc.Encode(v)
}

// say talks to whoever sits there.
func (e *env) say(format string, args ...any) { e.saySame(format+"\n", args...) }

func (e *env) saySame(format string, args ...any) {
	if !e.globals.quiet {
		fmt.Fprintf(e.program.Stderr, format, args...)
	}
}

// printable keeps names and payloads of others from steering a terminal or breaking
// a table.
func printable(s string) string {
	if !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
		return strings.Trim(strconv.QuoteToGraphic(s), `"`)
	}
	return s
}

// timeOf shows µs since the epoch.
func timeOf(µs uint64) string {
	if µs == 0 || µs > 1<<62 {
		return "-"
	}
	return time.UnixMicro(int64(µs)).UTC().Format("2006-01-02T15:04:05.000000Z")
}

// durationOf shows µs.
func durationOf(µs uint64) string {
	if µs == galgo.Never {
		return "never"
	}
	if µs > 1<<53 { // time.Duration counts nanoseconds in 63 bits
		return strconv.FormatUint(µs, 10) + "µs"
	}
	return (time.Duration(µs) * time.Microsecond).String()
}

// limitOf shows a size in bytes that may be unlimited.
func limitOf(size uint64) string {
	if size == galgo.Never {
		return "unlimited"
	}
	return strconv.FormatUint(size, 10)
}

// text is bytes as JSON has them: as a string if they are one, else in base64 under
// another name.
type text struct {
	Text   string `json:"text,omitempty"`
	Base64 []byte `json:"base64,omitempty"`
}

func textOf(b []byte) text {
	if utf8.Valid(b) {
		return text{Text: string(b)}
	}
	return text{Base64: b}
}
