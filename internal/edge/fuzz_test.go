package edge

import (
	"testing"
	"time"
)

// FuzzConnection writes bytes to a connection that is signed in. Whatever they
// are, the server goes on serving others.
func FuzzConnection(f *testing.F) {
	for _, frame := range requestVectors(f) {
		f.Add(frame)
	}
	r := newRig(f, func(o *Options) { o.FrameMax = 1 << 20; o.ByteBudget = 4 << 20 })
	admin := r.signedIn()
	admin.makeTopic(2)
	f.Fuzz(func(t *testing.T, data []byte) {
		r.nextID.Add(1)
		here := *r // with the testing.T of this run
		here.t = t
		p := here.signedIn()
		// Make what looks like a frame one of this session, or nothing gets far.
		if len(data) >= 256 {
			data = p.as(data)
		}
		drained := make(chan struct{})
		go func() {
			defer close(drained)
			for err := error(nil); err == nil; {
				_, err = p.tryReceive()
			}
		}()
		p.conn.SetWriteDeadline(time.Time{})
		p.conn.Write(data)
		p.conn.Close()
		<-drained
		other := *admin
		other.t = t
		other.alive()
	})
}
