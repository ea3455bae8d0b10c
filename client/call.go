package client

import (
	"time"

	"galgo"
	"galgo/internal/wire"
)

// replayRule says what may be done with a call whose answer was lost with its
// connection.
type replayRule uint8

const (
	// replayFreely: repeating it changes nothing, or nothing more.
	replayFreely replayRule = iota
	// replayNumbered: a send. The server recognises it by client id and number,
	// whatever became of the session.
	replayNumbered
	// replayInSession: an operation on metadata. It is recognised as long as the
	// server has the session.
	replayInSession
	// replayNever: repeating it would do harm.
	replayNever
)

// callKey pairs an answer with its call: several operations count separately.
type callKey struct {
	operation wire.Operation
	number    uint64
}

// answer is how a round of a call ended: err is what the server refused it with,
// or why there will be no answer.
type answer struct {
	header  wire.ReplyHeader
	payload []byte // aliases the frame that was read
	frame   []byte
	err     error
	// settled: err is the last word, there is no point in another round.
	settled bool
}

// call is one request and where it stands. The fields above the line are set
// before it is submitted; those below belong to the Client's mutex.
type call struct {
	name   string
	header wire.RequestHeader // without session and number
	frame  []byte             // room for the header, then the body
	rule   replayRule
	reply  []byte      // a buffer to read the answer into, if it is large enough
	done   chan answer // of capacity 1: the round's end
	// unattended: a heartbeat. Nobody waits for it and it has no slot.
	unattended bool

	// -----

	number  uint64 // 0 until submitted; a send has one before
	seq     uint64 // order of the first submission, also after a reconnect
	sentAt  time.Time
	lineage uint64 // of the session under which it was first written
	// queued: waits to be written. writing: the link reads frame just now.
	queued, writing bool
	// sent: written, at least in part, on the present link.
	sent bool
	// doubtful: an earlier round may have taken effect.
	doubtful bool
	// abandoned: its caller has gone; only the answer on the present link is awaited.
	abandoned bool
}

func (k *call) key() callKey { return callKey{k.header.Operation, k.number} }

// outcome is what can be said of a call that ended with err, which the server
// answered or which came about without an answer.
func (k *call) outcome(err error, answered bool) Outcome {
	switch {
	case k.rule == replayFreely && k.header.Operation == wire.OperationNonReplicated:
		return NotApplied // a read
	case !answered:
		return unknownIf(k.doubtful || k.sent)
	case refused(err, galgo.CodeTransientNotCommitted):
		return Unknown
	case k.rule != replayInSession:
		return unknownIf(k.doubtful || refused(err, galgo.CodeRequestAlreadyApplied))
	case refused(err, galgo.CodeRequestAlreadyApplied):
		// Calls of this rule are sent one at a time, each with its own number, so a
		// number at or below the server's watermark is this very call.
		return Applied
	}
	return NotApplied // recognised by its number: the answer holds for all rounds
}

func unknownIf(doubt bool) Outcome {
	if doubt {
		return Unknown
	}
	return NotApplied
}

// requestOperation is the operation under which a reply's request was sent: three
// are told under the operation they are replicated as.
func requestOperation(reply wire.Operation) wire.Operation {
	switch reply {
	case wire.OperationCreateTopicWithAssignments:
		return wire.OperationCreateTopic
	case wire.OperationCreatePartitionsWithAssignments:
		return wire.OperationCreatePartitions
	case wire.OperationTruncatePartition:
		return wire.OperationDeleteSegments
	}
	return reply
}
