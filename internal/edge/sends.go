package edge

import (
	"sync"
	"time"

	"github.com/zeebo/xxh3"

	"galgo"
	"galgo/internal/wire"
)

// sends are the sends and offset writes of a connection that wait for the node,
// and the sends whose outcome the client was told to be open: the same bytes again
// mean the same send (design.md §3.5), for the life of the connection.
type sends struct {
	conn *conn

	mu    sync.Mutex
	count int
	bytes int64
	open  []*write // oldest first
}

func newSends(c *conn) *sends { return &sends{conn: c} }

// write is one send or offset write in the hands of the node.
type write struct {
	conn   *conn
	place  placement
	mark   mark  // zero unless the bytes, seen again, mean this send
	charge int64 // of the byte budget, until the node is done
	timer  *time.Timer

	// Under the lock of sends.
	head     wire.RequestHeader // of the frame that waits for an answer
	waiting  bool               // one does
	done     bool               // the node is done with it
	outcome  outcome            // once done
	recorded bool               // in open
}

// placement names where a batch went, for the answer to a send.
type placement struct{ stream, topic, partition uint32 }

// outcome is what the node said.
type outcome struct {
	code galgo.Code
	base uint64
	op   uint64
}

// mark tells the bytes of one send from those of another on the same connection.
// The checksum of a batch covers ids, payloads and times; target covers where it
// was to go.
type mark struct {
	request  uint64
	target   uint64
	checksum uint64
	length   uint64
}

func markOf(r *request, batch wire.Batch) mark {
	target := r.body[:len(r.body)-len(batch)]
	return mark{r.Request, xxh3.Hash(target), batch.Checksum(), batch.Length()}
}

// idle reports whether nothing waits for the node.
func (s *sends) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count == 0
}

// fits reports whether a body may be read beside those that wait.
func (s *sends) fits(size int64) bool {
	o := &s.conn.server.options
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count == 0 || s.count < o.InflightSends && s.bytes+size <= o.InflightBytes
}

// begin registers a write that is about to go to the node; what it then says goes
// to finish. The charge is the request's, and becomes the write's.
func (s *sends) begin(r *request, place placement, m mark) *write {
	w := &write{conn: s.conn, place: place, mark: m, charge: r.charge, head: r.RequestHeader, waiting: true}
	r.charge = 0
	s.mu.Lock()
	s.count++
	s.bytes += w.charge
	s.mu.Unlock()
	w.timer = time.AfterFunc(s.conn.server.options.ReplyTimeout, w.expire)
	return w
}

// sent and stored are the done functions of the two kinds of writes.
func (w *write) sent(r SendReply)     { w.finish(outcome{r.Code, r.Base, r.Op}) }
func (w *write) stored(r OffsetReply) { w.finish(outcome{code: r.Code, op: r.Op}) }

// finish takes the outcome from the node, and answers if a frame waits for it.
func (w *write) finish(o outcome) {
	s := w.conn.sends
	w.timer.Stop()
	s.mu.Lock()
	w.done, w.outcome = true, o
	head, waiting := w.head, w.waiting
	if waiting {
		w.settle()
	}
	s.mu.Unlock()
	w.conn.server.budget.Release(w.charge)
	if waiting {
		w.conn.answerWrite(&head, w, o)
		w.conn.handedOver()
	}
}

// expire answers that the outcome is open.
func (w *write) expire() {
	s := w.conn.sends
	s.mu.Lock()
	head, waiting := w.head, w.waiting
	if waiting {
		w.leave()
		w.record()
	}
	s.mu.Unlock()
	if waiting {
		w.conn.deny(&head, galgo.CodeTransientNotCommitted)
		w.conn.handedOver()
	}
}

// repeated looks for a send of the same bytes whose outcome was open. If there is
// one, the frame is answered by what becomes of that send.
func (s *sends) repeated(r *request, m mark) bool {
	s.mu.Lock()
	w := s.find(m)
	if w == nil {
		s.mu.Unlock()
		return false
	}
	again := w.waiting // a third frame while the second still waits
	if !again {
		w.head, w.waiting = r.RequestHeader, true
		s.count++
		s.bytes += w.charge
	}
	done, o := w.done, w.outcome
	switch {
	case again:
	case done:
		w.settle()
	default:
		w.timer.Reset(s.conn.server.options.ReplyTimeout)
	}
	s.mu.Unlock()
	switch {
	case again:
		s.conn.deny(&r.RequestHeader, galgo.CodeTransientNotCommitted)
	case done:
		s.conn.answerWrite(&r.RequestHeader, w, o)
	}
	return true
}

func (s *sends) find(m mark) *write {
	for _, w := range s.open {
		if w.mark == m {
			return w
		}
	}
	return nil
}

// settle ends the wait of a frame for a write that is done. An outcome that stays
// open is remembered, so that the same bytes get the same answer.
func (w *write) settle() {
	w.leave()
	if w.outcome.code == galgo.CodeTransientNotCommitted {
		w.record()
	} else {
		w.forget()
	}
}

func (w *write) leave() {
	w.waiting = false
	w.conn.sends.count--
	w.conn.sends.bytes -= w.charge
}

func (w *write) record() {
	if w.recorded || w.mark == (mark{}) {
		return
	}
	s := w.conn.sends
	if len(s.open) == openSendsMax {
		s.open[0].forget()
	}
	w.recorded = true
	s.open = append(s.open, w)
}

func (w *write) forget() {
	if !w.recorded {
		return
	}
	w.recorded = false
	s := w.conn.sends
	for i := range s.open {
		if s.open[i] == w {
			s.open = append(s.open[:i:i], s.open[i+1:]...)
			return
		}
	}
}

// answerWrite answers a send or an offset write.
func (c *conn) answerWrite(head *wire.RequestHeader, w *write, o outcome) {
	if o.code != galgo.CodeOK {
		c.deny(head, o.code)
		return
	}
	h := wire.ReplyTo(head, galgo.CodeOK)
	h.Client, h.Op, h.Commit = c.transportID(), o.op, o.op
	var body [24]byte
	if head.Operation == wire.OperationSendMessages {
		c.push(&h, wire.AppendSendConfirmations(body[:0], wire.SendConfirmation{
			StreamID: w.place.stream, TopicID: w.place.topic, PartitionID: w.place.partition, BaseOffset: o.base,
		}), nil, nil)
	} else {
		c.push(&h, wire.AppendResultOK(body[:0]), nil, nil)
	}
}

// handedOver has the writer send what a goroutine of the node has queued, and the
// reader see that there is room again.
func (c *conn) handedOver() {
	c.out.signal()
	c.notify()
}
