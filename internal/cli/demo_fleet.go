package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"galgo/internal/freeport"
)

// demoNode is a server process of the demonstration, one life after the other.
type demoNode struct {
	id      int
	name    string
	address string
	dir     string // of the data
	env     []string
	log     string
	cmd     *exec.Cmd
	ended   chan struct{} // closed when the process is gone
}

// demoFleet is the processes of a cluster on this machine.
type demoFleet []*demoNode

// newDemoFleet plans a cluster below a directory, on free ports.
func newDemoFleet(dir string, size int, environ []string) (demoFleet, error) {
	env := slices.DeleteFunc(slices.Clone(environ), func(v string) bool {
		return strings.HasPrefix(v, "GALGO_") || strings.HasPrefix(v, "IGGY_") // meant for other servers
	})
	env = append(env,
		"GALGO_CLUSTER_ENABLED=true", "GALGO_CLUSTER_NAME=demo", "GALGO_DISPLAY_CONFIG=false", "GALGO_SYSTEM_LOGGING_FILE_ENABLED=false",
		"GALGO_HTTP_ENABLED=false", "GALGO_QUIC_ENABLED=false", "GALGO_WEBSOCKET_ENABLED=false",
		"GALGO_WAL_FILE_SIZE=8 MiB", "GALGO_WAL_LIMIT=32 MiB", "GALGO_CONFIG_PATH="+filepath.Join(dir, "galgo.toml"))
	if err := os.WriteFile(filepath.Join(dir, "galgo.toml"), nil, 0o600); err != nil {
		return nil, err
	}
	ports, err := freeport.Take(2 * size)
	if err != nil {
		return nil, err
	}
	var f demoFleet
	for i := range size {
		n := &demoNode{
			id: i, name: "node-" + strconv.Itoa(i), address: freeport.Loopback(ports[2*i]),
			log: filepath.Join(dir, "node-"+strconv.Itoa(i)+".log"),
		}
		key := fmt.Sprintf("GALGO_CLUSTER_NODES_%d_", i)
		env = append(env, key+"NAME="+n.name, key+"IP=127.0.0.1", fmt.Sprintf("%sREPLICA_ID=%d", key, i),
			fmt.Sprintf("%sPORTS_TCP=%d", key, ports[2*i]), fmt.Sprintf("%sPORTS_TCP_REPLICA=%d", key, ports[2*i+1]))
		f = append(f, n)
	}
	for i, n := range f {
		n.dir = filepath.Join(dir, n.name)
		n.env = append(env[:len(env):len(env)], fmt.Sprint("GALGO_REPLICA_ID=", i), "GALGO_SYSTEM_PATH="+n.dir)
	}
	return f, nil
}

func (f demoFleet) addresses(first int) (addresses []string) {
	for i := range f {
		addresses = append(addresses, f[(first+i)%len(f)].address)
	}
	return addresses
}

// start runs the process; it ends with this one.
func (n *demoNode) start() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(n.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own
	n.cmd = exec.Command(self, "server")
	n.cmd.Env, n.cmd.Stdout, n.cmd.Stderr = n.env, log, log
	endsWithParent(n.cmd)
	if err := n.cmd.Start(); err != nil {
		return err
	}
	n.ended = make(chan struct{})
	go func(cmd *exec.Cmd, ended chan struct{}) {
		cmd.Wait()
		close(ended)
	}(n.cmd, n.ended)
	return nil
}

// serves waits until clients can connect.
func (n *demoNode) serves(ctx context.Context) error {
	for {
		conn, err := net.Dial("tcp", n.address)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-n.ended:
			return fmt.Errorf("%s has ended; its log is %s", n.name, n.log)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// kill ends the process as a crash does.
func (n *demoNode) kill() {
	if n.cmd != nil {
		n.cmd.Process.Kill()
		<-n.ended
		n.cmd = nil
	}
}

// begin starts all nodes and waits until they serve.
func (f demoFleet) begin(ctx context.Context) error {
	for _, n := range f {
		if err := n.start(); err != nil {
			return err
		}
	}
	var errs []error
	for _, n := range f {
		errs = append(errs, n.serves(ctx))
	}
	return errors.Join(errs...)
}

func (f demoFleet) end() {
	for _, n := range f {
		n.kill()
	}
}
