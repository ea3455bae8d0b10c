package shard

import (
	"errors"

	"galgo"
	"galgo/internal/disk"
	"galgo/internal/metadata"
	"galgo/internal/vsr"
	"galgo/internal/wal"
	"galgo/internal/wire"
)

// Outcome says what kind of answer a metadata request gets.
type Outcome uint8

// Outcomes of a metadata request.
const (
	// OutcomeReply: Body is the committed answer.
	OutcomeReply Outcome = iota
	// OutcomeStatus: Code refuses the request before the log.
	OutcomeStatus
	// OutcomeResult: Code is a transient or terminal refusal.
	OutcomeResult
	// OutcomeEvict: the session is gone, Reason says why.
	OutcomeEvict
	// OutcomeDrop: no answer may be given.
	OutcomeDrop
)

// MetadataRequest is an operation for the metadata group. The node checks who
// sent it; the acting user of a client's operation comes from the client table.
type MetadataRequest struct {
	Operation  wire.Operation
	Client     galgo.ClientID
	Session    uint64
	Request    uint64
	RequestSum [16]byte
	User       uint32
	Body       []byte // must not change any more
}

// MetadataReply answers a MetadataRequest.
type MetadataReply struct {
	Outcome   Outcome
	Body      []byte
	Operation wire.Operation
	Op        uint64
	Born      uint64 // of a Register: the op that made the client's entry
	Timestamp uint64
	Code      galgo.Code
	Reason    wire.EvictionReason
}

// MetadataConfig is what the driver of the metadata group needs to know.
type MetadataConfig struct {
	Disk     disk.Disk
	Clock    Clock
	Executor Executor
	Cluster  [16]byte
	Replica  uint8
	Replicas int
	Pipeline int // ops that wait for their quorum; twice as many may wait for those

	WALFileSize int64
	WALSpare    int
	Salt        uint64 // unguessable; see wal.Options

	// A checkpoint is due when CheckpointSlots - CheckpointMargin ops, or
	// CheckpointBytes of log, have come since the last.
	CheckpointSlots  uint64
	CheckpointMargin uint64
	CheckpointBytes  int64

	// Publish makes a new view visible. It is called before the answers that
	// depend on it are given.
	Publish func(*metadata.View, vsr.Op)
	// Changed tells the node which groups have to be made, removed or purged.
	// done is to be called on the loop when that has happened: the client's
	// answer waits for it.
	Changed func(changes []metadata.Change, done func())
	// Fail reports that the node must stop, with the reason.
	Fail func(error)
	// Note reports what an operator may want to read.
	Note func(msg string, args ...any)
}

// queueFactor bounds the requests that wait for room in the pipeline, as a
// multiple of its depth.
const queueFactor = 2

// Metadata drives the metadata group.
type Metadata struct {
	cfg     MetadataConfig
	machine *metadata.Machine
	log     *wal.Log
	feed    feeder
	group   group[metadata.Output]
	queue   []metadataCall
	// busy holds the clients with a request in the pipeline or the queue: each
	// may have one, so that numbers commit in order.
	busy map[galgo.ClientID]struct{}
	ckpt metadataCheckpoint
}

type metadataCall struct {
	req  MetadataRequest
	done func(MetadataReply)
}

// Submit runs a request. done is called once, on the loop.
func (m *Metadata) Submit(req MetadataRequest, done func(MetadataReply)) {
	req, refusal, refused := m.preflight(req)
	_, busy := m.busy[req.Client]
	busy = busy && !req.Client.IsZero()
	// What the table answers again may be what the node still has to do.
	if refused && !(busy && refusal.Outcome == OutcomeReply) {
		done(refusal)
		return
	}
	if busy {
		done(MetadataReply{Outcome: OutcomeResult, Operation: req.Operation, Code: galgo.CodeTransientNotCommitted})
		return
	}
	if len(m.queue) >= queueFactor*m.cfg.Pipeline || m.feed.full() {
		done(MetadataReply{Outcome: OutcomeResult, Operation: req.Operation, Code: galgo.CodeTransientNotAccepted})
		return
	}
	m.busy[req.Client] = struct{}{}
	m.queue = append(m.queue, metadataCall{req, done})
}

// preflight applies the checks that come before the log, in the order of
// wire.md §6.3: static bounds, then the client table (§3.8).
func (m *Metadata) preflight(req MetadataRequest) (MetadataRequest, MetadataReply, bool) {
	view := m.machine.View()
	switch req.Operation {
	case wire.OperationRegister:
		reply, refused := answerOfLogin(view.CheckRegister(req.Client, req.User))
		req.Body = nil
		return req, reply, refused
	case wire.OperationLogout, metadata.OperationDetach:
		req.Body = nil
		return req, MetadataReply{}, false
	case metadata.OperationBootstrap, metadata.OperationConfigure:
		return req, MetadataReply{}, false
	}
	op, body, err := metadata.Admit(view, req.Operation, req.Body)
	if err != nil {
		return req, MetadataReply{Outcome: OutcomeStatus, Operation: req.Operation, Code: codeOf(err)}, true
	}
	reply, final := answerOf(view.CheckRequest(req.Client, req.Session, req.Request, req.RequestSum), req.Operation)
	req.Operation, req.Body = op, body
	return req, reply, final
}

// answerOfLogin turns what the client table says of a login into its refusal.
func answerOfLogin(l metadata.Login) (MetadataReply, bool) {
	switch l {
	case metadata.LoginAccepted:
		return MetadataReply{}, false
	case metadata.LoginOtherUser:
		return MetadataReply{Outcome: OutcomeEvict, Reason: wire.EvictionSessionError}, true
	default:
		return MetadataReply{Outcome: OutcomeEvict, Reason: wire.EvictionInvalidCredentials}, true
	}
}

func codeOf(err error) galgo.Code {
	if e, ok := errors.AsType[*galgo.Error](err); ok {
		return e.Code
	}
	return galgo.CodeInvalidCommand
}

// answerOf turns what the client table says into the answer; false means that
// the request is to be run.
func answerOf(v metadata.Verdict, op wire.Operation) (MetadataReply, bool) {
	switch v.Kind {
	case metadata.VerdictNew:
		return MetadataReply{}, false
	case metadata.VerdictNoSession:
		return MetadataReply{Outcome: OutcomeEvict, Reason: wire.EvictionNoSession}, true
	case metadata.VerdictFenced:
		return MetadataReply{Outcome: OutcomeEvict, Reason: wire.EvictionSessionTooLow}, true
	case metadata.VerdictDuplicate:
		if op == wire.OperationCreateToken {
			return MetadataReply{Outcome: OutcomeResult, Operation: op, Code: galgo.CodePersonalAccessTokenAlreadyExists}, true
		}
		return MetadataReply{Outcome: OutcomeReply, Body: v.Reply.Body(), Operation: v.Reply.Operation, Op: v.Reply.Op, Timestamp: v.Reply.Timestamp}, true
	case metadata.VerdictAlreadyApplied:
		return MetadataReply{Outcome: OutcomeResult, Operation: op, Code: galgo.CodeRequestAlreadyApplied}, true
	default: // EpochAhead, ChecksumMismatch: no honest client gets here
		return MetadataReply{Outcome: OutcomeDrop}, true
	}
}

// Turn does what the inputs since the last turn made due. The owner of the loop
// calls it after each batch of inputs.
func (m *Metadata) Turn() {
	for {
		m.propose()
		answers := m.group.turn()
		if len(answers) == 0 {
			break
		}
		m.cfg.Publish(m.machine.View(), m.group.core.CommitMin())
		for _, a := range answers {
			a.done(a.prepare, a.result)
		}
	}
	m.maybeCheckpoint()
	m.feed.flush()
}

// propose moves waiting requests into the pipeline while there is room.
func (m *Metadata) propose() {
	for len(m.queue) > 0 && m.group.core.Room() > 0 && !m.feed.full() {
		call := m.queue[0]
		m.queue[0] = metadataCall{}
		m.queue = m.queue[1:]
		// A second look: what was true when the request came in may have been
		// changed by one that was before it in the queue.
		if reply, final := m.recheck(call.req); final {
			m.finish(call, reply)
			continue
		}
		err := m.group.propose(vsr.Request{
			Client: call.req.Client, RequestSum: call.req.RequestSum, Session: call.req.Session, Request: call.req.Request,
			User: call.req.User, Operation: uint8(call.req.Operation), Body: call.req.Body,
			Timestamp: m.group.core.NextTimestamp(m.cfg.Clock.Now()),
		}, func(p *vsr.Prepare, out metadata.Output) { m.committed(call, p, out) })
		if err != nil {
			m.finish(call, MetadataReply{Outcome: OutcomeResult, Operation: call.req.Operation, Code: galgo.CodeTransientNotAccepted})
		}
	}
}

func (m *Metadata) recheck(req MetadataRequest) (MetadataReply, bool) {
	if !req.Operation.IsMetadata() || req.Client.IsZero() {
		return MetadataReply{}, false
	}
	return answerOf(m.machine.View().CheckRequest(req.Client, req.Session, req.Request, req.RequestSum), req.Operation)
}

func (m *Metadata) finish(call metadataCall, reply MetadataReply) {
	delete(m.busy, call.req.Client)
	call.done(reply)
}

// committed answers the client, after the node has made what the operation asks
// for: who reads "created" may use it at once.
func (m *Metadata) committed(call metadataCall, p *vsr.Prepare, out metadata.Output) {
	reply := committedReply(p, out)
	if len(out.Changes) == 0 {
		m.finish(call, reply)
		return
	}
	m.cfg.Changed(out.Changes, func() { m.finish(call, reply) })
}

func committedReply(p *vsr.Prepare, out metadata.Output) MetadataReply {
	op := wire.Operation(p.Operation)
	reply := MetadataReply{Outcome: OutcomeReply, Body: out.Body, Operation: op, Op: uint64(p.Op), Born: out.Born, Timestamp: p.Timestamp}
	var refusal MetadataReply
	var refused bool
	switch op {
	case wire.OperationRegister:
		refusal, refused = answerOfLogin(out.Login)
	case wire.OperationLogout, metadata.OperationDetach, metadata.OperationBootstrap, metadata.OperationConfigure:
	default:
		refusal, refused = answerOf(out.Verdict, op)
	}
	if refused {
		return refusal
	}
	return reply
}

// apply runs a committed operation: the only way in which metadata changes, live
// and when the log is replayed.
func (m *Metadata) apply(p *vsr.Prepare) metadata.Output {
	m.ckpt.note(p)
	return m.machine.Apply(metadata.Input{
		Op: uint64(p.Op), Timestamp: p.Timestamp, Operation: wire.Operation(p.Operation), Client: p.Client,
		Session: p.Session, Request: p.Request, RequestSum: p.RequestSum, User: p.User, Body: p.Body,
	})
}

// Tick passes one unit of time, some 10 ms.
func (m *Metadata) Tick() {
	m.feed.tick()
	m.ckpt.tick()
}

// Ticking reports whether the driver waits for time to pass: an idle one need not
// be woken.
func (m *Metadata) Ticking() bool { return m.feed.ticking() || m.ckpt.pause > 0 }

// View returns the metadata as of the last applied op.
func (m *Metadata) View() *metadata.View { return m.machine.View() }

// CommitMin returns the last applied op.
func (m *Metadata) CommitMin() vsr.Op { return m.group.core.CommitMin() }

// Close marks and closes the log. Nothing may be under way.
func (m *Metadata) Close() error { return m.log.Close() }

// LogFirst returns the lowest op that the log still holds.
func (m *Metadata) LogFirst() vsr.Op { return m.log.First(vsr.MetadataGroup) }
