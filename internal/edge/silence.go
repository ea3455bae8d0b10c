package edge

import (
	"context"
	"io"
	"sync/atomic"
	"time"

	"galgo/internal/wire"
)

// Silence is how long a member of a consumer group, or a node, may be silent where it is
// looked at every so often: with the 30 s of the default that is 36 s.
func Silence(interval time.Duration) time.Duration { return interval + interval/5 }

// life is what a connection knows of its peer being there. Any byte that it sends is a sign,
// and so is that it takes an answer. Who waits for this node, or is being written to, is
// there as long as the deadlines of that let it be. Time is monotone: a clock that is set
// makes nobody silent.
type life struct {
	began   time.Time
	last    atomic.Int64 // ns since began, of the last sign
	serving atomic.Bool  // a request of it is being served
}

func (l *life) sign() { l.last.Store(int64(time.Since(l.began))) }

// served ends the serving of a request: until now its peer has waited for this node. In this
// order, or whoever looks in between finds that it has been silent all the while.
func (l *life) served() {
	l.sign()
	l.serving.Store(false)
}

// silent is for how long there was no sign.
func (l *life) silent() time.Duration { return time.Since(l.began) - time.Duration(l.last.Load()) }

// reader takes what comes from a peer for signs of it.
func (l *life) reader(r io.Reader) io.Reader { return signs{r, l} }

type signs struct {
	io.Reader
	life *life
}

func (s signs) Read(b []byte) (int, error) {
	n, err := s.Reader.Read(b)
	if n > 0 {
		s.life.sign()
	}
	return n, err
}

// watch ends the sessions of members that have fallen silent, until the context ends.
// Others wait for their partitions; whoever is in no group may be silent for ever. What
// the clock of this node decides is who is reported: the log decides what becomes of it.
func (s *Server) watch(ctx context.Context, d *detacher) {
	interval := s.options.HeartbeatInterval
	if interval <= 0 {
		return
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		s.endSilent(d, Silence(interval))
	}
}

// endSilent ends the sessions of members of which there was no sign for so long, and of those
// whom the log counts as gone.
func (s *Server) endSilent(d *detacher, patience time.Duration) {
	view := s.backend.View()
	for _, c := range s.registry.spoken() {
		b := c.bound.Load()
		if c.detacher != d || b == nil {
			continue
		}
		if view.IsDetached(b.client, b.epoch) {
			c.endDetached(b)
			c.handedOver()
			continue
		}
		if c.isSilent(patience) && isMember(view, b) && s.registry.unbind(c, b) {
			d.detach(b)
			c.evict(c.transportID(), wire.EvictionStaleClient)
			c.handedOver()
		}
	}
}

func (c *conn) isSilent(patience time.Duration) bool {
	return !c.life.serving.Load() && !c.out.busy() && c.life.silent() > patience
}

// endDetached ends a session that the log counts as one that has lost its connection, which
// it has not: this node was away for so long that it was taken for gone. The client may
// sign in again, and be a member again.
func (c *conn) endDetached(b *binding) {
	if c.server.registry.unbind(c, b) {
		c.evict(c.transportID(), wire.EvictionStaleClient)
	}
}
