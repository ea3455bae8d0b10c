package shard

import (
	"errors"
	"fmt"
	"slices"

	"galgo"
	"galgo/internal/cipher"
	"galgo/internal/disk"
	"galgo/internal/metadata"
	"galgo/internal/superblock"
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
	Replication
	Pipeline int // ops that wait for their quorum

	WALFileSize int64
	WALSpare    int
	Salt        uint64 // unguessable; see wal.Options
	SyncApart   int    // as in DataConfig
	Vault       *cipher.Vault

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
	// Busy lists the partitions of a consumer group whose owners may have messages that
	// they have not committed, as of now; nil: none ever is.
	Busy func(*metadata.ConsumerGroup) []uint32
	// HandOvers lists the partitions on their way to other members that may be handed
	// over; nil: none ever may.
	HandOvers func(v *metadata.View, now uint64) []metadata.Completion
	// AbsenceTicks is how long a node may not be heard of before the sessions whose
	// connections are there are detached; 0: for ever, until it comes back in another life.
	AbsenceTicks uint64
	// Installed tells the node that the metadata was replaced by a later state,
	// which came from a peer and is published: the groups have to be made to fit it.
	Installed func(done func())
	// Leads is told after each turn who leads the group, as far as is known here, and
	// whether what is read here is not of the past; nil where nobody asks.
	Leads func(primary uint8, known, readable bool)
	// Observe is told of each operation before it is applied, live and when the log is
	// replayed; nil where nobody watches.
	Observe func(*vsr.Prepare)
	// Fail reports that the node must stop, with the reason.
	Fail func(error)
	// Note reports what an operator may want to read.
	Note func(msg string, args ...any)
}

// Bounds of the requests that wait for room in the pipeline. A client has one at a
// time, so a thousand clients that all ask at once wait here; each that is sent away
// comes again after a pause, which costs everybody more than its place would.
const (
	metadataQueueMax   = 4096
	metadataQueueBytes = 16 << 20 // of bodies
)

// Metadata drives the metadata group.
type Metadata struct {
	cfg     MetadataConfig
	machine *metadata.Machine
	log     *wal.Log
	feed    feeder
	group   group[metadata.Output]
	ticks   uint64
	queue   []metadataCall
	queued  int // bytes of bodies in the queue
	// busy holds the clients with a request in the pipeline or the queue: each
	// may have one, so that numbers commit in order.
	busy map[galgo.ClientID]struct{}
	ckpt metadataCheckpoint

	super   superblockWriter
	pause   setbacks // of the superblock's writes
	promise promise  // as the log was last given it
	unnamed []unnamed
	owed    []owed
	// unsettled are the ops whose changes of groups are not made yet on this node,
	// ascending: an answer that the client table still has waits for them as well.
	unsettled []vsr.Op
	courier   courier
	taking    taking
	later     later
	told      telling
	handing   int // hand-overs under way
	absences  absences
	readers   readers
}

// unnamed is a promise that the log has and the superblock still lacks.
type unnamed struct {
	state vsr.State
	done  func()
}

// owed are changes of groups that the node is told of when it is durable that the op
// which made them is committed.
type owed struct {
	op      vsr.Op
	changes []metadata.Change
	done    func()
}

type metadataCall struct {
	req  MetadataRequest
	done func(MetadataReply)
}

// Submit runs a request. done is called once, on the loop.
func (m *Metadata) Submit(req MetadataRequest, done func(MetadataReply)) {
	if !m.group.core().Serving() {
		done(MetadataReply{Outcome: OutcomeResult, Operation: req.Operation, Code: galgo.CodeTransientNotAccepted})
		return
	}
	req, refusal, refused := m.preflight(req)
	_, busy := m.busy[req.Client]
	busy = busy && !req.Client.IsZero()
	// What the table answers again may be what the node still has to do.
	if refused && refusal.Outcome == OutcomeReply && len(m.unsettled) > 0 && refusal.Op >= uint64(m.unsettled[0]) {
		done(MetadataReply{Outcome: OutcomeResult, Operation: req.Operation, Code: galgo.CodeTransientNotCommitted})
		return
	}
	if refused && !(busy && refusal.Outcome == OutcomeReply) {
		done(m.refusal(req, refusal))
		return
	}
	if busy {
		done(MetadataReply{Outcome: OutcomeResult, Operation: req.Operation, Code: galgo.CodeTransientNotCommitted})
		return
	}
	if m.crowded(len(req.Body)) || m.feed.full() {
		done(MetadataReply{Outcome: OutcomeResult, Operation: req.Operation, Code: galgo.CodeTransientNotAccepted})
		return
	}
	m.busy[req.Client] = struct{}{}
	m.queue = append(m.queue, metadataCall{req, done})
	m.queued += len(req.Body)
}

// crowded: as many requests wait as may, or their bodies and one of size bytes more are
// too much. One alone always fits.
func (m *Metadata) crowded(size int) bool {
	return len(m.queue) >= metadataQueueMax || len(m.queue) > 0 && m.queued+size > metadataQueueBytes
}

// refusal is the answer that the present state gives, unless the client may know a
// later one: so it does when its session, which is the op of its login, is not known
// here, or what it signs in with. A primary that was deposed and has not noticed yet finds
// out like this.
func (m *Metadata) refusal(req MetadataRequest, r MetadataReply) MetadataReply {
	behind := m.group.behind() || req.knows() > uint64(m.group.core().CommitMin()) && m.cfg.Replicas > 1
	if behind && r.Outcome != OutcomeReply {
		return MetadataReply{Outcome: OutcomeResult, Operation: req.Operation, Code: galgo.CodeTransientNotAccepted}
	}
	return r
}

// knows is an op that whoever asks has seen the outcome of.
func (req *MetadataRequest) knows() uint64 {
	if req.Operation == wire.OperationRegister {
		if by, err := metadata.DecodeCredential(req.Body); err == nil {
			return by.Op
		}
	}
	return req.Session
}

// preflight applies the checks that come before the log, in the order of
// wire.md §6.3: static bounds, then the client table (§3.8).
func (m *Metadata) preflight(req MetadataRequest) (MetadataRequest, MetadataReply, bool) {
	view := m.machine.View()
	switch req.Operation {
	case wire.OperationRegister:
		by, err := metadata.DecodeCredential(req.Body)
		if err != nil {
			return req, MetadataReply{Outcome: OutcomeStatus, Operation: req.Operation, Code: galgo.CodeInvalidCommand}, true
		}
		reply, refused := answerOfLogin(view.CheckRegister(req.Client, req.User, by))
		return req, reply, refused
	case wire.OperationLogout, metadata.OperationDetach:
		req.Body = nil
		return req, MetadataReply{}, false
	case metadata.OperationBootstrap, metadata.OperationConfigure, metadata.OperationSweepTokens, metadata.OperationDepart, wire.OperationCompleteGroupRevocation:
		return req, MetadataReply{}, false
	}
	op, body, err := metadata.Admit(view, req.Operation, req.Body)
	if err != nil {
		return req, MetadataReply{Outcome: OutcomeStatus, Operation: req.Operation, Code: codeOf(err)}, true
	}
	reply, final := answerOf(view.CheckRequest(req.Client, req.Session, req.Request, req.RequestSum), req.Operation)
	if op == wire.OperationJoinConsumerGroup && !final && m.cfg.Busy != nil {
		body = metadata.JoinWithBusy(view, req.Client, body, m.cfg.Busy)
	}
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
	case metadata.LoginNoToken:
		return MetadataReply{Outcome: OutcomeEvict, Reason: wire.EvictionInvalidToken}, true
	case metadata.LoginInactive:
		return MetadataReply{Outcome: OutcomeEvict, Reason: wire.EvictionUserInactive}, true
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
		m.cfg.Publish(m.machine.View(), m.group.core().CommitMin())
		for _, a := range answers {
			m.answer(a)
		}
	}
	m.install()
	m.readers.settle(m.group.core().CommitMin())
	if m.cfg.Leads != nil {
		primary, known := m.Primary()
		m.cfg.Leads(primary, known, m.Readable())
	}
	m.maybeCheckpoint()
	m.feed.flush()
}

// propose moves waiting requests into the pipeline while there is room.
func (m *Metadata) propose() {
	for len(m.queue) > 0 && (m.group.core().Room() > 0 || !m.group.core().IsPrimary()) && !m.feed.full() {
		call := m.queue[0]
		m.queue[0] = metadataCall{}
		m.queue = m.queue[1:]
		m.queued -= len(call.req.Body)
		// A second look: what was true when the request came in may have been
		// changed by one that was before it in the queue.
		if reply, final := m.recheck(call.req); final {
			m.finish(call, m.refusal(call.req, reply))
			continue
		}
		err := m.group.propose(vsr.Request{
			Client: call.req.Client, RequestSum: call.req.RequestSum, Session: call.req.Session, Request: call.req.Request,
			User: call.req.User, Operation: uint8(call.req.Operation), Body: call.req.Body,
			Timestamp: m.group.core().NextTimestamp(m.cfg.Clock.Now()),
		}, func(p *vsr.Prepare, out metadata.Output) {
			m.finish(call, committedReply(p, out))
		}, func(code galgo.Code) {
			m.finish(call, MetadataReply{Outcome: OutcomeResult, Operation: call.req.Operation, Code: code})
		})
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

// answer tells the client the outcome of an applied op, after the node has made what
// it asks for: who reads "created" may use it at once.
func (m *Metadata) answer(a answer[metadata.Output]) {
	done := func() {
		if a.done != nil {
			a.done(a.prepare, a.result)
		}
	}
	if len(a.result.Changes) == 0 {
		done()
		return
	}
	settled := m.Hold(a.prepare.Op)
	answer := done
	done = func() { settled(); answer() }
	if m.cfg.Replicas == 1 {
		m.cfg.Changed(a.result.Changes, done)
		return
	}
	m.owed = append(m.owed, owed{a.prepare.Op, a.result.Changes, done})
	m.settleOwed()
}

// Hold says that the node has still to do what an op, and perhaps later ones, ask for. What it returns is
// called, on the loop, when it has.
func (m *Metadata) Hold(op vsr.Op) (settled func()) {
	at, _ := slices.BinarySearch(m.unsettled, op)
	m.unsettled = slices.Insert(m.unsettled, at, op)
	return func() {
		at, _ := slices.BinarySearch(m.unsettled, op)
		m.unsettled = slices.Delete(m.unsettled, at, at+1)
	}
}

// settleOwed tells the node of changes of groups once the superblock knows the op that
// made them as committed. At start the metadata is then at least as new as the groups
// on disk, although nobody may have said yet what else of its log is committed.
func (m *Metadata) settleOwed() {
	for len(m.owed) > 0 && uint64(m.owed[0].op) <= m.super.state.CommitMax {
		o := m.owed[0]
		m.owed = m.owed[1:]
		m.cfg.Changed(o.changes, o.done)
	}
	if len(m.owed) == 0 || m.super.busy || m.pause.pause > 0 {
		return // the next tick comes back here
	}
	op := uint64(m.group.core().CommitMin())
	m.super.update(func(s *superblock.State) { s.CommitMax = max(s.CommitMax, op) }, func(err error) {
		if m.superblockWritten(err) {
			m.settleOwed()
		}
	})
}

// persist makes durable what the replica promised: in the log, which keeps all of it
// in order with what else is written there, then in the superblock, which is what an
// operator reads and what a lost end of the log is noticed by.
func (m *Metadata) persist(s vsr.State, done func()) {
	if m.promise.Doubt == vsr.DoubtAll && s.Doubt != vsr.DoubtAll {
		// The log of a view is here: the disk before this one took part in nothing that
		// was created later.
		m.promise.replaced = m.group.core().Head()
		m.noteReplaced(m.group.core().CommitMin())
	}
	m.promise.State = s
	m.feed.append(m.promise.record(vsr.MetadataGroup), true, func() {
		m.unnamed = append(m.unnamed, unnamed{s, done})
		m.namePromise()
	})
}

// settleReplaced writes down the revision up to which groups are older than this disk,
// when the op that ends them has been applied.
func (m *Metadata) settleReplaced(applied vsr.Op) {
	if m.noteReplaced(applied) {
		m.feed.append(m.promise.record(vsr.MetadataGroup), true, nil)
	}
}

// noteReplaced has the next record of the promise say it.
func (m *Metadata) noteReplaced(applied vsr.Op) (news bool) {
	if m.promise.replaced == 0 || m.promise.revision != 0 || applied < m.promise.replaced {
		return false
	}
	m.promise.revision = m.machine.View().Revision() + 1
	return true
}

// namePromise writes to the superblock what waits for it; after a failure the next
// ticks come back here.
func (m *Metadata) namePromise() {
	if len(m.unnamed) == 0 || m.pause.pause > 0 {
		return
	}
	u := m.unnamed[0]
	m.unnamed = m.unnamed[1:]
	m.super.update(func(s *superblock.State) { s.View, s.LogView = uint32(u.state.View), uint32(u.state.LogView) }, func(err error) {
		if m.superblockWritten(err) {
			u.done()
		} else {
			m.unnamed = append([]unnamed{u}, m.unnamed...)
		}
		m.namePromise()
	})
}

// superblockWritten takes the outcome of a write of the superblock that is not a
// checkpoint's. One that keeps failing ends the node: others wait for its vote.
func (m *Metadata) superblockWritten(err error) bool {
	if err == nil {
		m.pause = setbacks{}
		return true
	}
	wedged := m.pause.failed(err)
	if rare(m.pause.failures) {
		m.cfg.Note("the superblock was not written; until it is, this replica makes no promises", "attempt", m.pause.failures, "err", err)
	}
	if wedged {
		m.cfg.Fail(fmt.Errorf("%w: superblock: %w", ErrCheckpointWedged, err))
	}
	return false
}

func committedReply(p *vsr.Prepare, out metadata.Output) MetadataReply {
	op := wire.Operation(p.Operation)
	reply := MetadataReply{Outcome: OutcomeReply, Body: out.Body, Operation: op, Op: uint64(p.Op), Born: out.Born, Timestamp: p.Timestamp}
	var refusal MetadataReply
	var refused bool
	switch op {
	case wire.OperationRegister:
		refusal, refused = answerOfLogin(out.Login)
	case wire.OperationLogout, metadata.OperationDetach, metadata.OperationBootstrap, metadata.OperationConfigure, metadata.OperationSweepTokens, metadata.OperationDepart:
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
	if m.cfg.Observe != nil {
		m.cfg.Observe(p)
	}
	m.ckpt.note(p)
	out := m.machine.Apply(metadata.Input{
		Op: uint64(p.Op), Timestamp: p.Timestamp, Operation: wire.Operation(p.Operation), Client: p.Client,
		Session: p.Session, Request: p.Request, RequestSum: p.RequestSum, User: p.User, Body: p.Body,
	})
	m.settleReplaced(p.Op)
	return out
}

// Tick passes one unit of time, some 10 ms.
func (m *Metadata) Tick() {
	m.feed.tick()
	m.ckpt.tick()
	m.handOver()
	if m.cfg.Replicas == 1 {
		return
	}
	m.depart()
	m.later.tick()
	m.told.tick(m.cfg.Note)
	m.readers.tick()
	m.pause.tick()
	m.namePromise()
	m.settleOwed()
	m.ticks++
	m.group.tick()
}

// Ticking reports whether the driver waits for time to pass: an idle one need not
// be woken.
func (m *Metadata) Ticking() bool {
	return m.cfg.Replicas > 1 || m.feed.ticking() || m.ckpt.pause > 0 || m.machine.View().IsRevoking()
}

// handOver has partitions handed over that their owners are done with, or were given
// time enough for. The clock decides here, at the primary, and nowhere else.
func (m *Metadata) handOver() {
	if m.handing > 0 || m.cfg.HandOvers == nil || !m.machine.View().IsRevoking() || !m.group.core().Serving() {
		return
	}
	for _, c := range m.cfg.HandOvers(m.machine.View(), m.cfg.Clock.Now()) {
		m.handing++
		m.Submit(MetadataRequest{Operation: wire.OperationCompleteGroupRevocation, Body: c.Encode()}, func(MetadataReply) { m.handing-- })
	}
}

// Doubts reports whether a group that this revision created may have been promised
// something by a disk that this node had before.
func (m *Metadata) Doubts(created uint64) bool {
	return m.promise.doubts(created)
}

// View returns the metadata as of the last applied op.
func (m *Metadata) View() *metadata.View { return m.machine.View() }

// CommitMin returns the last applied op.
func (m *Metadata) CommitMin() vsr.Op { return m.group.core().CommitMin() }

// Close marks and closes the log. Nothing may be under way.
func (m *Metadata) Close() error { return m.log.Close() }

// LogFirst returns the lowest op that the log still holds.
func (m *Metadata) LogFirst() vsr.Op { return m.log.First(vsr.MetadataGroup) }
