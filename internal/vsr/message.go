package vsr

// MessageKind says what a replica tells another.
type MessageKind uint8

// Kinds of messages of the normal case (VR Revisited §4.1). The numbers travel.
const (
	MessageNone      MessageKind = 0
	MessagePrepare   MessageKind = 6
	MessagePrepareOk MessageKind = 7
	MessageCommit    MessageKind = 9
)

func (k MessageKind) String() string {
	switch k {
	case MessagePrepare:
		return "prepare"
	case MessagePrepareOk:
		return "prepare_ok"
	case MessageCommit:
		return "commit"
	default:
		return "unknown"
	}
}

// Message is what one replica says to another. The envelope (From, View,
// Incarnation, Commit) is the sender's present; Prepare is immutable and carries
// its own view (design rule 7).
//
//	prepare     primary -> backup   Prepare is the op to append
//	prepare_ok  backup -> primary   Op and Identity are held durably by From
//	commit      primary -> backup   Op and Identity name the commit point
type Message struct {
	Kind     MessageKind
	From     uint8
	To       uint8
	Group    GroupID
	View     View
	Commit   Op
	Op       Op
	Identity Identity
	Prepare  *Prepare
}
