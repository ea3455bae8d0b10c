// Package httpapi answers over HTTP what machines around a node ask: whether its process
// turns, and whether it is ready to serve. It knows no user and gives away no data; the
// address it is bound to is for operators.
package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Bounds of what a peer can make the server hold.
const (
	connectionsMax = 64
	headerMax      = 8 << 10
	headerTime     = 5 * time.Second
	requestTime    = 10 * time.Second
	idleTime       = 30 * time.Second
)

// Status is an answer: OK, or what is waited for.
type Status struct {
	OK       bool     `json:"ok"`
	Phase    string   `json:"phase"`
	WaitsFor []string `json:"waits_for,omitempty"`
}

// Health is what is asked of a node, from any goroutine. ctx ends after a bounded time.
type Health interface {
	// Live reports whether the process turns; one that does not is to be started again.
	Live(ctx context.Context) Status
	// Ready reports whether the node serves, and nothing here is of the past.
	Ready(ctx context.Context) Status
}

// Serve answers /livez and /readyz on a listener until ctx ends, and closes it. It returns
// nil then.
func Serve(ctx context.Context, l net.Listener, h Health, log *slog.Logger) error {
	server := &http.Server{
		Handler: handler(h), MaxHeaderBytes: headerMax, ReadHeaderTimeout: headerTime, ReadTimeout: requestTime,
		WriteTimeout: requestTime, IdleTimeout: idleTime, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	err := server.Serve(&limited{Listener: l, slots: make(chan struct{}, connectionsMax)})
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

func handler(h Health) http.Handler {
	mux := http.NewServeMux()
	for path, ask := range map[string]func(context.Context) Status{"/livez": h.Live, "/readyz": h.Ready} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), requestTime/2)
			defer cancel()
			answer(w, ask(ctx))
		})
	}
	return mux
}

func answer(w http.ResponseWriter, s Status) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !s.OK {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(s) // who asked may be gone
}

// limited is a listener of which so many connections are open at a time; more are closed
// at once, so that they cannot keep others waiting.
type limited struct {
	net.Listener
	slots chan struct{}
}

func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.slots <- struct{}{}:
			return &slot{Conn: c, free: l.slots}, nil
		default:
			c.Close()
		}
	}
}

// slot is a connection that gives its place back, once.
type slot struct {
	net.Conn
	free chan struct{}
}

// Close is called once by the server of net/http, and may be called again.
func (s *slot) Close() error {
	err := s.Conn.Close()
	if !errors.Is(err, net.ErrClosed) {
		<-s.free
	}
	return err
}
