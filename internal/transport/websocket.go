package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/coder/websocket"

	"galgo/internal/wire"
)

const (
	// gatherMax bounds the frames, in bytes, that are copied together so that they
	// leave in one fragment.
	gatherMax = 32 << 10
	// fragmentMax is more than a fragment is ever sent with: half of what stock
	// clients take.
	fragmentMax = 8 << 20
	// goodbyeTimeout bounds the write of the last words.
	goodbyeTimeout = time.Second
)

// goodbye is a close frame of a server: code 1001, going away.
var goodbye = []byte{0x88, 2, 0x03, 0xe9}

// errText is a message of text, which holds no frame.
var errText = errors.New("transport: a WebSocket message of text, want binary")

// messages is a WebSocket connection: each binary message is one frame.
type messages struct {
	net.Conn // beneath: deadlines and addresses
	ws       *websocket.Conn
	server   bool

	// Of the reader.
	message io.Reader // nil between messages
	frame   intake

	writing sync.Mutex
	scratch []byte
}

func newMessages(ws *websocket.Conn, beneath net.Conn, sizeMax int64, server bool) *messages {
	ws.SetReadLimit(sizeMax)
	return &messages{Conn: beneath, ws: ws, server: server}
}

// Read never returns io.EOF: a peer that has closed does not listen either.
func (m *messages) Read(p []byte) (int, error) {
	if m.message == nil {
		kind, message, err := m.ws.Reader(context.Background())
		switch {
		case err != nil:
			return 0, endOf(err)
		case kind != websocket.MessageBinary:
			return 0, errText
		}
		m.message = message
		m.frame.begin()
		// The library waits for all that is asked for. What comes behind the first byte
		// is waited for under a deadline, and whoever sets it has to know of that byte.
		p = p[:1]
	}
	n, whole, err := m.frame.read(m.message, p)
	if whole {
		m.message = nil
	}
	return n, endOf(err)
}

// endOf makes the end of the connection between two messages what it is: an end,
// and not the end of what the peer has to say.
func endOf(err error) error {
	if err == nil || errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return err
	}
	if status := websocket.CloseStatus(err); status != -1 || errors.Is(err, io.EOF) {
		return errPeerClosed
	}
	return err
}

var errPeerClosed = errors.New("transport: the peer closed the connection")

func (m *messages) Write(p []byte) (int, error) {
	pieces := net.Buffers{p}
	if err := m.WriteFrames(&pieces); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (m *messages) WriteFrames(pieces *net.Buffers) error {
	m.writing.Lock()
	defer m.writing.Unlock()
	err := eachFrame(*pieces, m.writeMessage)
	*pieces = nil
	return err
}

func (m *messages) writeMessage(frame [][]byte, size int) error {
	if len(frame) > 1 && size <= gatherMax {
		m.scratch = m.scratch[:0]
		for _, p := range frame {
			m.scratch = append(m.scratch, p...)
		}
		frame = [][]byte{m.scratch}
	}
	if len(frame) == 1 && size <= fragmentMax {
		return m.ws.Write(context.Background(), websocket.MessageBinary, frame[0])
	}
	w, err := m.ws.Writer(context.Background(), websocket.MessageBinary)
	if err != nil {
		return err
	}
	for _, p := range frame {
		for len(p) > 0 {
			n := min(len(p), fragmentMax)
			if _, err := w.Write(p[:n]); err != nil {
				return err
			}
			p = p[n:]
		}
	}
	return w.Close()
}

// Drop reports that a peer whose messages hold no frames is not listened to further.
func (*messages) Drop() bool { return false }

func (*messages) Transport() wire.Transport { return wire.TransportWebSocket }

// Close says that the server goes away, if nothing is being written, and does not
// wait for what the peer says to it.
func (m *messages) Close() error {
	if m.server && m.writing.TryLock() {
		m.Conn.SetWriteDeadline(time.Now().Add(goodbyeTimeout))
		m.Conn.Write(goodbye) // best effort: the connection ends here either way
		m.writing.Unlock()
	}
	m.Conn.Close()
	return m.ws.CloseNow()
}
