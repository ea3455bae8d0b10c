package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sync/errgroup"

	"galgo/internal/config"
	"galgo/internal/transport"
)

// listen binds what clients come in by: all of it, or nothing.
func (n *Node) listen() (all []transport.Listener, err error) {
	defer func() {
		if err != nil {
			for _, l := range all {
				l.Stop()
				l.Close()
			}
		}
	}()
	at := n.cfg.Listen()
	for _, t := range []struct {
		setting, address string
		open             func(address string) (transport.Listener, error)
		bound            *string
	}{
		{"tcp.address", at.TCP, n.listenTCP, &n.bound.TCP},
		{"quic.address", at.QUIC, n.listenQUIC, &n.bound.QUIC},
		{"websocket.address", at.WebSocket, n.listenWebSocket, &n.bound.WebSocket},
	} {
		if t.address == "" {
			continue
		}
		l, err := t.open(t.address)
		switch {
		case errors.Is(err, transport.ErrCertificate):
			return all, err
		case err != nil:
			return all, fmt.Errorf("%s: %w; is another server running?", t.setting, err)
		}
		all = append(all, l)
		*t.bound = l.Addr().String()
	}
	return all, nil
}

func (n *Node) listenStream(address string) (net.Listener, error) {
	if n.network != nil {
		return n.network.Listen("tcp", address)
	}
	return net.Listen("tcp", address)
}

func (n *Node) listenTCP(address string) (transport.Listener, error) {
	secure, err := n.secured("tcp.tls", n.cfg.TCP.TLS, address)
	if err != nil {
		return nil, err
	}
	l, err := n.listenStream(address)
	if err != nil {
		return nil, err
	}
	return transport.ListenTCP(l, secure), nil
}

func (n *Node) listenWebSocket(address string) (transport.Listener, error) {
	w := n.cfg.WebSocket
	secure, err := n.secured("websocket.tls", w.TLS, address)
	if err != nil {
		return nil, err
	}
	l, err := n.listenStream(address)
	if err != nil {
		return nil, err
	}
	return transport.ListenWebSocket(l, secure, int64(min(w.MaxMessageSize, n.cfg.MessageBus.MaxMessageSize))), nil
}

func (n *Node) listenQUIC(address string) (transport.Listener, error) {
	q := n.cfg.QUIC
	certificate, err := transport.OpenCertificate(transport.CertificateSource{
		Setting: "quic.certificate", CertFile: q.Certificate.CertFile, KeyFile: q.Certificate.KeyFile,
		SelfSigned: q.Certificate.SelfSigned, Always: q.Certificate.SelfSigned, Exposed: !isLoopback(address),
	}, n.log)
	if err != nil {
		return nil, err
	}
	socket, err := net.ListenPacket("udp", address)
	if err != nil {
		return nil, err
	}
	return transport.ListenQUIC(socket, certificate.Config(), transport.QUICOptions{
		Streams: q.Streams, InitialMTU: int(q.InitialMTU), Window: int64(q.ReceiveWindow), StreamWindow: int64(q.StreamReceiveWindow),
		KeepAlive: q.KeepAliveInterval, IdleTimeout: q.MaxIdleTimeout, HandshakeTime: n.cfg.MessageBus.HandshakeGrace,
	})
}

// secured is the TLS configuration of a listener, nil if it has none.
func (n *Node) secured(setting string, t config.TLS, address string) (*tls.Config, error) {
	if !t.Enabled {
		return nil, nil
	}
	certificate, err := transport.OpenCertificate(transport.CertificateSource{
		Setting: setting, CertFile: t.CertFile, KeyFile: t.KeyFile, SelfSigned: t.SelfSigned, Exposed: !isLoopback(address),
	}, n.log)
	if err != nil {
		return nil, err
	}
	return certificate.Config(), nil
}

// serveAll serves clients on all listeners until ctx ends or one of them fails.
func (n *Node) serveAll(ctx context.Context, listeners []transport.Listener) error {
	all, ctx := errgroup.WithContext(ctx)
	for _, l := range listeners {
		all.Go(func() error { return n.edge.Serve(ctx, l) })
	}
	return all.Wait()
}

// reachable reports whether clients of other machines can come in by any of the
// addresses.
func reachable(at config.Bound) bool {
	for _, address := range []string{at.TCP, at.QUIC, at.WebSocket, at.HTTP} {
		if address != "" && !isLoopback(address) {
			return true
		}
	}
	return false
}

func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}
