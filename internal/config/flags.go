package config

import (
	"maps"
	"slices"
	"strings"
)

// Flag describes a flag of the server command, for whoever binds it.
type Flag struct {
	Name   string // long name without dashes
	Short  string // one letter, or empty
	Switch bool   // takes no value
	Many   bool   // may be repeated: goes to LoadInput.Set
	Usage  string
}

// Names of the flags.
const (
	flagConfig      = "config"
	flagFresh       = "fresh"
	flagReplace     = "replace"
	flagDefaultRoot = "with-default-root-credentials"
	flagReplica     = "replica-id"
	flagSet         = "set"
)

// ServerFlags are the flags of the server command.
func ServerFlags() []Flag {
	return []Flag{
		{Name: flagConfig, Usage: "configuration file; must exist (default " + DefaultPath + ", if there is one)"},
		{Name: flagFresh, Short: "f", Switch: true, Usage: "remove the data directory before the start"},
		{Name: flagReplace, Switch: true, Usage: "the disk of this replica is lost: begin with an empty one, which the other nodes fill"},
		{Name: flagDefaultRoot, Switch: true, Usage: "make the first user " + defaultRoot + " with password " + defaultRoot + ", unless credentials are set; for development"},
		{Name: flagReplica, Usage: "which entry of cluster.nodes this process is"},
		{Name: flagSet, Many: true, Usage: "key=value: set any key, such as tcp.address=0.0.0.0:8090"},
	}
}

// defaultRoot is both name and password of the root user for development.
const defaultRoot = "iggy"

func (l *loader) applyFlags(in LoadInput) {
	for _, name := range slices.Sorted(maps.Keys(in.Flags)) {
		l.applyFlag(name, in.Flags[name])
	}
	for _, assignment := range in.Set {
		name, text, ok := strings.Cut(assignment, "=")
		name = strings.TrimSpace(name)
		if !ok {
			l.fail(ErrInvalid, "--set", assignment, "", "want key=value, such as --set tcp.address=0.0.0.0:8090")
			continue
		}
		l.setByName(name, strings.TrimSpace(text), Source{LayerFlag, "--set"})
	}
}

func (l *loader) applyFlag(name, text string) {
	source := Source{LayerFlag, "--" + name}
	switch name {
	case flagConfig: // choosePath has read it
	case flagFresh:
		l.setSwitch(&l.cfg.Fresh, name, text)
	case flagReplace:
		l.setSwitch(&l.cfg.Replace, name, text)
	case flagDefaultRoot:
		var wanted bool
		l.setSwitch(&wanted, name, text)
		if wanted && l.cfg.Root == (Root{}) {
			l.cfg.Root = Root{defaultRoot, defaultRoot}
			l.sources.of["root.username"], l.sources.of["root.password"] = source, source
		}
	case flagReplica:
		l.setKeyText(byName["replica_id"], text, source)
	default:
		l.setByName(name, text, source)
	}
}

func (l *loader) setSwitch(p *bool, name, text string) {
	if err := setText(p, text); err != nil {
		l.fail(ErrInvalid, "--"+name, text, "", err.Error())
	}
}

// setByName stores a text under a dotted key.
func (l *loader) setByName(name, text string, source Source) {
	if k := byName[name]; k != nil {
		l.setKeyText(k, text, source)
		return
	}
	if path, ok := strings.CutPrefix(name, rosterKey+"."); ok {
		l.setNode(path, text, source, func(p any) error { return setText(p, text) })
		return
	}
	l.unknownKey(name, source.Where)
}

// unknownKey reports a key that is not in the table.
func (l *loader) unknownKey(name, where string) {
	if successor, ok := movedKey(name); ok {
		l.fail(ErrMoved, name, "", where, successor)
		return
	}
	l.fail(ErrUnknown, "key "+name, "", where, hint(name, knownKeys()))
}

func knownKeys() []string {
	names := make([]string, 0, len(keys)+1)
	for i := range keys {
		names = append(names, keys[i].name)
	}
	return append(names, rosterKey)
}
