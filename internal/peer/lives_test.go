package peer

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"galgo/internal/vsr"
)

// restarted is a node whose peer of one life holds open connections to it for ever.
type restarted struct {
	node
	door *door
	peer *door
}

// linked runs a node whose lanes a peer with this life has taken, and does not read.
func linked(t *testing.T, life uint64) (r restarted, conns []net.Conn) {
	t.Helper()
	r = restarted{door: newDoor("10.0.0.1:1"), peer: newDoor("10.0.0.2:1")}
	o := options(0, "10.0.0.1:1", "10.0.0.2:1")
	o.Dial = func(ctx context.Context, _ string) (net.Conn, error) { return r.peer.connect(ctx, "10.0.0.1:5") }
	r.node = run(t, o, r.door)
	return r, r.takeLanes(t, life)
}

// takeLanes is a process of the peer that takes what is dialed, and says nothing more.
func (r *restarted) takeLanes(t *testing.T, life uint64) (conns []net.Conn) {
	t.Helper()
	b := mustNew(t, options(1, "10.0.0.1:1", "10.0.0.2:1"))
	b.SetState(life, life-1, Begun)
	for range lanes {
		conn := <-r.peer.conns
		if _, err := b.receive(conn); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	time.Sleep(time.Second) // of the bubble: the lanes are open
	return conns
}

// introduce is a process of the peer that dials.
func (r *restarted) introduce(t *testing.T, life uint64, lane Lane) net.Conn {
	t.Helper()
	conn, err := r.door.connect(t.Context(), "10.0.0.2:5")
	if err != nil {
		t.Fatal(err)
	}
	b := mustNew(t, options(1, "10.0.0.1:1", "10.0.0.2:1"))
	b.SetState(life, life-1, Begun)
	if _, err := b.greet(conn, 0, lane); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond) // of the bubble
	return conn
}

func (r *restarted) ask() chan error {
	outcome := make(chan error, 2)
	r.Ask(1, Control, 1, []byte("question"), nil, func(_ []byte, err error) { outcome <- err })
	return outcome
}

func outcomeOf(t *testing.T, c chan error) error {
	t.Helper()
	select {
	case err := <-c:
		return err
	default:
		return errors.New("none")
	}
}

// A question to a process that is gone ends when the next one introduces itself, although
// the connection of the one before still looks open.
func TestQuestionsEndWithTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, old := linked(t, 200)
		c := r.introduce(t, 200, Control)
		outcome := r.ask()
		time.Sleep(time.Second)
		if len(outcome) > 0 {
			t.Fatalf("over while the peer may answer: %v", <-outcome)
		}
		next := r.introduce(t, 300, Control)
		if err := outcomeOf(t, outcome); !errors.Is(err, ErrLost) {
			t.Errorf("the outcome is %v, want %v", err, ErrLost)
		}
		r.recorder.mu.Lock()
		if !slices.Contains(r.down, 1) {
			t.Error("the core is not told that the process is gone")
		}
		r.recorder.mu.Unlock()
		again := r.takeLanes(t, 300)
		outcome = r.ask()
		later := r.introduce(t, 300, Bulk)
		if len(outcome) > 0 {
			t.Errorf("a question to the new process ends with %v", <-outcome)
		}
		// The same process dials once more: an answer may have been lost on the way.
		last := r.introduce(t, 300, Control)
		if err := outcomeOf(t, outcome); !errors.Is(err, ErrLost) {
			t.Errorf("the outcome is %v, want %v", err, ErrLost)
		}
		r.stop()
		for _, conn := range slices.Concat(old, again, []net.Conn{c, next, later, last}) {
			conn.Close()
		}
	})
}

// A lane that a process takes after a later one has introduced itself is ended at once.
func TestLaneToAnEarlierProcessIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := mustNew(t, options(0, "a:1", "b:1"))
		k := n.peers[1]
		conn, _ := net.Pipe()
		k.connected(newIncoming(k, Control, 300, conn), Begun)
		var cause error
		k.serves(Bulk, 200, func(err error) { cause = err })
		if !errors.Is(cause, errReplaced) {
			t.Errorf("an earlier process: %v", cause)
		}
		cause = nil
		k.serves(Bulk, 300, func(err error) { cause = err })
		if cause != nil {
			t.Errorf("the same process: %v", cause)
		}
	})
}

// What was read from a connection and not handed on when it was replaced is dropped: it
// is of a life that is over.
func TestRecordsOfAReplacedConnectionAreDropped(t *testing.T) {
	n := mustNew(t, options(0, "a:1", "b:1"))
	k := n.peers[1]
	old, _ := net.Pipe()
	in := newIncoming(k, Control, 100, old)
	k.connected(in, Begun)
	frame, _ := vsr.AppendFrame(nil, &vsr.Message{Kind: vsr.MessageSuspect, From: 1, To: 0})
	call := append(binary.LittleEndian.AppendUint64(nil, 7), 1, 'q')
	if err := in.take(recordFrame, frame); err != nil || len(n.frames) != 1 {
		t.Fatalf("not delivered: %v", err)
	}
	now, _ := net.Pipe()
	k.connected(newIncoming(k, Control, 200, now), Begun)
	for kind, body := range map[recordKind][]byte{recordFrame: frame, recordCall: call} {
		if err := in.take(kind, body); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a record of kind %d: %v", kind, err)
		}
	}
	if len(n.frames) != 1 || n.asked != 0 {
		t.Errorf("%d frames, %d questions", len(n.frames), n.asked)
	}
}

// An answer for which there is no room is said to be lost, at once.
func TestAnswersWithoutRoomAreLost(t *testing.T) {
	n := mustNew(t, options(0, "a:1", "b:1"))
	for _, o := range n.peers[1].out {
		o.queue.reopen(true)
	}
	k := n.peers[1]
	k.answer(1, make([]byte, queueBytesMax))
	k.answer(2, make([]byte, shortBody))
	if n := k.out[Bulk].queue.waiting[rankAnswer].len(); n != 1 {
		t.Errorf("%d answers wait in the room of answers, want 1", n)
	}
	batch := k.out[Control].queue.take(nil)
	if len(batch) != 1 || batch[0].kind != recordLost || binary.LittleEndian.Uint64(batch[0].head) != 2 {
		t.Fatalf("instead of an answer: %+v", batch)
	}
	outcome := make(chan error, 1)
	id, _ := n.calls.begin(1, 1, func(_ []byte, err error) { outcome <- err })
	in := newIncoming(k, Control, 100, nil)
	if err := in.take(recordLost, binary.LittleEndian.AppendUint64(nil, id)); err != nil {
		t.Fatal(err)
	}
	if err := outcomeOf(t, outcome); !errors.Is(err, ErrLost) {
		t.Errorf("outcome %v", err)
	}
}

// Answers leave before questions, and do not take the room of frames.
func TestAnswersHaveTheirOwnRoom(t *testing.T) {
	q := newQueue()
	q.reopen(true)
	for q.put(sized(1), rankAnswer) {
	}
	if !q.put(sized(2), rankNow) || !q.put(sized(3), rankAsked) {
		t.Error("answers take the room of others")
	}
	batch := q.take(nil)
	if batch[0].size != 2 || q.waiting[rankAnswer].len() != askedMax/askedCost || len(batch) != 1 {
		t.Errorf("first %d of %d; %d answers are left", batch[0].size, len(batch), q.waiting[rankAnswer].len())
	}
}

// What a process says of itself at once may arrive in any order; it only comes on.
func TestPhasesDoNotGoBack(t *testing.T) {
	n := mustNew(t, options(0, "127.0.0.1:1", "127.0.0.1:2"))
	k, in := n.Links.peers[1], &incoming{lane: Control, life: 7}
	k.connected(in, Empty)
	for _, phase := range []Phase{Formed, Empty, Begun, Formed} {
		k.heard(in, 7, phase)
	}
	if got := n.Status(1); got.Phase != Begun || got.Life != 7 {
		t.Errorf("the peer counts as %v in life %d, it has begun life 7", got.Phase, got.Life)
	}
}
