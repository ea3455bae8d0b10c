package edge

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"galgo"
	"galgo/internal/auth"
	"galgo/internal/disk/memdisk"
	"galgo/internal/metadata"
	"galgo/internal/partition"
	"galgo/internal/wire"
)

// cheapParams keeps logins of tests fast.
var cheapParams = auth.Params{MemoryKiB: 8, Passes: 1, Lanes: 1}

var rootHash = auth.Hash([]byte("iggy"), [auth.SaltLen]byte{1}, cheapParams)

// fakeNode is a Backend of real machines without log or disk: what is proposed is
// committed at once, on one goroutine. Tests put themselves in between by the
// on… functions, which run there too and report whether they took the request.
type fakeNode struct {
	stale      atomic.Bool
	mu         sync.Mutex
	meta       *metadata.Machine
	op         uint64
	time       uint64
	partitions map[uint64]*fakePartition
	disk       *memdisk.Disk

	onMetadata func(MetadataRequest, func(MetadataReply)) bool
	onSend     func(SendRequest, func(SendReply)) bool
	onStore    func(OffsetRequest, func(OffsetReply)) bool
	onClaim    func(OffsetRequest, func(OffsetReply)) bool
	onPoll     func(PollRequest, func(PollReply)) bool
	onOffset   func(func(OffsetReply)) bool
	onStats    func(group uint64) (f partition.Figures, ok, taken bool)

	onPolled func(PollRequest, bool) bool
	onFresh  func()

	proposed []MetadataRequest // all, in order
	polled   int               // calls of Polled

	jobs chan func()
	done chan struct{}
}

type fakePartition struct {
	*partition.Machine
	op uint64
}

// jobsMax is more than the tests ever have waiting.
const jobsMax = 1 << 14

func newFakeNode(t testing.TB) *fakeNode {
	t.Helper()
	n := &fakeNode{
		meta: metadata.New(), time: 1_700_000_000_000_000,
		partitions: map[uint64]*fakePartition{}, disk: memdisk.New(memdisk.Options{}),
		jobs: make(chan func(), jobsMax), done: make(chan struct{}),
	}
	body, err := metadata.Bootstrap{
		Username: "iggy", PasswordHash: rootHash, Settings: metadata.Settings{ClientsMax: metadata.ClientsDefault, TokensMax: metadata.TokensDefault},
	}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	n.apply(metadata.Input{Operation: metadata.OperationBootstrap, Body: body})
	jobs := n.jobs
	go func() {
		defer close(n.done)
		for job := range jobs {
			job()
		}
	}()
	t.Cleanup(n.stop)
	return n
}

func (n *fakeNode) stop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.jobs != nil {
		close(n.jobs)
		n.jobs = nil
	}
}

// post runs a job on the node's goroutine, as a node does.
func (n *fakeNode) post(job func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.jobs != nil {
		n.jobs <- job
	}
}

// between runs a change of the node between two of its jobs.
func (n *fakeNode) between(change func()) {
	done := make(chan struct{})
	n.post(func() {
		change()
		close(done)
	})
	<-done
}

// apply is called on the node's goroutine or before it runs.
func (n *fakeNode) apply(in metadata.Input) metadata.Output {
	n.mu.Lock()
	n.op++
	n.time += 1000
	in.Op, in.Timestamp = n.op, n.time
	out := n.meta.Apply(in)
	view := n.meta.View()
	n.mu.Unlock()
	for _, c := range out.Changes {
		n.change(view, c)
	}
	return out
}

func (n *fakeNode) change(view *metadata.View, c metadata.Change) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch c.Kind {
	case metadata.GroupCreated:
		m, err := partition.New(partition.Config{
			Group: c.Group, Incarnation: c.Revision, Stream: c.Stream, Topic: c.Topic, Partition: c.Partition, Disk: n.disk,
		})
		if err != nil {
			panic(err)
		}
		n.partitions[c.Group] = &fakePartition{Machine: m}
	case metadata.GroupRemoved:
		delete(n.partitions, c.Group)
	case metadata.GroupPurged:
		n.partitions[c.Group].apply(n, partition.Entry{Operation: partition.OpPurge, Body: partition.AppendPurge(nil, c.Generation)})
	}
}

// apply is called with the lock held.
func (p *fakePartition) apply(n *fakeNode, e partition.Entry) partition.Result {
	p.op++
	e.Op = p.op
	if e.Timestamp == 0 {
		n.time += 1000
		e.Timestamp = n.time
	}
	return p.Machine.Apply(e)
}

func (n *fakeNode) View() *metadata.View {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.meta.View()
}

func (n *fakeNode) CommitOp() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.op
}

func (n *fakeNode) Stats(group uint64) (partition.Figures, bool) {
	if n.onStats != nil {
		if f, ok, taken := n.onStats(group); taken {
			return f, ok
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	p, ok := n.partitions[group]
	if !ok {
		return partition.Figures{}, false
	}
	return p.Stats().Figures(), true
}

func (n *fakeNode) Current() bool { return !n.stale.Load() }

func (n *fakeNode) Fresh(done func(bool)) {
	if n.onFresh != nil {
		n.onFresh()
	}
	done(!n.stale.Load())
}

func (n *fakeNode) Cluster(netip.Addr) wire.ClusterMetadata {
	return wire.ClusterMetadata{Name: "single-node", Nodes: []wire.ClusterNode{{
		Name: "iggy-node", Address: "127.0.0.1", TCP: 8090, QUIC: 8080, HTTP: 3000, WebSocket: 8092,
	}}}
}

func (n *fakeNode) Groups(done func(wire.NodeGroups)) {
	n.post(func() { done(wire.NodeGroups{Replica: 1, Groups: []wire.GroupStatus{{View: 3}, {Group: 7}}}) })
}

func (n *fakeNode) StepDown(req wire.StepDownRequest, done func(wire.StepDownReply)) {
	n.post(func() { done(wire.StepDownReply{Groups: []wire.SteppedDown{{Group: req.Group, Successor: 2}}}) })
}

func (n *fakeNode) Host() wire.Stats { return wire.Stats{ProcessID: 42, Hostname: "host"} }

func (n *fakeNode) Metadata(req MetadataRequest, done func(MetadataReply)) {
	n.post(func() {
		n.mu.Lock()
		n.proposed = append(n.proposed, req)
		n.mu.Unlock()
		if n.onMetadata == nil || !n.onMetadata(req, done) {
			done(n.metadata(req))
		}
	})
}

// metadata runs an operation as a node with one replica does.
func (n *fakeNode) metadata(req MetadataRequest) MetadataReply {
	in := metadata.Input{
		Operation: req.Operation, Client: req.Client, Session: req.Session,
		Request: req.Request, RequestSum: req.RequestSum, User: req.User,
	}
	switch req.Operation {
	case wire.OperationRegister:
		in.Body = req.Body
		switch out := n.apply(in); out.Login {
		case metadata.LoginOtherUser:
			return MetadataReply{Outcome: OutcomeEvict, Reason: wire.EvictionSessionError}
		case metadata.LoginNoUser:
			return MetadataReply{Outcome: OutcomeEvict, Reason: wire.EvictionInvalidCredentials}
		case metadata.LoginNoToken:
			return MetadataReply{Outcome: OutcomeEvict, Reason: wire.EvictionInvalidToken}
		case metadata.LoginInactive:
			return MetadataReply{Outcome: OutcomeEvict, Reason: wire.EvictionUserInactive}
		default:
			return MetadataReply{Outcome: OutcomeReply, Op: out.Session}
		}
	case wire.OperationLogout, metadata.OperationDetach:
		n.apply(in)
		return MetadataReply{Outcome: OutcomeReply, Op: n.CommitOp()}
	}
	return n.request(req, in)
}

func (n *fakeNode) request(req MetadataRequest, in metadata.Input) MetadataReply {
	switch v := n.View().CheckRequest(req.Client, req.Session, req.Request, req.RequestSum); v.Kind {
	case metadata.VerdictNew:
	case metadata.VerdictDuplicate:
		return MetadataReply{Outcome: OutcomeReply, Body: v.Reply.Body(), Operation: v.Reply.Operation, Op: v.Reply.Op, Timestamp: v.Reply.Timestamp}
	case metadata.VerdictNoSession:
		return MetadataReply{Outcome: OutcomeEvict, Reason: wire.EvictionNoSession}
	case metadata.VerdictFenced:
		return MetadataReply{Outcome: OutcomeEvict, Reason: wire.EvictionSessionTooLow}
	case metadata.VerdictAlreadyApplied:
		return MetadataReply{Outcome: OutcomeResult, Code: galgo.CodeRequestAlreadyApplied}
	default:
		return MetadataReply{Outcome: OutcomeDrop}
	}
	op, body, err := metadata.Admit(n.View(), req.Operation, req.Body)
	if err != nil {
		code, _ := galgo.CodeOf(err)
		return MetadataReply{Outcome: OutcomeStatus, Code: code}
	}
	in.Operation, in.Body = op, body
	out := n.apply(in)
	return MetadataReply{Outcome: OutcomeReply, Body: out.Body, Operation: op, Op: n.CommitOp(), Timestamp: n.time}
}

func (n *fakeNode) Send(req SendRequest, done func(SendReply)) {
	n.post(func() {
		if n.onSend == nil || !n.onSend(req, done) {
			done(n.send(req))
		}
	})
}

func (n *fakeNode) send(req SendRequest) SendReply {
	n.mu.Lock()
	defer n.mu.Unlock()
	p, ok := n.partitions[req.Group]
	if !ok {
		return SendReply{Code: galgo.CodeTransientNotAccepted}
	}
	if req.Numbered {
		if v, base := p.CheckNumbered(req.Client, req.Request); v == partition.Stored {
			return SendReply{Base: base, Op: p.op}
		}
	}
	n.time += 1000
	base := p.Stamp(req.Batch, n.time)
	r := p.apply(n, partition.Entry{
		Timestamp: n.time, Operation: partition.OpSend, Client: req.Client, Request: req.Request,
		Numbered: req.Numbered, Offset: base, Body: req.Batch,
	})
	return SendReply{Code: r.Code, Base: r.Base, Op: p.op}
}

func (n *fakeNode) StoreOffset(req OffsetRequest, done func(OffsetReply)) {
	n.post(func() {
		if n.onStore != nil && n.onStore(req, done) {
			return
		}
		done(n.offsets(req, func(p *fakePartition) galgo.Code {
			if code := p.CheckStore(req.Kind, req.Key, req.Offset); code != galgo.CodeOK {
				return code
			}
			body := partition.StoreOffset{Kind: req.Kind, Monotone: req.Monotone, Key: req.Key, Offset: req.Offset, Tenure: req.Tenure}.Append(nil)
			return p.apply(n, partition.Entry{Operation: partition.OpStoreOffset, Body: body}).Code
		}))
	})
}

func (n *fakeNode) DeleteOffset(req OffsetRequest, done func(OffsetReply)) {
	n.post(func() {
		done(n.offsets(req, func(p *fakePartition) galgo.Code {
			if code := p.CheckDelete(req.Kind, req.Key); code != galgo.CodeOK {
				return code
			}
			body := partition.DeleteOffset{Kind: req.Kind, Key: req.Key, Tenure: req.Tenure}.Append(nil)
			return p.apply(n, partition.Entry{Operation: partition.OpDeleteOffset, Body: body}).Code
		}))
	})
}

func (n *fakeNode) Claim(req OffsetRequest, done func(OffsetReply)) {
	n.post(func() {
		if n.onClaim != nil && n.onClaim(req, done) {
			return
		}
		done(n.offsets(req, func(p *fakePartition) galgo.Code {
			return p.apply(n, partition.Entry{Operation: partition.OpClaim, Body: partition.Claim{Key: req.Key, Tenure: req.Tenure}.Append(nil)}).Code
		}))
	})
}

// isMember is the fence of consumer groups.
func (n *fakeNode) isMember(group uint64, kind galgo.ConsumerKind, key uint32, client galgo.ClientID, has func(*metadata.ConsumerGroup, galgo.ClientID, uint32) bool) bool {
	if kind != galgo.ConsumerGroup {
		return true
	}
	view := n.View()
	p, ok := view.PartitionOf(group)
	if !ok {
		return false
	}
	g, ok := view.ConsumerGroupAt(p.Stream, p.Topic, key)
	return ok && has(g, client, p.ID)
}

func (n *fakeNode) Polled(req PollRequest, _ uint64, any bool) bool {
	n.mu.Lock()
	n.polled++
	n.mu.Unlock()
	return (n.onPolled == nil || n.onPolled(req, any)) && n.isMember(req.Group, req.Kind, req.Key, req.Member, (*metadata.ConsumerGroup).MayPoll)
}

func (n *fakeNode) offsets(req OffsetRequest, f func(*fakePartition) galgo.Code) OffsetReply {
	if !n.isMember(req.Group, req.Kind, req.Key, req.Member, (*metadata.ConsumerGroup).Owns) {
		return OffsetReply{Code: galgo.CodeResourceNotFound}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	p, ok := n.partitions[req.Group]
	if !ok {
		return OffsetReply{Code: galgo.CodeTransientNotAccepted}
	}
	return OffsetReply{Code: f(p), Op: p.op}
}

func (n *fakeNode) Poll(req PollRequest, done func(PollReply)) {
	n.post(func() {
		if n.onPoll != nil && n.onPoll(req, done) {
			return
		}
		if !n.isMember(req.Group, req.Kind, req.Key, req.Member, (*metadata.ConsumerGroup).MayPoll) {
			done(PollReply{Code: galgo.CodeConsumerGroupPartitionNotOwned})
			return
		}
		done(n.poll(req))
	})
}

func (n *fakeNode) poll(req PollRequest) PollReply {
	n.mu.Lock()
	defer n.mu.Unlock()
	p, ok := n.partitions[req.Group]
	if !ok {
		return PollReply{Code: galgo.CodeTransientNotAccepted}
	}
	return PollReply{Code: p.Poll(partition.PollRequest{
		Strategy: req.Strategy, Count: req.Count, Bytes: req.Bytes, Kind: req.Kind, Key: req.Key,
	}, req.Plan)}
}

func (n *fakeNode) Offset(group uint64, kind galgo.ConsumerKind, key uint32, done func(OffsetReply)) {
	n.post(func() {
		if n.onOffset != nil && n.onOffset(done) {
			return
		}
		n.mu.Lock()
		p, ok := n.partitions[group]
		reply := OffsetReply{Code: galgo.CodeTransientNotAccepted}
		if ok {
			reply = OffsetReply{}
			reply.Stored, reply.Found = p.StoredOffset(kind, key)
			reply.Current, _ = p.CurrentOffset()
		}
		n.mu.Unlock()
		done(reply)
	})
}

// addUser makes a user, as root would.
func (n *fakeNode) addUser(t testing.TB, name, password string, active bool, permissions *galgo.Permissions) {
	t.Helper()
	n.asRoot(t, wire.OperationCreateUser, metadata.NewUser{
		Username: name, PasswordHash: auth.Hash([]byte(password), [auth.SaltLen]byte{2}, cheapParams), Active: active, Permissions: permissions,
	})
}

// asRoot runs an operation in a session that nobody sees.
func (n *fakeNode) asRoot(t testing.TB, op wire.Operation, body wire.Body) {
	t.Helper()
	root, _ := n.View().User(galgo.NumericID(0))
	client := galgo.ClientID{0xFF}
	session := n.apply(metadata.Input{Operation: wire.OperationRegister, Client: client, Body: metadata.PasswordOf(root).Append(nil)}).Session
	out := n.apply(metadata.Input{Operation: op, Client: client, Session: session, Request: 1, Body: body.Append(nil)})
	if code, _, err := wire.SplitResult(out.Body); code != galgo.CodeOK || err != nil {
		t.Fatalf("%v: %v, %v", op, code, err)
	}
	n.apply(metadata.Input{Operation: wire.OperationLogout, Client: client, Session: session, Request: 2})
}
