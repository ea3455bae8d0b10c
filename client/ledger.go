package client

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"galgo/internal/wire"
)

// Bounds of one write to a connection.
const (
	writeCallsMax = 64
	writeBytesMax = 4 << 20
)

// ledger knows every call that has no answer yet, across connections. Callers
// submit and abandon, the writer takes, the reader answers; the mutex is never held
// while anything blocks.
//
// A call is in calls from submit until its round ends. It is in queue, in order of
// seq, while it waits to be written.
type ledger struct {
	mu    sync.Mutex
	calls map[callKey]*call
	queue []*call
	// lineage counts sessions of which the server has not shown that they continue
	// the one before.
	lineage uint64
	seq     uint64
	// Numbers given out. Operations on metadata count apart from the rest, since the
	// server remembers theirs, and so do sends, whose numbers come from a window.
	metadata, others uint64
	failed           error // terminal: no call can succeed any more
	// lost says why there is no connection at present; nil while there is one.
	lost error

	kick    chan struct{} // capacity 1: the queue is not empty
	release func(*call)   // an abandoned call is done; called with mu held
}

func newLedger(release func(*call)) *ledger {
	return &ledger{calls: make(map[callKey]*call), kick: make(chan struct{}, 1), release: release}
}

// submit starts a round of a call: the first gives it its number, unless it is a
// send, which brings one.
func (l *ledger) submit(k *call) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed != nil {
		return l.failed
	}
	if k.seq == 0 {
		l.seq++
		k.seq = l.seq
		if k.number == 0 {
			k.number = l.nextNumber(k)
		}
	}
	if other, taken := l.calls[k.key()]; taken {
		panic(fmt.Sprintf("client: number %d of %s is taken by %s", k.number, k.name, other.name))
	}
	l.calls[k.key()] = k
	l.enqueue(k)
	return nil
}

func (l *ledger) nextNumber(k *call) uint64 {
	counter := &l.others
	if k.header.Operation.IsMetadata() || k.header.Operation == wire.OperationLogout {
		counter = &l.metadata
	}
	*counter++
	return *counter
}

// enqueue keeps the queue in order of seq, so that a call that is repeated goes out
// before those that were submitted after it.
func (l *ledger) enqueue(k *call) {
	k.queued = true
	at := len(l.queue)
	for at > 0 && l.queue[at-1].seq > k.seq {
		at--
	}
	l.queue = slices.Insert(l.queue, at, k)
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

// take returns the next calls to write, with their headers filled in for session.
// They are sent from now on, and their frames are not to be reused until written.
func (l *ledger) take(session uint64, now time.Time, batch []*call) []*call {
	l.mu.Lock()
	defer l.mu.Unlock()
	bytes, n := 0, 0
	for _, k := range l.queue {
		if len(batch) > 0 && (len(batch) == writeCallsMax || bytes+len(k.frame) > writeBytesMax) {
			break
		}
		n++
		k.queued = false
		if k.rule == replayInSession && k.doubtful && k.lineage != l.lineage {
			l.finish(k, answer{err: ErrSessionLost, settled: true})
			continue
		}
		k.prepare(session, l.lineage, now)
		batch = append(batch, k)
		bytes += len(k.frame)
	}
	l.queue = slices.Delete(l.queue, 0, n)
	return batch
}

func (k *call) prepare(session, lineage uint64, now time.Time) {
	k.header.Size = uint32(len(k.frame))
	k.header.Request, k.header.Session = k.number, session
	k.header.Put(k.frame[:wire.HeaderSize])
	k.sent, k.writing, k.sentAt, k.lineage = true, true, now, lineage
}

// written ends the writing of calls that take returned, whether or not it worked.
// From now on their answers are awaited.
func (l *ledger) written(batch []*call, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range batch {
		k.writing, k.sentAt = false, now
	}
}

// buffer is where the answer with this key should be read into.
func (l *ledger) buffer(key callKey, n int) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := l.calls[key]; k != nil && n <= cap(k.reply) {
		b := k.reply[:n]
		k.reply = nil
		return b
	}
	return make([]byte, n)
}

// answered ends a round of the call with this key. It is false when no call on this
// connection waits for such an answer.
func (l *ledger) answered(key callKey, a answer) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.calls[key]
	if k == nil || !k.sent {
		return false
	}
	l.finish(k, a)
	return true
}

// finish ends a round. The call is not in the queue.
func (l *ledger) finish(k *call, a answer) {
	delete(l.calls, k.key())
	if a.header.Operation != 0 {
		k.sent = false // answered: what is known of this round is in the answer
	}
	if k.abandoned || k.unattended {
		l.release(k)
		return
	}
	k.done <- a
}

// disconnected sorts the calls that were sent on a connection that is gone: what
// may be repeated is queued again, before everything younger; the rest ends.
func (l *ledger) disconnected(cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = cause
	for _, k := range l.inOrder() {
		if !k.sent {
			continue
		}
		k.sent, k.doubtful = false, true
		switch {
		case k.abandoned || k.unattended:
			l.finish(k, answer{})
		case k.rule == replayNever:
			l.finish(k, answer{err: cause, settled: true})
		default:
			l.enqueue(k)
		}
	}
}

// connected notes a new connection. Unless the server has shown that the session
// continues the one before, operations in doubt cannot be recognised any more.
func (l *ledger) connected(continued bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = nil
	if !continued {
		l.lineage++
	}
}

// noteTrouble keeps why the last attempt to connect did not work.
func (l *ledger) noteTrouble(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = err
}

// trouble is why there is no connection, or nil.
func (l *ledger) trouble() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

// broken is why no call can succeed any more, or nil.
func (l *ledger) broken() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

func (l *ledger) inOrder() []*call {
	all := make([]*call, 0, len(l.calls))
	for _, k := range l.calls {
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b *call) int { return cmp.Compare(a.seq, b.seq) })
	return all
}

// abandon takes a call away from its caller, who has waited long enough, and tells
// what is known of its effect. If its round has just ended, that answer counts
// instead.
func (l *ledger) abandon(k *call) (a answer, ended bool, outcome Outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case a := <-k.done:
		return a, true, NotApplied
	default:
	}
	outcome = k.outcome(nil, false)
	k.abandoned = true
	if k.queued {
		k.queued = false
		l.queue = slices.DeleteFunc(l.queue, func(q *call) bool { return q == k })
		l.finish(k, answer{})
	}
	return answer{}, false, outcome
}

// doubt notes that the round that has just ended may have taken effect.
func (l *ledger) doubt(k *call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k.doubtful = true
}

// writing reports whether the frame of a call that has ended is still being
// written, as when a server answers before it has read the request.
func (l *ledger) writing(k *call) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return k.writing
}

// fail ends all calls and refuses those to come.
func (l *ledger) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == nil {
		l.failed = err
	}
	l.queue = nil
	for _, k := range l.inOrder() {
		k.queued = false
		l.finish(k, answer{err: l.failed, settled: true})
	}
}

// idle reports whether nothing is queued or sent.
func (l *ledger) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.calls) == 0
}

// overdue names a call that was sent before then and has no answer.
func (l *ledger) overdue(then time.Time) (name string, found bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range l.calls {
		if k.sent && k.sentAt.Before(then) {
			return k.name, true
		}
	}
	return "", false
}
