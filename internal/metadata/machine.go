package metadata

import (
	"fmt"
	"slices"

	"galgo"
	"galgo/internal/wire"
)

// Machine applies the log of the metadata group. It is not safe for concurrent
// use; its views are.
type Machine struct {
	s    state
	view *View // of s, until the next Apply; nil if none was asked for
}

// New returns the machine of an empty log: no user, no session, no stream.
func New() *Machine { return &Machine{s: newState()} }

// Input is a committed operation.
type Input struct {
	// Op is its position in the log; each Apply takes a higher one.
	Op uint64
	// Timestamp is that of the prepare, µs since the Unix epoch: the only clock of
	// the machine.
	Timestamp uint64
	Operation wire.Operation
	// Client, Session, Request and RequestSum are those of the request's header.
	// They are zero in operations that galgo makes itself, but for OperationDetach, which
	// names the session by the first two.
	Client     galgo.ClientID
	Session    uint64
	Request    uint64
	RequestSum [16]byte
	// User is who logs in, with Register. All other requests act as the user of
	// their session, which the table knows.
	User uint32
	// Body is what Admit returned. Apply keeps no part of it.
	Body []byte
}

// Output is what an operation caused.
type Output struct {
	// Verdict is VerdictNew if the operation ran: Body is its answer. Otherwise it changed
	// nothing, and the verdict says why; with VerdictDuplicate and VerdictAlreadyApplied Body is
	// what to answer.
	Verdict Verdict
	// Login is how a Register ended.
	Login Login
	// Body is the body of the reply, result section included. It is empty for
	// Logout, and for Register unless it was refused with a code: the answer to a
	// login is Session and User, in the words of the node that gives it.
	Body []byte
	// Session and User are those of a Register that made or renewed a session.
	Session uint64
	User    uint32
	// Born is the op that made the entry of that session, see Client.
	Born uint64
	// Ended are the clients whose sessions this operation ended: evicted from a full
	// table, logged out, or of a user that was deleted, made inactive or given another
	// password. Their next request gets VerdictNoSession.
	Ended []galgo.ClientID
	// Changes are what the node has to do beside answering, in order.
	Changes []Change
}

// ChangeKind says what became of something outside this machine.
type ChangeKind uint8

// The kinds of changes, with the fields of Change they set beside Stream and Topic.
const (
	// GroupCreated: make the group of a new partition. Partition, Group, Revision.
	GroupCreated ChangeKind = 1 + iota
	// GroupRemoved: the partition is gone. Partition, Group, Revision.
	GroupRemoved
	// GroupPurged: empty the partition. Partition, Group, Revision, Generation.
	GroupPurged
	// GroupTruncated: drop what segments of the partition end below an offset and are
	// no younger than a time.
	// Partition, Group, Revision, Generation, Below, Until.
	GroupTruncated
	// TopicUpdated: the options of a topic changed; read them from the view.
	TopicUpdated
	// ConsumerGroupRemoved: its offsets in each partition are to be dropped.
	// ConsumerGroup.
	ConsumerGroupRemoved
	// SettingsChanged: read them from the view.
	SettingsChanged
)

// Change is something the node has to do because of an operation. Doing it twice,
// or finding it done, is no fault: after a restart the log is applied again from
// the last snapshot.
type Change struct {
	Kind          ChangeKind
	Stream, Topic uint32
	Partition     uint32
	ConsumerGroup uint32
	Group         uint64
	Revision      uint64 // the revision that created the partition
	Generation    uint64
	Below         uint64 // offset
	Until         uint64 // µs
}

// Apply runs a committed operation. It panics if the op is not above the last one
// or its body does not decode: both mean that the log is not what was committed.
func (m *Machine) Apply(in Input) Output {
	if in.Op <= m.s.applied {
		panic(fmt.Sprintf("metadata: op %d applied after op %d", in.Op, m.s.applied))
	}
	m.s.applied, m.s.timestamp = in.Op, in.Timestamp
	m.view = nil
	switch in.Operation {
	case OperationBootstrap:
		return m.onBootstrap(&in)
	case OperationConfigure:
		return m.onConfigure(&in)
	case OperationDetach:
		return m.onDetach(&in)
	case OperationDepart:
		return m.onDepart(&in)
	case OperationSweepTokens:
		return m.onSweepTokens(&in)
	case wire.OperationRegister:
		return m.onRegister(&in)
	case wire.OperationLogout:
		return m.onLogout(&in)
	case wire.OperationCompleteGroupRevocation:
		return m.onCompleteRevocations(&in)
	}
	return m.onRequest(&in)
}

// View returns the state as it is now. The view stays as it is whatever is applied
// afterwards, costs O(1), and may be read by many goroutines.
func (m *Machine) View() *View {
	if m.view == nil {
		m.view = &View{s: m.s.copied()}
	}
	return m.view
}

// result is the outcome of a request that ran: a payload, or the code of a
// rejection, which comes with no change.
type result struct {
	code    galgo.Code
	payload []byte
	// partitions is how many records of new partitions follow the payload.
	partitions uint32
	changes    []Change
	// once says that the answer holds a secret that comes with it: see body.
	once bool
	// again says that the request was worked out from less of the log than this. It did
	// not run and is not recorded: the client is asked to send it once more.
	again bool
	// ended are the clients whose sessions went with their user.
	ended []galgo.ClientID
}

func again() result { return result{code: galgo.CodeTransientNotAccepted, again: true} }

func rejected(code galgo.Code) result { return result{code: code} }

// body is the reply's body without the records of new partitions.
func (r *result) body() []byte {
	if r.code != galgo.CodeOK {
		return wire.AppendResultError(nil, r.code)
	}
	return append(wire.AppendResultOK(nil), r.payload...)
}

// kept is what the client table keeps of a body, for whoever repeats the request. An
// answer that cannot be given again is kept as a refusal which says that it was given.
func (r *result) kept(body []byte, room int) []byte {
	switch {
	case r.once && r.code == galgo.CodeOK:
		return wire.AppendResultError(nil, galgo.CodePersonalAccessTokenAlreadyExists)
	case len(body) > ReplyMax, len(body) > room && len(body) > resultErrorSize:
		return wire.AppendResultError(nil, galgo.CodeRequestAlreadyApplied)
	}
	return body
}

// onRequest runs a numbered request of a client, unless the table says that it
// must not: the proposer may have known less of the log than is committed now.
func (m *Machine) onRequest(in *Input) Output {
	run := m.handler(in)
	verdict := m.s.check(in.Client, in.Session, in.Request, in.RequestSum)
	switch verdict.Kind {
	case VerdictNew:
	case VerdictDuplicate:
		return Output{Verdict: verdict, Body: verdict.Reply.Body()}
	case VerdictAlreadyApplied:
		return Output{Verdict: verdict, Body: wire.AppendResultError(nil, galgo.CodeRequestAlreadyApplied)}
	default:
		return Output{Verdict: verdict}
	}
	res := m.within(in.Operation, run, call{op: in.Op, timestamp: in.Timestamp, user: verdict.User, client: in.Client})
	if res.again {
		return Output{Verdict: verdict, Body: res.body()}
	}
	reply := Reply{
		Request: in.Request, RequestSum: in.RequestSum, Op: in.Op, Timestamp: in.Timestamp,
		Operation: in.Operation, body: res.body(), partitions: res.partitions,
	}
	out := Output{Verdict: verdict, Body: reply.Body(), Ended: res.ended, Changes: res.changes}
	if !slices.Contains(res.ended, in.Client) { // who deletes oneself has no session any more
		reply.body = res.kept(reply.body, ClientTableMax-m.s.clients.bytes)
		m.s.commitReply(in.Client, reply)
	}
	return out
}

// call is what a request's handler may know of it beside its body.
type call struct {
	op        uint64
	timestamp uint64
	user      uint32
	client    galgo.ClientID
}

// handler returns what runs the operation. It panics for one that this release
// does not know, whatever the client table says of the request: to pass over it
// would fork the state from that of whoever wrote it.
func (m *Machine) handler(in *Input) func(call) result {
	switch in.Operation {
	case wire.OperationCreateUser:
		return func(c call) result { return m.createUser(c, decoded(in, DecodeNewUser)) }
	case wire.OperationUpdateUser:
		return func(c call) result { return m.updateUser(c, decoded(in, wire.DecodeUpdateUserRequest)) }
	case wire.OperationDeleteUser:
		return func(c call) result { return m.deleteUser(c, decoded(in, wire.DecodeUserRequest)) }
	case wire.OperationChangePassword:
		return func(c call) result { return m.changePassword(c, decoded(in, DecodeNewPassword)) }
	case wire.OperationUpdatePermissions:
		return func(c call) result { return m.updatePermissions(c, decoded(in, DecodeNewPermissions)) }
	case wire.OperationCreateToken:
		return func(c call) result { return m.createToken(c, decoded(in, DecodeNewToken)) }
	case wire.OperationDeleteToken:
		return func(c call) result { return m.deleteToken(c, decoded(in, wire.DecodeDeleteTokenRequest)) }
	case wire.OperationCreateStream:
		return func(c call) result { return m.createStream(c, decoded(in, wire.DecodeCreateStreamRequest)) }
	case wire.OperationUpdateStream:
		return func(c call) result { return m.updateStream(c, decoded(in, wire.DecodeUpdateStreamRequest)) }
	case wire.OperationDeleteStream:
		return func(c call) result { return m.deleteStream(c, decoded(in, wire.DecodeStreamRequest)) }
	case wire.OperationPurgeStream:
		return func(c call) result { return m.purgeStream(c, decoded(in, wire.DecodeStreamRequest)) }
	case wire.OperationCreateTopicWithAssignments:
		return func(c call) result { return m.createTopic(c, decoded(in, decodeNewTopic)) }
	case wire.OperationUpdateTopic:
		return func(c call) result { return m.updateTopic(c, decoded(in, wire.DecodeUpdateTopicRequest)) }
	case wire.OperationDeleteTopic:
		return func(c call) result { return m.deleteTopic(c, decoded(in, wire.DecodeTopicRequest)) }
	case wire.OperationPurgeTopic:
		return func(c call) result { return m.purgeTopic(c, decoded(in, wire.DecodeTopicRequest)) }
	case wire.OperationCreatePartitionsWithAssignments:
		return func(c call) result { return m.createPartitions(c, decoded(in, wire.DecodePartitionsRequest)) }
	case wire.OperationDeletePartitions:
		return func(c call) result { return m.deletePartitions(c, decoded(in, wire.DecodePartitionsRequest)) }
	case wire.OperationCreateConsumerGroup:
		return func(c call) result { return m.createConsumerGroup(c, decoded(in, wire.DecodeCreateGroupRequest)) }
	case wire.OperationDeleteConsumerGroup:
		return func(c call) result { return m.deleteConsumerGroup(c, decoded(in, wire.DecodeGroupRequest)) }
	case wire.OperationJoinConsumerGroup:
		return func(c call) result { return m.joinConsumerGroup(c, decoded(in, decodeJoin)) }
	case wire.OperationLeaveConsumerGroup:
		return func(c call) result { return m.leaveConsumerGroup(c, decoded(in, wire.DecodeGroupRequest)) }
	case wire.OperationTruncatePartition:
		return func(c call) result { return m.truncatePartition(c, decoded(in, decodeTruncation)) }
	}
	panic(fmt.Sprintf("metadata: op %d has operation %d, which this release cannot apply", in.Op, in.Operation))
}

// decoded decodes a committed body.
func decoded[T any](in *Input, decode func([]byte) (T, error)) T {
	req, err := decode(in.Body)
	if err != nil {
		panic(fmt.Sprintf("metadata: op %d: committed body of operation %d: %v", in.Op, in.Operation, err))
	}
	return req
}
