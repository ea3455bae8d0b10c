package peer

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

var (
	oldSecret = bytes.Repeat([]byte("o"), SecretMin)
	newSecret = bytes.Repeat([]byte("n"), SecretMin)
	third     = bytes.Repeat([]byte("t"), SecretMin)
)

// shake has two nodes shake hands; between, if set, stands in the middle.
func shake(t *testing.T, dialer, acceptor Options, lane Lane) (life uint64, dialed, accepted error) {
	t.Helper()
	a, b := mustNew(t, dialer), mustNew(t, acceptor)
	return shakeOver(t, a, b, lane, nil)
}

func shakeOver(t *testing.T, a, b node, lane Lane, relay func(t *testing.T, from, to net.Conn)) (life uint64, dialed, accepted error) {
	t.Helper()
	l := listen(t, "127.0.0.1:0")
	defer l.Close()
	ca, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	cb, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if relay != nil {
		relay(t, ca, cb)
	}
	for _, c := range []net.Conn{ca, cb} {
		c.SetDeadline(time.Now().Add(time.Minute))
		defer c.Close()
	}
	done := make(chan error)
	go func() {
		var c net.Conn = cb
		if b.o.TLS != nil {
			c = tls.Server(cb, b.o.TLS.server())
		}
		_, err := b.receive(c)
		if err != nil {
			cb.Close()
		}
		done <- err
	}()
	var c net.Conn = ca
	if a.o.TLS != nil {
		c = tls.Client(ca, a.o.TLS.client(a.o.Nodes[1]))
	}
	v, dialed := a.greet(c, 1, lane)
	if dialed != nil {
		ca.Close()
	}
	return v.life, dialed, <-done
}

func TestHandshake(t *testing.T) {
	secret := func(own, previous []byte) func(*Options) {
		return func(o *Options) { o.Secret, o.Previous = own, previous }
	}
	for _, c := range []struct {
		name             string
		dialer, acceptor func(*Options)
		dialed, accepted error
	}{
		{"without a secret", nil, nil, nil, nil},
		{"the same secret", secret(oldSecret, nil), secret(oldSecret, nil), nil, nil},
		{"before the secret is replaced", secret(oldSecret, newSecret), secret(oldSecret, nil), nil, nil},
		{"who dials has replaced it", secret(newSecret, oldSecret), secret(oldSecret, newSecret), nil, nil},
		{"who accepts has replaced it", secret(oldSecret, newSecret), secret(newSecret, oldSecret), nil, nil},
		{"after it was replaced", secret(newSecret, nil), secret(newSecret, oldSecret), nil, nil},
		{"replaced too early", secret(newSecret, nil), secret(oldSecret, newSecret), ErrProof, io.EOF},
		{"another secret", secret(third, nil), secret(newSecret, oldSecret), ErrProof, io.EOF},
		{"only who dials has one", secret(oldSecret, nil), nil, ErrNoProof, ErrNoProof},
		{"only who accepts has one", nil, secret(oldSecret, nil), io.EOF, ErrNoProof},
		{"another cluster", func(o *Options) { o.Cluster[0]++ }, nil, ErrCluster, ErrCluster},
		{"another cluster, with a secret", func(o *Options) { o.Cluster[0]++; o.Secret = oldSecret }, secret(oldSecret, nil), ErrCluster, ErrCluster},
		{"another cluster, with another secret", func(o *Options) { o.Cluster[0]++; o.Secret = third }, secret(oldSecret, nil), ErrProof, io.EOF},
		{"another name", nil, func(o *Options) { o.Nodes[0].Name = "x" }, ErrRoster, ErrRoster},
		{"more nodes", nil, func(o *Options) { o.Nodes = append(o.Nodes, Node{"n2", ""}) }, ErrRoster, ErrRoster},
		{"another address", nil, func(o *Options) { o.Nodes[0].Address = "x:1" }, nil, nil},
		{"itself", nil, func(o *Options) { o.Self = 0 }, ErrReplica, ErrReplica},
		{"a third node", func(o *Options) { o.Nodes = append(o.Nodes, Node{"n2", ""}) }, func(o *Options) { o.Self, o.Nodes = 2, append(o.Nodes, Node{"n2", ""}) }, ErrReplica, ErrReplica},
	} {
		t.Run(c.name, func(t *testing.T) {
			dialer, acceptor := options(0, "a:1", "b:1"), options(1, "a:1", "b:1")
			if c.dialer != nil {
				c.dialer(&dialer)
			}
			if c.acceptor != nil {
				c.acceptor(&acceptor)
			}
			_, dialed, accepted := shake(t, dialer, acceptor, Bulk)
			if !errors.Is(dialed, c.dialed) && !(errors.Is(c.dialed, io.EOF) && dialed != nil) {
				t.Errorf("who dialed: %v, want %v", dialed, c.dialed)
			}
			if c.dialed == io.EOF && errors.Is(dialed, ErrNoProof) {
				t.Errorf("who proves nothing is answered: %v", dialed)
			}
			if !errors.Is(accepted, c.accepted) && !(errors.Is(c.accepted, io.EOF) && accepted != nil) {
				t.Errorf("who accepted: %v, want %v", accepted, c.accepted)
			}
		})
	}
}

// The latest life that is known is told to whoever asks, and an earlier one that takes
// part is refused.
func TestLives(t *testing.T) {
	for _, c := range []struct {
		own, last uint64
		phase     Phase
		err       error
	}{
		{100, 99, Begun, ErrLife}, {100, 0, Formed, nil}, {100, 0, Empty, nil}, {500, 400, Begun, nil}, {501, 500, Begun, nil},
		{502, 501, Begun, nil}, {501, 499, Begun, ErrPast}, {501, 0, Formed, nil}, {501, 0, Empty, nil},
	} {
		a, b := mustNew(t, options(0, "a:1", "b:1")), mustNew(t, options(1, "a:1", "b:1"))
		a.SetState(c.own, c.last, c.phase)
		in := newIncoming(b.peers[0], Control, 500, nil)
		in.link.connected(in, Begun)
		in.link.heard(in, 900, Formed)                  // has taken part in nothing
		in.link.heard(&incoming{life: 950}, 950, Begun) // over a connection that was replaced
		in.link.heard(in, lifeMax+1, Begun)             // there would be no later one
		life, dialed, accepted := shakeOver(t, a, b, Control, nil)
		if life != 500 || !errors.Is(dialed, c.err) || !errors.Is(accepted, c.err) {
			t.Errorf("life %d after %d, %v: told %d, %v and %v; want 500, %v", c.own, c.last, c.phase, life, dialed, accepted, c.err)
		}
	}
}

// Nodes of two releases speak what both know, and say so when that is nothing.
func TestVersions(t *testing.T) {
	for _, c := range []struct{ least, most, want uint16 }{
		{1, 1, 1}, {1, 9, VersionMax}, {VersionMax, VersionMax + 5, VersionMax}, {VersionMax + 1, VersionMax + 5, 0},
	} {
		if got := commonVersion(c.least, c.most); got != c.want {
			t.Errorf("%d..%d: %d, want %d", c.least, c.most, got, c.want)
		}
	}
	b := mustNew(t, options(1, "a:1", "b:1"))
	ca, cb := net.Pipe()
	done := make(chan error)
	go func() {
		_, err := b.receive(cb)
		done <- err
	}()
	h := hello{versionMin: VersionMax + 1, versionMax: VersionMax + 2, lane: Control, to: 1, cluster: b.o.Cluster, roster: b.roster, phase: Begun}
	go ca.Write(h.append(nil))
	answer := make([]byte, challengeSize+macSize)
	if _, err := io.ReadFull(ca, answer); err != nil {
		t.Fatal(err)
	}
	if got, err := decodeChallenge(answer[:challengeSize]); err != nil || got.version != 0 || got.versionMax != VersionMax {
		t.Errorf("challenge %+v, %v", got, err)
	}
	if err := <-done; !errors.Is(err, ErrVersion) {
		t.Errorf("got %v", err)
	}
}

// A proof is of one handshake, one direction and one TLS session.
func TestProofs(t *testing.T) {
	k, err := newKeys(oldSecret, nil)
	if err != nil {
		t.Fatal(err)
	}
	said := transcript{hello: []byte("hello"), challenge: []byte("challenge"), verdict: []byte("verdict"), binding: []byte("session")}
	proof := k.sign(&said, sideDialed)
	if err := k.verify(&said, sideDialed, proof); err != nil {
		t.Error(err)
	}
	for name, other := range map[string]struct {
		transcript
		side
	}{
		"another hello":       {transcript{[]byte("hellO"), said.challenge, said.verdict, said.binding}, sideDialed},
		"another challenge":   {transcript{said.hello, []byte("challengE"), said.verdict, said.binding}, sideDialed},
		"another verdict":     {transcript{said.hello, said.challenge, []byte("verdicT"), said.binding}, sideDialed},
		"another session":     {transcript{said.hello, said.challenge, said.verdict, []byte("sessioN")}, sideDialed},
		"no session":          {transcript{said.hello, said.challenge, said.verdict, nil}, sideDialed},
		"parts cut elsewhere": {transcript{[]byte("helloc"), []byte("hallenge"), said.verdict, said.binding}, sideDialed},
		"another side":        {said, sideAccepted},
	} {
		if err := k.verify(&other.transcript, other.side, proof); !errors.Is(err, ErrProof) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := newKeys([]byte("short"), nil); err == nil {
		t.Error("a short secret is taken")
	}
	if _, err := newKeys(oldSecret, []byte("short")); err == nil {
		t.Error("a short previous secret is taken")
	}
}

// What an attacker has heard of one handshake is of no use in another one.
func TestReplayedHandshake(t *testing.T) {
	o := options(1, "a:1", "b:1")
	o.Secret = oldSecret
	b := mustNew(t, o)
	o = options(0, "a:1", "b:1")
	o.Secret = oldSecret
	a := mustNew(t, o)
	l := listen(t, "127.0.0.1:0")
	defer l.Close()
	var heard []byte
	for replay := range 2 {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		other, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() {
			_, err := b.receive(other)
			other.Close()
			done <- err
		}()
		if replay == 0 {
			ear := &listening{Conn: conn}
			if _, err := a.greet(ear, 1, Control); err != nil {
				t.Fatal(err)
			}
			heard = ear.said
		} else {
			conn.Write(heard)
		}
		if err := <-done; (err == nil) != (replay == 0) || replay == 1 && !errors.Is(err, ErrProof) {
			t.Errorf("attempt %d: %v", replay, err)
		}
		conn.Close()
	}
}

// What a node says when it dials is of no use for who pretends to it to be the other.
func TestReflectedHandshake(t *testing.T) {
	o := options(0, "a:1", "b:1")
	o.Secret = oldSecret
	a := mustNew(t, o)
	dialing, middle := net.Pipe()
	mirror, accepting := net.Pipe()
	go func() { io.Copy(mirror, middle); mirror.Close() }()
	go func() { io.Copy(middle, mirror); middle.Close() }()
	accepted := make(chan error, 1)
	go func() {
		_, err := a.receive(accepting)
		accepting.Close()
		accepted <- err
	}()
	if _, err := a.greet(dialing, 1, Control); !errors.Is(err, ErrReplica) {
		t.Errorf("who dialed was answered with its own words: %v", err)
	}
	dialing.Close()
	if err := <-accepted; !errors.Is(err, ErrReplica) {
		t.Errorf("who accepted its own words: %v", err)
	}
}

// listening keeps what is written.
type listening struct {
	net.Conn
	said []byte
}

func (l *listening) Write(b []byte) (int, error) {
	l.said = append(l.said, b...)
	return l.Conn.Write(b)
}

func secured(t *testing.T) *TLS {
	t.Helper()
	s, err := SelfSigned()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestLinksOverTLS(t *testing.T) {
	a, b := pair(t, func(o *Options) { o.Secret, o.TLS = oldSecret, secured(t) })
	a.Send(frameOf(1))
	b.holds(t, "the frame is there", func() bool { return len(b.frames) == 1 })
	if _, err := New(Options{TLS: secured(t), Nodes: []Node{{}}}, nil); err == nil {
		t.Error("TLS without a secret is taken")
	}
}

// Somebody who has a TLS session with each end, and passes on what they say, is found.
func TestManInTheMiddle(t *testing.T) {
	oa, ob := options(0, "a:1", "b:1"), options(1, "a:1", "b:1")
	oa.Secret, ob.Secret, oa.TLS, ob.TLS = oldSecret, oldSecret, secured(t), secured(t)
	a, b := mustNew(t, oa), mustNew(t, ob)
	middle := secured(t)
	front, back := listen(t, "127.0.0.1:0"), listen(t, "127.0.0.1:0")
	defer front.Close()
	defer back.Close()
	go func() {
		c, err := front.Accept()
		if err != nil {
			return
		}
		d, err := net.Dial("tcp", back.Addr().String())
		if err != nil {
			return
		}
		cs, ds := tls.Server(c, middle.server()), tls.Client(d, middle.client(Node{Address: "b:1"}))
		go func() { io.Copy(cs, ds); cs.Close() }()
		io.Copy(ds, cs)
		ds.Close()
	}()
	done := make(chan error)
	go func() {
		c, err := back.Accept()
		if err == nil {
			_, err = b.receive(tls.Server(c, ob.TLS.server()))
			c.Close()
		}
		done <- err
	}()
	c, err := net.Dial("tcp", front.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_, dialed := a.greet(tls.Client(c, oa.TLS.client(oa.Nodes[1])), 1, Control)
	c.Close()
	if !errors.Is(dialed, ErrProof) {
		t.Errorf("who dialed: %v", dialed)
	}
	if err := <-done; err == nil {
		t.Error("who accepted took it")
	}
}

// authority signs certificates for names.
func authority(t *testing.T, dir string, names ...string) (caFile string, certFiles, keyFiles []string) {
	t.Helper()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	now := time.Now()
	caKey, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	if err != nil {
		t.Fatal(err)
	}
	caFile = write("ca.pem", "CERTIFICATE", der)
	for i, name := range names {
		key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		c := &x509.Certificate{SerialNumber: big.NewInt(int64(i) + 2), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour)}
		if ip := net.ParseIP(name); ip != nil {
			c.IPAddresses = []net.IP{ip}
		} else {
			c.DNSNames = []string{name}
		}
		der, err := x509.CreateCertificate(rand.Reader, c, ca, &key.PublicKey, caKey)
		if err != nil {
			t.Fatal(err)
		}
		certFiles = append(certFiles, write(name+".pem", "CERTIFICATE", der))
		keyDER, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		keyFiles = append(keyFiles, write(name+".key", "PRIVATE KEY", keyDER))
	}
	return caFile, certFiles, keyFiles
}

func TestCertificates(t *testing.T) {
	dir := t.TempDir()
	ca, certs, keys := authority(t, dir, "127.0.0.1", "n1", "elsewhere")
	otherDir := t.TempDir()
	otherCA, _, _ := authority(t, otherDir)
	for _, c := range []struct {
		name string
		cert int
		ca   string
		ok   bool
	}{
		{"for the address", 0, ca, true},
		{"for the name of the node", 1, ca, true},
		{"for somebody else", 2, ca, false},
		{"of another authority", 0, otherCA, false},
	} {
		oa, ob := options(0, "127.0.0.1:1", "127.0.0.1:2"), options(1, "127.0.0.1:1", "127.0.0.1:2")
		oa.Secret, ob.Secret = oldSecret, oldSecret
		var err error
		if oa.TLS, err = LoadTLS(certs[0], keys[0], c.ca); err != nil {
			t.Fatal(err)
		}
		if ob.TLS, err = LoadTLS(certs[c.cert], keys[c.cert], ca); err != nil {
			t.Fatal(err)
		}
		if _, dialed, _ := shake(t, oa, ob, Control); (dialed == nil) != c.ok {
			t.Errorf("%s: %v", c.name, dialed)
		}
	}
	if _, err := LoadTLS(certs[0], keys[1], ca); err == nil {
		t.Error("a key of another certificate is taken")
	}
	if _, err := LoadTLS(certs[0], keys[0], keys[0]); err == nil {
		t.Error("a key is taken for an authority")
	}
}
