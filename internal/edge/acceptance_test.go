package edge

import (
	"strings"
	"testing"

	"galgo"
	"galgo/internal/wire"
)

// The length of a name counts in bytes: at the limit it is taken and shown as it was
// sent, beyond it is refused, and so is what is no text (PF-wire-03).
func TestNamesAtTheirLimits(t *testing.T) {
	p := newRig(t).signedIn()
	p.makeTopic(1)
	for what, c := range map[string]struct {
		name string
		ok   bool
	}{
		"one byte":                 {"n", true},
		"255 bytes of ASCII":       {strings.Repeat("a", 255), true},
		"255 bytes of UTF-8":       {strings.Repeat("ä", 127) + "x", true},
		"256 bytes of UTF-8":       {strings.Repeat("ä", 128), false},
		"no byte":                  {"", false},
		"bytes that are no text":   {"ab\xff", false},
		"text that is cut short":   {strings.Repeat("a", 254) + "\xc3", false},
		"bytes that stand for '.'": {"\xc0\xae", false},
	} {
		for op, body := range map[wire.Operation][]byte{
			wire.OperationCreateStream:        rawName(wire.CreateStreamRequest{Name: "?"}.Append(nil), c.name),
			wire.OperationCreateTopic:         rawName(wire.CreateTopicRequest{Stream: s0, Partitions: 1, Name: "?"}.Append(nil), c.name),
			wire.OperationCreateConsumerGroup: rawName(wire.CreateGroupRequest{Stream: s0, Topic: t0, Name: "?"}.Append(nil), c.name),
		} {
			f := p.ask(p.header(op), body)
			if _, code := p.parsed(f); c.ok != (code == galgo.CodeOK) || !c.ok && code != galgo.CodeInvalidCommand {
				t.Errorf("%s as the name of operation %d: %v", what, op, code)
			}
		}
		if !c.ok {
			continue
		}
		named := galgo.NamedID(c.name)
		stream, err := wire.DecodeStreamDetails(p.mustRead(wire.CommandGetStream, wire.StreamRequest{Stream: named}.Append(nil)))
		if err != nil || stream.Name != c.name {
			t.Errorf("%s: the stream is shown as %q, %v", what, stream.Name, err)
		}
		topic, err := wire.DecodeTopicDetails(p.mustRead(wire.CommandGetTopic, wire.TopicRequest{Stream: s0, Topic: named}.Append(nil)))
		if err != nil || topic.Name != c.name {
			t.Errorf("%s: the topic is shown as %q, %v", what, topic.Name, err)
		}
	}
	// 256 does not fit into the length of a name: the byte says 0, and the rest is
	// what follows the last field.
	p.wantStatus(p.ask(p.header(wire.OperationCreateStream), rawName(wire.CreateStreamRequest{Name: "?"}.Append(nil), strings.Repeat("a", 256))), galgo.CodeInvalidCommand)
	p.alive()
}

// rawName puts a name in the place of "?", whatever it is.
func rawName(body []byte, name string) []byte {
	before, after, _ := strings.Cut(string(body), "\x01?")
	return []byte(before + string([]byte{byte(len(name))}) + name + after)
}
