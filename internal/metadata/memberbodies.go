package metadata

import (
	"galgo"
	"galgo/internal/wire"
)

// HandOversMax is how many partitions one CompleteGroupRevocation hands over.
const HandOversMax = 1000

// join is the body of JoinConsumerGroup in the log: the client's request and what the
// primary knows of the partitions of the group that it names.
//
//	size  field
//	   n  request     as on the wire
//	   4  stream      the group that busy is about
//	   4  topic
//	   4  group
//	   8  generation  of the group, as of which busy is known
//	   4  busy        count of partitions; each u32: messages of it were given to its
//	                  owner, which has not committed them, or may have been
type join struct {
	wire.GroupRequest
	Busy
}

// Busy are the partitions of a consumer group whose owners may have messages that they
// have not committed.
type Busy struct {
	Stream, Topic, Group uint32
	Generation           uint64
	Partitions           []uint32
}

// busyIn is what Busy says of a group. If it is about another one, which had the name
// when the request was admitted, every partition may be busy. So may they if the group has
// changed since: who has got a partition meanwhile, at whichever node, may have been given
// messages of it that the primary knew nothing of.
func (b *Busy) busyIn(g *ConsumerGroup) func(uint32) bool {
	if b.Stream != g.Stream || b.Topic != g.Topic || b.Group != g.ID || b.Generation != g.Generation {
		return func(uint32) bool { return true }
	}
	set := make(map[uint32]bool, len(b.Partitions))
	for _, p := range b.Partitions {
		set[p] = true
	}
	return func(p uint32) bool { return set[p] }
}

// admitJoin leaves the part of the primary to WithBusy.
func admitJoin(req wire.GroupRequest) ([]byte, error) {
	return appendBusy(req.Append(nil), Busy{Stream: busyNowhere}), nil
}

// busyNowhere is the stream of a Busy that is about no group: it is no stream's id.
const busyNowhere = StreamsMax

func appendBusy(b []byte, busy Busy) []byte {
	for _, n := range []uint32{busy.Stream, busy.Topic, busy.Group} {
		b = le.AppendUint32(b, n)
	}
	b = le.AppendUint32(le.AppendUint64(b, busy.Generation), uint32(len(busy.Partitions)))
	for _, p := range busy.Partitions {
		b = le.AppendUint32(b, p)
	}
	return b
}

// JoinWithBusy completes what Admit returned for a JoinConsumerGroup of a client: find says
// which partitions of a group are busy. It is not asked if the client may not join as of
// now: should that change before the request is applied, every partition may be busy.
func JoinWithBusy(v *View, client galgo.ClientID, body []byte, find func(*ConsumerGroup) []uint32) []byte {
	req, err := wire.DecodeGroupRequest(body)
	if err != nil {
		return body
	}
	g, ok := v.Joining(client, req)
	if !ok {
		return body
	}
	return appendBusy(req.Append(nil), Busy{Stream: g.Stream, Topic: g.Topic, Group: g.ID, Generation: g.Generation, Partitions: find(g)})
}

func decodeJoin(body []byte) (join, error) {
	req, err := wire.DecodeGroupRequest(body)
	if err != nil {
		return join{}, err
	}
	r := reader{part: "join body", b: body, off: len(req.Append(nil))}
	j := join{GroupRequest: req, Busy: Busy{Stream: r.u32(), Topic: r.u32(), Group: r.u32(), Generation: r.u64()}}
	j.Partitions = r.numbers(PartitionsMax)
	return j, r.end()
}

// numbers takes a count and that many u32.
func (r *reader) numbers(max uint64) (list []uint32) {
	for range r.count(max, 4) {
		list = append(list, r.u32())
	}
	return list
}

// Completion is the body of CompleteGroupRevocation, which a primary proposes when the
// owners of partitions on their way to others are done with them.
//
//	off  size  field
//	  0     1  version   1
//	  1     4  stream
//	  5     4  topic
//	  9     4  group
//	 13     4  hand_overs  count, 1..1000; each:
//	       16    client    that has the partition
//	        4    partition
//	        8    since     µs, of the revocation: one of another life has another
type Completion struct {
	Stream, Topic, Group uint32
	HandOvers            []HandOver
}

// HandOver names a revocation.
type HandOver struct {
	Client    galgo.ClientID
	Partition uint32
	Since     uint64
}

const handOverSize = 16 + 4 + 8

// Encode returns the body.
func (c Completion) Encode() []byte {
	b := []byte{internalVersion}
	for _, n := range []uint32{c.Stream, c.Topic, c.Group, uint32(len(c.HandOvers))} {
		b = le.AppendUint32(b, n)
	}
	for _, h := range c.HandOvers {
		b = append(b, h.Client[:]...)
		b = le.AppendUint64(le.AppendUint32(b, h.Partition), h.Since)
	}
	return b
}

// DecodeCompletion reads the body of CompleteGroupRevocation.
func DecodeCompletion(body []byte) (Completion, error) {
	r := reader{part: "completion body", b: body}
	r.version(internalVersion)
	c := Completion{Stream: r.u32(), Topic: r.u32(), Group: r.u32()}
	if c.Stream >= StreamsMax || c.Topic >= TopicsMax {
		r.fail(ErrCorrupt, "group of stream %d, topic %d", c.Stream, c.Topic)
	}
	for range r.count(HandOversMax, handOverSize) {
		c.HandOvers = append(c.HandOvers, HandOver{Client: r.array16(), Partition: r.u32(), Since: r.u64()})
	}
	return c, r.end()
}
