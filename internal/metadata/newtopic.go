package metadata

import (
	"galgo"
	"galgo/internal/wire"
)

// newTopic is the body of CreateTopicWithAssignments in the log: the client's
// CreateTopic with all options resolved by the primary, so that no replica's
// defaults have a say. The groups of the partitions come from the state.
//
//	off  size  field
//	  0     1  version     1
//	  1     4  partitions  0..1000
//	  5   1+n  name
//	        n  stream      identifier as on the wire
//	     44+n  options     wire.TopicOptions.AppendState
type newTopic struct {
	Stream     galgo.Identifier
	Partitions uint32
	Name       string
	Options    wire.TopicOptions
}

func (n newTopic) encode() []byte {
	b := le.AppendUint32([]byte{internalVersion}, n.Partitions)
	b = appendName(b, n.Name)
	b = wire.StreamRequest{Stream: n.Stream}.Append(b)
	return n.Options.AppendState(b)
}

func decodeNewTopic(body []byte) (newTopic, error) {
	r := reader{part: "create topic body", b: body}
	r.version(internalVersion)
	n := newTopic{Partitions: r.u32()}
	n.Name = r.name(1, NameMax)
	n.Stream = r.identifier()
	n.Options = r.topicOptions()
	return n, r.end()
}

// identifier takes an identifier as wire writes it.
func (r *reader) identifier() galgo.Identifier {
	if r.err != nil {
		return galgo.Identifier{}
	}
	req, err := wire.DecodeStreamRequest(r.b[r.off:])
	if err != nil {
		r.fail(ErrCorrupt, "%v", err)
		return galgo.Identifier{}
	}
	r.off += len(req.Append(nil))
	return req.Stream
}
