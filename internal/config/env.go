package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
)

// Prefixes of variables. A variable with the own prefix wins over the same with
// the reference server's, whose binary galgo can stand in for.
const (
	ownPrefix       = "GALGO_"
	referencePrefix = "IGGY_"
)

// Variables without a key, by the part after the prefix.
const (
	envConfigPath = "CONFIG_PATH"
	envEnvPath    = "ENV_PATH"
)

// siblings are variables with one of the prefixes that belong to other programs:
// a name that ends in _ stands for all that begin with it. They are left alone.
var siblings = map[string][]string{
	ownPrefix: {"USERNAME", "PASSWORD", "HOME", "CLIENT_", "BENCH_", "SIM_", "TEST_"},
	referencePrefix: {"USERNAME", "PASSWORD", "HOME", "CONNECTORS_", "MCP_", "BENCH_", "TEST_", "CI_BUILD",
		"SHARD_RUNTIME_CAPACITY", "SHARD_EVENT_INTERVAL"},
}

// levelVariable overrides the level of the reference server; here the own
// variable of the level wins over it.
const levelVariable = "RUST_LOG"

// readEnvironment returns the variables that matter by name, those of the file
// that ENV_PATH names included; the process's own win. Empty ones are unset.
func (l *loader) readEnvironment(in LoadInput) map[string]string {
	env := map[string]string{}
	collect := func(lines []string) {
		for _, line := range lines {
			name, text, ok := strings.Cut(line, "=")
			if ok && text != "" && l.concerns(name, in.OtherEnv) {
				env[name] = text
			}
		}
	}
	collect(in.Env)
	if path := either(env, envEnvPath); path != "" {
		collect(l.readEnvFile(path))
		collect(in.Env)
	}
	return env
}

// concerns reports whether the variable is for this server.
func (l *loader) concerns(name string, others []string) bool {
	if name == levelVariable {
		return true
	}
	prefix, suffix, ok := splitPrefix(name)
	return ok && !slices.Contains(others, name) && !isSibling(prefix, suffix)
}

func splitPrefix(name string) (prefix, suffix string, ok bool) {
	for _, prefix := range []string{ownPrefix, referencePrefix} {
		if suffix, ok := strings.CutPrefix(name, prefix); ok {
			return prefix, suffix, true
		}
	}
	return "", "", false
}

func isSibling(prefix, suffix string) bool {
	return slices.ContainsFunc(siblings[prefix], func(s string) bool {
		return suffix == s || strings.HasSuffix(s, "_") && strings.HasPrefix(suffix, s)
	})
}

// either returns the own variable, else the reference's.
func either(env map[string]string, suffix string) string {
	if text, ok := env[ownPrefix+suffix]; ok {
		return text
	}
	return env[referencePrefix+suffix]
}

// envFileMax bounds a file of variables in bytes.
const envFileMax = 1 << 20

// readEnvFile returns the assignments of a file with lines NAME=value, where
// empty lines, comments, "export " and quotes round the value are allowed.
func (l *loader) readEnvFile(path string) []string {
	data, err := readBounded(path, envFileMax)
	if err != nil {
		l.fail(ErrInvalid, envEnvPath, path, "", err.Error())
		return nil
	}
	var lines []string
	for i, line := range strings.Split(string(data), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, text, ok := strings.Cut(strings.TrimPrefix(line, "export "), "=")
		if !ok {
			l.fail(ErrInvalid, envEnvPath, path, fmt.Sprintf("%s:%d", path, i+1), "want NAME=value")
			continue
		}
		lines = append(lines, strings.TrimSpace(name)+"="+unquote(strings.TrimSpace(text)))
	}
	return lines
}

// unquote drops a pair of quotes round the text.
func unquote(text string) string {
	if n := len(text); n >= 2 && (text[0] == '"' || text[0] == '\'') && text[n-1] == text[0] {
		return text[1 : n-1]
	}
	return text
}

// readBounded reads a file of at most limit bytes.
func readBounded(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, errWant("there is no such file")
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errWant("want a regular file")
	case info.Size() > limit:
		return nil, errWant(fmt.Sprintf("the file has %d bytes, want at most %d", info.Size(), limit))
	}
	return os.ReadFile(path)
}

// applyEnvironment stores the variables: the reference's, then the level
// variable, then the own ones.
func (l *loader) applyEnvironment(env map[string]string) {
	names := slices.Sorted(maps.Keys(env))
	l.applyPrefixed(env, names, referencePrefix)
	if text, ok := env[levelVariable]; ok {
		l.applyLevelVariable(text)
	}
	l.applyPrefixed(env, names, ownPrefix)
}

func (l *loader) applyPrefixed(env map[string]string, names []string, prefix string) {
	for _, name := range names {
		suffix, ok := strings.CutPrefix(name, prefix)
		if !ok {
			continue
		}
		if _, own := env[ownPrefix+suffix]; own && prefix != ownPrefix {
			continue
		}
		l.applyVariable(name, suffix, env[name])
	}
}

func (l *loader) applyVariable(name, suffix, text string) {
	source := Source{LayerEnvironment, name}
	if suffix == envConfigPath || suffix == envEnvPath {
		return // used already
	}
	if k := byEnv[suffix]; k != nil {
		l.setKeyText(k, text, source)
		return
	}
	if path, ok := rosterPath(suffix); ok {
		l.setNode(path, text, source, func(p any) error { return setText(p, text) })
		return
	}
	if strings.HasPrefix(suffix, envSuffix(issuersKey)+"_") {
		l.failIssuers(name)
		return
	}
	if key, successor, ok := movedEnv(suffix); ok {
		l.fail(ErrMoved, key, "", name, successor)
		return
	}
	l.unknownVariable(name)
}

// unknownVariable refuses a misspelt own variable. One with the reference's
// prefix may belong to a program beside the server, so it is only mentioned.
func (l *loader) unknownVariable(name string) {
	prefix, _, _ := splitPrefix(name)
	want := hint(name, knownVariables(prefix))
	if prefix == ownPrefix {
		l.fail(ErrUnknown, "variable "+name, "", "", want)
		return
	}
	l.warn(strings.TrimSpace("variable " + name + " is not a key of the server and was ignored; " + want))
}

func knownVariables(prefix string) []string {
	names := []string{prefix + envConfigPath, prefix + envEnvPath}
	for i := range keys {
		names = append(names, prefix+envSuffix(keys[i].name))
	}
	return names
}

// applyLevelVariable takes the level out of a filter for other programs. What
// is not understood is no error: the variable is not galgo's.
func (l *loader) applyLevelVariable(text string) {
	level, _ := simpleLevel(text)
	if !slices.Contains(levels, level) {
		l.warn(levelVariable, " was ignored: it names none of the levels ", orList(levels))
		return
	}
	l.setKeyText(byName["system.logging.level"], text, Source{LayerEnvironment, levelVariable})
}
