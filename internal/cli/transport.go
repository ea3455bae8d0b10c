package cli

import (
	"crypto/tls"
	"crypto/x509"
	"os"

	"galgo/client"
)

// Transports, by the words of the reference's command line.
const (
	transportTCP       = "tcp"
	transportQUIC      = "quic"
	transportWebSocket = "ws"
)

// carrier says how the server is reached: the transport, and what is checked of the
// server's certificate.
type carrier struct {
	transport  string
	quic, ws   string // addresses, where they are given by their own flags
	secure     bool
	caFile     string
	serverName string
	insecure   bool
}

func (c *carrier) flags(fs *flagSet) {
	fs.StringVar(&c.transport, "transport", c.transport, "how to reach the server: tcp, quic or ws (GALGO_TRANSPORT; default tcp)")
	fs.BoolVar(&c.secure, "tls", c.secure, "use TLS, and check the server's certificate; quic always does (GALGO_TLS=true)")
	fs.StringVar(&c.caFile, "tls-ca-file", c.caFile, "PEM file of those who vouch for the server, instead of the system's; implies --tls (GALGO_TLS_CA_FILE)")
	fs.StringVar(&c.serverName, "tls-domain", c.serverName, "name that the certificate must have, instead of the host of the address; implies --tls (GALGO_TLS_DOMAIN)")
	fs.BoolVar(&c.insecure, "tls-insecure", c.insecure, "take any certificate: whoever is in between can read the password; implies --tls")
	// As the reference calls them.
	fs.StringVar(&c.quic, "quic-server-address", c.quic, "")
	fs.StringVar(&c.ws, "websocket-server-address", c.ws, "")
	fs.BoolVar(&c.secure, "tcp-tls-enabled", c.secure, "")
	fs.StringVar(&c.serverName, "tcp-tls-domain", c.serverName, "")
	fs.StringVar(&c.serverName, "quic-server-name", c.serverName, "")
	for _, name := range []string{"quic-server-address", "websocket-server-address", "tcp-tls-enabled", "tcp-tls-domain", "quic-server-name"} {
		_ = fs.MarkHidden(name) // it is there
	}
}

// transport is what to connect over: flag, variable, default.
func (e *env) transport() (client.Transport, error) {
	switch name := orElse(e.globals.carrier.transport, orElse(e.getenv("GALGO_TRANSPORT"), transportTCP)); name {
	case transportTCP:
		return client.TCP, nil
	case transportQUIC:
		return client.QUIC, nil
	case transportWebSocket, "websocket":
		return client.WebSocket, nil
	default:
		return 0, usagef("--transport %s: want tcp, quic or ws", name)
	}
}

// flagAddress is where the flags say that the server is, by that of the transport or
// the common one; empty if they do not.
func (e *env) flagAddress() string {
	own := ""
	switch t, _ := e.transport(); t {
	case client.QUIC:
		own = e.globals.carrier.quic
	case client.WebSocket:
		own = e.globals.carrier.ws
	}
	return orElse(own, e.globals.address)
}

// addressOf is where the server is over a transport: flag, context, variable, default.
func (e *env) addressOf(t client.Transport) string {
	address := e.flagAddress()
	if address == "" {
		p, _ := e.profile() // login says what is wrong with it
		address = p.context().Address
	}
	otherwise := defaultAddress
	switch t {
	case client.QUIC:
		otherwise = defaultQUICAddress
	case client.WebSocket:
		otherwise = defaultWebSocketAddress
	}
	return orElse(address, orElse(e.getenv("GALGO_ADDRESS"), otherwise))
}

// carrierOptions are those of the client that follow from the flags.
func (e *env) carrierOptions() ([]client.Option, error) {
	t, err := e.transport()
	if err != nil {
		return nil, err
	}
	options := []client.Option{client.WithTransport(t)}
	c := &e.globals.carrier
	caFile, name := orElse(c.caFile, e.getenv("GALGO_TLS_CA_FILE")), orElse(c.serverName, e.getenv("GALGO_TLS_DOMAIN"))
	if !c.secure && !c.insecure && caFile == "" && name == "" && e.getenv("GALGO_TLS") != "true" {
		return options, nil
	}
	config := &tls.Config{ServerName: name, InsecureSkipVerify: c.insecure}
	if caFile != "" {
		if config.RootCAs, err = readRoots(caFile); err != nil {
			return nil, err
		}
	}
	return append(options, client.WithTLS(config)), nil
}

func readRoots(name string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(name)
	if err != nil {
		return nil, usagef("--tls-ca-file: %v", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, usagef("--tls-ca-file %s: no certificate in it, want PEM", name)
	}
	return roots, nil
}
