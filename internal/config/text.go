package config

import (
	"fmt"
	"strings"
)

// Row is a line of the table that `galgo config` prints.
type Row struct {
	Key    string
	Value  string // "******" for a secret that is set
	Source string // default, file:line, variable or flag
}

// Rows returns every key that is in effect, in the order of the sample file.
func Rows(c Config, sources Sources) []Row {
	var rows []Row
	for i := range keys {
		k := &keys[i]
		if k.class == active {
			rows = append(rows, Row{k.name, k.show(&c), sources.Of(k.name).Where})
		}
	}
	for i := range c.Cluster.Nodes {
		rows = append(rows, nodeRows(i, &c.Cluster.Nodes[i], sources)...)
	}
	return rows
}

func nodeRows(i int, n *Node, sources Sources) []Row {
	var rows []Row
	add := func(name string, p any) {
		name = fmt.Sprintf("%s.%d.%s", rosterKey, i, name)
		rows = append(rows, Row{name, valueText(p), sources.Of(name).Where})
	}
	for _, f := range nodeFields {
		add(f.name, f.at(n))
	}
	for j := range n.AdvertisedAddresses {
		for _, f := range advertisedFields {
			add(fmt.Sprintf("%s.%d.%s", advertisedName, j, f.name), f.at(&n.AdvertisedAddresses[j]))
		}
	}
	return rows
}

// Sample returns a file with every key that is in effect, explained, and
// commented out at its default.
func Sample() string {
	var b strings.Builder
	b.WriteString("# Configuration of galgo. Every key is at its default here; remove the # of those to change.\n")
	b.WriteString("# Variables win over this file: " + ownPrefix + "TCP_ADDRESS for tcp.address. Flags win over both.\n")
	w := tomlWriter{b: &b}
	c := Default()
	for i := range keys {
		k := &keys[i]
		if k.class != active || k.env {
			continue
		}
		w.section(section(k.name))
		b.WriteString("\n# " + k.help + k.remark() + "\n")
		b.WriteString("#" + leaf(k.name) + " = " + valueTOML(k.at(&c)) + "\n")
	}
	b.WriteString(sampleRoster())
	return b.String()
}

// remark tells the values that are allowed, in brackets.
func (k *key) remark() string {
	if len(k.oneOf) > 0 {
		return " (" + orList(k.oneOf) + ")"
	}
	if bounds := k.bounds(); bounds != "" {
		return " (" + strings.TrimPrefix(bounds, "want ") + ")"
	}
	return ""
}

func sampleRoster() string {
	var b strings.Builder
	b.WriteString("\n# One table for each node of the cluster.\n#[[" + rosterKey + "]]\n")
	n := Node{Name: "node-0", IP: "127.0.0.1", Ports: Ports{8090, 8080, 3000, 8092, 9090}}
	for _, f := range nodeFields {
		b.WriteString("#" + f.name + " = " + valueTOML(f.at(&n)) + " # " + f.help + "\n")
	}
	return b.String()
}

// CurrentTOML returns c as a file that loads to the same configuration, with the
// addresses that are really bound and without secrets. Keys that do nothing yet
// are in it at their defaults, as the reference server's file has them.
func CurrentTOML(c Config, bound Bound) string {
	c.TCP.Address = orElse(bound.TCP, c.TCP.Address)
	c.HTTP.Address = orElse(bound.HTTP, c.HTTP.Address)
	c.QUIC.Address = orElse(bound.QUIC, c.QUIC.Address)
	c.WebSocket.Address = orElse(bound.WebSocket, c.WebSocket.Address)
	var b strings.Builder
	w := tomlWriter{b: &b}
	for _, name := range sectionOrder() {
		for i := range keys {
			k := &keys[i]
			if section(k.name) != name || k.secret || k.env {
				continue
			}
			w.section(name)
			b.WriteString(leaf(k.name) + " = " + k.currentTOML(&c) + "\n")
		}
	}
	for i := range c.Cluster.Nodes {
		writeNode(&b, &c.Cluster.Nodes[i])
	}
	return b.String()
}

// currentTOML returns the value of k for a file. Keys without a field have
// their default, as the reference writes it.
func (k *key) currentTOML(c *Config) string {
	p := k.at(c)
	if k.class == active {
		return valueTOML(p)
	}
	switch p.(type) {
	case *ByteSize, *string, *Expiry:
		return quoteTOML(k.def)
	}
	if err := setText(p, k.def); err != nil {
		panic("config: default of " + k.name + ": " + err.Error())
	}
	return valueTOML(p)
}

// sectionOrder returns the sections as they first appear in the table.
func sectionOrder() []string {
	var order []string
	seen := map[string]bool{}
	for i := range keys {
		if name := section(keys[i].name); !seen[name] {
			seen[name] = true
			order = append(order, name)
		}
	}
	return order
}

// tomlWriter writes the heads of tables where they begin.
type tomlWriter struct {
	b       *strings.Builder
	current string
}

func (w *tomlWriter) section(name string) {
	if name == w.current {
		return
	}
	w.current = name
	if w.b.Len() > 0 {
		w.b.WriteByte('\n')
	}
	w.b.WriteString("[" + name + "]\n")
}

func writeNode(b *strings.Builder, n *Node) {
	b.WriteString("\n[[" + rosterKey + "]]\n")
	for _, f := range nodeFields {
		b.WriteString(f.name + " = " + valueTOML(f.at(n)) + "\n")
	}
	for j := range n.AdvertisedAddresses {
		b.WriteString("\n[[" + rosterKey + "." + advertisedName + "]]\n")
		for _, f := range advertisedFields {
			b.WriteString(f.name + " = " + valueTOML(f.at(&n.AdvertisedAddresses[j])) + "\n")
		}
	}
}
