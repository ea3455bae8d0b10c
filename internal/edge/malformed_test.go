package edge

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"galgo"
	"galgo/internal/wire"
)

var le = binary.LittleEndian

// edited is a frame with its header changed.
func edited(h wire.RequestHeader, body []byte, edit func(frame []byte)) []byte {
	f := h.AppendFrame(nil, body)
	edit(f)
	return f
}

// Rows of wire.md §1.7 that end the connection.
func TestFramingErrorsEndTheConnection(t *testing.T) {
	for name, edit := range map[string]func([]byte){
		"size 0":                     func(f []byte) { le.PutUint32(f[48:], 0) },
		"size below header":          func(f []byte) { le.PutUint32(f[48:], 255) },
		"size above maximum":         func(f []byte) { le.PutUint32(f[48:], 64<<20+1) },
		"size of 4 GiB":              func(f []byte) { le.PutUint32(f[48:], 1<<32-1) },
		"command byte 30":            func(f []byte) { f[60] = 30 },
		"command byte 255":           func(f []byte) { f[60] = 255 },
		"undefined with a huge size": func(f []byte) { f[60] = 77; le.PutUint32(f[48:], 1<<31) },
	} {
		for state, connect := range map[string]func(*edgeRig) *peer{"signed in": (*edgeRig).signedIn, "not signed in": (*edgeRig).connect} {
			t.Run(name+"/"+state, func(t *testing.T) {
				r := newRig(t)
				p := connect(r)
				p.write(edited(p.commandHeader(wire.CommandPing), nil, edit))
				p.wantClosed()
				r.signedIn().alive()
			})
		}
	}
}

// Rows of wire.md §1.7 that are passed over: no reply, and the connection stays.
func TestFramesWithoutAnswer(t *testing.T) {
	metadataOp := func(p *peer) wire.RequestHeader { return p.header(wire.OperationDeleteStream) }
	for name, frame := range map[string]func(*peer) []byte{
		"command 0": func(p *peer) []byte {
			return edited(p.commandHeader(wire.CommandPing), []byte("x"), func(f []byte) { f[60] = 0 })
		},
		"command ping client": func(p *peer) []byte {
			return edited(p.commandHeader(wire.CommandPing), nil, func(f []byte) { f[60] = 3 })
		},
		"command reply": func(p *peer) []byte {
			return edited(p.commandHeader(wire.CommandPing), make([]byte, 100_000), func(f []byte) { f[60] = 8 })
		},
		"command 29": func(p *peer) []byte {
			return edited(p.commandHeader(wire.CommandPing), nil, func(f []byte) { f[60] = 29 })
		},
		"operation 0": func(p *peer) []byte { return edited(metadataOp(p), nil, func(f []byte) { f[176] = 0 }) },
		"operation 4": func(p *peer) []byte { return edited(metadataOp(p), []byte("abc"), func(f []byte) { f[176] = 4 }) },
		"operation 69, inside the internal range but undefined": func(p *peer) []byte {
			return edited(metadataOp(p), nil, func(f []byte) { f[176] = 69 })
		},
		"operation 96, galgo's own": func(p *peer) []byte { return edited(metadataOp(p), nil, func(f []byte) { f[176] = 96 }) },
		"operation 98, galgo's own": func(p *peer) []byte { return edited(metadataOp(p), nil, func(f []byte) { f[176] = 98 }) },
		"operation 112, galgo's own": func(p *peer) []byte {
			return edited(metadataOp(p), nil, func(f []byte) { f[176] = 112 })
		},
		"operation 150": func(p *peer) []byte { return edited(metadataOp(p), nil, func(f []byte) { f[176] = 150 }) },
		"operation 255": func(p *peer) []byte { return edited(metadataOp(p), nil, func(f []byte) { f[176] = 255 }) },
		"client 0": func(p *peer) []byte {
			return edited(p.commandHeader(wire.CommandPing), nil, func(f []byte) { clear(f[128:144]) })
		},
		"register with a session": func(p *peer) []byte {
			return edited(registerHeader(p.client), loginBody("iggy", "iggy"), func(f []byte) { f[184] = 1 })
		},
		"register with a number": func(p *peer) []byte {
			return edited(registerHeader(p.client), loginBody("iggy", "iggy"), func(f []byte) { f[168] = 1 })
		},
		"metadata without session": func(p *peer) []byte { return edited(metadataOp(p), nil, func(f []byte) { clear(f[184:192]) }) },
		"metadata without number":  func(p *peer) []byte { return edited(metadataOp(p), nil, func(f []byte) { clear(f[168:176]) }) },
		"send without session": func(p *peer) []byte {
			return edited(p.header(wire.OperationSendMessages), make([]byte, 5000), func(f []byte) { clear(f[184:192]) })
		},
		"logout without number": func(p *peer) []byte {
			return edited(p.header(wire.OperationLogout), nil, func(f []byte) { clear(f[168:176]) })
		},
		"internal operation without session": func(p *peer) []byte {
			return edited(metadataOp(p), nil, func(f []byte) { f[176] = 64; clear(f[184:192]) })
		},
	} {
		for state, connect := range map[string]func(*edgeRig) *peer{"signed in": (*edgeRig).signedIn, "not signed in": (*edgeRig).connect} {
			t.Run(name+"/"+state, func(t *testing.T) {
				p := connect(newRig(t))
				p.write(frame(p))
				p.alive() // the next frame is the answer to the ping
			})
		}
	}
}

func TestEndOfStreamInsideFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		for _, cut := range []int{1, 255, 256, 270} {
			p := r.connect()
			p.write(edited(registerHeader(p.client), loginBody("iggy", "iggy"), func([]byte) {})[:cut])
			p.conn.Close()
		}
		synctest.Wait()
		if n := len(r.server.registry.conns); n != 0 {
			t.Fatalf("%d connections are open after their peers have gone", n)
		}
	})
}

func TestInternalOperationsAreEvicted(t *testing.T) {
	for o := wire.Operation(64); o <= 68; o++ {
		p := newRig(t).signedIn()
		e := p.wantEviction(p.ask(p.header(o), []byte("body")), wire.EvictionInvalidRequestOperation)
		if e.Client != p.client {
			t.Errorf("operation %d: eviction of client %v, want %v", o, e.Client, p.client)
		}
		p.wantStatus(p.ask(p.commandHeader(wire.CommandGetMe), nil), galgo.CodeUnauthenticated)
		p.login("iggy", "iggy") // the connection takes a new sign-in
	}
}

func TestRequestChecksum(t *testing.T) {
	p := newRig(t).signedIn()
	body := wire.CreateStreamRequest{Name: "s"}.Append(nil)
	h := p.header(wire.OperationCreateStream)
	h.RequestChecksum = wire.RequestChecksum(body)
	h.RequestChecksum[0] ^= 1
	p.wantStatus(p.ask(h, body), galgo.CodeInvalidFormat)
	h.RequestChecksum[0] ^= 1
	h.RequestChecksum[15] = 1 // the upper half of a stamp is zero
	p.wantStatus(p.ask(h, body), galgo.CodeInvalidFormat)
	h.RequestChecksum[15] = 0
	if _, code := p.parsed(p.ask(h, body)); code != galgo.CodeOK {
		t.Fatalf("right checksum: %v", code)
	}
	h = p.commandHeader(wire.CommandGetStats)
	h.RequestChecksum = [16]byte{1}
	p.wantStatus(p.ask(h, nil), galgo.CodeInvalidFormat)

	q := newRig(t).connect()
	h = registerHeader(q.client)
	h.RequestChecksum = [16]byte{1}
	q.wantStatus(q.ask(h, loginBody("iggy", "iggy")), galgo.CodeInvalidFormat)
	h.RequestChecksum = wire.RequestChecksum(loginBody("iggy", "iggy"))
	if _, code := q.parsed(q.ask(h, loginBody("iggy", "iggy"))); code != galgo.CodeOK {
		t.Fatalf("stamped login: %v", code)
	}
}

func TestReservedBytesAreIgnored(t *testing.T) {
	p := newRig(t).signedIn()
	h := p.header(wire.OperationCreateStream)
	p.write(edited(h, wire.CreateStreamRequest{Name: "s"}.Append(nil), func(f []byte) {
		for i := range f[:wire.HeaderSize] {
			inUse := i >= 48 && i < 52 || i == 60 || i >= 128 && i < 160 || i >= 168 && i < 177 || i >= 184 && i < 192
			if !inUse {
				f[i] = 0xEE
			}
		}
	}))
	if _, code := p.parsed(p.receive()); code != galgo.CodeOK {
		t.Fatalf("frame with every unused byte set: %v", code)
	}
}

// vector is a frame that an SDK sent.
type vector struct {
	Name string `json:"name"`
	SDK  string `json:"sdk"`
	Hex  string `json:"hex"`
}

func requestVectors(t testing.TB) map[string][]byte {
	t.Helper()
	data, err := os.ReadFile("../wire/testdata/requests.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	vectors := map[string][]byte{}
	for line := range strings.Lines(string(data)) {
		var v vector
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatal(err)
		}
		if vectors[v.SDK+" "+v.Name], err = hex.DecodeString(v.Hex); err != nil {
			t.Fatal(err)
		}
	}
	return vectors
}

// as makes a recorded frame one of this peer: its ids, its session, a new number.
func (p *peer) as(frame []byte) []byte {
	f := append([]byte(nil), frame...)
	copy(f[128:], p.client[:])
	o := wire.Operation(f[176])
	if o != wire.OperationRegister {
		h := p.header(o)
		le.PutUint64(f[168:], h.Request)
		le.PutUint64(f[184:], h.Session)
	}
	return f
}

// Every frame that an SDK was seen to send gets one answer, which echoes its
// number and operation or is an eviction.
func TestEveryRecordedFrameIsAnswered(t *testing.T) {
	r := newRig(t)
	for name, frame := range requestVectors(t) {
		p := r.signedIn()
		p.write(p.as(frame))
		f := p.receive()
		if wire.FrameCommandOf(f) == wire.FrameEviction {
			if o := wire.Operation(frame[176]); o != wire.OperationRegister {
				t.Errorf("%s: operation %d evicted with reason %d", name, o, f[255])
			}
			continue
		}
		h, err := wire.DecodeReplyHeader(f)
		sent, _ := wire.DecodeRequestHeader(frame)
		if err != nil || h.Operation != sent.Operation && h.Operation != wire.OperationInReply(sent.Operation) {
			t.Errorf("%s: reply %+v, %v to operation %d", name, h, err, sent.Operation)
		}
		if _, code := p.parsed(f); sent.Operation == wire.OperationRegister && code != galgo.CodeOK {
			t.Errorf("%s: refused with %v", name, code)
		}
		if p.conn.Close(); t.Failed() {
			return
		}
	}
}

// commands is a valid body for each operation and command with one, on the topic
// that makeTopic made.
func validBodies(t testing.TB) map[wire.Command][]byte {
	c := galgo.Consumer{Kind: galgo.ConsumerSingle, ID: galgo.NamedID("me")}
	some := wire.Partition(0)
	return map[wire.Command][]byte{
		wire.CommandGetSnapshot:          wire.GetSnapshotRequest{Compression: 1, Types: []wire.SnapshotType{1}}.Append(nil),
		wire.CommandDescribeOptions:      wire.DescribeOptionsRequest{Scope: galgo.ScopeTopic}.Append(nil),
		wire.CommandGetClient:            wire.GetClientRequest{ClientID: 1}.Append(nil),
		wire.CommandGetUser:              wire.UserRequest{User: galgo.NumericID(0)}.Append(nil),
		wire.CommandGetStream:            wire.StreamRequest{Stream: s0}.Append(nil),
		wire.CommandGetTopic:             wire.TopicRequest{Stream: s0, Topic: t0}.Append(nil),
		wire.CommandGetTopics:            wire.StreamRequest{Stream: s0}.Append(nil),
		wire.CommandGetConsumerGroup:     wire.GroupRequest{Stream: s0, Topic: t0, Group: galgo.NamedID("g")}.Append(nil),
		wire.CommandGetConsumerGroups:    wire.TopicRequest{Stream: s0, Topic: t0}.Append(nil),
		wire.CommandSyncConsumerGroup:    wire.GroupRequest{Stream: s0, Topic: t0, Group: galgo.NamedID("g")}.Append(nil),
		wire.CommandPollMessages:         pollBody(0, galgo.FromFirst(), 10, false),
		wire.CommandGetConsumerOffset:    wire.GetOffsetRequest{Consumer: c, Stream: s0, Topic: t0, Partition: some}.Append(nil),
		wire.CommandStoreConsumerOffset:  wire.StoreOffsetRequest{Consumer: c, Stream: s0, Topic: t0, Partition: some, Ack: 1}.Append(nil),
		wire.CommandDeleteConsumerOffset: wire.DeleteOffsetRequest{Consumer: c, Stream: s0, Topic: t0, Partition: some, Ack: 1}.Append(nil),
		wire.CommandSendMessages:         sendBody(t, s0, t0, galgo.ToPartition(0), "one", "two"),
		wire.CommandCreateStream:         wire.CreateStreamRequest{Name: "new"}.Append(nil),
		wire.CommandUpdateStream:         wire.UpdateStreamRequest{Stream: s0, Name: "s"}.Append(nil),
		wire.CommandPurgeStream:          wire.StreamRequest{Stream: s0}.Append(nil),
		wire.CommandCreateTopic:          wire.CreateTopicRequest{Stream: s0, Partitions: 1, Name: "new"}.Append(nil),
		wire.CommandUpdateTopic:          wire.UpdateTopicRequest{Stream: s0, Topic: t0, Name: "t"}.Append(nil),
		wire.CommandPurgeTopic:           wire.TopicRequest{Stream: s0, Topic: t0}.Append(nil),
		wire.CommandCreatePartitions:     wire.PartitionsRequest{Stream: s0, Topic: t0, Count: 1}.Append(nil),
		wire.CommandDeletePartitions:     wire.PartitionsRequest{Stream: s0, Topic: t0, Count: 1}.Append(nil),
		wire.CommandCreateConsumerGroup:  wire.CreateGroupRequest{Stream: s0, Topic: t0, Name: "g"}.Append(nil),
		wire.CommandDeleteConsumerGroup:  wire.GroupRequest{Stream: s0, Topic: t0, Group: galgo.NamedID("g")}.Append(nil),
	}
}

// truncated is what a client sees of a command whose body does not decode
// (wire.md §6.3, second table). Where a shorter body still decodes ok is true.
func checkTruncated(p *peer, c wire.Command, f []byte) (problem string) {
	if wire.FrameCommandOf(f) == wire.FrameEviction {
		return "evicted"
	}
	h, err := wire.DecodeReplyHeader(f)
	if err != nil {
		return err.Error()
	}
	body := f[wire.HeaderSize:]
	switch c {
	case wire.CommandSendMessages:
		if h.Status != galgo.CodeResourceNotFound && h.Status != galgo.CodeInvalidFormat {
			return "status " + h.Status.String()
		}
	case wire.CommandStoreConsumerOffset, wire.CommandDeleteConsumerOffset:
		if h.Status != galgo.CodeResourceNotFound {
			return "status " + h.Status.String()
		}
	case wire.CommandPollMessages:
		if h.Status != 0 || string(body) != string(make([]byte, wire.PollPrefixSize)) {
			return "not an empty poll of partition 0"
		}
	case wire.CommandGetConsumerOffset, wire.CommandSyncConsumerGroup, wire.CommandGetClient:
		if h.Status != 0 || len(body) != 0 {
			return "not an empty body"
		}
	default:
		if h.Status != galgo.CodeInvalidCommand || len(body) != 0 {
			return "status " + h.Status.String()
		}
	}
	return ""
}

func TestEveryTruncationIsRefused(t *testing.T) {
	r := newRig(t)
	p := r.signedIn()
	p.makeTopic(1)
	for c, body := range validBodies(t) {
		for cut := range body {
			if c == wire.CommandSendMessages && cut > 64 && cut%17 != 0 && cut < len(body)-2 {
				continue // the batch in the middle is covered by its own fuzz tests
			}
			h := p.header(c.Operation())
			if c.Operation() == wire.OperationNonReplicated {
				h.Command = c
			}
			if problem := checkTruncated(p, c, p.ask(h, body[:cut])); problem != "" {
				t.Errorf("%v cut to %d of %d bytes: %s", c, cut, len(body), problem)
			}
		}
	}
	if n := len(r.node.View().EncodeState()); n > 4096 {
		t.Errorf("state of %d bytes: truncated requests changed it", n)
	}
	p.alive()
}

func TestTrailingBytesAreIgnored(t *testing.T) {
	for c, body := range validBodies(t) {
		switch c {
		case wire.CommandSendMessages, wire.CommandCreateStream, wire.CommandUpdateStream, wire.CommandCreateTopic,
			wire.CommandUpdateTopic, wire.CommandGetSnapshot, wire.CommandDeleteConsumerOffset, wire.CommandStoreConsumerOffset:
			continue // end in options or a batch, or are refused for other reasons here
		}
		t.Run(c.String(), func(t *testing.T) {
			p := newRig(t).signedIn()
			p.makeTopic(1)
			p.do(wire.OperationCreateConsumerGroup, wire.CreateGroupRequest{Stream: s0, Topic: t0, Name: "other"}.Append(nil))
			if c == wire.CommandDeleteConsumerGroup {
				p.must(wire.OperationCreateConsumerGroup, wire.CreateGroupRequest{Stream: s0, Topic: t0, Name: "g"}.Append(nil))
			}
			for _, extra := range []int{1, 4, 100_000} {
				if c.Plane() == wire.PlaneMetadata && extra > 4 {
					break // each would need fresh objects
				}
				h := p.header(c.Operation())
				if c.Operation() == wire.OperationNonReplicated {
					h.Command = c
				}
				long := append(append([]byte(nil), body...), make([]byte, extra)...)
				_, code := p.parsed(p.ask(h, long))
				if code != galgo.CodeOK && !(c.Plane() == wire.PlaneMetadata && extra > 1) {
					t.Errorf("%d bytes behind the last field: %v", extra, code)
				}
			}
			p.alive()
		})
	}
}

// 10,000 random and mutated frames leave the server serving, and its memory as it
// was (PF-wire-01).
func TestRandomFrames(t *testing.T) {
	r := newRig(t)
	admin := r.signedIn()
	admin.makeTopic(3)
	var frames [][]byte
	for _, f := range requestVectors(t) {
		frames = append(frames, f)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	connections := 0
	var p *peer
	for range 10_000 {
		if p == nil {
			p = r.signedIn()
			connections++
		}
		f := mutate(rng, p.as(frames[rng.IntN(len(frames))]))
		// A frame may lie about its length. Closing the write side would tell, but a
		// pipe has none, so a lying frame ends its connection.
		honest := len(f) >= wire.HeaderSize && int(wire.FrameSize(f)) == len(f)
		wrote := make(chan struct{})
		go func() { defer close(wrote); p.conn.Write(f) }()
		if !honest {
			go func(p *peer) { <-wrote; p.conn.Close() }(p)
			for err := error(nil); err == nil; {
				_, err = p.tryReceive()
			}
			p = nil
			continue
		}
		ping := p.commandHeader(wire.CommandPing)
		ping.Request = 999_999
		go func(p *peer) { <-wrote; p.conn.Write(ping.AppendFrame(nil, nil)) }(p)
		if !untilPing(p, ping.Request) {
			p.conn.Close()
			p = nil
		}
	}
	admin.alive()
	if got := admin.mustRead(wire.CommandGetStreams, nil); len(got) == 0 {
		t.Error("the stream is gone")
	}
	runtime.GC()
	var m runtime.MemStats
	if runtime.ReadMemStats(&m); m.HeapAlloc > 256<<20 {
		t.Errorf("heap of %d MiB after 10,000 bad frames", m.HeapAlloc>>20)
	}
	t.Logf("%d connections", connections)
}

// untilPing reads answers up to that of a ping; false when the connection ended or
// lost its session.
func untilPing(p *peer, number uint64) bool {
	for {
		f, err := p.tryReceive()
		if err != nil || wire.FrameCommandOf(f) == wire.FrameEviction {
			return false
		}
		if h, err := wire.DecodeReplyHeader(f); err == nil && h.Request == number {
			return true
		}
	}
}

func mutate(rng *rand.Rand, f []byte) []byte {
	switch rng.IntN(8) {
	case 0: // noise in place of all
		f = make([]byte, rng.IntN(600))
		for i := range f {
			f[i] = byte(rng.Uint32())
		}
		return f
	case 1: // cut short, honest about it or not
		f = f[:rng.IntN(len(f))]
	case 2: // a length that lies
		le.PutUint32(f[48:], rng.Uint32N(1<<28))
		return f
	case 3: // another command
		le.PutUint32(f[196:], rng.Uint32N(700))
	case 4: // another operation
		f[176] = byte(rng.Uint32())
	default:
		for range 1 + rng.IntN(6) {
			if i := rng.IntN(len(f)); i < 48 || i >= 52 {
				f[i] = byte(rng.Uint32())
			}
		}
	}
	if len(f) >= wire.HeaderSize && rng.IntN(4) > 0 {
		le.PutUint32(f[48:], uint32(len(f)))
	}
	return f
}
