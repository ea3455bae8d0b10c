package config

import (
	"fmt"
	"strings"
)

const markdownHead = `# Configuration

This page is generated from the key table in ` + "`internal/config`" + `; a test keeps it true.
To write it anew: ` + "`go test ./internal/config -run TestDocs -update`" + `.

## Layers

A value comes from the last of these that gives one:

1. the defaults below, compiled into the binary;
2. a TOML file: ` + "`--config`" + `, else ` + "`GALGO_CONFIG_PATH`, else `IGGY_CONFIG_PATH`, else `galgo.toml`" + ` in the working
   directory if it is there. A file that was named and is missing is an error;
3. environment variables: ` + "`GALGO_`" + ` and the key in upper case with dots turned into underscores, such as
   ` + "`GALGO_TCP_ADDRESS`" + ` for ` + "`tcp.address`" + `. ` + "`IGGY_TCP_ADDRESS`" + ` is understood too, the first wins. An empty variable
   is ignored. ` + "`GALGO_ENV_PATH` or `IGGY_ENV_PATH`" + ` names a file of further variables, one ` + "`NAME=value`" + ` a line, which those of
   the process override;
4. flags: ` + "`--set key=value`" + ` for any key, and those of the next section.

Unknown keys, flags and ` + "`GALGO_`" + ` variables are errors that name the nearest known ones, and so are malformed values.
All problems are reported at once. Unknown ` + "`IGGY_`" + ` variables are only mentioned: programs beside the server have that
prefix too. ` + "`galgo config`" + ` prints what is in effect and where each value came from, with secrets as ` + "`******`" + `.

A running server writes ` + "`current_config.toml`" + ` below ` + "`system.path` and `system.runtime.path`" + `, with the ports that are really
bound (useful with port 0) and without secrets. It loads to the same configuration.
`

const markdownValues = `
## Values

| Type | Accepts |
| --- | --- |
| bool | ` + "`true`, `false`" + ` |
| count | a whole number |
| size | bytes, or a number with ` + "`B`, `KB` `MB` `GB` `TB` (powers of 1000), `KiB` `MiB` `GiB` `TiB` (of 1024)" + `; ` + "`0`, `unlimited`, `none`" + ` are 0 |
| duration | numbers with units: ` + "`500ms`, `10 s`, `1h 30m`, `7 days`; `0`, `disabled`, `unlimited`, `none`" + ` are 0 |
| expiry | a duration of up to 2³²−1 seconds; ` + "`never_expire`, `unlimited`, `none`; `server_default`, `default`, `0`" + ` |
| list | in a file ` + "`[\"a\", \"b\"]`, in a variable `[a, b]` or `a,b`" + ` |

## The root user

` + "`GALGO_ROOT_USERNAME` and `GALGO_ROOT_PASSWORD`" + ` (or ` + "`IGGY_…`" + `) name the first user, which is created only while there is
no user at all. Give both or neither. Without them the user is ` + "`iggy` with password `iggy`" + ` if only loopback addresses are
bound, else it gets a password that is made up and logged once. The two are taken from variables only.

` + "`RUST_LOG`" + ` overrides ` + "`system.logging.level`" + ` unless ` + "`GALGO_SYSTEM_LOGGING_LEVEL`" + ` is set, if it names
a plain level.

## Address bound, address told

` + "`tcp.address`" + ` is what the server binds. What it tells clients to dial is another matter: alone, ` + "`tcp.advertised_address`" + `
if set, else what was bound; in a cluster, the node's entry in the roster: the ` + "`advertised_addresses`" + ` entry whose network
holds the client's address and has the longest prefix, else ` + "`advertised_address`, else `ip`" + `, with the entry's ports. In a
cluster the port that is bound is the entry's, too, and only the host of ` + "`tcp.address`" + ` counts.
`

// Markdown returns the text of docs/configuration.md.
func Markdown() string {
	var b strings.Builder
	b.WriteString(markdownHead)
	b.WriteString("\n## Flags of the server\n\n| Flag | Meaning |\n| --- | --- |\n")
	for _, f := range ServerFlags() {
		b.WriteString("| " + f.markdown() + " | " + f.Usage + " |\n")
	}
	b.WriteString(markdownValues)
	b.WriteString("\n## Keys\n\n| Key | Type | Default | Meaning |\n| --- | --- | --- | --- |\n")
	for i := range keys {
		if k := &keys[i]; k.class == active {
			b.WriteString(k.markdown())
		}
	}
	b.WriteString(markdownRoster())
	b.WriteString(markdownIdle())
	b.WriteString(markdownMoved())
	return b.String()
}

func (f Flag) markdown() string {
	names := "`--" + f.Name + "`"
	if f.Short != "" {
		names = "`-" + f.Short + "`, " + names
	}
	return names
}

func (k *key) markdown() string {
	var c Config
	remark := k.remark()
	if k.env {
		remark += " (variable only)"
	}
	return fmt.Sprintf("| `%s` | %s | %s | %s%s |\n", k.name, kindName(k.at(&c)), code(k.canonical()), k.help, remark)
}

func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}

func markdownRoster() string {
	var b strings.Builder
	b.WriteString("\n## The roster\n\nOne `[[" + rosterKey + "]]` table for each node; in variables a number takes the place of the table:\n" +
		"`GALGO_CLUSTER_NODES_0_PORTS_TCP`, `GALGO_CLUSTER_NODES_1_ADVERTISED_ADDRESSES_0_CLIENT_CIDR`.\n" +
		"All nodes must have the same names and replica ids; addresses may differ, as they do while a node moves. A client port is\n" +
		"bound at the host of `tcp.address`, `ports.tcp_replica` at `ip`. [operations.md](operations.md#a-cluster) says how to begin.\n\n| Key | Meaning |\n| --- | --- |\n")
	for _, f := range nodeFields {
		fmt.Fprintf(&b, "| `%s` | %s |\n", f.name, f.help)
	}
	for _, f := range advertisedFields {
		fmt.Fprintf(&b, "| `%s[].%s` | %s |\n", advertisedName, f.name, f.help)
	}
	return b.String()
}

func markdownIdle() string {
	var b strings.Builder
	b.WriteString("\n## Keys without effect\n\nKnown so that a configuration of the reference server loads where it means the same here. *Default only*: the part is\n" +
		"not there yet, and another value than the default is an error. *Ignored*: any well-formed value is taken, with a\nwarning, and does nothing.\n\n" +
		"| Key | Type | Default | Other values | Belongs to |\n| --- | --- | --- | --- | --- |\n")
	for i := range keys {
		k := &keys[i]
		if k.class == active {
			continue
		}
		treatment := "ignored"
		if k.class == later {
			treatment = "default only"
		}
		var c Config
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", k.name, kindName(k.at(&c)), code(k.def), treatment, k.part)
	}
	return b.String()
}

func markdownMoved() string {
	var b strings.Builder
	b.WriteString("\n## Keys that are gone\n\nSetting one of these is an error.\n\n| Key | Instead |\n| --- | --- |\n")
	for _, m := range moved {
		name := m.name
		if strings.HasSuffix(name, ".") {
			name += "*"
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", name, m.successor)
	}
	return b.String()
}
