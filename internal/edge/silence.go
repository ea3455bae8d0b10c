package edge

import (
	"context"
	"time"

	"galgo/internal/wire"
)

// silenceFactor is how many heartbeat intervals a member of a consumer group may be
// silent: with the 30 s of the default that is 36 s.
const silenceFactor = 1.2

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
		s.endSilent(d, time.Now().Add(-time.Duration(silenceFactor*float64(interval))))
	}
}

// endSilent ends the sessions of members of which nothing came since.
func (s *Server) endSilent(d *detacher, since time.Time) {
	view := s.backend.View()
	for _, c := range s.registry.spoken() {
		b := c.bound.Load()
		if c.detacher != d || b == nil || !c.lastHeard().Before(since) || !isMember(view, b) {
			continue
		}
		if c.server.registry.unbind(c, b) {
			d.detach(b)
			c.evict(c.transportID(), wire.EvictionStaleClient)
			c.handedOver()
		}
	}
}

func (c *conn) lastHeard() time.Time { return time.UnixMilli(c.heard.Load()) }
