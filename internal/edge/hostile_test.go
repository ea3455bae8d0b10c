package edge

import (
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"galgo"
)

// A hundred thousand guesses, from many sources and many of each at once, under names and
// with passwords as long as they may be: few are computed at a time, nothing of them stays,
// and who knows the password signs in all the same.
func TestGuessesAreBounded(t *testing.T) {
	const guesses, sources, atOnce = 100_000, 250, 500
	synctest.Test(t, func(t *testing.T) {
		hasher := &slowHasher{}
		r := newRig(t, func(o *Options) { hasher.Passwords = o.Hasher; o.Hasher = hasher })
		guess := func(n int) {
			server, client := net.Pipe()
			defer client.Close()
			r.listener.conns <- addressed{server, fmt.Sprintf("198.51.100.%d:%d", n%sources, 1024+n%60_000)}
			p := r.peerOver(client)
			name := "iggy"
			if n%2 == 0 {
				name = strings.Repeat("x", 50)
			}
			p.ask(registerHeader(p.client), loginBody(name, strings.Repeat("y", 100)))
		}
		for n := range sources { // what is remembered of each is there from now on
			guess(n)
		}
		before, start, computed := heap(), time.Now(), hasher.verified.Load()
		var crowd sync.WaitGroup
		for first := range atOnce {
			crowd.Go(func() {
				for n := first; n < guesses; n += atOnce {
					guess(n)
				}
			})
		}
		crowd.Wait()
		synctest.Wait()
		if after := heap(); after > before+16<<20 {
			t.Errorf("%d MiB of heap after %d guesses, %d before", after>>20, guesses, before>>20)
		}
		if most := hasher.most.Load(); most > sources*throttleFree {
			t.Errorf("%d guesses were computed at a time, want %d at most", most, sources*throttleFree)
		}
		gaps := int64(time.Since(start)/throttleGapMax) + 1
		if n, most := hasher.verified.Load()-computed, sources*(throttleRefusals+throttleFree+gaps); n > most {
			t.Errorf("%d guesses were computed in %v, want %d at most", n, time.Since(start), most)
		}
		p := r.connectFrom("203.0.113.1:1024")
		if _, code := p.parsed(p.ask(registerHeader(p.client), loginBody("iggy", "iggy"))); code != galgo.CodeOK {
			t.Errorf("the right password from elsewhere: %v", code)
		}
	})
}

// heap is what is in use, in bytes.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
