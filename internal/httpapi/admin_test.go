package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
)

// stub is a node that answers as it is told.
type stub struct{ live, ready Status }

func (s *stub) Live(context.Context) Status  { return s.live }
func (s *stub) Ready(context.Context) Status { return s.ready }

// serve runs the server on a free port until the test ends.
func serve(t *testing.T, h Health) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, l, h, slog.New(slog.DiscardHandler)) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return l.Addr().String()
}

func get(t *testing.T, address, path string) (code int, s Status) {
	t.Helper()
	r, err := http.Get("http://" + address + path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusNotFound && r.StatusCode != http.StatusMethodNotAllowed {
		if err := json.NewDecoder(r.Body).Decode(&s); err != nil {
			t.Fatal(err)
		}
	}
	return r.StatusCode, s
}

// 200 is well; 503 comes with what is waited for; anything else is not there.
func TestHealth(t *testing.T) {
	h := &stub{live: Status{OK: true, Phase: "serving"}, ready: Status{Phase: "starting", WaitsFor: []string{"the other nodes: b"}}}
	address := serve(t, h)
	if code, s := get(t, address, "/livez"); code != 200 || !s.OK || s.Phase != "serving" {
		t.Errorf("livez: %d, %+v", code, s)
	}
	if code, s := get(t, address, "/readyz"); code != 503 || s.OK || len(s.WaitsFor) != 1 {
		t.Errorf("readyz: %d, %+v", code, s)
	}
	if code, _ := get(t, address, "/debug/pprof/"); code != 404 {
		t.Errorf("something else: %d", code)
	}
	r, err := http.Post("http://"+address+"/livez", "text/plain", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	if r.Body.Close(); r.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("post: %d", r.StatusCode)
	}
}

// Who opens connections and says nothing takes no more than the bound; when they are gone
// others are served. A header that is too long is refused.
func TestBounds(t *testing.T) {
	address := serve(t, &stub{live: Status{OK: true}})
	var open []net.Conn
	for range connectionsMax {
		open = append(open, dialed(t, address))
	}
	for _, c := range open { // each is really taken: it is answered
		if line := ask(t, c, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"); !strings.Contains(line, "200") {
			t.Fatalf("answered %q", line)
		}
	}
	if line := ask(t, dialed(t, address), "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"); strings.Contains(line, "HTTP") {
		t.Errorf("one more than may be is answered %q", line)
	}
	for _, c := range open {
		c.Close()
	}
	for { // the places come back as the server notices
		r, err := http.Get("http://" + address + "/livez")
		if err == nil {
			r.Body.Close()
			break
		}
	}
	if line := ask(t, dialed(t, address), "GET /livez HTTP/1.1\r\nHost: x\r\nA: "+strings.Repeat("x", 4*headerMax)+"\r\n\r\n"); !strings.Contains(line, "431") {
		t.Errorf("a long header is answered %q", line)
	}
}

func dialed(t *testing.T, address string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func ask(t *testing.T, c net.Conn, request string) (line string) {
	t.Helper()
	if _, err := io.WriteString(c, request); err != nil {
		return err.Error()
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return err.Error()
	}
	return line
}
