package test

import (
	"bytes"
	"context"
	"encoding/base64"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"galgo"
	"galgo/client"
	"galgo/internal/wire"
)

// Passwords and tokens are in no file, no log and no answer, but for the one that tells
// a new token; nor is anything that they could be guessed from without Argon2. Logins
// work over restarts (PF-auth-01).
func TestNoSecretIsKept(t *testing.T) {
	const rootPassword, first, second = "root-pass-word-0", "ann-pass-word-1", "ann-pass-word-2"
	s := newServer(t, "GALGO_ROOT_USERNAME=admin", "GALGO_ROOT_PASSWORD="+rootPassword,
		"GALGO_SYSTEM_LOGGING_LEVEL=trace", "GALGO_SYSTEM_LOGGING_FILE_ENABLED=true", "GALGO_DISPLAY_CONFIG=true")
	s.start()
	var wires recorder
	dial := func(opts ...client.Option) *client.Client {
		return s.dial(append(opts, client.WithDialer(wires.dial))...)
	}
	root, ann := client.WithPassword("admin", rootPassword), galgo.NamedID("ann")
	ctx := context.Background()

	c := dial(root)
	if _, err := c.CreateUser(ctx, client.UserSpec{Name: "ann", Password: first}); err != nil {
		t.Fatal(err)
	}
	if err := c.ChangePassword(ctx, ann, first, second); err != nil {
		t.Fatal(err)
	}
	if err := c.ChangePassword(ctx, ann, first, second); err == nil {
		t.Error("the former password still counts")
	}
	token, err := dial(client.WithPassword("ann", second)).CreateToken(ctx, "ci", 0)
	if err != nil {
		t.Fatal(err)
	}
	logs := s.output
	signsIn := func(when string) {
		t.Helper()
		for what, login := range map[string]client.Option{"root": root, "the password": client.WithPassword("ann", second), "the token": client.WithToken(token)} {
			if _, err := dial(login).Me(ctx); err != nil {
				t.Errorf("%s: %s does not sign in: %v", when, what, err)
			}
		}
		if c, err := client.Dial(ctx, s.address, client.WithPassword("ann", first), client.WithDialer(wires.dial)); err == nil {
			c.Close()
			t.Errorf("%s: the former password signs in", when)
		}
	}
	signsIn("at once")
	s.kill() // the log is all there is
	s.start()
	logs.Write(s.output.Bytes())
	signsIn("after a crash")
	logs.Write(s.output.Bytes())
	if status := s.stop(); status != 0 { // with a checkpoint
		t.Fatalf("exit status %d\n%s", status, s.output)
	}
	s.start()
	signsIn("after a stop")
	s.kill()
	logs.Write(s.output.Bytes())

	secrets := map[string][]byte{"root's password": []byte(rootPassword), "a password": []byte("ann-pass-word"), "the token": []byte(token)}
	if secrets["the token, decoded"], err = base64.StdEncoding.DecodeString(token); err != nil {
		t.Fatal(err)
	}
	replies := wires.received()
	for what, secret := range secrets {
		if want := map[bool]int{true: 1}[what == "the token"]; bytes.Count(replies, secret) != want {
			t.Errorf("%s is in the answers %d times, want %d", what, bytes.Count(replies, secret), want)
		}
	}
	for what, sum := range wires.checksums() {
		secrets["the checksum of "+what] = sum
	}
	if len(secrets) < 8 {
		t.Fatalf("only %d things to look for", len(secrets))
	}
	found := func(where string, b []byte) {
		for what, secret := range secrets {
			if bytes.Contains(b, secret) {
				t.Errorf("%s is in %s", what, where)
			}
		}
	}
	found("the output", logs.Bytes())
	files := 0
	err = filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		b, err := os.ReadFile(path)
		found(path, b)
		return err
	})
	if err != nil || files < 8 {
		t.Errorf("%d files, %v", files, err)
	}
}

// recorder keeps what clients send and get.
type recorder struct {
	mu    sync.Mutex
	conns []*recorded
}

type recorded struct {
	net.Conn
	mu       sync.Mutex
	sent, in bytes.Buffer
}

func (r *recorder) dial(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &recorded{Conn: conn}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conns = append(r.conns, c)
	return c, nil
}

func (c *recorded) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.in.Write(p[:n])
	return n, err
}

func (c *recorded) Write(p []byte) (int, error) {
	c.mu.Lock()
	c.sent.Write(p)
	c.mu.Unlock()
	return c.Conn.Write(p)
}

// received is all that was answered.
func (r *recorder) received() (all []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		c.mu.Lock()
		all = append(all, c.in.Bytes()...)
		c.mu.Unlock()
	}
	return all
}

// checksums are those of the requests with a password in them, by what was asked.
func (r *recorder) checksums() map[string][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	sums := map[string][]byte{}
	for _, c := range r.conns {
		c.mu.Lock()
		for b := bytes.NewReader(c.sent.Bytes()); ; {
			frame, err := wire.ReadFrame(b, make([]byte, wire.HeaderSize), wire.FrameLimits{})
			if err != nil {
				break
			}
			h, err := wire.DecodeRequestHeader(frame)
			body := frame[wire.HeaderSize:]
			if err == nil && strings.Contains(string(body), "pass-word") {
				sum := wire.RequestChecksum(body)
				sums[h.Operation.String()+" "+string(body)] = sum[:8]
			}
		}
		c.mu.Unlock()
	}
	return sums
}
