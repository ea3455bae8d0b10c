package sim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"

	"galgo"
	"galgo/internal/metadata"
	"galgo/internal/wire"
)

// history is what clients asked of the metadata and were answered. There has to be
// one order of all of it, within the times of each, that a simple model agrees with.
//
// What became of an operation that was never answered is taken from the log. To leave
// it open would be more independent, but the search for an order grows beyond all
// bounds with each such operation.
type history struct {
	ops  []porcupine.Operation
	open []openChange
}

// openChange is an operation whose client was evicted before it heard of it.
type openChange struct {
	client  *client
	input   changeInput
	began   int64
	request uint64
}

type changeKind uint8

const (
	createStream changeKind = iota
	deleteStream
	purgeStream
	createTopic
	deleteTopic
	purgeTopic
	renameTopic
	createPartitions
	deletePartitions
	createGroup
	deleteGroup
	joinGroup
	deleteSegments
	createUser
	deleteUser
	createToken
	deleteToken
	unjudged // what the model of the history has no opinion of
)

var changeNames = [...]string{
	"create stream", "delete stream", "purge stream", "create topic", "delete topic", "purge topic", "rename topic",
	"create partitions", "delete partitions", "create group", "delete group", "join group", "delete segments",
	"create user", "delete user", "create token", "delete token", "unjudged",
}

func (k changeKind) String() string { return changeNames[k] }

// changeInput is what was asked for. Streams have nothing to do with each other, so
// each has a history of its own; a user, or a token of root, is like a stream without
// topics.
type changeInput struct {
	kind                 changeKind
	stream, topic, other string // other: the new name, or a consumer group
	count                uint32
}

// changeOutput is what was answered: that it was done or refused.
type changeOutput struct{ ok bool }

// add takes note of an operation.
func (h *history) add(client int, in changeInput, began int64, out changeOutput, ended int64) {
	if in.kind == unjudged {
		return
	}
	h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: in, Call: began, Output: out, Return: ended})
}

// close finds out what became of operations that nobody was told of.
func (h *history) close(m *model) {
	for _, o := range h.open {
		for i := range m.results {
			r := &m.results[i]
			if r.client == o.client.id && r.request == o.request && r.output.Verdict.Kind == metadata.VerdictNew && isRequest(r.operation) {
				code, _, err := wire.SplitResult(r.output.Body)
				h.add(o.client.index, o.input, o.began, changeOutput{ok: err == nil && code == galgo.CodeOK}, r.time)
			}
		}
	}
	h.open = nil
}

// isRequest reports whether an operation of the log is that of a client's request.
func isRequest(op wire.Operation) bool {
	return op.IsMetadata() || op >= wire.OperationCreateTopicWithAssignments && op <= wire.OperationTruncatePartition
}

// check reports the first stream whose history no order explains.
func (h *history) check() error {
	streams := map[string][]porcupine.Operation{}
	var names []string
	for _, op := range h.ops {
		name := op.Input.(changeInput).stream
		if streams[name] == nil {
			names = append(names, name)
		}
		streams[name] = append(streams[name], op)
	}
	model := porcupine.Model{
		Init: func() any { return streamState("") },
		Step: func(state, input, output any) (bool, any) {
			next, ok := state.(streamState).apply(input.(changeInput))
			out := output.(changeOutput)
			return out.ok == ok, next
		},
	}
	slices.Sort(names)
	for _, name := range names {
		if !porcupine.CheckOperations(model, streams[name]) {
			return fmt.Errorf("no order explains what was answered of stream %s:\n%s", name, listing(streams[name]))
		}
	}
	return nil
}

func listing(ops []porcupine.Operation) string {
	var b strings.Builder
	for _, op := range ops[max(0, len(ops)-60):] {
		in, out := op.Input.(changeInput), op.Output.(changeOutput)
		fmt.Fprintf(&b, "  client %d  %s to %s  %v %s %s %d: %+v\n", op.ClientId, clock(op.Call), clock(op.Return), in.kind, in.topic, in.other, in.count, out)
	}
	return b.String()
}

// streamState is a stream in words that can be compared: "" is none; else "|", and
// for each topic, sorted, its name, partitions and consumer groups.
type streamState string

type topicState struct {
	name       string
	partitions uint32
	groups     []string
}

func (s streamState) topics() (topics []topicState) {
	for _, word := range strings.Split(string(s), "|")[1:] {
		if word == "" {
			continue
		}
		parts := strings.Split(word, " ")
		t := topicState{name: parts[0], groups: parts[2:]}
		fmt.Sscan(parts[1], &t.partitions)
		topics = append(topics, t)
	}
	return topics
}

func stateOf(topics []topicState) streamState {
	slices.SortFunc(topics, func(a, b topicState) int { return strings.Compare(a.name, b.name) })
	words := []string{"", ""}
	for _, t := range topics {
		slices.Sort(t.groups)
		words = append(words, strings.Join(append([]string{t.name, fmt.Sprint(t.partitions)}, t.groups...), " "))
	}
	return streamState(strings.Join(words, "|"))
}

// apply returns the state after an operation, and whether it is allowed.
func (s streamState) apply(in changeInput) (streamState, bool) {
	if in.kind == createStream || in.kind == createUser || in.kind == createToken {
		if s == "" {
			return stateOf(nil), true
		}
		return s, false
	}
	if s == "" {
		return s, false
	}
	switch in.kind {
	case deleteStream, deleteUser, deleteToken:
		return "", true
	case purgeStream:
		return s, true
	}
	topics := s.topics()
	at := func(name string) int {
		return slices.IndexFunc(topics, func(t topicState) bool { return t.name == name })
	}
	i := at(in.topic)
	if in.kind == createTopic {
		if i >= 0 {
			return s, false
		}
		return stateOf(append(topics, topicState{name: in.topic, partitions: in.count})), true
	}
	if i < 0 {
		return s, false
	}
	t := &topics[i]
	switch in.kind {
	case deleteTopic:
		return stateOf(slices.Delete(topics, i, i+1)), true
	case renameTopic:
		if j := at(in.other); j >= 0 && j != i {
			return s, false
		}
		t.name = in.other
	case createPartitions:
		t.partitions += in.count
	case deletePartitions:
		if in.count > t.partitions {
			return s, false
		}
		t.partitions -= in.count
	case createGroup:
		if slices.Contains(t.groups, in.other) {
			return s, false
		}
		t.groups = append(t.groups, in.other)
	case joinGroup:
		return s, slices.Contains(t.groups, in.other)
	case deleteSegments:
		return s, in.count <= t.partitions
	case deleteGroup:
		if !slices.Contains(t.groups, in.other) {
			return s, false
		}
		t.groups = slices.DeleteFunc(t.groups, func(g string) bool { return g == in.other })
	}
	return stateOf(topics), true
}
