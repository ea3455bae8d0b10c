package engine

import (
	"strings"
	"testing"

	"galgo"
	"galgo/internal/edge"
	"galgo/internal/wire"
)

// script is a short life of a node that goes through everything that touches the
// disk. A step is acknowledged as a whole; its name says what it does.
var script = []step{
	{"bootstrap", func(w *world, c *cast) bool { return w.bootstrap() }},
	{"login", func(w *world, c *cast) bool {
		s, ok := w.login(galgo.ClientID{1})
		c.admin = s
		return ok
	}},
	{"create stream", func(w *world, c *cast) bool {
		return c.call(w, wire.OperationCreateStream, wire.CreateStreamRequest{Name: "s"}.Append(nil))
	}},
	{"create topic", func(w *world, c *cast) bool { return c.createTopic(w, "t", 2) }},
	{"send a", sending(0, "a0", "a1", "a2")},
	{"send b", sending(1, "b0")},
	{"store offset", func(w *world, c *cast) bool {
		r, ok := w.storeOffset(w.group("s", "t", 0), 1, 2)
		return ok && r.Code == galgo.CodeOK
	}},
	{"send c", sending(0, "c0", "c1")},
	{"create group", creatingGroup},
	{"join", groupStep(wire.OperationJoinConsumerGroup)},
	{"store group offset", func(w *world, c *cast) bool {
		r, ok := w.storeForGroup(w.group("s", "t", 0), c.admin.id, 0, 1)
		return ok && r.Code == galgo.CodeOK
	}},
	{"checkpoint", func(w *world, c *cast) bool { return w.checkpoint() }},
	{"send after checkpoint", sending(0, "d0")},
	{"fill a segment", sending(1, big("e", 600<<10))},
	{"roll the segment", sending(1, big("f", 600<<10))},
	{"send into the new segment", sending(1, "g0", "g1")},
	{"delete segments", func(w *world, c *cast) bool {
		body := wire.DeleteSegmentsRequest{Stream: galgo.NamedID("s"), Topic: galgo.NamedID("t"), PartitionID: 1, Segments: 9}.Append(nil)
		return c.call(w, wire.OperationDeleteSegments, body)
	}},
	{"checkpoint over segments", func(w *world, c *cast) bool { return w.checkpoint() }},
	{"numbered send", func(w *world, c *cast) bool {
		r, ok := w.send(w.group("s", "t", 0), galgo.ClientID{9}, 1, "n0")
		return ok && r.Code == galgo.CodeOK
	}},
	{"delete group", groupStep(wire.OperationDeleteConsumerGroup)},
	{"group of the same name", creatingGroup},
	{"join it", groupStep(wire.OperationJoinConsumerGroup)},
	{"store offset of the second", func(w *world, c *cast) bool {
		r, ok := w.storeForGroup(w.group("s", "t", 0), c.admin.id, 1, 2)
		return ok && r.Code == galgo.CodeOK
	}},
	{"leave", groupStep(wire.OperationLeaveConsumerGroup)},
	{"purge", func(w *world, c *cast) bool {
		body := wire.TopicRequest{Stream: galgo.NamedID("s"), Topic: galgo.NamedID("t")}.Append(nil)
		return c.call(w, wire.OperationPurgeTopic, body)
	}},
	{"send after purge", sending(0, "h0", "h1")},
	{"second stream", func(w *world, c *cast) bool {
		return c.call(w, wire.OperationCreateStream, wire.CreateStreamRequest{Name: "s2"}.Append(nil))
	}},
	{"checkpoint after purge", func(w *world, c *cast) bool { return w.checkpoint() }},
	{"delete topic", func(w *world, c *cast) bool {
		body := wire.TopicRequest{Stream: galgo.NamedID("s"), Topic: galgo.NamedID("t")}.Append(nil)
		return c.call(w, wire.OperationDeleteTopic, body)
	}},
	{"create it again", func(w *world, c *cast) bool { return c.createTopic(w, "t", 1) }},
	{"send to the new one", sending(0, "i0")},
	{"last checkpoint", func(w *world, c *cast) bool { return w.checkpoint() }},
}

type step struct {
	name string
	run  func(*world, *cast) bool // true: acknowledged
}

// cast is who acts in a script.
type cast struct{ admin *session }

func (c *cast) call(w *world, op wire.Operation, body []byte) bool {
	r, ok := w.call(c.admin, op, body)
	if !ok || r.Outcome != edge.OutcomeReply {
		return false
	}
	code, _, err := wire.SplitResult(r.Body)
	return err == nil && code == galgo.CodeOK
}

// createTopic makes a topic whose segments are as small as they may be.
func (c *cast) createTopic(w *world, name string, partitions uint32) bool {
	options, err := wire.NewOptions([]galgo.Header{{Key: galgo.StringValue(galgo.OptionSegmentSize), Value: galgo.Uint64Value(1 << 20)}})
	if err != nil {
		w.t.Fatal(err)
	}
	body := wire.CreateTopicRequest{Stream: galgo.NamedID("s"), Partitions: partitions, Name: name, Options: options}.Append(nil)
	return c.call(w, wire.OperationCreateTopic, body)
}

func creatingGroup(w *world, c *cast) bool {
	return c.call(w, wire.OperationCreateConsumerGroup, wire.CreateGroupRequest{Stream: galgo.NamedID("s"), Topic: galgo.NamedID("t"), Name: "g"}.Append(nil))
}

// groupStep does something to the consumer group g.
func groupStep(op wire.Operation) func(*world, *cast) bool {
	return func(w *world, c *cast) bool {
		return c.call(w, op, wire.GroupRequest{Stream: galgo.NamedID("s"), Topic: galgo.NamedID("t"), Group: galgo.NamedID("g")}.Append(nil))
	}
}

func sending(partition uint32, payloads ...string) func(*world, *cast) bool {
	return func(w *world, c *cast) bool {
		r, ok := w.send(w.group("s", "t", partition), galgo.ClientID{}, 0, payloads...)
		return ok && r.Code == galgo.CodeOK
	}
}

func big(fill string, n int) string { return strings.Repeat(fill, n) }

// perform runs the script until a step is not acknowledged and returns how many
// were.
func perform(w *world) (acknowledged int) {
	c := &cast{}
	for i, s := range script {
		if !s.run(w, c) {
			return i
		}
	}
	return len(script)
}

// expected is what can be seen after each number of steps, from a run without
// faults.
func expected(t *testing.T, d diskMaker) []string {
	t.Helper()
	w, err := open(t, d(), worldConfig(), 1, 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	seen := make([]string, 0, len(script)+1)
	c := &cast{}
	for i := 0; ; i++ {
		s, err := w.observe()
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, s)
		if i == len(script) {
			return seen
		}
		if !script[i].run(w, c) {
			t.Fatalf("step %q is not acknowledged on a healthy disk (%v)", script[i].name, w.failed)
		}
	}
}
