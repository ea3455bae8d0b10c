// Package edge speaks the client protocol: it reads frames from connections,
// keeps the session that belongs to each connection, refuses what must be
// refused, hands the rest to a Backend and writes the replies. It knows no
// consensus, no log and no file.
//
//	backend.go   what the node must do
//	server.go    listeners, connections, stopping
//	conn.go      frames: which are read, kept, thrown away (wire.md §1.7)
//	outbox.go    answers on their way out
//	session.go   dispatch, and operations of the metadata group; secrets.go for those with one
//	login.go     sign-in and sign-out; throttle.go for sources that keep being refused,
//	             detach.go for sessions that lost their connection
//	writes.go    sends and offset writes; sends.go for those in flight
//	polls.go, offsets.go, local.go, system.go, entities.go, groups.go, snapshot.go   reads
//	silence.go   members of consumer groups that fall silent
//
// A connection has a reader, which takes one request after the other and may wait,
// and a writer. Whatever a peer can make the server keep is counted: requests and
// polled messages against the byte budget, answers against the reply queue.
package edge

import (
	"net/netip"

	"galgo"
	"galgo/internal/metadata"
	"galgo/internal/partition"
	"galgo/internal/wire"
)

// Backend is what the edge needs of the node. Methods may be called from any
// goroutine and do not block on I/O; a done function is called exactly once,
// on a goroutine of the node, and must not block: it may only hand the result on.
type Backend interface {
	// View is the committed metadata as of now. A view taken after a done
	// function ran includes what that function reported.
	View() *metadata.View
	// Current reports whether View is not of the past, as far as this node can know.
	Current() bool
	// Fresh runs done when View holds what any node had acknowledged before the call;
	// with false if that could not be found out in time.
	Fresh(done func(ok bool))
	// Stats are the node's numbers of a partition group; false when the node
	// does not (yet) have the group.
	Stats(group uint64) (partition.Figures, bool)

	// Metadata runs an operation of the metadata group: 128..149 as the client
	// sent them (the node admits, rewrites and proposes them), but for those that
	// carry a secret, which come as metadata.NewUser, NewPassword and NewToken;
	// 1 Register (User authenticated by the edge, Body a metadata.Credential),
	// 3 Logout and 98 Detach.
	Metadata(req MetadataRequest, done func(MetadataReply))

	// Send stores a batch in a partition group. req.Batch is owned by the node
	// from now on and must have passed wire validation.
	Send(req SendRequest, done func(SendReply))
	// StoreOffset and DeleteOffset write consumer offsets through the group's log.
	StoreOffset(req OffsetRequest, done func(OffsetReply))
	DeleteOffset(req OffsetRequest, done func(OffsetReply))
	// Claim has the offsets of a consumer group that are written for req.Member, as of
	// req.Tenure, count and no older ones any more: once done has run with CodeOK, reads of
	// this node have all that were. CodeResourceNotFound: another member has the partition.
	Claim(req OffsetRequest, done func(OffsetReply))
	// Poll resolves a poll against committed data into req.Plan, which the caller
	// reads, off the node's loops (partition.Plan.Read), and may use again.
	//
	// A poll for a consumer group is that of req.Member, and is refused with
	// CodeConsumerGroupPartitionNotOwned unless the member may poll the partition. If it
	// is answered with CodeOK, Polled has to be called with the same request, once.
	Poll(req PollRequest, done func(PollReply))
	// Polled tells what the poll of a member has yielded, up to the offset last if any.
	// It reports whether the member may still be given that.
	Polled(req PollRequest, last uint64, any bool) bool
	// Offset reads a committed consumer offset.
	Offset(group uint64, kind galgo.ConsumerKind, key uint32, done func(OffsetReply))

	// Groups tells how this node stands in each of its consensus groups.
	Groups(done func(wire.NodeGroups))
	// StepDown has this node give up the primaryship of groups.
	StepDown(req wire.StepDownRequest, done func(wire.StepDownReply))

	// Cluster is the roster as a client with this address is told of it.
	Cluster(client netip.Addr) wire.ClusterMetadata
	// CommitOp is the commit point of the metadata group, for reply headers.
	CommitOp() uint64
	// Host describes the process and the machine for the stats command; counts
	// that the edge knows itself (clients) or that come from View are zero.
	Host() wire.Stats
}

// MetadataRequest is an operation for the metadata group.
type MetadataRequest struct {
	Operation  wire.Operation
	Client     galgo.ClientID
	Session    uint64 // epoch bound to the connection; 0 on Register
	Request    uint64
	RequestSum [16]byte
	User       uint32
	Body       []byte // owned by the node from now on
}

// MetadataOutcome says which frame answers a metadata request.
type MetadataOutcome uint8

// Outcomes of a metadata request.
const (
	// OutcomeReply: Body is the committed reply body, result section included.
	OutcomeReply MetadataOutcome = iota
	// OutcomeStatus: denied before the log; Code goes into the status field.
	OutcomeStatus
	// OutcomeResult: a transient or terminal refusal (57, 58, 59, 51) that goes
	// into a result section.
	OutcomeResult
	// OutcomeEvict: the session is gone; Reason says why.
	OutcomeEvict
	// OutcomeDrop: no answer may be given (wire.md §3.8 rows 4 and 5).
	OutcomeDrop
)

// MetadataReply answers a MetadataRequest.
type MetadataReply struct {
	Outcome   MetadataOutcome
	Body      []byte // shared, must not be changed
	Operation wire.Operation
	Op        uint64 // log position, also of a cached duplicate; session of a Register
	Born      uint64 // of a Register: the op that made the client's entry
	Timestamp uint64
	Code      galgo.Code
	Reason    wire.EvictionReason
}

// SendRequest is a batch for one partition group.
type SendRequest struct {
	Group    uint64
	Batch    []byte // batch record, not yet stamped
	Count    uint32
	Client   galgo.ClientID
	Request  uint64
	Numbered bool // the header carried a request checksum: store it once (design.md §3.5)
	User     uint32
	Born     uint64 // of the user, see metadata.Actor
	Gate     Gate   // nil: nothing is asked
}

// Gate is asked on the loop of a group, just before a write goes into its log: has
// everything of the same client that came before gone into it? Else the write is refused
// as not accepted, so that it does not overtake. It must not block.
type Gate interface{ Admit() bool }

// SendReply answers a SendRequest. Code 0: stored at Base, committed at Op.
type SendReply struct {
	Code galgo.Code
	Base uint64
	Op   uint64
}

// OffsetRequest writes a consumer offset.
type OffsetRequest struct {
	Group    uint64
	Kind     galgo.ConsumerKind
	Key      uint32
	Offset   uint64
	NoAck    bool           // answer when applied on the primary (wire.md §4.7)
	Monotone bool           // auto-commit: never moves back
	Member   galgo.ClientID // of a consumer group: who has the partition
	Tenure   uint64         // and since when, see metadata.ConsumerGroup.Tenure
	Client   galgo.ClientID
	Request  uint64
	User     uint32
	Born     uint64 // of the user, see metadata.Actor
	Gate     Gate   // see SendRequest
}

// OffsetReply answers reads and writes of consumer offsets.
type OffsetReply struct {
	Code    galgo.Code
	Found   bool
	Stored  uint64
	Current uint64 // offset of the last committed message, 0 when empty
	Op      uint64
}

// PollRequest asks a partition group for messages.
type PollRequest struct {
	Group    uint64
	Kind     galgo.ConsumerKind
	Key      uint32
	Member   galgo.ClientID // of a consumer group
	Tenure   uint64         // since when it has the partition
	Strategy galgo.PollingStrategy
	Count    uint32
	Bytes    int             // of batch records, at most; 0: what a frame holds
	Plan     *partition.Plan // filled by the node, the caller's again when done has run
	Ticket   any             // what the reply had, for Polled
}

// PollReply answers a PollRequest.
type PollReply struct {
	Code   galgo.Code
	Ticket any // of a member's poll that is under way: Polled wants it back
}
