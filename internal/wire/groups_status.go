package wire

import "strconv"

// GroupFlags say what a replica is in a group.
type GroupFlags uint8

// The flags of a group.
const (
	GroupPrimary      GroupFlags = 1 << iota // it may propose now
	GroupLed                                 // Leader leads, as far as is known here
	GroupReadable                            // what is applied here is not of the past
	GroupTransferring                        // it takes a checkpoint from another node
	groupFlagsAll     = GroupPrimary | GroupLed | GroupReadable | GroupTransferring
)

// GroupState is where a replica is in the protocol.
type GroupState uint8

// The states of a replica in a group, as the core counts them.
const (
	GroupNormal     GroupState = 0
	GroupViewChange GroupState = 1
	GroupRecovering GroupState = 2
)

// String is the state in a word.
func (s GroupState) String() string {
	names := [...]string{"normal", "view-change", "recovering"}
	if int(s) < len(names) {
		return names[s]
	}
	return "state " + strconv.Itoa(int(s))
}

// GroupStatus is a consensus group as one node sees it: [u64 group][u32 stream]
// [u32 topic][u32 partition][u32 view][u32 log_view][u64 head][u64 commit_min]
// [u64 commit_max][u8 state][u8 flags][u8 leader][u8 zero]. Group 0 is the metadata.
type GroupStatus struct {
	Group     uint64
	Stream    uint32
	Topic     uint32
	Partition uint32
	View      uint32
	LogView   uint32
	Head      uint64 // last op in the log here
	CommitMin uint64 // last op applied here
	CommitMax uint64 // last op known here to be committed
	State     GroupState
	Flags     GroupFlags
	Leader    uint8 // replica that leads View
}

const groupStatusSize = 56

// NodeGroups answers cluster.groups: [u8 replica][u32 count] and groups, of the node that
// is asked.
type NodeGroups struct {
	Replica uint8
	Groups  []GroupStatus
}

// Append appends the body of the reply.
func (m NodeGroups) Append(b []byte) []byte {
	b = le.AppendUint32(append(b, m.Replica), uint32(len(m.Groups)))
	for i := range m.Groups {
		b = m.Groups[i].append(b)
	}
	return b
}

func (g *GroupStatus) append(b []byte) []byte {
	b = le.AppendUint64(b, g.Group)
	for _, v := range [...]uint32{g.Stream, g.Topic, g.Partition, g.View, g.LogView} {
		b = le.AppendUint32(b, v)
	}
	for _, v := range [...]uint64{g.Head, g.CommitMin, g.CommitMax} {
		b = le.AppendUint64(b, v)
	}
	return append(b, byte(g.State), byte(g.Flags), g.Leader, 0)
}

// DecodeNodeGroups reads the body; unknown states and flags are refused.
func DecodeNodeGroups(body []byte) (NodeGroups, error) {
	c := read("groups of a node", body)
	m := NodeGroups{Replica: c.u8("replica")}
	n := c.count("groups", groupStatusSize)
	for i := 0; i < n && c.err == nil; i++ {
		m.Groups = append(m.Groups, c.groupStatus())
	}
	if err := c.end(); err != nil {
		return NodeGroups{}, err
	}
	return m, nil
}

func (c *cursor) groupStatus() GroupStatus {
	g := GroupStatus{
		Group: c.u64("group"), Stream: c.u32("stream"), Topic: c.u32("topic"), Partition: c.u32("partition"), View: c.u32("view"), LogView: c.u32("log_view"),
		Head: c.u64("head"), CommitMin: c.u64("commit_min"), CommitMax: c.u64("commit_max"),
		State: GroupState(c.u8("state")), Flags: GroupFlags(c.u8("flags")), Leader: c.u8("leader"),
	}
	if zero := c.u8("reserved"); g.State > GroupRecovering || g.Flags&^groupFlagsAll != 0 || zero != 0 {
		c.fail("state", g.State.String()+", flags "+strconv.Itoa(int(g.Flags)))
	}
	return g
}

// StepDownRequest has the node that is asked give up what it leads: [u8 all][u64 group].
type StepDownRequest struct {
	All   bool   // every group that it leads
	Group uint64 // else this one
}

// Append appends the body of the request.
func (r StepDownRequest) Append(b []byte) []byte {
	all := byte(0)
	if r.All {
		all = 1
	}
	return le.AppendUint64(append(b, all), r.Group)
}

// DecodeStepDownRequest reads the body.
func DecodeStepDownRequest(body []byte) (StepDownRequest, error) {
	c := read("step down", body)
	all := c.u8("all")
	r := StepDownRequest{All: all == 1, Group: c.u64("group")}
	if all > 1 {
		c.fail("all", strconv.Itoa(int(all)))
	}
	return r, c.end()
}

// StepDownOutcome is what became of a group that was to be given up.
type StepDownOutcome uint8

// The outcomes.
const (
	StepDownBegun       StepDownOutcome = 0 // the view ends; the successor takes over, or another
	StepDownNotPrimary  StepDownOutcome = 1 // the node does not lead the group
	StepDownNoSuccessor StepDownOutcome = 2 // no other replica is heard and caught up
	StepDownUnknown     StepDownOutcome = 3 // the node does not have the group
)

// String is the outcome in words.
func (o StepDownOutcome) String() string {
	names := [...]string{"begun", "not the primary", "no successor is caught up", "no such group"}
	if int(o) < len(names) {
		return names[o]
	}
	return "outcome " + strconv.Itoa(int(o))
}

// SteppedDown is the outcome for a group: [u64 group][u8 outcome][u8 successor].
type SteppedDown struct {
	Group     uint64
	Outcome   StepDownOutcome
	Successor uint8 // replica, if it has begun
}

const steppedDownSize = 10

// StepDownReply answers cluster.step_down: [u32 count] and groups.
type StepDownReply struct{ Groups []SteppedDown }

// Append appends the body of the reply.
func (m StepDownReply) Append(b []byte) []byte {
	b = le.AppendUint32(b, uint32(len(m.Groups)))
	for _, g := range m.Groups {
		b = append(le.AppendUint64(b, g.Group), byte(g.Outcome), g.Successor)
	}
	return b
}

// DecodeStepDownReply reads the body; unknown outcomes are refused.
func DecodeStepDownReply(body []byte) (StepDownReply, error) {
	c := read("stepped down", body)
	var m StepDownReply
	n := c.count("groups", steppedDownSize)
	for i := 0; i < n && c.err == nil; i++ {
		g := SteppedDown{Group: c.u64("group"), Outcome: StepDownOutcome(c.u8("outcome")), Successor: c.u8("successor")}
		if g.Outcome > StepDownUnknown {
			c.fail("outcome", g.Outcome.String())
		}
		m.Groups = append(m.Groups, g)
	}
	if err := c.end(); err != nil {
		return StepDownReply{}, err
	}
	return m, nil
}
