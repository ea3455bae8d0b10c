package config

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

// rosterOf returns a valid configuration of n nodes on one host.
func rosterOf(n int) Config {
	c := Default()
	c.Cluster.Enabled = true
	for i := range n {
		c.Cluster.Nodes = append(c.Cluster.Nodes, Node{
			Name: fmt.Sprintf("node-%d", i), IP: "127.0.0.1", ReplicaID: i,
			Ports: Ports{TCP: 8090 + i, QUIC: 8080 + i, HTTP: 3000 + i, WebSocket: 8190 + i, TCPReplica: 9090 + i},
		})
	}
	return c
}

func TestRosterOfOneLoads(t *testing.T) {
	in := LoadInput{
		File:  writeFile(t, "[cluster]\nenabled = true\n[[cluster.nodes]]\nname = 'a'\nip = '10.0.0.1'\nreplica_id = 0\n[cluster.nodes.ports]\ntcp = 1\nquic = 2\nhttp = 3\nwebsocket = 4\ntcp_replica = 5\n"),
		Env:   []string{"IGGY_CLUSTER_NODES_0_PORTS_TCP_REPLICA=6", "GALGO_CLUSTER_NODES_0_ADVERTISED_ADDRESSES_0_CLIENT_CIDR=10.0.0.0/8", "GALGO_CLUSTER_NODES_0_ADVERTISED_ADDRESSES_0_ADDRESS=inside"},
		Set:   []string{"cluster.nodes.0.ports.http=7"},
		Flags: map[string]string{"replica-id": "0"},
	}
	c, s := mustLoad(t, in)
	want := Node{Name: "a", IP: "10.0.0.1", Ports: Ports{TCP: 1, QUIC: 2, HTTP: 7, WebSocket: 4, TCPReplica: 6},
		AdvertisedAddresses: []AdvertisedAddress{{"10.0.0.0/8", "inside"}}}
	if got := c.Cluster.Nodes; len(got) != 1 || fmt.Sprint(got[0]) != fmt.Sprint(want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for name, where := range map[string]string{
		"cluster.nodes.0.name":              in.File + ":4",
		"cluster.nodes.0.ports.tcp":         in.File + ":8",
		"cluster.nodes.0.ports.tcp_replica": "IGGY_CLUSTER_NODES_0_PORTS_TCP_REPLICA",
		"cluster.nodes.0.ports.http":        "--set",
	} {
		if got := s.Of(name).Where; got != where {
			t.Errorf("source of %s: got %q, want %q", name, got, where)
		}
	}
}

func TestReplicaMustBeSaid(t *testing.T) {
	env := []string{"GALGO_CLUSTER_ENABLED=true"}
	for _, f := range []string{"NAME=a", "IP=127.0.0.1", "PORTS_TCP=1", "PORTS_QUIC=2", "PORTS_HTTP=3", "PORTS_WEBSOCKET=4", "PORTS_TCP_REPLICA=5"} {
		env = append(env, "GALGO_CLUSTER_NODES_0_"+f)
	}
	wantText(t, onlyProblem(t, LoadInput{Env: env}), "replica_id", "--replica-id 0")
	mustLoad(t, LoadInput{Env: append(env, "GALGO_REPLICA_ID=0")})
}

func TestLargerRoster(t *testing.T) {
	file := writeFile(t, CurrentTOML(rosterOf(3), Bound{}))
	c, _ := mustLoad(t, LoadInput{File: file, Flags: map[string]string{"replace": "true"}})
	if len(c.Cluster.Nodes) != 3 || !c.Replace {
		t.Errorf("got %+v", c.Cluster)
	}
	wantText(t, onlyProblem(t, LoadInput{Flags: map[string]string{"replace": "true"}}), "--replace", "no other nodes")
}

func TestPeerAddresses(t *testing.T) {
	n := Node{IP: "10.0.0.1", AdvertisedAddress: "a.example.com", Ports: Ports{TCPReplica: 9090}}
	if n.PeerBind() != "10.0.0.1:9090" || n.PeerAddress() != "10.0.0.1:9090" {
		t.Errorf("bound %s, dialed %s", n.PeerBind(), n.PeerAddress())
	}
	n.IP = "::"
	if n.PeerBind() != "[::]:9090" || n.PeerAddress() != "a.example.com:9090" {
		t.Errorf("bound %s, dialed %s", n.PeerBind(), n.PeerAddress())
	}
}

func TestLinksBetweenNodes(t *testing.T) {
	const secret = "0123456789abcdef0123456789abcdef"
	for _, c := range []struct {
		name   string
		change func(*Cluster)
		want   []string
	}{
		{"no secret", func(c *Cluster) { c.Auth.Enabled = true }, []string{"cluster.auth.shared_secret", "32 bytes"}},
		{"a short one", func(c *Cluster) { c.Auth = ClusterAuth{true, secret[1:], ""} }, []string{"cluster.auth.shared_secret", "32 bytes"}},
		{"a short one before", func(c *Cluster) { c.Auth = ClusterAuth{true, secret, secret[1:]} }, []string{"cluster.auth.previous_shared_secret"}},
		{"TLS without a secret", func(c *Cluster) { c.TLS = ClusterTLS{Enabled: true, SelfSigned: true} }, []string{"cluster.tls.enabled", "cluster.auth.enabled"}},
		{"TLS without a certificate", func(c *Cluster) { c.Auth = ClusterAuth{true, secret, ""}; c.TLS.Enabled = true }, []string{"cluster.tls.cert_file", "self_signed"}},
		{"TLS without a key", func(c *Cluster) {
			c.Auth = ClusterAuth{true, secret, ""}
			c.TLS = ClusterTLS{Enabled: true, CertFile: "a"}
		}, []string{"cluster.tls.key_file"}},
		{"heartbeats too rare", func(c *Cluster) { c.Timing.CommitBroadcast = c.Timing.HeartbeatTimeout / 3 }, []string{"cluster.heartbeat_timeout", "commit_broadcast_interval"}},
		{"elections too short", func(c *Cluster) { c.Timing.ViewChangeRetransmit = c.Timing.ViewChangeStatus / 3 }, []string{"cluster.view_change_status_timeout"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := rosterOf(3)
			c.change(&cfg.Cluster)
			err := cfg.Validate()
			wantText(t, err, c.want...)
			if err != nil && strings.Contains(err.Error(), secret[1:]) {
				t.Errorf("the secret shows in %v", err)
			}
		})
	}
}

func TestRosterValidation(t *testing.T) {
	if err := rosterOf(3).Validate(); err != nil {
		t.Fatalf("a roster of three: %v", err)
	}
	for _, tt := range []struct {
		name   string
		change func(*Config)
		want   []string
	}{
		{"no nodes", func(c *Config) { c.Cluster.Nodes = nil }, []string{"cluster.nodes", "1 to 32"}},
		{"too many", func(c *Config) { *c = rosterOf(33) }, []string{"cluster.nodes", "1 to 32"}},
		{"not in it", func(c *Config) { c.Cluster.ReplicaID = 3 }, []string{"replica_id"}},
		{"no name", func(c *Config) { c.Cluster.Nodes[1].Name = "" }, []string{"cluster.nodes.1.name"}},
		{"name twice", func(c *Config) { c.Cluster.Nodes[1].Name = "node-0" }, []string{"cluster.nodes.1.name", "another name than cluster.nodes.0"}},
		{"id twice", func(c *Config) { c.Cluster.Nodes[2].ReplicaID = 1 }, []string{"cluster.nodes.2.replica_id", "cluster.nodes.1"}},
		{"id too large", func(c *Config) { c.Cluster.Nodes[2].ReplicaID = 3 }, []string{"cluster.nodes.2.replica_id", "0 to 2"}},
		{"ip a name", func(c *Config) { c.Cluster.Nodes[0].IP = "localhost" }, []string{"cluster.nodes.0.ip", "advertised_address"}},
		{"wildcard without another", func(c *Config) { c.Cluster.Nodes[0].IP = "0.0.0.0" }, []string{"cluster.nodes.0.ip", "advertised_address"}},
		{"advertised wildcard", func(c *Config) { c.Cluster.Nodes[0].AdvertisedAddress = "::" }, []string{"cluster.nodes.0.advertised_address"}},
		{"bad network", func(c *Config) {
			c.Cluster.Nodes[0].AdvertisedAddresses = []AdvertisedAddress{{"10.0.0.0", "x"}}
		}, []string{"cluster.nodes.0.advertised_addresses.0.client_cidr", "10.0.0.0/8"}},
		{"no address", func(c *Config) {
			c.Cluster.Nodes[0].AdvertisedAddresses = []AdvertisedAddress{{"10.0.0.0/8", ""}}
		}, []string{"cluster.nodes.0.advertised_addresses.0.address"}},
		{"too many networks", func(c *Config) {
			for range AdvertisedMax + 1 {
				c.Cluster.Nodes[0].AdvertisedAddresses = append(c.Cluster.Nodes[0].AdvertisedAddresses, AdvertisedAddress{"10.0.0.0/8", "x"})
			}
		}, []string{"cluster.nodes.0.advertised_addresses", "at most 16"}},
		{"no port", func(c *Config) { c.Cluster.Nodes[1].Ports.TCPReplica = 0 }, []string{"cluster.nodes.1.ports.tcp_replica"}},
		{"no port of an enabled transport", func(c *Config) { c.Cluster.Nodes[1].Ports.QUIC = 0 }, []string{"cluster.nodes.1.ports.quic"}},
		{"port too large", func(c *Config) { c.Cluster.Nodes[1].Ports.TCP = 65536 }, []string{"cluster.nodes.1.ports.tcp", "65535"}},
		{"two nodes on one port", func(c *Config) { c.Cluster.Nodes[1].Ports.TCP = 8090 }, []string{"cluster.nodes.1.ports.tcp", "127.0.0.1:8090", "cluster.nodes.0"}},
		{"one node, one port twice", func(c *Config) { c.Cluster.Nodes[1].Ports.TCPReplica = 8091 }, []string{"cluster.nodes.1.ports.tcp_replica", "cluster.nodes.1 has"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := rosterOf(3)
			tt.change(&c)
			problems := problemsOf(t, c.Validate())
			if len(problems) != 1 {
				t.Fatalf("got %d problems, want 1: %v", len(problems), c.Validate())
			}
			wantText(t, problems[0], tt.want...)
		})
	}
}

func TestPortOfDisabledTransportMayBeMissing(t *testing.T) {
	c := rosterOf(3)
	c.QUIC.Enabled, c.Cluster.Nodes[1].Ports.QUIC = false, 0
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}

// TestUDPAndTCPShareANumber: QUIC may have the port of another protocol.
func TestUDPAndTCPShareANumber(t *testing.T) {
	c := rosterOf(1)
	c.Cluster.Nodes[0].Ports.QUIC = c.Cluster.Nodes[0].Ports.TCP
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}

func TestHostFor(t *testing.T) {
	n := Node{IP: "192.0.2.1", AdvertisedAddresses: []AdvertisedAddress{
		{"10.0.0.0/8", "ten"}, {"10.1.0.0/16", "ten-one"}, {"2001:db8::/32", "six"},
	}}
	for client, want := range map[string]string{
		"10.2.0.1": "ten", "10.1.0.1": "ten-one", "::ffff:10.1.0.1": "ten-one", "2001:db8::1": "six", "198.51.100.1": "192.0.2.1",
	} {
		if got := n.HostFor(netip.MustParseAddr(client)); got != want {
			t.Errorf("client %s is told %q, want %q", client, got, want)
		}
	}
	if got := n.HostFor(netip.Addr{}); got != "192.0.2.1" {
		t.Errorf("a client of unknown address is told %q, want the ip", got)
	}
	n.AdvertisedAddress = "public"
	if got := n.HostFor(netip.MustParseAddr("198.51.100.1")); got != "public" {
		t.Errorf("got %q, want the advertised address", got)
	}
}

// TestRosterAlone: what is bound and what is told, for a node without a roster.
func TestRosterAlone(t *testing.T) {
	for _, tt := range []struct {
		name, address, advertised, bound string
		want                             string
	}{
		{"default", "127.0.0.1:8090", "", "", "127.0.0.1 8090"},
		{"free port", "127.0.0.1:0", "", "127.0.0.1:41234", "127.0.0.1 41234"},
		{"every interface", "0.0.0.0:8090", "", "[::]:8090", "127.0.0.1 8090"},
		{"advertised host", "0.0.0.0:8090", "broker.example.com", "[::]:8090", "broker.example.com 8090"},
		{"advertised host and port", "0.0.0.0:8090", "broker.example.com:9000", "[::]:8090", "broker.example.com 9000"},
		{"advertised IPv6 and port", "[::]:8090", "[2001:db8::1]:9000", "[::]:8090", "2001:db8::1 9000"},
		{"advertised IPv6", "[::]:8090", "2001:db8::1", "[::]:8090", "2001:db8::1 8090"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, _ := mustLoad(t, LoadInput{Set: []string{"tcp.address=" + tt.address, "tcp.advertised_address=" + tt.advertised, "quic.enabled=false"}})
			members := c.Roster(Bound{TCP: tt.bound}, netip.Addr{})
			if len(members) != 1 {
				t.Fatalf("got %d members, want 1", len(members))
			}
			m := members[0]
			if got := fmt.Sprint(m.Host, " ", m.Ports.TCP); got != tt.want {
				t.Errorf("clients are told %s, want %s", got, tt.want)
			}
			if m.Name != "iggy-node" || c.ClusterName() != "single-node" || m.Ports.HTTP != 3000 || m.Ports.QUIC != 0 || m.Ports.WebSocket != 8092 {
				t.Errorf("got %+v of cluster %s", m, c.ClusterName())
			}
			if c.Listen().TCP != tt.address {
				t.Errorf("binds %s, want %s", c.Listen().TCP, tt.address)
			}
		})
	}
}

func TestWildcardWithoutAdvertisedAddressWarns(t *testing.T) {
	_, s := mustLoad(t, LoadInput{Set: []string{"tcp.address=0.0.0.0:8090"}})
	if !hasWarning(s, "tcp.advertised_address") {
		t.Errorf("got warnings %q", s.Warnings)
	}
}

func TestRosterInCluster(t *testing.T) {
	c := rosterOf(3)
	c.Cluster.ReplicaID, c.TCP.Address = 1, "0.0.0.0:7"
	c.Cluster.Nodes[2].AdvertisedAddress = "third"
	if got := c.Listen().TCP; got != "0.0.0.0:8091" {
		t.Errorf("binds %s, want the host of tcp.address and the port of the entry", got)
	}
	var told []string
	for _, m := range c.Roster(Bound{}, netip.Addr{}) {
		told = append(told, fmt.Sprintf("%s %s:%d %d", m.Name, m.Host, m.Ports.TCP, m.Ports.TCPReplica))
	}
	if got, want := strings.Join(told, ", "), "node-0 127.0.0.1:8090 0, node-1 127.0.0.1:8091 0, node-2 third:8092 0"; got != want {
		t.Errorf("clients are told %s, want %s", got, want)
	}
}
