package transport

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/big"
	"net"
	"os"
	"sync"
	"time"
)

// CertificateSource says where the certificate of a listener comes from.
type CertificateSource struct {
	// Setting is the section of the configuration, for what is said to people.
	Setting string
	// CertFile and KeyFile are PEM files.
	CertFile, KeyFile string
	// SelfSigned makes a certificate for localhost if there is no CertFile, and
	// Always does so whether there is one or not. It lives as long as the process.
	SelfSigned, Always bool
	// Exposed says that others than this machine can connect.
	Exposed bool
}

const (
	// lookAgain is how often, at most, the files are looked at.
	lookAgain = time.Second
	// expirySoon is when the end of a certificate is worth a warning.
	expirySoon = 14 * 24 * time.Hour
	// selfSignedLife outlives the process that made the certificate.
	selfSignedLife = 10 * 365 * 24 * time.Hour
)

// Certificate is a server's certificate. Handshakes see a new one soon after its
// files have changed; one that cannot be used is told in the log, and the one before
// stays.
type Certificate struct {
	source CertificateSource
	log    *slog.Logger

	mu      sync.Mutex
	current *tls.Certificate
	files   bool   // it comes from them
	seen    stamps // when they were tried last
	looked  time.Time
}

// stamp tells a file from another that has its name later, or none.
type stamp struct{ info os.FileInfo }

func (s stamp) same(o stamp) bool {
	if s.info == nil || o.info == nil {
		return s.info == o.info
	}
	return os.SameFile(s.info, o.info) && s.info.ModTime().Equal(o.info.ModTime()) && s.info.Size() == o.info.Size()
}

// stamps are those of a certificate and its key.
type stamps struct{ cert, key stamp }

func (s stamps) same(o stamps) bool { return s.cert.same(o.cert) && s.key.same(o.key) }

// ErrCertificate is a certificate that a server cannot begin with.
var ErrCertificate = errors.New("transport: no certificate")

// OpenCertificate reads or makes the certificate.
func OpenCertificate(source CertificateSource, log *slog.Logger) (*Certificate, error) {
	c := &Certificate{source: source, log: log}
	made, err := c.selfSigns()
	switch {
	case err != nil:
		return nil, err
	case !made:
		err = c.load()
	default:
		err = c.make()
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Config is the TLS configuration of a server that shows the certificate. Nothing is
// negotiated beyond TLS itself, and no client certificate is asked for.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{GetCertificate: c.get, MinVersion: tls.VersionTLS12}
}

// selfSigns decides between the files and a certificate that is made.
func (c *Certificate) selfSigns() (bool, error) {
	s := &c.source
	switch _, err := os.Stat(s.CertFile); {
	case !s.SelfSigned:
		return false, nil
	case s.Always:
		if s.CertFile != "" || s.KeyFile != "" {
			c.log.Warn("certificate files are ignored: self_signed is true", "setting", s.Setting+".self_signed")
		}
		return true, nil
	case s.CertFile == "" || errors.Is(err, fs.ErrNotExist):
		return true, nil
	case err != nil:
		return false, c.failed(err)
	}
	return false, nil
}

func (c *Certificate) failed(err error) error {
	return fmt.Errorf("%w: %s: %w; name a PEM certificate and its key in cert_file and key_file", ErrCertificate, c.source.Setting, err)
}

func (c *Certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); c.files && now.Sub(c.looked) >= lookAgain {
		c.looked = now
		c.refresh()
	}
	return c.current, nil
}

// refresh tries the files if they are not those that were tried last.
func (c *Certificate) refresh() {
	seen, err := c.stamps()
	if seen.same(c.seen) {
		return
	}
	if err == nil {
		err = c.load()
	}
	if err != nil {
		c.seen = seen // said once for each state of the files
		c.log.Error("the new certificate cannot be used; the one before stays in use", "setting", c.source.Setting, "err", err)
	}
}

func (c *Certificate) stamps() (s stamps, err error) {
	if s.cert.info, err = os.Stat(c.source.CertFile); err != nil {
		return s, err
	}
	s.key.info, err = os.Stat(c.source.KeyFile)
	return s, err
}

// load reads the files. Stamps come first: what changes meanwhile is read again.
func (c *Certificate) load() error {
	seen, err := c.stamps()
	if err != nil {
		return c.failed(err)
	}
	pair, err := tls.LoadX509KeyPair(c.source.CertFile, c.source.KeyFile)
	if err != nil {
		return c.failed(err)
	}
	c.files, c.seen, c.looked, c.current = true, seen, time.Now(), &pair
	c.tell()
	return nil
}

// tell says which certificate is in use, and whether not for long.
func (c *Certificate) tell() {
	c.log.Info("certificate in use", c.described()...)
	if left := time.Until(c.current.Leaf.NotAfter); left < expirySoon {
		c.log.Warn("the certificate ends soon or has ended; clients that check it will refuse the server", c.described()...)
	}
}

func (c *Certificate) described() []any {
	sum := sha256.Sum256(c.current.Leaf.Raw)
	return []any{"setting", c.source.Setting, "file", c.source.CertFile, "subject", c.current.Leaf.Subject.String(),
		"not_after", c.current.Leaf.NotAfter.UTC().Format(time.RFC3339), "sha256", hex.EncodeToString(sum[:])}
}

// make signs a certificate of its own.
func (c *Certificate) make() error {
	pair, err := SelfSigned("localhost")
	if err != nil {
		return c.failed(err)
	}
	c.current = &pair
	level := slog.LevelInfo
	if c.source.Exposed {
		level = slog.LevelWarn
	}
	c.log.Log(context.Background(), level, "the certificate is signed by itself and made anew at each start: for development; clients cannot tell this server from another", c.described()...)
	return nil
}

// SelfSigned makes a certificate for names, and for this machine's loopback
// addresses, that is signed by itself.
func SelfSigned(names ...string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return tls.Certificate{}, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: names[0], Organization: []string{"galgo"}},
		DNSNames: names, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(selfSignedLife), // clocks differ
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, err
	}
	leaf, err := x509.ParseCertificate(der)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
}
