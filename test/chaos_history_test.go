package test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"galgo"
	"galgo/client"
)

// metaKind is a change of a stream, or a look at it.
type metaKind uint8

const (
	metaCreateStream metaKind = iota
	metaDeleteStream
	metaCreateTopic
	metaDeleteTopic
	metaAddPartitions
	metaLook
)

func (k metaKind) String() string {
	return [...]string{"create stream", "delete stream", "create topic", "delete topic", "add partitions", "look"}[k]
}

type metaInput struct {
	what          metaKind
	stream, topic string
	count         uint32
}

// metaOutput is what was answered: done, refused, nothing; or what was there.
type metaOutput struct {
	ok, unknown bool
	state       metaState
}

// metaState is a stream in words: "" is none, else "|" and its topics by name, each with
// the number of its partitions.
type metaState string

func (in metaInput) ask(ctx context.Context, c *client.Client) error {
	stream, topic := galgo.NamedID(in.stream), galgo.NamedID(in.topic)
	switch in.what {
	case metaCreateStream:
		_, err := c.CreateStream(ctx, in.stream)
		return err
	case metaDeleteStream:
		return c.DeleteStream(ctx, stream)
	case metaCreateTopic:
		_, err := c.CreateTopic(ctx, stream, client.TopicSpec{Name: in.topic, Partitions: in.count})
		return err
	case metaDeleteTopic:
		return c.DeleteTopic(ctx, stream, topic)
	}
	return c.CreatePartitions(ctx, stream, topic, in.count)
}

// look is the state of a stream as a client sees it.
func look(ctx context.Context, c *client.Client, stream string) (metaState, error) {
	s, err := c.Stream(ctx, galgo.NamedID(stream))
	if code, ok := galgo.CodeOf(err); ok && code == galgo.CodeStreamIDNotFound {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	topics := map[string]uint32{}
	for _, t := range s.Topics {
		topics[t.Name] = t.PartitionsCount
	}
	return stateOfTopics(topics), nil
}

func stateOfTopics(topics map[string]uint32) metaState {
	var words []string
	for name, n := range topics {
		words = append(words, fmt.Sprintf("%s %d", name, n))
	}
	slices.Sort(words)
	return metaState("|" + strings.Join(words, "|"))
}

func (s metaState) topics() map[string]uint32 {
	topics := map[string]uint32{}
	for word := range strings.SplitSeq(string(s), "|") {
		var name string
		var n uint32
		if _, err := fmt.Sscan(word, &name, &n); err == nil {
			topics[name] = n
		}
	}
	return topics
}

// after is the state after a change, and whether that is allowed.
func (s metaState) after(in metaInput) (metaState, bool) {
	if in.what == metaCreateStream {
		if s != "" {
			return s, false
		}
		return stateOfTopics(nil), true
	}
	if s == "" {
		return s, false
	}
	if in.what == metaDeleteStream {
		return "", true
	}
	topics := s.topics()
	if _, there := topics[in.topic]; there == (in.what == metaCreateTopic) {
		return s, false
	}
	switch in.what {
	case metaDeleteTopic:
		delete(topics, in.topic)
	default:
		topics[in.topic] += in.count
	}
	return stateOfTopics(topics), true
}

// metaModel is a stream by itself, as streams have nothing to do with each other.
var metaModel = porcupine.Model{
	Init: func() any { return metaState("") },
	Step: func(state, input, output any) (bool, any) {
		s, in, out := state.(metaState), input.(metaInput), output.(metaOutput)
		if in.what == metaLook {
			return s == out.state, s
		}
		next, ok := s.after(in)
		return out.unknown || ok == out.ok, next
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
}

// historyTime bounds the search for an order.
const historyTime = 2 * time.Minute

// verifyHistory fails if no order explains what was answered of a stream.
func (l *chaosLoad) verifyHistory() {
	l.t.Helper()
	for name, ops := range l.history {
		switch result := porcupine.CheckOperationsTimeout(metaModel, ops, historyTime); result {
		case porcupine.Illegal:
			var b strings.Builder
			for _, op := range ops {
				fmt.Fprintf(&b, "  client %d  %d to %d  %+v: %+v\n", op.ClientId, op.Call, op.Return, op.Input, op.Output)
			}
			l.t.Errorf("no order explains what was answered of stream %q:\n%s", name, b.String())
		case porcupine.Unknown:
			l.t.Errorf("no order of %d operations on stream %q was found in %v", len(ops), name, historyTime)
		}
	}
}
