package test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"galgo"
	"galgo/client"
	"galgo/internal/disk/memdisk"
)

// gaps is when producers were last answered, and how long they waited at most.
type gaps struct {
	mu      sync.Mutex
	last    []time.Time
	longest []time.Duration
}

func (g *gaps) answered(i int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if !g.last[i].IsZero() {
		g.longest[i] = max(g.longest[i], now.Sub(g.last[i]))
	}
	g.last[i] = now
}

// take returns the longest waits since the last call.
func (g *gaps) take() (longest []time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	longest = append(longest, g.longest...)
	clear(g.longest)
	return longest
}

// produce sends one message after another until the context ends.
func (g *gaps) produce(ctx context.Context, t *testing.T, c *client.Client, i int) {
	for n := 0; ctx.Err() == nil; n++ {
		m := []galgo.Message{{Payload: fmt.Appendf(nil, "gap %d %d", i, n)}}
		if _, err := c.SendMessages(context.Background(), galgo.NamedID("s"), galgo.NamedID("t"), galgo.ToPartition(uint32(i)), m); err != nil {
			t.Errorf("producer %d, message %d: %v", i, n, err)
			return
		}
		g.answered(i)
	}
}

// What a client may wait for with the default settings, in virtual time: it does not
// depend on the machine.
const (
	gapOfAKill    = 600 * time.Millisecond
	gapOfARestart = time.Second
)

// A producer hardly waits while a primary is killed, and who connects after all nodes lost
// power does not wait for replicas that wait for each other.
func TestGapsInVirtualTime(t *testing.T) {
	for seed := range uint64(2) {
		synctest.Test(t, func(t *testing.T) {
			v := newVirtual(t, 4*seed, 3)
			for i := range v.nodes {
				v.start(i)
			}
			for i := range v.nodes {
				v.serves(i)
			}
			admin := v.dial(0)
			createTopic(t, admin, 3)
			admin.Close()
			g := &gaps{last: make([]time.Time, 3), longest: make([]time.Duration, 3)}
			ctx, stop := context.WithCancel(context.Background())
			var all sync.WaitGroup
			for i := range 3 {
				c := v.dial(i)
				all.Go(func() { g.produce(ctx, t, c, i); c.Close() })
			}
			time.Sleep(3 * time.Second)
			g.take()
			for i := range v.nodes {
				v.down(i, (*memdisk.Disk).Kill)
				time.Sleep(3 * time.Second)
				killed := g.take()
				v.start(i)
				v.serves(i)
				time.Sleep(5 * time.Second)
				back := g.take()
				t.Logf("seed %d, node %d is killed: producers at nodes 0, 1, 2 wait %v; while it comes back %v", seed, i, killed, back)
				if most := slices.Max(slices.Concat(killed, back)); most > gapOfAKill {
					t.Errorf("seed %d, node %d is killed: a producer waits %v, want at most %v", seed, i, most, gapOfAKill)
				}
			}
			for k := range v.nodes {
				v.nodes[k].host.Down()
				v.nodes[k].disk = v.nodes[k].disk.PowerLoss(v.rng)
			}
			for k, n := range v.nodes {
				v.end(n)
				v.start(k)
			}
			began := time.Now()
			for k := range v.nodes {
				v.serves(k)
			}
			serving := time.Since(began)
			fresh := v.dial(0)
			if _, err := fresh.SendMessages(ctx, galgo.NamedID("s"), galgo.NamedID("t"), galgo.ToPartition(0), []galgo.Message{{Payload: []byte("fresh")}}); err != nil {
				t.Error(err)
			}
			took := time.Since(began)
			fresh.Close()
			time.Sleep(15 * time.Second)
			t.Logf("seed %d, all nodes lose power: clients can connect after %v, a new one is answered after %v; producers wait %v", seed, serving, took, g.take())
			if took > gapOfARestart {
				t.Errorf("seed %d, all nodes lost power: a client is answered after %v, want at most %v", seed, took, gapOfARestart)
			}
			stop()
			all.Wait()
			for _, n := range v.nodes {
				v.end(n)
			}
		})
	}
}
