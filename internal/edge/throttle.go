package edge

import (
	"context"
	"net/netip"
	"sync"
	"time"
)

// Bounds of the throttle. A source may be refused a few times for nothing, as people
// mistype; from then on its attempts come one after another with a gap that doubles, and
// each further time without a refusal forgives one.
const (
	throttleFree     = 5
	throttleGapMin   = 50 * time.Millisecond
	throttleGapMax   = 2 * time.Second
	throttleForgive  = 10 * time.Second
	throttleWaitMax  = 10 * time.Second // who would wait longer is asked to come again
	throttleSources  = 4096
	throttleRefusals = throttleFree + 8 // the most that is remembered of a source
	throttleSample   = 8
)

// throttle slows down sources whose passwords and tokens keep being refused: over all
// of their connections, and without a word about it in the answers. It is about one
// source alone. What all sources together may cost is bounded by the hasher.
type throttle struct {
	mu      sync.Mutex
	sources map[source]attempts
}

// source is where a connection comes from: an address, of which IPv6 counts the network,
// since a single machine has 2^64 of the others. The zero source is of connections
// without an address, which come from inside the process; those are not slowed.
type source = netip.Addr

// attempts is what is remembered of a source.
type attempts struct {
	refused int       // and not forgiven
	since   time.Time // when refused was last counted
	next    time.Time // the next attempt begins then, at the earliest
}

func newThrottle() *throttle { return &throttle{sources: map[source]attempts{}} }

func sourceOf(address string) source {
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return source{}
	}
	ip := a.Addr().Unmap().WithZone("")
	if ip.Is4() {
		return ip
	}
	network, err := ip.Prefix(64)
	if err != nil {
		return source{}
	}
	return network.Addr()
}

// wait blocks until it is the source's turn. It reports false if that takes too long,
// or the connection ends first.
func (t *throttle) wait(ctx context.Context, s source) bool {
	pause, ok := t.reserve(s, time.Now())
	return ok && (pause <= 0 || sleep(ctx, pause))
}

// reserve takes the next place in the line of a source, and returns how far away it is.
func (t *throttle) reserve(s source, now time.Time) (pause time.Duration, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a, known := t.sources[s]
	if !known {
		return 0, true
	}
	a.forgive(now)
	if a.refused == 0 && !now.Before(a.next) {
		delete(t.sources, s)
		return 0, true
	}
	at := now
	if a.next.After(now) {
		at = a.next
	}
	if pause = at.Sub(now); pause > throttleWaitMax {
		return 0, false
	}
	a.next = at.Add(a.gap())
	t.sources[s] = a
	return pause, true
}

// refuse counts an attempt that was refused.
func (t *throttle) refuse(s source, now time.Time) {
	if !s.IsValid() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	a, known := t.sources[s]
	if !known && len(t.sources) >= throttleSources {
		t.forgetOne()
	}
	a.forgive(now)
	a.refused, a.since = min(a.refused+1, throttleRefusals), now
	t.sources[s] = a
}

// forgetOne makes room: of a few sources, which no one can choose, that which was quiet
// for the longest time. Called with the lock held.
func (t *throttle) forgetOne() {
	var quiet source
	var since time.Time
	left := throttleSample
	for s, a := range t.sources {
		if since.IsZero() || a.since.Before(since) {
			quiet, since = s, a.since
		}
		if left--; left == 0 {
			break
		}
	}
	delete(t.sources, quiet)
}

func (a *attempts) forgive(now time.Time) {
	n := int(now.Sub(a.since) / throttleForgive)
	if n <= 0 || a.refused == 0 {
		return
	}
	a.refused = max(0, a.refused-n)
	a.since = a.since.Add(time.Duration(n) * throttleForgive)
}

// gap is the time between two attempts of the source.
func (a *attempts) gap() time.Duration {
	if a.refused < throttleFree {
		return 0
	}
	return min(throttleGapMin<<(a.refused-throttleFree), throttleGapMax)
}
