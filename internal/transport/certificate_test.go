package transport

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// certFiles writes a new certificate and its key.
func certFiles(t *testing.T, cert, key string) []byte {
	t.Helper()
	pair, err := SelfSigned("localhost")
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(pair.PrivateKey.(*ecdsa.PrivateKey))
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, der []byte) {
		if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(cert, "CERTIFICATE", pair.Certificate[0])
	write(key, "EC PRIVATE KEY", der)
	return pair.Certificate[0]
}

// shown is the certificate that a handshake would see, at once.
func shown(t *testing.T, c *Certificate) []byte {
	t.Helper()
	c.mu.Lock()
	c.looked = time.Time{}
	c.mu.Unlock()
	pair, err := c.get(nil)
	if err != nil {
		t.Fatal(err)
	}
	return pair.Certificate[0]
}

func TestWhereACertificateComesFrom(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	inFile := certFiles(t, cert, key)
	nowhere := filepath.Join(dir, "nowhere.pem")
	for _, c := range []struct {
		name     string
		source   CertificateSource
		fromFile bool
		refused  string
	}{
		{"files", CertificateSource{CertFile: cert, KeyFile: key}, true, ""},
		{"files win", CertificateSource{CertFile: cert, KeyFile: key, SelfSigned: true}, true, ""},
		{"no files", CertificateSource{SelfSigned: true}, false, ""},
		{"files that are not there", CertificateSource{CertFile: nowhere, KeyFile: key, SelfSigned: true}, false, ""},
		{"files that are ignored", CertificateSource{CertFile: cert, KeyFile: key, SelfSigned: true, Always: true}, false, ""},
		{"files that must be there", CertificateSource{CertFile: nowhere, KeyFile: key}, false, nowhere},
		{"key that must be there", CertificateSource{CertFile: cert, KeyFile: nowhere, SelfSigned: true}, false, nowhere},
		{"no certificate in the file", CertificateSource{CertFile: key, KeyFile: key, SelfSigned: true}, false, "quic.certificate"},
	} {
		c.source.Setting = "quic.certificate"
		got, err := OpenCertificate(c.source, slog.New(slog.DiscardHandler))
		switch {
		case c.refused != "":
			if !errors.Is(err, ErrCertificate) || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%s: %v, want one that names %s", c.name, err, c.refused)
			}
		case err != nil:
			t.Errorf("%s: %v", c.name, err)
		case bytes.Equal(shown(t, got), inFile) != c.fromFile:
			t.Errorf("%s: from the file: %v, want %v", c.name, !c.fromFile, c.fromFile)
		}
	}
}

// A certificate is exchanged when its files have changed; while they make none, the
// one before stays, and that is said once for each state of the files.
func TestCertificateFollowsItsFiles(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	first := certFiles(t, cert, key)
	var log bytes.Buffer
	c, err := OpenCertificate(CertificateSource{CertFile: cert, KeyFile: key}, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	complaints := func() int { return strings.Count(log.String(), "cannot be used") }
	if !bytes.Equal(shown(t, c), first) {
		t.Fatal("not the certificate of the file")
	}
	otherCert, otherKey := filepath.Join(dir, "other.pem"), filepath.Join(dir, "other.key")
	second := certFiles(t, otherCert, otherKey)
	rename := func(from, to string) {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	rename(otherCert, cert) // and the key is still the old one
	for range 3 {
		if !bytes.Equal(shown(t, c), first) {
			t.Fatal("a certificate without its key is shown")
		}
	}
	if n := complaints(); n != 1 {
		t.Errorf("%d complaints, want 1\n%s", n, &log)
	}
	rename(otherKey, key)
	if !bytes.Equal(shown(t, c), second) {
		t.Error("the certificate is not exchanged")
	}
	rename(cert, otherCert)
	for range 3 {
		if !bytes.Equal(shown(t, c), second) {
			t.Error("the certificate went with its file")
		}
	}
	if n := complaints(); n != 2 {
		t.Errorf("%d complaints, want 2\n%s", n, &log)
	}
	third := certFiles(t, cert, key)
	if !bytes.Equal(shown(t, c), third) {
		t.Error("the certificate that came back is not shown")
	}
}

// What is about to end, or has ended, is told when it is read.
func TestCertificateThatEnds(t *testing.T) {
	var log bytes.Buffer
	c := &Certificate{log: slog.New(slog.NewTextHandler(&log, nil))}
	pair, err := SelfSigned("localhost")
	if err != nil {
		t.Fatal(err)
	}
	for left, want := range map[time.Duration]bool{-time.Hour: true, time.Hour: true, 30 * 24 * time.Hour: false} {
		log.Reset()
		pair.Leaf.NotAfter = time.Now().Add(left)
		c.current = &pair
		c.tell()
		if got := strings.Contains(log.String(), "WARN"); got != want {
			t.Errorf("%v left: warned %v\n%s", left, got, &log)
		}
	}
}

// TLS below 1.2 is refused, and no protocol is negotiated.
func TestConfigOfACertificate(t *testing.T) {
	c, err := OpenCertificate(CertificateSource{SelfSigned: true}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if config := c.Config(); config.MinVersion < tls.VersionTLS12 || len(config.NextProtos) > 0 || config.ClientAuth != tls.NoClientCert {
		t.Errorf("version %x, protocols %v, client certificates %v", config.MinVersion, config.NextProtos, config.ClientAuth)
	}
}
