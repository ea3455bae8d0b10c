package edge

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"

	"galgo/internal/transport"
	"galgo/internal/wire"
)

// eventsPerSecond bounds the records about what peers do wrong: a hostile one must
// not fill the disk. What was left out is counted in the next record.
const eventsPerSecond = 10

// events writes what happens at the edge to the log. It never writes what a client
// sent in a body: names typed in the wrong field may be passwords.
type events struct {
	log *slog.Logger

	mu         sync.Mutex
	second     int64
	written    int
	suppressed int
}

func newEvents(log *slog.Logger) *events { return &events{log: log} }

// allowed reports whether another record about a peer's fault may be written, and
// how many were left out before it.
func (e *events) allowed() (ok bool, suppressed int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if now := time.Now().Unix(); now != e.second {
		e.second, e.written = now, 0
	}
	if e.written >= eventsPerSecond {
		e.suppressed++
		return false, 0
	}
	e.written++
	suppressed, e.suppressed = e.suppressed, 0
	return true, suppressed
}

// fault writes a record about what a peer did wrong, within the limit.
func (e *events) fault(message string, attrs ...slog.Attr) {
	ok, suppressed := e.allowed()
	if !ok {
		return
	}
	if suppressed > 0 {
		attrs = append(attrs, slog.Int("suppressed", suppressed))
	}
	e.log.LogAttrs(context.Background(), slog.LevelWarn, message, attrs...)
}

func (c *conn) attrs() []slog.Attr {
	return []slog.Attr{slog.Uint64("connection", uint64(c.id)), slog.String("address", c.address)}
}

func (e *events) login(c *conn, b *binding, sdk, version string) {
	e.log.LogAttrs(context.Background(), slog.LevelInfo, "client signed in", append(c.attrs(),
		slog.Uint64("user", uint64(b.actor.User)), slog.String("client", b.client.String()),
		slog.Uint64("session", b.epoch), slog.String("sdk", sdk), slog.String("sdk_version", version))...)
}

func (e *events) logout(c *conn, b *binding) {
	e.log.LogAttrs(context.Background(), slog.LevelInfo, "client signed out", append(c.attrs(),
		slog.Uint64("user", uint64(b.actor.User)), slog.String("client", b.client.String()))...)
}

func (e *events) evicted(c *conn, reason wire.EvictionReason) {
	e.fault("session refused or ended", append(c.attrs(), slog.String("reason", reason.String()))...)
}

func (e *events) dropped(c *conn, why string) {
	e.fault("frame ignored", append(c.attrs(), slog.String("reason", why))...)
}

func (e *events) closed(c *conn, err error) {
	e.log.LogAttrs(context.Background(), slog.LevelDebug, "connection ended", append(c.attrs(), slog.String("reason", err.Error()))...)
}

func (e *events) refused(peer transport.Incoming, limit int) {
	e.fault("connection refused: as many are open as may be", slog.String("address", addressOf(peer)), slog.Int("limit", limit))
}

func (e *events) notOpened(peer transport.Incoming, err error) {
	e.fault("connection not opened: the handshake did not come to its end", slog.String("address", addressOf(peer)), slog.String("reason", err.Error()))
}

// addressOf is the address of a peer, empty if it has none.
func addressOf(peer interface{ RemoteAddr() net.Addr }) string {
	if a := peer.RemoteAddr(); a != nil {
		return a.String()
	}
	return ""
}

func (e *events) acceptFailed(err error, pause time.Duration) {
	e.fault("accept failed, trying again", slog.String("error", err.Error()), slog.Duration("pause", pause))
}

func (e *events) undetached(sessions int) {
	e.log.LogAttrs(context.Background(), slog.LevelWarn, "stopped before the node took note of lost sessions", slog.Int("sessions", sessions))
}

func (e *events) badHash(user uint32, err error) {
	e.fault("stored password hash cannot be checked, set a new password", slog.Uint64("user", uint64(user)), slog.String("error", err.Error()))
}

func (e *events) readFailed(group uint64, err error) {
	e.fault("poll could not be read", slog.Uint64("group", group), slog.String("error", err.Error()))
}
