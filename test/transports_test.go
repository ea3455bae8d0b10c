package test

import (
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"galgo"
	"galgo/client"
	"galgo/internal/config"
	"galgo/internal/transport"
)

// pemFiles writes a new certificate for names, and its key, over those of before.
func pemFiles(t *testing.T, dir string, names ...string) (cert, key string) {
	t.Helper()
	pair, err := transport.SelfSigned(names...)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(pair.PrivateKey.(*ecdsa.PrivateKey))
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, block := range map[string]*pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: pair.Certificate[0]},
		key:  {Type: "EC PRIVATE KEY", Bytes: der},
	} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// securedServer has every transport, all of them under TLS with one certificate.
func securedServer(t *testing.T) (s *server, cert string) {
	t.Helper()
	cert, key := pemFiles(t, t.TempDir(), "localhost")
	var env []string
	for _, section := range []string{"TCP_TLS", "WEBSOCKET_TLS", "QUIC_CERTIFICATE"} {
		env = append(env, "GALGO_"+section+"_CERT_FILE="+cert, "GALGO_"+section+"_KEY_FILE="+key, "GALGO_"+section+"_SELF_SIGNED=false")
	}
	return newServer(t, append(env, "GALGO_TCP_TLS_ENABLED=true", "GALGO_WEBSOCKET_TLS_ENABLED=true", "GALGO_SYSTEM_LOGGING_FILE_ENABLED=true")...), cert
}

// log is what the server has written to its log files.
func (s *server) log() string {
	s.t.Helper()
	var all strings.Builder
	names, _ := filepath.Glob(filepath.Join(s.dir, "logs", "*"))
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			s.t.Fatal(err)
		}
		all.Write(data)
	}
	return all.String()
}

// bound reads from the file that a server leaves for others where it can be reached.
func (s *server) bound() config.Bound {
	s.t.Helper()
	for {
		path := filepath.Join(s.dir, "runtime", config.CurrentName)
		if _, err := os.Stat(path); err == nil {
			c, _, err := config.Load(config.LoadInput{File: path})
			if err != nil {
				s.t.Fatal(err)
			}
			return config.Bound{TCP: c.TCP.Address, QUIC: c.QUIC.Address, WebSocket: c.WebSocket.Address}
		}
		time.Sleep(time.Millisecond)
	}
}

// The command line and the client reach a server over each transport, check its
// certificate, and see the same data.
func TestEveryTransportOfAProcess(t *testing.T) {
	s, cert := securedServer(t)
	s.start()
	at := s.bound()
	ctx := context.Background()
	for _, c := range []struct {
		name      string
		address   string
		transport client.Transport
		word      string
	}{
		{"tcp", at.TCP, client.TCP, "TCP"}, {"quic", at.QUIC, client.QUIC, "QUIC"}, {"ws", at.WebSocket, client.WebSocket, "WebSocket"},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := append(os.Environ(), "GALGO_TRANSPORT="+c.name, "GALGO_ADDRESS="+c.address)
			out, status := run(t, env, "me", "--tls", "--timeout", "5s")
			if status == 0 || !strings.Contains(out, "certificate") || !strings.Contains(out, "--tls-ca-file") {
				t.Errorf("a server that nobody vouches for: exit %d\n%s", status, out)
			}
			for _, check := range [][]string{{"--tls-ca-file", cert}, {"--tls-ca-file", cert, "--tls-domain", "localhost"}, {"--tls-insecure"}} {
				if out, status := run(t, env, append([]string{"me", "-o", "json"}, check...)...); status != 0 || !strings.Contains(strings.ToLower(out), strings.ToLower(c.word)) {
					t.Errorf("me %v: exit %d\n%s", check, status, out)
				}
			}
			if out, status := run(t, env, "me", "--tls-ca-file", cert, "--tls-domain", "elsewhere", "--timeout", "5s"); status == 0 {
				t.Errorf("a server of another name: exit %d\n%s", status, out)
			}
			roundTrip(t, ctx, s.dialOver(c.address, cert, client.WithTransport(c.transport)), c.name)
		})
	}
	if status := s.stop(); status != 0 {
		t.Errorf("exit %d\n%s", status, s.output)
	}
}

func (s *server) dialOver(address, cert string, opts ...client.Option) *client.Client {
	s.t.Helper()
	data, err := os.ReadFile(cert)
	if err != nil {
		s.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(data)
	opts = append([]client.Option{client.WithPassword("iggy", "iggy"), client.WithTLS(&tls.Config{RootCAs: roots})}, opts...)
	c, err := client.Dial(context.Background(), address, opts...)
	if err != nil {
		s.t.Fatalf("dial %s: %v\n%s", address, err, s.output)
	}
	s.t.Cleanup(func() { c.Close() })
	return c
}

// roundTrip sends from many goroutines and polls all of it.
func roundTrip(t *testing.T, ctx context.Context, c *client.Client, name string) {
	t.Helper()
	if _, err := c.CreateStream(ctx, name); err != nil {
		t.Fatal(err)
	}
	stream, topic := galgo.NamedID(name), galgo.NamedID("t")
	if _, err := c.CreateTopic(ctx, stream, client.TopicSpec{Name: "t", Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	const senders, batches, size = 8, 5, 100 << 10
	sent := make(chan error, senders)
	for i := range senders {
		go func() {
			for j := range batches {
				text := fmt.Sprintf("%d-%d-%s", i, j, strings.Repeat("x", size))
				if _, err := c.SendMessages(ctx, stream, topic, galgo.ToPartition(0), []galgo.Message{{Payload: []byte(text)}}); err != nil {
					sent <- err
					return
				}
			}
			sent <- nil
		}()
	}
	var err error
	for range senders {
		err = errors.Join(err, <-sent)
	}
	if err != nil {
		t.Fatal(err)
	}
	b, err := c.Poll(ctx, client.PollRequest{
		Consumer: galgo.Consumer{Kind: galgo.ConsumerSingle, ID: galgo.NumericID(1)}, Stream: stream, Topic: topic,
		Strategy: galgo.FromFirst(), Count: 1000,
	})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for m := range b.Messages() {
		seen[string(m.Payload[:3])] = true
	}
	if len(seen) != senders*batches {
		t.Errorf("%d messages came back, want %d", len(seen), senders*batches)
	}
}

// The snapshot command leaves a file with what it was asked for, and no secret.
func TestSnapshotOfAProcess(t *testing.T) {
	const password = "very secret"
	s := newServer(t, "GALGO_ROOT_USERNAME=admin", "GALGO_ROOT_PASSWORD="+password, "GALGO_SYSTEM_LOGGING_FILE_ENABLED=true")
	s.start()
	dir := t.TempDir()
	env := append(os.Environ(), "GALGO_ADDRESS="+s.address, "GALGO_USERNAME=admin", "GALGO_PASSWORD="+password)
	if out, status := run(t, env, "snapshot", "-c", "stored", "-o", dir); status != 0 {
		t.Fatalf("exit %d\n%s", status, out)
	}
	names, _ := filepath.Glob(filepath.Join(dir, "snapshot_*.zip"))
	if len(names) != 1 {
		t.Fatalf("files %v", names)
	}
	archive, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"filesystem_overview.txt", "process_list.txt", "resource_usage.txt", "test.txt", "server_logs.txt", "server_config.txt", "listening"} {
		if !strings.Contains(string(archive), want) {
			t.Errorf("no %s in the archive", want)
		}
	}
	if strings.Contains(string(archive), password) {
		t.Error("the password is in the archive")
	}
	if out, status := run(t, env, "snapshot", "-s", "all,test"); status != 2 {
		t.Errorf("all and another: exit %d\n%s", status, out)
	}
}

// A certificate is exchanged while the server runs: connections that are open stay,
// new ones see it, and one that cannot be used changes nothing.
func TestCertificateIsExchangedWithoutARestart(t *testing.T) {
	s, cert := securedServer(t)
	s.start()
	at := s.bound()
	ctx := context.Background()
	before := s.dialOver(at.TCP, cert)
	pemFiles(t, filepath.Dir(cert), "localhost", "new.example")
	data, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(data)
	seesNew := func(address string, tr client.Transport) {
		t.Helper()
		for {
			c, err := client.Dial(ctx, address, client.WithTransport(tr), client.WithTLS(&tls.Config{RootCAs: roots, ServerName: "new.example"}))
			if err == nil {
				c.Close()
				return
			}
			if _, ok := errors.AsType[*tls.CertificateVerificationError](err); !ok {
				t.Fatal(err)
			}
		}
	}
	seesNew(at.TCP, client.TCP)
	seesNew(at.WebSocket, client.WebSocket)
	seesNew(at.QUIC, client.QUIC)
	if err := before.Ping(ctx); err != nil {
		t.Errorf("the connection from before: %v", err)
	}
	if err := os.WriteFile(cert, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	for !strings.Contains(s.log(), "the new certificate cannot be used") {
		seesNew(at.TCP, client.TCP)
	}
	seesNew(at.TCP, client.TCP)
}

// A server that cannot show a certificate, or whose port is taken, does not start.
func TestListenersThatCannotBeOpened(t *testing.T) {
	s := newServer(t, "GALGO_TCP_TLS_ENABLED=true", "GALGO_TCP_TLS_CERT_FILE=/nowhere/cert.pem", "GALGO_TCP_TLS_KEY_FILE=/nowhere/key.pem", "GALGO_TCP_TLS_SELF_SIGNED=false")
	out, status := run(t, s.environment(), "server")
	if status == 0 || !strings.Contains(out, "tcp.tls") || !strings.Contains(out, "/nowhere/cert.pem") {
		t.Errorf("without a certificate: exit %d\n%s", status, out)
	}
	taken := newServer(t)
	taken.start()
	at := taken.bound()
	for setting, env := range map[string]string{
		"quic.address": "GALGO_QUIC_ADDRESS=" + at.QUIC, "websocket.address": "GALGO_WEBSOCKET_ADDRESS=" + at.WebSocket,
	} {
		out, status := run(t, append(newServer(t).environment(), env), "server")
		if status == 0 || !strings.Contains(out, setting) || !strings.Contains(out, "in use") {
			t.Errorf("%s is taken: exit %d\n%s", setting, status, out)
		}
	}
}
