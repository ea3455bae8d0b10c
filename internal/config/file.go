package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
)

// DefaultPath is the file that is read when none is named, if it exists.
const DefaultPath = "galgo.toml"

// fileMax bounds a configuration file in bytes.
const fileMax = 1 << 20

// issuersKey is an array of tables that belongs to the HTTP interface.
const issuersKey = "http.jwt.trusted_issuers"

// choosePath returns the file to read, "" for none. A file that was named must
// exist; the default one need not.
func (l *loader) choosePath(in LoadInput, env map[string]string) string {
	for _, path := range []string{in.File, in.Flags[flagConfig], either(env, envConfigPath)} {
		if path != "" {
			return path
		}
	}
	if _, err := os.Stat(DefaultPath); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return DefaultPath
}

// applyFile reads the file and stores its values.
func (l *loader) applyFile(path string) {
	if path == "" {
		return
	}
	l.sources.File = path
	data, err := readBounded(path, fileMax)
	if err != nil {
		l.fail(ErrInvalid, "configuration file", path, "", err.Error())
		return
	}
	l.applyTOML(path, string(data))
}

// applyTOML stores the values of a file's text.
func (l *loader) applyTOML(path, text string) {
	table := map[string]any{}
	if _, err := toml.Decode(text, &table); err != nil {
		l.fail(ErrInvalid, "syntax", "", syntaxWhere(path, err), syntaxWant(err))
		return
	}
	f := &file{loader: l, path: path, lines: indexLines(text)}
	f.walk("", table)
}

func syntaxWhere(path string, err error) string {
	var parse toml.ParseError
	if errors.As(err, &parse) {
		return path + ":" + strconv.Itoa(parse.Position.Line)
	}
	return path
}

func syntaxWant(err error) string {
	var parse toml.ParseError
	if errors.As(err, &parse) && parse.Message != "" {
		return parse.Message
	}
	return err.Error()
}

// file is a configuration file on its way into a loader.
type file struct {
	*loader
	path  string
	lines map[string]int
}

// source returns file and line of a key.
func (f *file) source(name string) Source {
	for at := name; at != ""; at = section(at) {
		if line, ok := f.lines[at]; ok {
			return Source{LayerFile, fmt.Sprintf("%s:%d", f.path, line)}
		}
	}
	return Source{LayerFile, f.path}
}

func (f *file) walk(prefix string, table map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(table)) {
		f.visit(joinKey(prefix, name), table[name])
	}
}

// joinKey makes a dotted name. A part that holds a dot itself is quoted, so it
// cannot be taken for two.
func joinKey(prefix, name string) string {
	if name == "" || strings.Contains(name, ".") {
		name = strconv.Quote(name)
	}
	if prefix == "" {
		return name
	}
	return prefix + "." + name
}

func (f *file) visit(name string, value any) {
	sub, isTable := value.(map[string]any)
	switch k := byName[name]; {
	case name == rosterKey:
		f.roster(value)
	case name == issuersKey && isTables(value):
		f.failIssuers(f.source(name).Where)
	case k != nil:
		f.setValue(k, value)
	case isTable && sections[name]:
		f.walk(name, sub)
	case isTable && len(sub) > 0 && !isMovedSection(name):
		f.walk(name, sub) // to name the keys in it, all unknown
	case isTable:
		f.unknownKey(name+".", f.source(name).Where)
	default:
		f.unknownKey(name, f.source(name).Where)
	}
}

func isMovedSection(name string) bool {
	_, ok := movedKey(name + ".")
	return ok
}

func isTables(value any) bool {
	tables, ok := value.([]map[string]any)
	return ok && len(tables) > 0
}

func (f *file) setValue(k *key, value any) {
	source := f.source(k.name)
	if text, ok := value.(string); ok && k.simplify != nil {
		value = f.simplified(k, text, source)
	}
	f.setKey(k, fmt.Sprint(value), source, func(p any) error { return setTOML(p, value) })
}

func (l *loader) failIssuers(where string) {
	l.fail(ErrUnavailable, issuersKey, "…", where, "it belongs to "+partHTTP+"; leave it out")
}

// roster stores the entries of the roster from the file.
func (f *file) roster(value any) {
	if list, ok := value.([]any); ok && len(list) == 0 {
		return // nodes = []
	}
	tables, ok := value.([]map[string]any)
	if !ok {
		f.fail(ErrInvalid, rosterKey, fmt.Sprint(value), f.source(rosterKey).Where, "want [[cluster.nodes]], one table a node")
		return
	}
	for i, table := range tables {
		f.nodeFields(strconv.Itoa(i), table)
	}
}

// nodeFields stores the fields of an entry of the roster, or of a table in it.
func (f *file) nodeFields(path string, table map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(table)) {
		at := joinKey(path, name)
		switch value := table[name].(type) {
		case map[string]any:
			f.nodeFields(at, value)
		case []map[string]any:
			for i, sub := range value {
				f.nodeFields(at+"."+strconv.Itoa(i), sub)
			}
		default:
			f.setNode(at, fmt.Sprint(value), f.source(rosterKey+"."+at), func(p any) error { return setTOML(p, value) })
		}
	}
}
