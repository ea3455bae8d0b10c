package transport

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/coder/websocket"
)

// upgradeMax bounds the bytes of the HTTP request that opens a WebSocket connection.
const upgradeMax = 16 << 10

// ListenWebSocket carries frames over WebSocket on the connections of a listener,
// under TLS if there is a configuration of it. Messages have sizeMax bytes at most.
func ListenWebSocket(listener net.Listener, config *tls.Config, sizeMax int64) Listener {
	return &streamListener{listener, func(ctx context.Context, conn net.Conn) (Conn, error) {
		if config != nil {
			secured, err := handshake(ctx, conn, config)
			if err != nil {
				return nil, err
			}
			conn = secured
		}
		ws, err := acceptWebSocket(ctx, conn)
		if err != nil {
			conn.Close()
			return nil, err
		}
		return newMessages(ws, conn, sizeMax, true), nil
	}}
}

// acceptWebSocket answers the one request of a connection. There is no HTTP server
// around it: it would own the connection's deadlines and goroutine.
func acceptWebSocket(ctx context.Context, conn net.Conn) (*websocket.Conn, error) {
	ended := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	in := bufio.NewReader(io.LimitReader(conn, upgradeMax))
	request, err := http.ReadRequest(in)
	if err != nil {
		ended()
		return nil, fmt.Errorf("request to upgrade: %w", err)
	}
	ws, err := websocket.Accept(&upgrade{conn: conn, in: in, header: http.Header{}}, request, nil)
	if !ended() && err == nil {
		ws.CloseNow()
		err = context.Cause(ctx)
	}
	return ws, err
}

// upgrade is the answer to a request to upgrade.
type upgrade struct {
	conn   net.Conn
	in     *bufio.Reader
	header http.Header
	err    error
}

func (u *upgrade) Header() http.Header { return u.header }

func (u *upgrade) WriteHeader(status int) {
	if status != http.StatusSwitchingProtocols {
		u.header.Set("Connection", "close")
	}
	out := bufio.NewWriter(u.conn)
	fmt.Fprintf(out, "HTTP/1.1 %d %s\r\n", status, http.StatusText(status))
	u.header.Write(out) // what goes wrong shows when it is flushed
	io.WriteString(out, "\r\n")
	u.err = out.Flush()
}

func (u *upgrade) Write(body []byte) (int, error) { return u.conn.Write(body) }

// Hijack hands the connection over. Bytes behind the request come with it.
func (u *upgrade) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return u.conn, bufio.NewReadWriter(u.in, bufio.NewWriter(u.conn)), u.err
}
