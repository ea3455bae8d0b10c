package config

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// class says what a key does; see the package doc.
type class uint8

const (
	active class = iota
	later        // only the default is accepted
	idle         // any well-formed value is accepted and does nothing
)

// key is one row of the table: all that is known about a setting.
type key struct {
	name  string            // dotted, as in the file
	def   string            // default, as a person would write it
	at    func(*Config) any // pointer to the value; its type decides what is accepted
	help  string            // one sentence without a full stop, for people
	min   string            // bounds, in the form of def; empty: none
	max   string
	oneOf []string // the only values of a string key
	check func(text string) error
	// simplify reduces a text to what galgo understands and returns what it left out.
	simplify func(text string) (simple, dropped string)
	class    class
	part     string // later and idle: what it belongs to
	secret   bool   // shown as ****** and left out of files
	env      bool   // environment only: neither file nor flag may hold it
}

// hidden stands for a secret that is set.
const hidden = "******"

// rosterKey is the array of tables that the roster is made of. It has no row in
// the table: roster.go knows its fields.
const rosterKey = "cluster.nodes"

// keys is the table, in the order of the sample file. Keys of one section stand
// together, keys without a section first: TOML wants it so.
var keys = slices.Concat(generalKeys, transportKeys, systemKeys, storageKeys, tokenKeys, maintenanceKeys, clusterKeys, serviceKeys)

// byName finds a row; built once, never changed.
var byName = func() map[string]*key {
	m := make(map[string]*key, len(keys))
	for i := range keys {
		m[keys[i].name] = &keys[i]
	}
	return m
}()

// byEnv finds a row by the part of a variable after its prefix.
var byEnv = func() map[string]*key {
	m := make(map[string]*key, len(keys))
	for i := range keys {
		m[envSuffix(keys[i].name)] = &keys[i]
	}
	return m
}()

// sections are the tables a file may have.
var sections = func() map[string]bool {
	m := map[string]bool{}
	add := func(name string) {
		for name != "" {
			m[name] = true
			name = section(name)
		}
	}
	for i := range keys {
		add(section(keys[i].name))
	}
	return m
}()

// section returns the table that holds the key, empty at the top.
func section(name string) string {
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		return name[:i]
	}
	return ""
}

// leaf returns the key within its section.
func leaf(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

// envSuffix returns the variable of a key without its prefix.
func envSuffix(name string) string {
	return strings.ToUpper(strings.ReplaceAll(name, ".", "_"))
}

// show returns the value of k in c as people see it.
func (k *key) show(c *Config) string {
	if k.class != active {
		return k.canonical()
	}
	text := valueText(k.at(c))
	if k.secret && text != "" {
		return hidden
	}
	return text
}

// mask hides a value given for k in what is shown to people.
func (k *key) mask(text string) string {
	if k.secret && text != "" {
		return hidden
	}
	return text
}

// canonical returns the default in the one form that equal values share.
func (k *key) canonical() string {
	var c Config
	p := k.at(&c)
	if err := setText(p, k.def); err != nil {
		panic(fmt.Sprintf("config: default of %s: %v", k.name, err))
	}
	return valueText(p)
}

// problem returns what is wrong with the value of k that p points to, or "".
func (k *key) problem(p any) string {
	text := valueText(p)
	if len(k.oneOf) > 0 && !slices.Contains(k.oneOf, text) {
		return "want " + orList(k.oneOf)
	}
	if k.check != nil {
		if err := k.check(text); err != nil {
			return err.Error()
		}
	}
	if want := k.bounds(); want != "" && !k.within(p) {
		return want
	}
	return ""
}

// bounds says in words which values k takes, "" if there is no bound.
func (k *key) bounds() string {
	switch {
	case k.min != "" && k.max != "":
		return "want " + k.min + " to " + k.max
	case k.min != "":
		return "want at least " + k.min
	case k.max != "":
		return "want at most " + k.max
	}
	return ""
}

func (k *key) within(p any) bool {
	value := magnitude(p)
	if k.min != "" && value < k.bound(k.min) {
		return false
	}
	return k.max == "" || value <= k.bound(k.max)
}

// bound parses a bound the way the value is parsed.
func (k *key) bound(text string) int64 {
	var c Config
	p := k.at(&c)
	if err := setText(p, text); err != nil {
		panic(fmt.Sprintf("config: bound of %s: %v", k.name, err))
	}
	return magnitude(p)
}

// magnitude makes sizes, times and counts comparable; sizes beyond int64 are capped.
func magnitude(p any) int64 {
	switch p := p.(type) {
	case *int:
		return int64(*p)
	case *ByteSize:
		return int64(min(*p, 1<<63-1))
	case *time.Duration:
		return int64(*p)
	}
	panic(fmt.Sprintf("config: %T has no bounds", p))
}

func orList(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// Places of later and idle keys, which have no field.
func noBool(*Config) any     { return new(bool) }
func noInt(*Config) any      { return new(int) }
func noString(*Config) any   { return new(string) }
func noSize(*Config) any     { return new(ByteSize) }
func noDuration(*Config) any { return new(time.Duration) }
func noExpiry(*Config) any   { return new(Expiry) }
func noList(*Config) any     { return new([]string) }
