package peer

import (
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"io"
	"net"
)

// bindingLabel names what the proofs take from a TLS session, so that nobody can stand
// between the two ends of one.
const bindingLabel = "EXPORTER-galgo-links"

// bindingOf is what only the two ends of a TLS session know; nothing without TLS.
func bindingOf(conn net.Conn) ([]byte, error) {
	t, ok := conn.(*tls.Conn)
	if !ok {
		return nil, nil
	}
	if err := t.Handshake(); err != nil {
		return nil, err
	}
	s := t.ConnectionState()
	return s.ExportKeyingMaterial(bindingLabel, nil, macSize)
}

// introduce makes the hello for a new connection.
func (l *Links) introduce(to uint8, lane Lane) hello {
	h := hello{
		versionMin: VersionMin, versionMax: VersionMax, lane: lane, from: l.o.Self, to: to, proves: l.keys.prove(),
		cluster: l.o.Cluster, roster: l.roster, clusterName: l.o.ClusterName, name: l.o.Nodes[l.o.Self].Name,
	}
	l.mu.Lock()
	h.life, h.last, h.phase = l.life, l.last, l.phase
	l.mu.Unlock()
	rand.Read(h.nonce[:]) // never fails: the runtime ends the process instead
	return h
}

// greet is the handshake of who dialed. It returns what the other one says, also when it
// refuses: of which life of this node it knows, and which one its own is.
func (l *Links) greet(conn net.Conn, to uint8, lane Lane) (v verdict, err error) {
	var t transcript
	if t.binding, err = bindingOf(conn); err != nil {
		return v, err
	}
	h := l.introduce(to, lane)
	t.hello = h.append(nil)
	if _, err := conn.Write(t.hello); err != nil {
		return v, err
	}
	t.challenge = make([]byte, challengeSize)
	proof := make([]byte, macSize)
	if err := readAll(conn, t.challenge, proof); err != nil {
		return v, err
	}
	c, err := decodeChallenge(t.challenge)
	if err != nil {
		return v, err
	}
	if c.proves != h.proves {
		return v, ErrNoProof
	}
	if err := l.keys.verify(&t, sideAccepted, proof); err != nil {
		return v, err
	}
	if c.version != commonVersion(c.versionMin, c.versionMax) || c.version == 0 {
		return v, fmt.Errorf("%w: this one knows %d..%d, the other %d..%d", ErrVersion, VersionMin, VersionMax, c.versionMin, c.versionMax)
	}
	if _, err := conn.Write(l.keys.sign(&t, sideDialed)); err != nil {
		return v, err
	}
	return l.judged(conn, &t)
}

// judged reads the verdict.
func (l *Links) judged(conn net.Conn, t *transcript) (v verdict, err error) {
	t.verdict = make([]byte, verdictSize)
	proof := make([]byte, macSize)
	if err := readAll(conn, t.verdict, proof); err != nil {
		return v, err
	}
	if err := l.keys.verify(t, sideVerdict, proof); err != nil {
		return v, err
	}
	if v, err = decodeVerdict(t.verdict); err != nil {
		return v, err
	}
	return v, v.status.err()
}

func readAll(r io.Reader, parts ...[]byte) error {
	for _, b := range parts {
		if _, err := io.ReadFull(r, b); err != nil {
			return err
		}
	}
	return nil
}

// receive is the handshake of who accepted. Who does not prove that it knows the secret
// is told nothing but versions.
func (l *Links) receive(conn net.Conn) (h hello, err error) {
	var t transcript
	if t.binding, err = bindingOf(conn); err != nil {
		return h, err
	}
	if t.hello, err = readHello(conn); err != nil {
		return h, err
	}
	if h, err = decodeHello(t.hello); err != nil {
		return h, err
	}
	if l.keys.prove() && !h.proves {
		return h, ErrNoProof
	}
	if err := l.challenge(conn, &h, &t); err != nil {
		return h, err
	}
	proof := make([]byte, macSize)
	if err := readAll(conn, proof); err != nil {
		return h, err
	}
	if err := l.keys.verify(&t, sideDialed, proof); err != nil {
		return h, err
	}
	return h, l.judge(conn, &h, &t)
}

func readHello(r io.Reader) ([]byte, error) {
	b := make([]byte, helloSize, helloSize+2*nameMax)
	if err := readAll(r, b); err != nil {
		return nil, err
	}
	names, err := helloNames(b)
	if err != nil {
		return nil, err
	}
	b = b[:helloSize+names]
	return b, readAll(r, b[helloSize:])
}

func (l *Links) challenge(conn net.Conn, h *hello, t *transcript) error {
	c := challenge{version: commonVersion(h.versionMin, h.versionMax), versionMin: VersionMin, versionMax: VersionMax, proves: l.keys.prove()}
	rand.Read(c.nonce[:])
	t.challenge = c.append(nil)
	if _, err := conn.Write(append(t.challenge, l.keys.sign(t, sideAccepted)...)); err != nil {
		return err
	}
	switch {
	case c.version == 0:
		return fmt.Errorf("%w: this one knows %d..%d, the other %d..%d", ErrVersion, VersionMin, VersionMax, h.versionMin, h.versionMax)
	case c.proves != h.proves:
		return ErrNoProof
	}
	return nil
}

// judge says whether the connection is taken, and does not take it before it has said so.
func (l *Links) judge(conn net.Conn, h *hello, t *transcript) error {
	v := l.verdictOn(h)
	t.verdict = v.append(nil)
	if _, err := conn.Write(append(t.verdict, l.keys.sign(t, sideVerdict)...)); err != nil {
		return err
	}
	return v.status.err()
}

func (l *Links) verdictOn(h *hello) verdict {
	switch {
	case h.cluster != l.o.Cluster:
		return verdict{status: statusCluster}
	case h.roster != l.roster:
		return verdict{status: statusRoster}
	case h.to != l.o.Self || h.from == l.o.Self || int(h.from) >= len(l.peers):
		return verdict{status: statusReplica}
	}
	own, _ := l.state()
	v := verdict{life: l.peers[h.from].latestLife(), own: own}
	switch {
	case h.phase != Begun || h.life == v.life:
	case h.life < v.life:
		v.status = statusLife
	case h.last < v.life:
		v.status = statusPast
	}
	return v
}
