package vsr

// MessageKind says what a replica tells another. The numbers travel.
type MessageKind uint8

// Kinds of messages (VR Revisited §4; repair and transfer §5). A kind is gated
// when it shows others a view: it leaves only once that view is durable.
const (
	MessageNone             MessageKind = 0
	MessageSuspect          MessageKind = 5
	MessagePrepare          MessageKind = 6
	MessagePrepareOk        MessageKind = 7
	MessageCommit           MessageKind = 9
	MessageStartViewChange  MessageKind = 10
	MessageDoViewChange     MessageKind = 11
	MessageStartView        MessageKind = 12
	MessagePresentView      MessageKind = 13
	MessageRequestStartView MessageKind = 17
	MessageRequestPrepares  MessageKind = 18
	MessageRepairPrepare    MessageKind = 19
	MessageRequestHeaders   MessageKind = 20
	MessageGone             MessageKind = 21
	MessageRequestOffer     MessageKind = 22
	MessageOffer            MessageKind = 23
	MessageRequestChunk     MessageKind = 24
	MessageChunk            MessageKind = 25
	MessageHeaders          MessageKind = 26
)

var messageNames = [...]string{
	MessageNone: "none", MessageSuspect: "suspect", MessagePrepare: "prepare", MessagePrepareOk: "prepare_ok",
	MessageCommit: "commit", MessageStartViewChange: "start_view_change", MessageDoViewChange: "do_view_change",
	MessageStartView: "start_view", MessagePresentView: "present_view",
	MessageRequestStartView: "request_start_view",
	MessageRequestPrepares:  "request_prepares", MessageRepairPrepare: "repair_prepare",
	MessageRequestHeaders: "request_headers", MessageGone: "gone", MessageRequestOffer: "request_offer",
	MessageOffer: "offer", MessageRequestChunk: "request_chunk", MessageChunk: "chunk", MessageHeaders: "headers",
}

func (k MessageKind) String() string {
	if k.known() {
		return messageNames[k]
	}
	return "unknown"
}

func (k MessageKind) known() bool { return int(k) < len(messageNames) && messageNames[k] != "" }

// gated kinds promise something about the view they show. The others are
// questions, and answers that vouch for bytes only.
func (k MessageKind) gated() bool { return k >= MessageSuspect && k <= MessagePresentView }

// Limits of what a message carries.
const (
	HeadersMax = PipelineCeiling + 1 // headers in a vote, a start_view or an answer
	RefsMax    = 16                  // prepares asked for at once
	ChunkMax   = 256 << 10           // bytes of a checkpoint in one message
)

// Ref names a prepare.
type Ref struct {
	Op       Op
	Identity Identity
}

// Offer names a checkpoint that a replica can serve.
type Offer struct {
	Op        Op // everything up to here is in it
	Identity  Identity
	Timestamp uint64   // µs, of the prepare at Op
	Sum       [16]byte // over all bytes of the checkpoint
	Size      uint64   // bytes
}

// Message is what one replica says to another. The envelope (From, Group,
// Incarnation, Boot, View, LogView, Commit) is the sender's present; Prepare is
// immutable and carries its own view (design rule 7). A receiver owns nothing
// in it and changes nothing.
//
//	suspect             any -> all             the primary of View is silent
//	prepare             primary -> backup      Prepare is the op to append
//	prepare_ok          backup -> primary      all up to Op, Identity is held durably
//	commit              primary -> backup      Op, Identity is the head; Beat counts
//	start_view_change   any -> all             leave for View
//	do_view_change      any -> primary-elect   the vote: Op, Identity is the head, CommitIdentity
//	                                           that of Commit, Headers Commit+1..Op, Doubt, Unknown, Boots
//	start_view          primary -> backup      the log of View: Op, Identity, CommitIdentity, Headers
//	                                           as in a vote; Echo is the boot that asked, or 0
//	present_view        any -> replaced        the view of the sender; Echo as above
//	request_start_view  any -> any             what is the present view?
//	request_prepares    any -> any             Refs
//	repair_prepare      any -> any             Prepare is one of them
//	request_headers     any -> any             headers Low..Op, of which Op has Identity
//	headers             any -> any             Headers, ascending, the last is Op, Identity
//	gone                any -> any             Op, Identity is not here; Low is the checkpoint
//	request_offer       any -> any             a checkpoint above Op?
//	offer               any -> any             Offer
//	request_chunk       any -> any             Length bytes of Offer at Offset
//	chunk               any -> any             Data of Offer at Offset
type Message struct {
	Kind        MessageKind
	From        uint8
	To          uint8
	Unknown     bool // the sender cannot tell what its log holds
	View        View
	LogView     View
	Length      uint32
	Group       GroupID
	Incarnation uint64 // of the group
	Boot        uint64 // of the sender's process
	Commit      Op
	Op          Op
	Identity    Identity
	Low         Op
	Doubt       Op
	Beat        uint64
	Echo        uint64
	Offset      uint64
	Prepare     *Prepare
	*Rest       // not nil in what the core sends and DecodeFrame returns
}

// Rest is what no message of the normal case carries. It stands apart because those
// are copied a few times each, and are most.
type Rest struct {
	CommitIdentity Identity
	Offer          Offer
	Headers        []Header
	Refs           []Ref
	Data           []byte
	Boots          []uint64 // lives of the replicas that the sender knows of
}

// nothing is the Rest of all messages that have none. It is never written.
var nothing Rest

// chained reports whether the headers of a vote or start_view describe the log
// from Commit to Op without a gap: consecutive ops, each with the identity of
// the one before as parent, growing timestamps.
func (m *Message) chained() bool {
	if m.Op < m.Commit || m.Op-m.Commit != Op(len(m.Headers)) || len(m.Headers) > HeadersMax {
		return false
	}
	return chain(m.Commit, m.CommitIdentity, m.Headers, m.Identity)
}

// chain reports whether headers follow (op, parent) one by one up to last.
func chain(op Op, parent Identity, headers []Header, last Identity) bool {
	timestamp := uint64(0)
	for i := range headers {
		h := &headers[i]
		if h.Op != op+1 || h.Parent != parent || h.Timestamp <= timestamp {
			return false
		}
		op, parent, timestamp = h.Op, h.Identity, h.Timestamp
	}
	return parent == last
}
