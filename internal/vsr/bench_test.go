package vsr

import (
	"fmt"
	"testing"
)

// BenchmarkThreeReplicas is the cost of one op on all three replicas together,
// with this many of them in flight, without disk and network.
func BenchmarkThreeReplicas(b *testing.B) {
	for _, flight := range []int{1, 64, PipelineCeiling} {
		b.Run(fmt.Sprint(flight), func(b *testing.B) {
			b.ReportAllocs()
			g := &group{}
			for i := range 3 {
				c := config(uint8(i), 3)
				c.Pipeline = PipelineCeiling
				g.cores = append(g.cores, New(c, Recovered{Fresh: true}))
			}
			body := make([]byte, 256)
			for done := 0; done < b.N; done += flight {
				for range flight {
					c := g.cores[0]
					if _, _, err := c.Propose(Request{Operation: 160, Timestamp: c.NextTimestamp(0), Body: body}); err != nil {
						b.Fatal(err)
					}
				}
				for range 3 {
					for i := range 3 {
						g.perform(i, true, nil)
					}
				}
			}
		})
	}
}
