package node

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"galgo"
	"galgo/internal/config"
	"galgo/internal/disk"
	"galgo/internal/disk/memdisk"
	"galgo/internal/edge"
	"galgo/internal/freeport"
	"galgo/internal/metadata"
	"galgo/internal/wire"
)

// runConfig is that of a whole node, on any free port.
func runConfig() config.Config {
	c := config.Default()
	c.TakeFreePorts()
	c.WAL.FileSize = 64 << 10
	return c
}

// A node that waits for room on its disk before it can serve is stopped like any
// other.
func TestStopWhileTheStartWaitsForRoom(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	// Of the metadata only: a start makes the file of a log that holds nothing anew.
	full := memdisk.Fault{
		Class: memdisk.NoSpace, Ops: memdisk.OpCreate, Times: memdisk.Forever,
		Match: func(name string) bool { return strings.HasPrefix(name, "metadata/") },
	}
	ctx, cancel := context.WithCancel(t.Context())
	filling := func(n *Node) {
		d.Inject(full)
		body, err := metadata.Configure{Settings: metadata.Settings{ClientsMax: 64}}.Encode()
		for err == nil { // until the log finds no room for its next file
			err = n.internal(ctx, metadata.OperationConfigure, body)
		}
		cancel()
	}
	log := slog.New(onMessage{slog.DiscardHandler, func(msg string) {
		if strings.Contains(msg, "next file") {
			cancel() // the operation that found no room is not answered
		}
	}})
	if err := Run(ctx, Options{Config: runConfig(), Log: log, Disk: d, Ready: filling}); err != nil {
		t.Fatal(err)
	}
	d = d.Kill()
	d.Inject(full)
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	ready := func(*Node) { t.Error("the node serves, although it could not write its settings") }
	if err := Run(ctx, Options{Config: runConfig(), Log: log, Disk: d, Ready: ready}); err != nil {
		t.Errorf("the stop ends with %v", err)
	}
}

// A server whose disk has no room for a file that says how it is configured serves
// all the same.
func TestStartWithoutRoomForTheCurrentConfiguration(t *testing.T) {
	c := runConfig()
	c.System.Path = t.TempDir()
	if err := os.MkdirAll(filepath.Join(c.CurrentPath()+".partial", "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.CurrentPath(), []byte("of another life"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := false
	err := Run(ctx, Options{Config: c, Log: slog.New(slog.DiscardHandler), Ready: func(*Node) { served = true; cancel() }})
	if err != nil || !served {
		t.Errorf("served %v, %v", served, err)
	}
	if _, err := os.Stat(c.CurrentPath()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the configuration of another life is still there: %v", err)
	}
}

// onMessage tells of every message that is logged.
type onMessage struct {
	slog.Handler
	tell func(string)
}

func (h onMessage) Enabled(context.Context, slog.Level) bool { return true }

func (h onMessage) Handle(_ context.Context, r slog.Record) error {
	h.tell(r.Message)
	return nil
}

// --fresh removes what is there, but nothing from under a server that runs on it.
func TestFresh(t *testing.T) {
	c := runConfig()
	c.Fresh = true
	c.System.Path = t.TempDir()
	kept := filepath.Join(c.System.Path, "FORMAT")
	if err := os.WriteFile(kept, []byte("of another life"), 0o600); err != nil {
		t.Fatal(err)
	}
	other, err := disk.OpenOS(c.System.Path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openDirectory(c); !errors.Is(err, disk.ErrLocked) {
		t.Errorf("got %v, want that the directory is in use", err)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Errorf("removed from under the other: %v", err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	d, err := openDirectory(c)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if entries, err := os.ReadDir(c.System.Path); err != nil || len(entries) != 1 || entries[0].Name() != disk.LockName {
		t.Errorf("left in the directory: %v, %v", entries, err)
	}
}

// Clients never get all files that the process may open.
func TestShareFiles(t *testing.T) {
	for _, c := range []struct {
		allowed, connections int
		want                 fileShares
	}{
		{1 << 20, 8192, fileShares{8192, filesOpen, 1 << 17}},
		{16384, 8192, fileShares{8192, filesOpen, 2048}},
		{4096, 8192, fileShares{2048, filesOpen, 512}},
		{1024, 8192, fileShares{512, 128, 128}},
		{1024, 10, fileShares{10, 128, 128}},
		{1, 8192, fileShares{1, 1, 1}},
	} {
		if got := shareFiles(c.allowed, c.connections); got != c.want {
			t.Errorf("%d files allowed, %d connections configured: %+v, want %+v", c.allowed, c.connections, got, c.want)
		}
	}
	if filesAllowed() < 1 {
		t.Errorf("%d files allowed", filesAllowed())
	}
}

// Nobody can connect before the root user is in the log: whoever came earlier would
// be refused, and would believe it.
func TestNobodyConnectsBeforeTheRootUserIsThere(t *testing.T) {
	ports, err := freeport.Take(1)
	if err != nil {
		t.Fatal(err)
	}
	address := freeport.Loopback(ports[0])
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ready, early := false, 0
	var d disk.Disk = memdisk.New(memdisk.Options{OnCall: func(c memdisk.Call) {
		if ready || c.Op != memdisk.OpSync || !strings.HasPrefix(c.Name, "metadata/wal/") {
			return
		}
		if conn, err := net.Dial("tcp", address); err == nil {
			conn.Close()
			early++
		}
	}})
	c := config.Default()
	c.TakeFreePorts()
	c.TCP.Address = address
	c.WAL.FileSize = 64 << 10
	err = Run(ctx, Options{Config: c, Log: slog.New(slog.DiscardHandler), Disk: d, Version: "1.0.0", Ready: func(n *Node) {
		ready = true
		if !n.engine.View().Bootstrapped() {
			t.Error("ready without a root user")
		}
		cancel()
	}})
	if err != nil || early > 0 || !ready {
		t.Errorf("run: %v; ready %v; %d connections before the log was synced", err, ready, early)
	}
}

// Expired tokens are removed by an operation of the log, without anybody asking; others
// stay.
func TestExpiredTokensAreSwept(t *testing.T) {
	c := runConfig()
	c.Tokens.Cleaner.Interval = time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	left := func(n *Node) []string {
		var names []string
		root, _ := n.engine.View().User(galgo.NumericID(metadata.RootUser))
		for token := range n.engine.View().Tokens(root) {
			names = append(names, token.Name)
		}
		return names
	}
	err := Run(ctx, Options{Config: c, Log: slog.New(slog.DiscardHandler), Disk: memdisk.New(memdisk.Options{}), Ready: func(n *Node) {
		ask := func(r edge.MetadataRequest) (reply edge.MetadataReply) {
			done := make(chan edge.MetadataReply, 1)
			n.engine.Metadata(r, func(r edge.MetadataReply) { done <- r })
			return <-done
		}
		root, _ := n.engine.View().User(galgo.NumericID(metadata.RootUser))
		client := galgo.ClientID{1}
		session := ask(edge.MetadataRequest{Operation: wire.OperationRegister, Client: client, Body: metadata.PasswordOf(root).Append(nil)}).Op
		for i, token := range []metadata.NewToken{
			{Name: "ever", Hash: metadata.TokenHash{1}},
			{Name: "long", Expiry: uint64(time.Hour.Microseconds()), Hash: metadata.TokenHash{2}},
			{Name: "short", Expiry: 1, Hash: metadata.TokenHash{3}},
		} {
			ask(edge.MetadataRequest{Operation: wire.OperationCreateToken, Client: client, Session: session, Request: uint64(i + 1), Body: token.Append(nil)})
		}
		if !slices.Contains(left(n), "long") {
			t.Errorf("tokens %v", left(n))
		}
		go func() {
			defer cancel()
			for slices.Contains(left(n), "short") {
				if t.Context().Err() != nil {
					return
				}
				time.Sleep(time.Millisecond)
			}
			if got := left(n); !slices.Equal(got, []string{"ever", "long"}) {
				t.Errorf("tokens %v are left", got)
			}
		}()
	}})
	if err != nil {
		t.Fatal(err)
	}
	// Switched off, the job ends at once.
	n := &Node{cfg: c}
	n.cfg.Tokens.Cleaner.Enabled = false
	n.sweepTokens(context.Background())
}

// A member of a consumer group whose connection a crash has taken along is none any more
// when the node is back, before anybody is served: others wait for its partitions.
func TestCrashReleasesMembers(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	member := galgo.ClientID{1}
	var session uint64
	var image *memdisk.Disk
	must := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	life := func(n *Node) {
		defer cancel()
		root, _ := n.engine.View().User(galgo.NumericID(metadata.RootUser))
		must(n.propose(ctx, edge.MetadataRequest{Operation: wire.OperationRegister, Client: member, Body: metadata.PasswordOf(root).Append(nil)}))
		c, _ := n.engine.View().Client(member)
		session = c.Epoch
		for i, op := range []struct {
			operation wire.Operation
			body      wire.Body
		}{
			{wire.OperationCreateStream, wire.CreateStreamRequest{Name: "s"}},
			{wire.OperationCreateTopic, wire.CreateTopicRequest{Stream: galgo.NumericID(0), Name: "t", Partitions: 1}},
			{wire.OperationCreateConsumerGroup, wire.CreateGroupRequest{Stream: galgo.NumericID(0), Topic: galgo.NumericID(0), Name: "g"}},
			{wire.OperationJoinConsumerGroup, wire.GroupRequest{Stream: galgo.NumericID(0), Topic: galgo.NumericID(0), Group: galgo.NumericID(0)}},
		} {
			must(n.propose(ctx, edge.MetadataRequest{Operation: op.operation, Client: member, Session: session, Request: uint64(i + 1), Body: op.body.Append(nil)}))
		}
		if g, ok := n.engine.View().ConsumerGroupAt(0, 0, 0); !ok || len(g.Members) != 1 {
			t.Errorf("group %+v before the crash", g)
		}
		image = d.Clone()
	}
	log := slog.New(slog.DiscardHandler)
	if err := Run(ctx, Options{Config: runConfig(), Log: log, Disk: d, Ready: life}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	back := func(n *Node) {
		defer cancel()
		if g, ok := n.engine.View().ConsumerGroupAt(0, 0, 0); !ok || len(g.Members) != 0 {
			t.Errorf("group %+v after the crash", g)
		}
		if c, ok := n.engine.View().Client(member); !ok || !c.Detached || c.Watermark != 4 {
			t.Errorf("the session is %+v: what it knows of requests has to stay", c)
		}
	}
	if err := Run(ctx, Options{Config: runConfig(), Log: log, Disk: image.Kill(), Ready: back}); err != nil {
		t.Fatal(err)
	}
}

// message_expiry is applied at the interval that is set.
func TestMessagesAreCleanedAtIntervals(t *testing.T) {
	for _, enabled := range []bool{true, false} {
		c := runConfig()
		c.DataMaintenance.Messages.Enabled, c.DataMaintenance.Messages.Interval = enabled, time.Millisecond
		cleans := make(chan struct{})
		n := &Node{cfg: c}
		work, stop := context.WithCancel(t.Context())
		var once sync.Once
		done := make(chan struct{})
		go func() {
			defer close(done)
			n.clean(work, func() { once.Do(func() { close(cleans) }) })
		}()
		if enabled {
			<-cleans
			stop()
		}
		<-done
		stop()
	}
}
