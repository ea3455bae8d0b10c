package transport

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"

	"github.com/coder/websocket"

	"galgo/internal/wire"
)

// DialTCP connects over TCP, under TLS if there is a configuration of it.
func DialTCP(ctx context.Context, addr string, config *tls.Config) (Conn, error) {
	conn, err := dialStream(ctx, addr, config)
	if err != nil {
		return nil, err
	}
	return OverStream(conn), nil
}

func dialStream(ctx context.Context, addr string, config *tls.Config) (net.Conn, error) {
	if config == nil {
		return new(net.Dialer).DialContext(ctx, "tcp", addr)
	}
	return (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", addr)
}

// DialQUIC connects over QUIC. A configuration without a server name takes the host
// of the address.
func DialQUIC(ctx context.Context, addr string, config *tls.Config) (Conn, error) {
	return dialQUIC(ctx, addr, named(config, addr))
}

// named is a configuration with a server name.
func named(config *tls.Config, addr string) *tls.Config {
	if config == nil {
		config = new(tls.Config)
	}
	if config.ServerName == "" {
		config = config.Clone()
		config.ServerName, _, _ = net.SplitHostPort(addr)
	}
	return config
}

// DialWebSocket connects over WebSocket, under TLS if there is a configuration of it.
// Answers have sizeMax bytes at most.
func DialWebSocket(ctx context.Context, addr string, config *tls.Config, sizeMax int64) (Conn, error) {
	var beneath net.Conn
	dial := func(ctx context.Context, _, addr string) (net.Conn, error) {
		var err error
		beneath, err = dialStream(ctx, addr, config)
		return beneath, err
	}
	scheme := "ws"
	if config != nil {
		scheme = "wss"
	}
	// A client for this connection alone: it shares nothing and goes through no proxy.
	through := &http.Client{
		Transport:     &http.Transport{DialContext: dial, DialTLSContext: dial, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	ws, _, err := websocket.Dial(ctx, scheme+"://"+addr+"/", &websocket.DialOptions{HTTPClient: through})
	if err != nil {
		if beneath != nil {
			beneath.Close()
		}
		return nil, err
	}
	if sizeMax == 0 {
		sizeMax = wire.FrameSizeMax
	}
	return newMessages(ws, beneath, sizeMax, false), nil
}
