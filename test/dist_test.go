package test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
)

// A cluster starts from the files that are shipped, with the addresses of this machine in
// place of those in them, and tells that it is ready; what the unit of systemd starts is a
// command that there is.
func TestShippedFiles(t *testing.T) {
	var f fleet
	var env []string
	for i := range 3 {
		s := newServer(t)
		_, port, _ := strings.Cut(s.address, ":")
		_, replicaPort, _ := strings.Cut(freeAddress(t), ":")
		node := fmt.Sprintf("GALGO_CLUSTER_NODES_%d_", i)
		env = append(env, node+"IP=127.0.0.1", node+"PORTS_TCP="+port, node+"PORTS_TCP_REPLICA="+replicaPort)
		f = append(f, s)
	}
	health := make([]string, 3)
	for i, s := range f {
		health[i] = freeAddress(t)
		s.args = []string{"--config", "../dist/cluster/" + string("abc"[i]) + ".toml"}
		s.env = append(env[:len(env):len(env)], "GALGO_ADMIN_ADDRESS="+health[i], "GALGO_ROOT_USERNAME=iggy", "GALGO_ROOT_PASSWORD=iggy",
			"GALGO_CLUSTER_AUTH_SHARED_SECRET=a secret of the tests, which is long enough")
	}
	f[0].launch()
	until(t, "a node that waits for others lives", func() bool { code, _ := healthOf(health[0], "/livez"); return code == 200 })
	if code, body := healthOf(health[0], "/readyz"); code != 503 || !strings.Contains(body, "waits_for") {
		t.Errorf("alone it is ready: %d %s", code, body)
	}
	f[1].launch()
	f[2].launch()
	for i := range f {
		until(t, fmt.Sprint("node ", i, " is ready"), func() bool { code, _ := healthOf(health[i], "/readyz"); return code == 200 })
	}
	createTopic(t, f.dial(0), 1)
	f[2].kill()
	f[1].kill()
	until(t, "without a quorum no node is ready", func() bool {
		code, body := healthOf(health[0], "/readyz")
		return code == 503 && strings.Contains(body, "metadata group")
	})
	if code, body := healthOf(health[0], "/livez"); code != 200 {
		t.Errorf("without a quorum it does not live: %d %s", code, body)
	}
	f.endSound(t)

	unit, err := os.ReadFile("../dist/galgo.service")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"ExecStart=/usr/local/bin/galgo server --config", "RestartPreventExitStatus=1 2\n", "TimeoutStopSec=45", "Type=exec"} {
		if !strings.Contains(string(unit), want) {
			t.Errorf("the unit has no %q", want)
		}
	}
}

func healthOf(address, path string) (code int, body string) {
	r, err := http.Get("http://" + address + path)
	if err != nil {
		return 0, err.Error()
	}
	defer r.Body.Close()
	b, _ := io.ReadAll(r.Body)
	return r.StatusCode, string(b)
}
