package test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// network is machines with network namespaces of their own, and a switch between them in
// one where the clients are. The namespaces have no names: they go with the process.
type network struct {
	clients space
	hosts   []*host
}

// host is a machine at the switch.
type host struct {
	space
	net     *network
	ip      string
	port    string // its end at the switch
	noNetem bool   // the kernel has none
}

// space is a network namespace, open.
type space struct{ f *os.File }

// nowhere is an address of the link that no machine has: what goes there is lost.
const nowhere = "02:00:00:00:00:99"

// newNetwork makes machines, or says why it cannot be done here.
func newNetwork(size int) (n *network, err error) {
	n = &network{}
	if n.clients, err = newSpace(); err != nil {
		return n, err
	}
	err = n.clients.ip("link add br0 type bridge forward_delay 0", "link set br0 up", "addr add 10.77.0.100/24 dev br0", "link set lo up")
	for i := range size {
		if err != nil {
			return n, err
		}
		err = n.plug(i)
	}
	return n, err
}

// plug makes a machine and connects it to the switch.
func (n *network) plug(i int) (err error) {
	h := &host{net: n, ip: fmt.Sprintf("10.77.0.%d", i+1), port: fmt.Sprint("port", i)}
	if h.space, err = newSpace(); err != nil {
		return err
	}
	n.hosts = append(n.hosts, h)
	err = n.clients.ip(fmt.Sprintf("link add %s type veth peer name eth0 netns %s", h.port, h.path()), "link set "+h.port+" master br0 up")
	if err != nil {
		return err
	}
	return h.space.ip("link set lo up", "addr add "+h.ip+"/24 dev eth0", "link set eth0 up")
}

func (n *network) close() {
	for _, h := range n.hosts {
		h.f.Close()
	}
	if n.clients.f != nil {
		n.clients.f.Close()
	}
}

// newSpace makes a network namespace that nobody is in.
func newSpace() (s space, err error) {
	anew := func() error { return unix.Unshare(unix.CLONE_NEWNET) }
	err = away(anew, func() (err error) {
		s.f, err = os.Open(threadSpace)
		return err
	})
	return s, err
}

// inside runs do in the namespace. What it starts or opens stays there.
func (s space) inside(do func() error) error {
	return away(func() error { return unix.Setns(int(s.f.Fd()), unix.CLONE_NEWNET) }, do)
}

// threadSpace is the namespace of the thread that opens it.
const threadSpace = "/proc/thread-self/ns/net"

// away runs do on a thread that has gone to another namespace, and takes the thread back:
// one that ended instead might take along the processes that were started from it.
func away(leave, do func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	home, err := os.Open(threadSpace)
	if err != nil {
		return err
	}
	defer home.Close()
	if err := leave(); err != nil {
		return fmt.Errorf("enter another network namespace: %w", err)
	}
	defer func() {
		if err := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); err != nil {
			panic(err) // others would find themselves elsewhere
		}
	}()
	return do()
}

func (s space) path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), s.f.Fd()) }

// ip has the program ip do something in the namespace.
func (s space) ip(commands ...string) error { return s.tool("ip", commands...) }

func (s space) tool(name string, commands ...string) error {
	for _, c := range commands {
		cmd := exec.Command(name, strings.Fields(c)...)
		var out strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := s.inside(cmd.Start); err != nil {
			return fmt.Errorf("%s %s: %w", name, c, err)
		}
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("%s %s: %w: %s", name, c, err, strings.TrimSpace(out.String()))
		}
	}
	return nil
}

// dial connects as a client's machine does.
func (n *network) dial(ctx context.Context, address string) (conn net.Conn, err error) {
	err = n.clients.inside(func() error {
		var d net.Dialer
		conn, err = d.DialContext(ctx, "tcp", address)
		return err
	})
	return conn, err
}

// deaf has what this machine sends to another get lost.
func (h *host) deaf(to *host) error {
	return h.space.ip("neigh replace " + to.ip + " lladdr " + nowhere + " dev eth0 nud permanent")
}

// reach ends that.
func (h *host) reach(to *host) error {
	return h.space.ip("neigh flush to " + to.ip + " dev eth0 nud permanent")
}

// unplug takes the machine from the switch, and plug puts it back.
func (h *host) unplug() error { return h.net.clients.ip("link set " + h.port + " down") }
func (h *host) replug() error { return h.net.clients.ip("link set " + h.port + " up") }

// slow lets what the machine sends wait, and loses some of it. A kernel that cannot do
// that lets little through.
func (h *host) slow(delay time.Duration) error {
	if !h.noNetem {
		err := h.tool("tc", fmt.Sprintf("qdisc replace dev eth0 root netem delay %dms %dms loss 2%%", delay.Milliseconds(), delay.Milliseconds()/2))
		if err == nil {
			return nil
		}
		h.noNetem = true
	}
	return h.tool("tc", fmt.Sprintf("qdisc replace dev eth0 root tbf rate %dkbit burst 16kb latency %dms", max(400, 100_000/delay.Milliseconds()), delay.Milliseconds()))
}

func (h *host) quick() error { return h.tool("tc", "qdisc del dev eth0 root") }

// A link that is cut one way is open the other way, and all is well again when it is
// mended; what does not get through is lost and not refused.
func TestNetworkOfNamespaces(t *testing.T) {
	n := mustNetwork(t, 2)
	if n == nil {
		t.Skip("no network namespaces here")
	}
	a, b := n.hosts[0], n.hosts[1]
	var heard net.PacketConn
	listen := func(h *host) net.PacketConn {
		t.Helper()
		must := h.inside(func() (err error) {
			heard, err = net.ListenPacket("udp", h.ip+":7")
			return err
		})
		if must != nil {
			t.Fatal(must)
		}
		t.Cleanup(func() { heard.Close() })
		return heard
	}
	at, bt := listen(a), listen(b)
	to := func(h *host) net.Addr { return &net.UDPAddr{IP: net.ParseIP(h.ip), Port: 7} }
	arrives := func(from, at net.PacketConn, h *host, word string) {
		t.Helper()
		until(t, word+" arrives", func() bool {
			if _, err := from.WriteTo([]byte(word), to(h)); err != nil {
				t.Fatal(err)
			}
			buf := make([]byte, 100)
			for {
				at.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
				n, _, err := at.ReadFrom(buf)
				if err != nil {
					return false
				}
				if string(buf[:n]) == word {
					return true
				}
				if string(buf[:n]) == "lost" {
					t.Fatal("a cut link lets something through")
				}
			}
		})
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	arrives(at, bt, b, "one")
	must(a.deaf(b))
	if _, err := at.WriteTo([]byte("lost"), to(b)); err != nil {
		t.Fatal(err)
	}
	arrives(bt, at, a, "two")
	must(a.reach(b))
	arrives(at, bt, b, "three")
	must(a.slow(20 * time.Millisecond))
	arrives(at, bt, b, "four")
	must(a.quick())
	must(b.unplug())
	must(b.replug())
	arrives(bt, at, a, "five")
}

// mustNetwork makes a network; nil where that cannot be done. A machine that is to have
// one says so in the environment, and the test fails there.
func mustNetwork(t *testing.T, size int) *network {
	t.Helper()
	n, err := newNetwork(size)
	t.Cleanup(n.close)
	if err == nil {
		return n
	}
	if os.Getenv("TEST_NETWORK") == "required" {
		t.Fatal(err)
	}
	fmt.Fprintf(os.Stderr, "%s: links are not cut: %v\n", t.Name(), err)
	t.Logf("links are not cut: %v", err)
	return nil
}
