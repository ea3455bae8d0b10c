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
	throttleFree     = 5 // also how many attempts of a source are under way at a time
	throttleGapMin   = 50 * time.Millisecond
	throttleGapMax   = 2 * time.Second
	throttleForgive  = 10 * time.Second
	throttleWaitMax  = 10 * time.Second // who would wait longer is asked to come again
	throttleSources  = 4096
	throttleRefusals = throttleFree + 8 // the most that is remembered of a source
	throttleSample   = 8
)

// throttle slows down sources whose passwords keep being refused: over all of their
// connections, and without a word about it in the answers. And it gives each source few
// places among those whose passwords are checked, so that attempts which come all at
// once are no cheaper than one after another, and one source cannot keep others from
// signing in. What all sources together may cost is bounded by the hasher.
type throttle struct {
	off     bool
	mu      sync.Mutex
	sources map[source]*attempts
}

// source is where a connection comes from: an address, of which IPv6 counts the network,
// since a single machine has 2^64 of the others. The zero source is of connections
// without an address, which come from inside the process; those are not slowed.
type source = netip.Addr

// attempts is what is remembered of a source.
type attempts struct {
	refused int           // and not forgiven
	since   time.Time     // when refused was last counted
	next    time.Time     // the next attempt begins then, at the earliest
	places  chan struct{} // holds a token for each attempt that is under way
	present int           // attempts that are under way or wait for that
}

func newThrottle(off bool) *throttle {
	return &throttle{off: off, sources: map[source]*attempts{}}
}

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

// enter blocks until it is the turn of an attempt of the source; leave has to be called
// with how it ended. It reports false if that takes too long, or the connection ends first.
func (t *throttle) enter(ctx context.Context, s source) (leave func(refused bool), ok bool) {
	if t.off || !s.IsValid() {
		return func(bool) {}, true
	}
	start := time.Now()
	a := t.arrive(s, start)
	if !a.takePlace(ctx) {
		t.depart(s, a)
		return nil, false
	}
	pause, ok := t.reserve(a, time.Now(), start.Add(throttleWaitMax))
	if !ok || pause > 0 && !sleep(ctx, pause) {
		<-a.places
		t.depart(s, a)
		return nil, false
	}
	return func(refused bool) {
		if refused {
			t.refuse(a, time.Now())
		}
		<-a.places
		t.depart(s, a)
	}, true
}

// takePlace waits until few enough attempts of the source are under way.
func (a *attempts) takePlace(ctx context.Context) bool {
	select {
	case a.places <- struct{}{}:
		return true
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, throttleWaitMax)
	defer cancel()
	select {
	case a.places <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (t *throttle) arrive(s source, now time.Time) *attempts {
	t.mu.Lock()
	defer t.mu.Unlock()
	a, known := t.sources[s]
	if !known {
		if len(t.sources) >= throttleSources {
			t.forgetOne()
		}
		a = &attempts{since: now, places: make(chan struct{}, throttleFree)}
		t.sources[s] = a
	}
	a.present++
	return a
}

// depart forgets a source of which there is nothing to remember.
func (t *throttle) depart(s source, a *attempts) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a.present--; a.present == 0 && a.refused == 0 && !time.Now().Before(a.next) {
		delete(t.sources, s)
	}
}

// reserve takes the next place in the line of a source, and returns how far away it is;
// false if that is behind the deadline.
func (t *throttle) reserve(a *attempts, now, deadline time.Time) (pause time.Duration, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a.forgive(now)
	at := now
	if a.next.After(now) {
		at = a.next
	}
	if at.After(deadline) {
		return 0, false
	}
	a.next = at.Add(a.gap())
	return at.Sub(now), true
}

// refuse counts an attempt that was refused.
func (t *throttle) refuse(a *attempts, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a.forgive(now)
	a.refused, a.since = min(a.refused+1, throttleRefusals), now
}

// forgetOne makes room: of a few sources, which no one can choose, that which was quiet
// for the longest time. One with an attempt under way stays. Called with the lock held.
func (t *throttle) forgetOne() {
	var quiet source
	var since time.Time
	left := throttleSample
	for s, a := range t.sources {
		if a.present == 0 && (since.IsZero() || a.since.Before(since)) {
			quiet, since = s, a.since
		}
		if left--; left <= 0 && !since.IsZero() {
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
