package config

import (
	"net/netip"
	"slices"
	"strings"
)

// LoadInput is what a configuration is made from.
type LoadInput struct {
	// File is the path given by --config; empty: the variable, else DefaultPath.
	File string
	// Env is the environment as os.Environ returns it.
	Env []string
	// Flags are the flags that were given, by the names of Flags or by a dotted
	// key, with their text. A switch holds "true".
	Flags map[string]string
	// Set are the values of --set, each key=value; a later one wins.
	Set []string
	// OtherEnv names GALGO_ variables that other parts of the program read, so
	// that they are not taken for misspelt keys.
	OtherEnv []string
}

// Layer is where a value came from; a later one wins.
type Layer uint8

// The layers, weakest first.
const (
	LayerDefault Layer = iota
	LayerFile
	LayerEnvironment
	LayerFlag
)

// Source tells where the value of a key came from.
type Source struct {
	Layer Layer
	Where string // file:line, variable or flag; "default" in LayerDefault
}

// Sources tells where everything in a Config came from.
type Sources struct {
	// File is the file that was read, empty if there was none.
	File string
	// Warnings are remarks for the operator, one sentence each, without secrets.
	Warnings []string

	of map[string]Source
}

// Of returns the source of a dotted key.
func (s Sources) Of(name string) Source {
	if source, ok := s.of[name]; ok {
		return source
	}
	return Source{LayerDefault, "default"}
}

// Load applies defaults, file, environment and flags, in this order, and
// validates the result. The error joins every [Problem] that was found. The
// Sources are valid, with their warnings, also when there is an error.
func Load(in LoadInput) (Config, Sources, error) {
	l := applyLayers(in)
	l.finish()
	if len(l.problems) > 0 {
		return Config{}, l.sources, join(l.problems)
	}
	return l.cfg, l.sources, nil
}

// applyLayers reads all layers, the strongest last, without looking at the result.
func applyLayers(in LoadInput) *loader {
	l := &loader{cfg: Default(), given: map[*key]given{}}
	l.sources.of = map[string]Source{}
	env := l.readEnvironment(in)
	l.applyFile(l.choosePath(in, env))
	l.applyEnvironment(env)
	l.applyFlags(in)
	return l
}

// loader collects the layers.
type loader struct {
	cfg      Config
	sources  Sources
	problems []*Problem
	given    map[*key]given // what later and idle keys were set to
}

// given is the value of a key without a field.
type given struct {
	text    string
	changed bool // differs from the default
	source  Source
}

func (l *loader) fail(kind error, name, value, where, want string) {
	l.problems = append(l.problems, &Problem{Kind: kind, Key: name, Value: value, Where: where, Want: want})
}

func (l *loader) warn(parts ...string) {
	l.sources.Warnings = append(l.sources.Warnings, strings.Join(parts, ""))
}

// setKeyText stores a text from the environment or a flag.
func (l *loader) setKeyText(k *key, text string, source Source) {
	if k.simplify != nil {
		text = l.simplified(k, text, source)
	}
	l.setKey(k, text, source, func(p any) error { return setText(p, text) })
}

// simplified drops what galgo does not understand of a value, and says so.
func (l *loader) simplified(k *key, text string, source Source) string {
	simple, dropped := k.simplify(text)
	if dropped != "" {
		l.warn(source.Where, ": ", dropped, " in ", k.name, " is left out: there is one level for everything")
	}
	return simple
}

// setKey stores a value through assign; shown is the value as it was given.
func (l *loader) setKey(k *key, shown string, source Source, assign func(p any) error) {
	if k.env && source.Layer != LayerEnvironment {
		l.fail(ErrInvalid, k.name, hidden, source.Where, "set it by "+ownPrefix+envSuffix(k.name)+" only: it is a secret of one start")
		return
	}
	p := k.at(&l.cfg)
	if err := assign(p); err != nil {
		l.fail(ErrInvalid, k.name, k.mask(shown), source.Where, err.Error())
		return
	}
	l.sources.of[k.name] = source
	if k.class != active {
		text := valueText(p)
		l.given[k] = given{text, text != k.canonical(), source}
	}
}

// finish checks what the layers have left.
func (l *loader) finish() {
	l.checkGiven()
	for _, p := range l.cfg.problems() {
		p.Where = l.whereOf(p.Key)
		l.problems = append(l.problems, p)
	}
	l.checkReplica()
	l.checkReach()
	slices.SortStableFunc(l.problems, func(a, b *Problem) int {
		return strings.Compare(a.Where, b.Where)
	})
}

// whereOf returns where the value was set, empty for a default.
func (l *loader) whereOf(name string) string {
	if source := l.sources.Of(name); source.Layer != LayerDefault {
		return source.Where
	}
	return ""
}

// checkGiven refuses later keys with another value than the default, and warns
// of idle ones.
func (l *loader) checkGiven() {
	for i := range keys {
		k := &keys[i]
		g, ok := l.given[k]
		switch {
		case !ok || !g.changed:
		case k.class == later:
			l.fail(ErrUnavailable, k.name, k.mask(g.text), g.source.Where, "it belongs to "+k.part+"; leave it out, or at "+quoteTOML(k.def))
		default:
			l.warn(g.source.Where, ": ", k.name, " has no effect: it belongs to ", k.part)
		}
	}
}

// checkReplica enforces what depends on the layers and not on values alone.
func (l *loader) checkReplica() {
	const name = "replica_id"
	switch source := l.sources.Of(name); {
	case l.cfg.Cluster.Enabled && source.Layer == LayerDefault:
		l.fail(ErrInvalid, name, "", "", "say which entry of cluster.nodes this process is, such as --replica-id 0")
	case l.cfg.Replace && len(l.cfg.Cluster.Nodes) < 2:
		l.fail(ErrInvalid, "--replace", "true", "", "there are no other nodes to fill an empty disk; restore a copy of the data directory instead")
	}
}

// checkReach warns of an address that clients elsewhere cannot dial.
func (l *loader) checkReach() {
	c := &l.cfg
	if !c.Cluster.Enabled && c.TCP.Enabled && c.TCP.AdvertisedAddress == "" && unspecified(c.TCP.Address) {
		l.warn("tcp.address ", c.TCP.Address, " takes clients on every interface, but they are told to dial 127.0.0.1; set tcp.advertised_address")
	}
	self, ok := c.Cluster.Self()
	if !ok || isLoopback(self.IP) {
		return
	}
	if isLoopback(hostOf(c.TCP.Address)) {
		l.warn("tcp.address ", c.TCP.Address, " takes clients of this machine only, but they are told to dial ", self.HostFor(netip.Addr{}), "; set tcp.address, such as 0.0.0.0:8090")
	}
	if len(c.Cluster.Nodes) > 1 && !c.Cluster.Auth.Enabled {
		l.warn("cluster.auth.enabled is false: whoever reaches ", self.PeerBind(), " may say it is a node of the cluster")
	}
}
