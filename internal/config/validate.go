package config

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Validate returns every problem of c, joined, each a [*Problem] with the key,
// the value and what would be right. Load has done so already.
func (c Config) Validate() error { return join(c.problems()) }

// problems checks each value by itself, then those that must fit each other.
func (c *Config) problems() []*Problem {
	var v validation
	for i := range keys {
		k := &keys[i]
		if k.class != active {
			continue
		}
		if want := k.problem(k.at(c)); want != "" {
			v.add(k.name, k.show(c), want)
		}
	}
	v.root(c)
	v.encryption(&c.System.Encryption)
	v.sizes(c)
	v.metadata(c)
	v.listeners(c)
	v.certificates(c)
	v.cluster(&c.Cluster)
	if c.Cluster.Enabled {
		v.roster(c)
	}
	return v.problems
}

type validation struct{ problems []*Problem }

func (v *validation) add(name, value, want string) {
	v.problems = append(v.problems, &Problem{Kind: ErrInvalid, Key: name, Value: value, Want: want})
}

// encryption wants one key, and says nothing of what it is.
func (v *validation) encryption(e *Encryption) {
	const want = "want the base64 of 32 bytes, such as openssl rand -base64 32 prints"
	if !e.Enabled {
		return
	}
	switch {
	case e.Key == "" && e.KeyFile == "":
		v.add("system.encryption.key", "", want+", or system.encryption.key_file")
	case e.Key != "" && e.KeyFile != "":
		v.add("system.encryption.key_file", e.KeyFile, "want it or system.encryption.key, not both")
	case e.Key != "" && !isKey(e.Key):
		v.add("system.encryption.key", hidden, want)
	}
	for older := range strings.SplitSeq(e.OlderKeys, ",") {
		if e.OlderKeys != "" && !isKey(older) {
			v.add("system.encryption.older_keys", hidden, want+", with commas between")
			return
		}
	}
}

func isKey(text string) bool {
	b, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	return err == nil && len(b) == 32
}

// Bounds of credentials, in bytes; those of every user.
const (
	usernameMin, usernameMax = 3, 50
	passwordMin, passwordMax = 3, 100
)

func (v *validation) root(c *Config) {
	user, password := c.Root.Username, c.Root.Password
	if user == "" && password == "" {
		return
	}
	if user == "" || password == "" {
		missing := "root.username"
		if user != "" {
			missing = "root.password"
		}
		v.add(missing, "", "want both "+ownPrefix+"ROOT_USERNAME and "+ownPrefix+"ROOT_PASSWORD, or neither")
		return
	}
	if n := len(user); n < usernameMin || n > usernameMax {
		v.add("root.username", user, fmt.Sprintf("want %d to %d bytes", usernameMin, usernameMax))
	}
	if n := len(password); n < passwordMin || n > passwordMax {
		v.add("root.password", hidden, fmt.Sprintf("want %d to %d bytes", passwordMin, passwordMax))
	}
}

func (v *validation) sizes(c *Config) {
	if c.WAL.Limit < 2*c.WAL.FileSize {
		v.add("wal.limit", c.WAL.Limit.String(), "want at least two files: "+(2*c.WAL.FileSize).String())
	}
	if c.Limits.BytesPerConnection < c.MessageBus.MaxMessageSize {
		v.add("limits.bytes_per_connection", c.Limits.BytesPerConnection.String(),
			"want at least message_bus.max_message_size, "+c.MessageBus.MaxMessageSize.String())
	}
	if budget := c.System.MemoryBudget; budget < c.Limits.BytesPerConnection {
		v.add("system.memory_budget", budget.String(),
			"want at least limits.bytes_per_connection, "+c.Limits.BytesPerConnection.String())
	}
}

// slotsPerDepth is how many operations the journal must hold for each that may
// be in flight, and journalDepthMin the least depth this is reckoned with.
const (
	slotsPerDepth   = 4
	journalDepthMin = 64
)

func (v *validation) metadata(c *Config) {
	m := &c.Metadata
	if least := slotsPerDepth * max(journalDepthMin, m.PrepareQueueDepth); m.JournalSlots < least {
		v.add("metadata.journal_slots", strconv.Itoa(m.JournalSlots),
			fmt.Sprintf("want at least %d, %d times the queue depth (of at least %d)", least, slotsPerDepth, journalDepthMin))
	}
	if m.CheckpointMargin < m.PrepareQueueDepth || m.CheckpointMargin > m.JournalSlots/2 {
		v.add("metadata.checkpoint_margin", strconv.Itoa(m.CheckpointMargin),
			fmt.Sprintf("want metadata.prepare_queue_depth to half of metadata.journal_slots: %d to %d", m.PrepareQueueDepth, m.JournalSlots/2))
	}
}

// listeners refuses two listeners of one protocol on one port, and a server that
// nobody can reach. QUIC is UDP and cannot meet the others.
func (v *validation) listeners(c *Config) {
	if !c.TCP.Enabled && !c.QUIC.Enabled && !c.WebSocket.Enabled {
		v.add("tcp.enabled", "false", "want one of tcp.enabled, quic.enabled and websocket.enabled")
	}
	taken := map[string]string{}
	for _, t := range []struct {
		name string
		Transport
	}{{"tcp.address", c.TCP.Transport}, {"http.address", c.HTTP}, {"websocket.address", c.WebSocket.Transport}, {"admin.address", Transport{c.Admin.Address != "", c.Admin.Address}}} {
		if !t.Enabled {
			continue
		}
		for _, other := range []string{"tcp.address", "http.address", "websocket.address"} {
			if address, ok := taken[other]; ok && samePort(address, t.Address) {
				v.add(t.name, t.Address, "want another port than "+other+" has, "+address)
			}
		}
		taken[t.name] = t.Address
	}
	if q := &c.QUIC; q.StreamReceiveWindow > q.ReceiveWindow {
		v.add("quic.stream_receive_window", q.StreamReceiveWindow.String(), "want at most quic.receive_window, "+q.ReceiveWindow.String())
	}
}

// certificates wants the two files of each certificate together, and where none is
// made. Whether they are there is found out at start.
func (v *validation) certificates(c *Config) {
	for _, l := range []struct {
		section string
		used    bool
		Certificate
	}{
		{"tcp.tls", c.TCP.Enabled && c.TCP.TLS.Enabled, c.TCP.TLS.Certificate},
		{"websocket.tls", c.WebSocket.Enabled && c.WebSocket.TLS.Enabled, c.WebSocket.TLS.Certificate},
		{"quic.certificate", c.QUIC.Enabled && !c.QUIC.Certificate.SelfSigned, c.QUIC.Certificate},
	} {
		switch cert, key := l.section+".cert_file", l.section+".key_file"; {
		case !l.used:
		case l.CertFile == "" && (l.KeyFile != "" || !l.SelfSigned):
			v.add(cert, "", "want a PEM file beside "+key+", or "+l.section+".self_signed = true and no files")
		case l.CertFile != "" && l.KeyFile == "":
			v.add(key, "", "want the PEM file of the key beside "+cert)
		}
	}
}

// samePort reports whether two addresses cannot be bound at the same time.
func samePort(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	if errA != nil || errB != nil || portA != portB || portA == "0" {
		return false
	}
	return hostA == hostB || unspecified(a) || unspecified(b)
}

// unspecified reports whether the address binds every interface.
func unspecified(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsUnspecified()
}

func (v *validation) cluster(c *Cluster) {
	if !c.Enabled && c.ReplicaID != 0 {
		v.add("replica_id", strconv.Itoa(c.ReplicaID), "want 0 unless cluster.enabled is true")
	}
}

func checkName(text string) error {
	if text == "" || len(text) > clusterNameMax {
		return errors.New("want 1 to " + strconv.Itoa(clusterNameMax) + " bytes")
	}
	return nil
}

// roster checks the entries by themselves and against each other.
func (v *validation) roster(c *Config) {
	nodes := c.Cluster.Nodes
	if len(nodes) == 0 || len(nodes) > NodesMax {
		v.add(rosterKey, strconv.Itoa(len(nodes))+" nodes", fmt.Sprintf("want 1 to %d nodes when cluster.enabled is true", NodesMax))
		return
	}
	if _, ok := c.Cluster.Self(); !ok {
		v.add("replica_id", strconv.Itoa(c.Cluster.ReplicaID), "want the replica_id of a node of the roster")
	}
	r := rosterCheck{validation: v, taken: map[string]string{}}
	for i := range nodes {
		r.at = rosterKey + "." + strconv.Itoa(i)
		r.identity(&nodes[i], len(nodes))
		r.addresses(&nodes[i])
		r.ports(c, &nodes[i])
	}
	v.timing(&c.Cluster.Timing)
	v.links(&c.Cluster)
}

// timing wants what is repeated to be heard a few times before patience ends.
func (v *validation) timing(t *ClusterTiming) {
	const least = 4
	if t.HeartbeatTimeout < least*t.CommitBroadcast {
		v.add("cluster.heartbeat_timeout", t.HeartbeatTimeout.String(), "want at least 4 times cluster.commit_broadcast_interval, "+(least*t.CommitBroadcast).String())
	}
	if t.ViewChangeStatus < least*t.ViewChangeRetransmit {
		v.add("cluster.view_change_status_timeout", t.ViewChangeStatus.String(), "want at least 4 times cluster.view_change_retransmit_interval, "+(least*t.ViewChangeRetransmit).String())
	}
}

// secretMin is the least length of a shared secret in bytes.
const secretMin = 32

// links checks how nodes secure their connections.
func (v *validation) links(c *Cluster) {
	if n := len(c.Auth.SharedSecret); c.Auth.Enabled && n < secretMin {
		v.add("cluster.auth.shared_secret", mask(c.Auth.SharedSecret), fmt.Sprintf("want at least %d bytes, such as openssl rand -hex 32 prints", secretMin))
	}
	if n := len(c.Auth.PreviousSharedSecret); n > 0 && n < secretMin {
		v.add("cluster.auth.previous_shared_secret", hidden, fmt.Sprintf("want at least %d bytes", secretMin))
	}
	switch t := &c.TLS; {
	case !t.Enabled:
	case !c.Auth.Enabled:
		v.add("cluster.tls.enabled", "true", "want cluster.auth.enabled, which proves who the other end is")
	case !t.SelfSigned && t.CertFile == "":
		v.add("cluster.tls.cert_file", "", "want a certificate, or cluster.tls.self_signed")
	case !t.SelfSigned && t.KeyFile == "":
		v.add("cluster.tls.key_file", "", "want the key of cluster.tls.cert_file")
	}
}

func mask(secret string) string {
	if secret == "" {
		return ""
	}
	return hidden
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

type rosterCheck struct {
	*validation
	at    string            // the entry that is checked
	taken map[string]string // what must be unique, and who has it
}

// unique refuses a value that an earlier entry has.
func (r *rosterCheck) unique(field, what, value string) {
	if owner, ok := r.taken[what+" "+value]; ok {
		r.add(r.at+"."+field, value, "want another "+what+" than "+owner+" has")
		return
	}
	r.taken[what+" "+value] = r.at
}

func (r *rosterCheck) identity(n *Node, count int) {
	if err := checkName(n.Name); err != nil {
		r.add(r.at+".name", n.Name, err.Error())
	} else {
		r.unique("name", "name", n.Name)
	}
	if n.ReplicaID >= count {
		r.add(r.at+".replica_id", strconv.Itoa(n.ReplicaID), fmt.Sprintf("want 0 to %d: replicas count from 0", count-1))
	} else {
		r.unique("replica_id", "replica_id", strconv.Itoa(n.ReplicaID))
	}
}

func (r *rosterCheck) addresses(n *Node) {
	ip, err := netip.ParseAddr(n.IP)
	switch {
	case err != nil:
		r.add(r.at+".ip", n.IP, "want an IP address; a name goes into advertised_address")
	case ip.IsUnspecified() && n.AdvertisedAddress == "":
		r.add(r.at+".ip", n.IP, "want an address that clients can dial, or an advertised_address beside it")
	}
	if n.AdvertisedAddress != "" && !dialable(n.AdvertisedAddress) {
		r.add(r.at+".advertised_address", n.AdvertisedAddress, "want a host that clients can dial, without a port")
	}
	if len(n.AdvertisedAddresses) > AdvertisedMax {
		r.add(r.at+"."+advertisedName, strconv.Itoa(len(n.AdvertisedAddresses)), fmt.Sprintf("want at most %d", AdvertisedMax))
	}
	for j, a := range n.AdvertisedAddresses {
		at := fmt.Sprintf("%s.%s.%d", r.at, advertisedName, j)
		if _, err := netip.ParsePrefix(a.ClientCIDR); err != nil {
			r.add(at+".client_cidr", a.ClientCIDR, "want a network, such as 10.0.0.0/8")
		}
		if !dialable(a.Address) {
			r.add(at+".address", a.Address, "want a host that clients can dial, without a port")
		}
	}
}

func dialable(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		return !ip.IsUnspecified()
	}
	return validHost(host)
}

const portMax = 65535

// ports wants a port for each listener, and none twice on one address.
func (r *rosterCheck) ports(c *Config, n *Node) {
	for _, p := range []struct {
		field    string
		port     int
		needed   bool
		protocol string
	}{
		{"ports.tcp", n.Ports.TCP, c.TCP.Enabled, "tcp"},
		{"ports.tcp_replica", n.Ports.TCPReplica, true, "tcp"},
		{"ports.http", n.Ports.HTTP, c.HTTP.Enabled, "tcp"},
		{"ports.websocket", n.Ports.WebSocket, c.WebSocket.Enabled, "tcp"},
		{"ports.quic", n.Ports.QUIC, c.QUIC.Enabled, "udp"},
	} {
		switch {
		case p.port > portMax || p.port == 0 && p.needed:
			r.add(r.at+"."+p.field, strconv.Itoa(p.port), "want a port of 1 to 65535")
		case p.port != 0:
			r.unique(p.field, p.protocol+" port", net.JoinHostPort(n.IP, strconv.Itoa(p.port)))
		}
	}
}
