package peer

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"time"
)

// protocolName is what the links are called in TLS.
const protocolName = "galgo-links"

// TLS secures the links. Who accepts shows a certificate; who dials is known by its
// proof of the secret, which is bound to the session.
type TLS struct {
	certificate tls.Certificate
	roots       *x509.CertPool // nil: the certificate is not checked
}

// SelfSigned is TLS with a certificate made for this process. Peers take any: what they
// trust is the proof of the secret, which nobody between the two ends can pass on.
func SelfSigned() (*TLS, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(10, 0, 0), DNSNames: []string{"localhost"},
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	return &TLS{certificate: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}}, nil
}

// LoadTLS reads the certificate of this node with its key, and the authorities that
// those of the others are checked with; without a file for them, those of the system.
func LoadTLS(certFile, keyFile, caFile string) (*TLS, error) {
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("cluster.tls.cert_file, cluster.tls.key_file: %w", err)
	}
	t := &TLS{certificate: cert}
	if caFile == "" {
		if t.roots, err = x509.SystemCertPool(); err != nil {
			return nil, fmt.Errorf("cluster.tls.ca_file is not set, and the authorities of the system cannot be read: %w", err)
		}
		return t, nil
	}
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("cluster.tls.ca_file: %w", err)
	}
	t.roots = x509.NewCertPool()
	if !t.roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("cluster.tls.ca_file: %s holds no certificate in PEM", caFile)
	}
	return t, nil
}

func (t *TLS) server() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{protocolName}, Certificates: []tls.Certificate{t.certificate}, SessionTicketsDisabled: true}
}

// client is the configuration to dial a node with. Its certificate must be for the host
// that is dialed, or for the name of the node.
func (t *TLS) client(n Node) *tls.Config {
	host, _, _ := net.SplitHostPort(n.Address)
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{protocolName}, ServerName: host,
		InsecureSkipVerify: true, // VerifyConnection does it, for either name
		VerifyConnection: func(s tls.ConnectionState) error {
			if s.NegotiatedProtocol != protocolName {
				return fmt.Errorf("%w: over TLS it speaks %q", ErrHandshake, s.NegotiatedProtocol)
			}
			if t.roots == nil {
				return nil
			}
			return t.verify(s.PeerCertificates, host, n.Name)
		},
	}
}

func (t *TLS) verify(chain []*x509.Certificate, names ...string) error {
	if len(chain) == 0 {
		return errors.New("peer: the other node shows no certificate")
	}
	o := x509.VerifyOptions{Roots: t.roots, Intermediates: x509.NewCertPool()}
	for _, c := range chain[1:] {
		o.Intermediates.AddCert(c)
	}
	var err error
	for _, o.DNSName = range names {
		var failed error
		if _, failed = chain[0].Verify(o); failed == nil {
			return nil
		}
		err = errors.Join(err, failed)
	}
	return fmt.Errorf("peer: certificate of the other node: %w", err)
}
