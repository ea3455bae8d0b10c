package metadata

import (
	"galgo"
	"galgo/internal/wire"
)

// Truncation is the body of TruncatePartition: the client's DeleteSegments with what the
// primary found that it means. The group and generation tell whether the partition is
// still the one that it looked at; if not, nothing goes.
//
//	size  field
//	   n  request     as on the wire
//	   8  group       of the partition; 0: none was found
//	   8  generation  of its last purge
//	   8  below       offset: segments that end below it go,
//	   8  until       µs, and whose last batch is no younger
type Truncation struct {
	wire.DeleteSegmentsRequest
	Group, Generation, Below, Until uint64
}

// Append appends the body.
func (t Truncation) Append(b []byte) []byte {
	b = t.DeleteSegmentsRequest.Append(b)
	for _, n := range []uint64{t.Group, t.Generation, t.Below, t.Until} {
		b = le.AppendUint64(b, n)
	}
	return b
}

func decodeTruncation(body []byte) (Truncation, error) {
	req, err := wire.DecodeDeleteSegmentsRequest(body)
	if err != nil {
		return Truncation{}, err
	}
	r := reader{part: "truncation body", b: body, off: len(req.Append(nil))}
	t := Truncation{DeleteSegmentsRequest: req, Group: r.u64(), Generation: r.u64(), Below: r.u64(), Until: r.u64()}
	return t, r.end()
}

// truncatePartition takes note that the oldest segments of a partition go. Both bounds
// only grow, until a purge.
func (m *Machine) truncatePartition(c call, req Truncation) result {
	s := &m.s
	t, code := s.topic(req.Stream, req.Topic)
	if code != galgo.CodeOK {
		return rejected(code)
	}
	if !s.allows(c.user, RuleManageTopic, t.Stream, t.ID) {
		return rejected(galgo.CodeUnauthorized)
	}
	old, ok := s.partition(t, req.PartitionID)
	if !ok {
		return rejected(galgo.CodePartitionNotFound)
	}
	s.revision++
	if old.Group != req.Group || old.PurgeGeneration != req.Generation || old.DeletedBelow >= req.Below && old.DeletedUntil >= req.Until {
		return result{}
	}
	p := *old
	p.DeletedBelow, p.DeletedUntil = max(p.DeletedBelow, req.Below), max(p.DeletedUntil, req.Until)
	s.partitions.set(p.key(), &p)
	return result{changes: []Change{p.change(GroupTruncated)}}
}
