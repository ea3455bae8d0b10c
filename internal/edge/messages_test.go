package edge

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"galgo"
	"galgo/internal/partition"
	"galgo/internal/wire"
)

// Rows of wire.md §5.5 and §6.10 for sends.
func TestRefusedSends(t *testing.T) {
	r := newRig(t)
	r.node.addUser(t, "reader", "secret", true, &galgo.Permissions{Global: galgo.GlobalPermissions{PollMessages: true}})
	p := r.signedIn()
	p.makeTopic(2)
	p.must(wire.OperationCreateTopic, wire.CreateTopicRequest{Stream: s0, Name: "none"}.Append(nil))
	to := galgo.ToPartition(0)
	good := sendBody(t, s0, t0, to, "a", "b")
	batchAt := 4 + int(le.Uint32(good))
	damaged := func(edit func(b []byte)) []byte {
		b := slices.Clone(good)
		edit(b)
		return b
	}
	for name, tc := range map[string]struct {
		body []byte
		want galgo.Code
	}{
		"empty body":                      {nil, galgo.CodeResourceNotFound},
		"metadata longer than the body":   {damaged(func(b []byte) { le.PutUint32(b, 1<<30) }), galgo.CodeResourceNotFound},
		"metadata with a byte too many":   {damaged(func(b []byte) { le.PutUint32(b, le.Uint32(b)+1) }), galgo.CodeResourceNotFound},
		"unknown partitioning":            {damaged(func(b []byte) { b[4+12] = 9 }), galgo.CodeResourceNotFound},
		"stream missing":                  {sendBody(t, galgo.NumericID(5), t0, to, "a"), galgo.CodeResourceNotFound},
		"topic missing":                   {sendBody(t, s0, galgo.NamedID("nope"), to, "a"), galgo.CodeResourceNotFound},
		"partition missing":               {sendBody(t, s0, t0, galgo.ToPartition(2), "a"), galgo.CodeResourceNotFound},
		"balanced to no partitions":       {sendBody(t, s0, galgo.NamedID("none"), galgo.Balanced(), "a"), galgo.CodeResourceNotFound},
		"key to no partitions":            {sendBody(t, s0, galgo.NamedID("none"), galgo.ByKey([]byte("k")), "a"), galgo.CodeResourceNotFound},
		"no batch":                        {good[:batchAt], galgo.CodeInvalidFormat},
		"batch cut short":                 {good[:len(good)-1], galgo.CodeInvalidFormat},
		"bytes behind the batch":          {append(slices.Clone(good), 0), galgo.CodeInvalidFormat},
		"reserved bytes of the batch":     {damaged(func(b []byte) { b[batchAt+52] = 1 }), galgo.CodeInvalidFormat},
		"batch length below its header":   {damaged(func(b []byte) { le.PutUint64(b[batchAt+32:], 255) }), galgo.CodeInvalidFormat},
		"batch checksum":                  {damaged(func(b []byte) { b[batchAt+40] ^= 1 }), galgo.CodeInvalidFormat},
		"payload changed":                 {damaged(func(b []byte) { b[len(b)-1] ^= 1 }), galgo.CodeInvalidFormat},
		"count of the batch":              {damaged(func(b []byte) { le.PutUint32(b[batchAt+48:], 3) }), galgo.CodeInvalidFormat},
		"count of the request":            {damaged(func(b []byte) { le.PutUint32(b[batchAt-4:], 3) }), galgo.CodeInvalidFormat},
		"reserved bytes of a frame":       {damaged(func(b []byte) { b[batchAt+256+40] = 1 }), galgo.CodeInvalidFormat},
		"payload length passes the batch": {damaged(func(b []byte) { le.PutUint32(b[batchAt+256+36:], 1<<31) }), galgo.CodeInvalidFormat},
	} {
		h := p.wantStatus(p.ask(p.header(wire.OperationSendMessages), tc.body), tc.want)
		if h.Operation != wire.OperationSendMessages {
			t.Errorf("%s: operation %v", name, h.Operation)
		}
		if t.Failed() {
			t.Fatalf("at %q", name)
		}
	}
	reader := r.connect()
	reader.login("reader", "secret")
	reader.wantStatus(reader.ask(reader.header(wire.OperationSendMessages), good), galgo.CodeUnauthorized)
	// The target is looked up before the right, the batch after it.
	reader.wantStatus(reader.ask(reader.header(wire.OperationSendMessages), sendBody(t, s0, t0, galgo.ToPartition(9), "a")), galgo.CodeResourceNotFound)
	reader.wantStatus(reader.ask(reader.header(wire.OperationSendMessages), good[:len(good)-1]), galgo.CodeUnauthorized)
	if f := p.poll(pollBody(0, galgo.FromFirst(), 10, false)); f.Count != 0 {
		t.Errorf("%d messages were stored", f.Count)
	}
}

func TestPartitioning(t *testing.T) {
	p := newRig(t).signedIn()
	p.makeTopic(3)
	send := func(to galgo.Partitioning) uint32 {
		c, err := wire.DecodeSendConfirmations(p.must(wire.OperationSendMessages, sendBody(t, s0, galgo.NamedID("t"), to, "m")))
		if err != nil {
			t.Fatal(err)
		}
		return c[0].PartitionID
	}
	for i := range uint32(7) {
		if got := send(galgo.Balanced()); got != i%3 {
			t.Errorf("balanced send %d went to partition %d, want %d", i, got, i%3)
		}
	}
	for key, want := range map[string]uint32{"a": 0, "test-consumer": 1, "vec-order-key-1": 2} {
		if got := send(galgo.ByKey([]byte(key))); got != want {
			t.Errorf("key %q went to partition %d, want %d", key, got, want)
		}
	}
	if got := send(galgo.ToPartition(2)); got != 2 {
		t.Errorf("explicit partition 2 went to %d", got)
	}
}

// A topic that got the ids of a deleted one starts at partition 0.
func TestBalancedStartsAnewWithTheTopic(t *testing.T) {
	p := newRig(t).signedIn()
	p.makeTopic(3)
	body := sendBody(t, s0, t0, galgo.Balanced(), "m")
	p.must(wire.OperationSendMessages, body)
	p.must(wire.OperationDeleteTopic, wire.TopicRequest{Stream: s0, Topic: t0}.Append(nil))
	p.must(wire.OperationCreateTopic, wire.CreateTopicRequest{Stream: s0, Partitions: 3, Name: "t"}.Append(nil))
	c, _ := wire.DecodeSendConfirmations(p.must(wire.OperationSendMessages, body))
	if c[0].PartitionID != 0 {
		t.Errorf("first balanced send went to partition %d", c[0].PartitionID)
	}
}

func TestNumberedSends(t *testing.T) {
	r := newRig(t)
	p := r.signedIn()
	p.makeTopic(1)
	body := sendBody(t, s0, t0, galgo.ToPartition(0), "once")
	h := p.header(wire.OperationSendMessages)
	h.Request = 41
	h.RequestChecksum = wire.RequestChecksum(body)
	first := p.ask(h, body)
	again := p.ask(h, body)
	if string(first[wire.HeaderSize:]) != string(again[wire.HeaderSize:]) {
		t.Errorf("numbered send repeated: %x, first %x", again[wire.HeaderSize:], first[wire.HeaderSize:])
	}
	h.RequestChecksum[3] ^= 1
	p.wantStatus(p.ask(h, body), galgo.CodeInvalidFormat)
	h.RequestChecksum[3] ^= 1
	h.Client[5] ^= 1
	p.wantStatus(p.ask(h, body), galgo.CodeInvalidCommand)
	// Without a checksum the client in the header does not matter, and twice is twice.
	h.RequestChecksum = [16]byte{}
	p.ask(h, body)
	p.ask(h, body)
	if got := p.poll(pollBody(0, galgo.FromFirst(), 10, false)); got.Count != 3 {
		t.Errorf("%d messages stored, want 3: one numbered, two not", got.Count)
	}
}

// design.md §3.5 (2): after an open outcome the same bytes on the same connection
// are the same send.
func TestSendWithOpenOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		p := r.signedIn()
		p.makeTopic(1)
		var held func()
		r.node.onSend = func(req SendRequest, done func(SendReply)) bool {
			if held != nil {
				return false
			}
			held = func() { done(r.node.send(req)) }
			return true
		}
		body := sendBody(t, s0, t0, galgo.ToPartition(0), "slow")
		h := p.header(wire.OperationSendMessages)
		start := time.Now()
		p.wantStatus(p.ask(h, body), galgo.CodeTransientNotCommitted)
		if waited := time.Since(start); waited != DefaultReplyTimeout {
			t.Errorf("answered after %v, want %v", waited, DefaultReplyTimeout)
		}
		// The same bytes while it is still open wait for it.
		p.send(h, body)
		synctest.Wait()
		r.node.post(held)
		if _, code := p.parsed(p.receive()); code != galgo.CodeOK {
			t.Fatalf("replayed send: %v", code)
		}
		// Now the outcome is told, so the same bytes are a new send.
		p.must(wire.OperationSendMessages, body)
		if got := p.poll(pollBody(0, galgo.FromFirst(), 10, false)); got.Count != 2 {
			t.Errorf("%d messages, want 2", got.Count)
		}
	})
}

func TestOpenOutcomeKnownBeforeTheReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		p := r.signedIn()
		p.makeTopic(1)
		var held func()
		r.node.onSend = func(req SendRequest, done func(SendReply)) bool {
			if held != nil {
				return false
			}
			held = func() { done(r.node.send(req)) }
			return true
		}
		body := sendBody(t, s0, t0, galgo.ToPartition(0), "slow")
		h := p.header(wire.OperationSendMessages)
		p.wantStatus(p.ask(h, body), galgo.CodeTransientNotCommitted)
		synctest.Wait()
		r.node.post(held)
		synctest.Wait()
		other := p.connect2()
		other.must(wire.OperationSendMessages, body) // another connection: another send
		h.Request++
		p.ask(h, body) // another number: another send
		h.Request--
		c, err := wire.DecodeSendConfirmations(p.ask(h, body)[wire.HeaderSize:])
		if err != nil || c[0].BaseOffset != 0 {
			t.Errorf("replay got %+v, %v, want offset 0", c, err)
		}
		if got := p.poll(pollBody(0, galgo.FromFirst(), 10, false)); got.Count != 3 {
			t.Errorf("%d messages, want 3", got.Count)
		}
	})
}

func (p *peer) connect2() *peer { return p.rig.signedIn() }

func TestOpenOutcomeOfTheNodeStaysOpen(t *testing.T) {
	r := newRig(t)
	p := r.signedIn()
	p.makeTopic(1)
	sent := 0
	r.node.onSend = func(_ SendRequest, done func(SendReply)) bool {
		sent++
		done(SendReply{Code: galgo.CodeTransientNotCommitted})
		return true
	}
	body := sendBody(t, s0, t0, galgo.ToPartition(0), "x")
	h := p.header(wire.OperationSendMessages)
	for range 3 {
		p.wantStatus(p.ask(h, body), galgo.CodeTransientNotCommitted)
	}
	for i := range openSendsMax + 5 { // more than are remembered
		other := sendBody(t, s0, t0, galgo.ToPartition(0), "x", string(rune('a'+i)))
		p.wantStatus(p.ask(h, other), galgo.CodeTransientNotCommitted)
	}
	r.server.registry.mu.Lock()
	for _, c := range r.server.registry.conns {
		if n := len(c.sends.open); n > openSendsMax {
			t.Errorf("%d sends remembered, want at most %d", n, openSendsMax)
		}
	}
	r.server.registry.mu.Unlock()
	if sent != 1+openSendsMax+5 {
		t.Errorf("node was asked %d times, want %d", sent, 1+openSendsMax+5)
	}
}

func TestSendTooEarly(t *testing.T) {
	p := newRig(t).signedIn()
	p.makeTopic(1)
	p.rig.node.onSend = func(_ SendRequest, done func(SendReply)) bool {
		done(SendReply{Code: galgo.CodeTransientNotAccepted})
		return true
	}
	p.wantStatus(p.ask(p.header(wire.OperationSendMessages), sendBody(t, s0, t0, galgo.ToPartition(0), "a")), galgo.CodeTransientNotAccepted)
}

// Rows of wire.md §6.10 for polls.
func TestPollAnswers(t *testing.T) {
	r := newRig(t)
	r.node.addUser(t, "nobody", "secret", true, nil)
	p := r.signedIn()
	p.makeTopic(2)
	p.must(wire.OperationCreateConsumerGroup, wire.CreateGroupRequest{Stream: s0, Topic: t0, Name: "g"}.Append(nil))
	p.sendTo(0, "a", "b")
	request := wire.PollMessagesRequest{Consumer: consumer7, Stream: s0, Topic: t0, Strategy: galgo.FromFirst(), Count: 10}
	with := func(edit func(*wire.PollMessagesRequest)) []byte {
		q := request
		q.Partition = wire.Partition(0)
		edit(&q)
		return q.Append(nil)
	}
	group := galgo.Consumer{Kind: galgo.ConsumerGroup, ID: galgo.NamedID("g")}
	const resync = wire.PollPartitionResync
	prefix := func(id uint32, current uint64) []byte {
		return wire.PollPrefix{PartitionID: id, CurrentOffset: current}.Append(nil)
	}
	for name, tc := range map[string]struct {
		body []byte
		code galgo.Code
		want []byte // of an empty poll
	}{
		"stream missing":       {with(func(q *wire.PollMessagesRequest) { q.Stream = galgo.NumericID(9) }), galgo.CodeStreamIDNotFound, nil},
		"topic missing":        {with(func(q *wire.PollMessagesRequest) { q.Topic = galgo.NamedID("x") }), galgo.CodeTopicIDNotFound, nil},
		"partition missing":    {with(func(q *wire.PollMessagesRequest) { q.Partition.ID = 2 }), galgo.CodePartitionNotFound, nil},
		"empty partition":      {with(func(q *wire.PollMessagesRequest) { q.Partition.ID = 1 }), 0, prefix(1, 0)},
		"behind the end":       {with(func(q *wire.PollMessagesRequest) { q.Strategy = galgo.FromOffset(2) }), 0, prefix(0, 1)},
		"count 0":              {with(func(q *wire.PollMessagesRequest) { q.Count = 0 }), 0, prefix(0, 1)},
		"undecodable":          {[]byte{7}, 0, prefix(0, 0)},
		"unknown strategy":     {with(func(q *wire.PollMessagesRequest) { q.Strategy.Kind = 6 }), 0, prefix(0, 0)},
		"group, not a member":  {with(func(q *wire.PollMessagesRequest) { q.Consumer = group }), 0, prefix(resync, 0)},
		"group missing":        {with(func(q *wire.PollMessagesRequest) { q.Consumer = group; q.Consumer.ID = galgo.NumericID(8) }), 0, prefix(resync, 0)},
		"group, topic missing": {with(func(q *wire.PollMessagesRequest) { q.Consumer = group; q.Topic = galgo.NumericID(8) }), 0, prefix(resync, 0)},
		"group, no partition": {with(func(q *wire.PollMessagesRequest) {
			q.Consumer, q.Partition = group, wire.OptionalPartition{}
		}), 0, prefix(0, 0)},
	} {
		f := p.ask(p.commandHeader(wire.CommandPollMessages), tc.body)
		if tc.code != 0 {
			p.wantStatus(f, tc.code)
		} else if got := f[wire.HeaderSize:]; string(got) != string(tc.want) {
			t.Errorf("%s: body %x, want %x", name, got, tc.want)
		}
		if t.Failed() {
			t.Fatalf("at %q", name)
		}
	}
	absent := p.poll(request.Append(nil))
	if absent.PartitionID != 0 || absent.Count != 2 || absent.CurrentOffset != 1 {
		t.Errorf("partition absent: %+v, want the two messages of partition 0", absent.PollPrefix)
	}
	nobody := r.connect()
	nobody.login("nobody", "secret")
	nobody.wantStatus(nobody.ask(nobody.commandHeader(wire.CommandPollMessages), pollBody(0, galgo.FromFirst(), 1, false)), galgo.CodeUnauthorized)
	nobody.wantStatus(nobody.ask(nobody.commandHeader(wire.CommandPollMessages), with(func(q *wire.PollMessagesRequest) { q.Consumer = group })), galgo.CodeUnauthorized)
}

func TestPollHeader(t *testing.T) {
	p := newRig(t).signedIn()
	p.makeTopic(1)
	p.sendTo(0, "a")
	h := p.commandHeader(wire.CommandPollMessages)
	h.Timestamp = 5
	f := p.ask(h, pollBody(0, galgo.FromFirst(), 1, false))
	got, err := wire.DecodeReplyHeader(f)
	if err != nil || got.Client != p.client || got.Op != p.session || got.Timestamp != 5 || got.Request != h.Request || got.Commit == 0 {
		t.Errorf("header %+v, %v", got, err)
	}
}

func TestStrategies(t *testing.T) {
	p := newRig(t).signedIn()
	p.makeTopic(1)
	p.sendTo(0, "0", "1", "2")
	p.sendTo(0, "3", "4")
	p.sendTo(0, "5")
	second := p.poll(pollBody(0, galgo.FromOffset(3), 1, false)).Messages[0].ServerTimestamp
	for name, tc := range map[string]struct {
		strategy galgo.PollingStrategy
		count    uint32
		want     []string
	}{
		"offset":    {galgo.FromOffset(2), 3, []string{"2", "3", "4"}},
		"timestamp": {galgo.FromTimestamp(second), 10, []string{"3", "4", "5"}},
		"first":     {galgo.FromFirst(), 2, []string{"0", "1"}},
		"last":      {galgo.FromLast(), 10, []string{"0", "1", "2", "3", "4", "5"}},
		"last 2":    {galgo.FromLast(), 2, []string{"4", "5"}},
		"next":      {galgo.FromNext(), 2, []string{"0", "1"}},
	} {
		if got := payloads(p.poll(pollBody(0, tc.strategy, tc.count, false))); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

func TestAutoCommit(t *testing.T) {
	r := newRig(t)
	p := r.signedIn()
	p.makeTopic(1)
	p.sendTo(0, "0", "1", "2")
	if got := payloads(p.poll(pollBody(0, galgo.FromNext(), 2, true))); !slices.Equal(got, []string{"0", "1"}) {
		t.Fatalf("first poll: %v", got)
	}
	if got := payloads(p.poll(pollBody(0, galgo.FromNext(), 2, true))); !slices.Equal(got, []string{"2"}) {
		t.Fatalf("second poll: %v", got)
	}
	if got := p.poll(pollBody(0, galgo.FromNext(), 2, true)); got.Count != 0 || got.CurrentOffset != 2 {
		t.Fatalf("third poll: %+v", got.PollPrefix)
	}
	p.poll(pollBody(0, galgo.FromFirst(), 1, true)) // never moves back
	if got := p.poll(pollBody(0, galgo.FromNext(), 2, false)); got.Count != 0 {
		t.Fatalf("a commit moved the offset back: %+v", got.PollPrefix)
	}
	// Served is served: a commit that fails means that the messages come again.
	var stored []OffsetRequest
	r.node.onStore = func(req OffsetRequest, done func(OffsetReply)) bool {
		stored = append(stored, req)
		done(OffsetReply{Code: galgo.CodeTransientNotAccepted})
		return true
	}
	if got := p.poll(pollBody(0, galgo.FromFirst(), 3, true)); got.Count != 3 {
		t.Fatalf("poll whose commit failed: %+v", got.PollPrefix)
	}
	if len(stored) != 1 || !stored[0].Monotone || stored[0].Offset != 2 || stored[0].Key != 7 {
		t.Fatalf("commits %+v, want one of offset 2 that never moves back", stored)
	}
}

// What a poll does when the node does not have the partition, refuses, or cannot
// read.
func TestPollTroubles(t *testing.T) {
	r := newRig(t)
	p := r.signedIn()
	p.makeTopic(1)
	p.sendTo(0, "a")
	var code galgo.Code
	here := true
	r.node.onPoll = func(_ PollRequest, done func(PollReply)) bool {
		if code == 0 {
			return false
		}
		done(PollReply{Code: code})
		return true
	}
	r.node.onStats = func(uint64) (partition.Figures, bool, bool) { return partition.Figures{}, false, !here }
	body := pollBody(0, galgo.FromFirst(), 1, false)
	code = galgo.CodeTransientNotAccepted
	p.wantStatus(p.ask(p.commandHeader(wire.CommandPollMessages), body), code)
	here = false // the group is not made yet: an early poll sees nothing
	if got := p.poll(body); got.Count != 0 || got.PartitionID != 0 {
		t.Errorf("early poll: %+v", got.PollPrefix)
	}
	code, here = galgo.CodePartitionNotFound, true
	p.wantStatus(p.ask(p.commandHeader(wire.CommandPollMessages), body), code)
	code = 0
	if got := p.poll(body); got.Count != 1 {
		t.Errorf("afterwards: %+v", got.PollPrefix)
	}
}

func TestUnreadablePoll(t *testing.T) {
	r := newRig(t)
	p := r.signedIn()
	p.makeTopic(1)
	c := r.server.registry.spoken()[0]
	metadataPartition, _ := r.node.View().PartitionOf(1)
	head := p.commandHeader(wire.CommandPollMessages)
	for name, tc := range map[string]struct {
		err  error
		want galgo.Code
	}{
		"damage":   {&partition.DamageError{Kind: partition.ErrDamaged}, galgo.CodeCannotReadMessage},
		"stale":    {partition.ErrStale, galgo.CodeOK},
		"io error": {errors.New("input/output error"), galgo.CodeOK},
	} {
		go func() { c.answerUnreadable(&request{RequestHeader: head}, metadataPartition, tc.err); c.out.flush() }()
		h, err := wire.DecodeReplyHeader(p.receive())
		if err != nil || h.Status != tc.want {
			t.Errorf("%s: %+v, %v, want status %v", name, h, err, tc.want)
		}
	}
}

func TestPollTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		p := r.signedIn()
		p.makeTopic(1)
		p.sendTo(0, "a")
		r.node.onPoll = func(PollRequest, func(PollReply)) bool { return true }
		p.wantStatus(p.ask(p.commandHeader(wire.CommandPollMessages), pollBody(0, galgo.FromFirst(), 1, false)), galgo.CodeTransientNotAccepted)
		p.alive()
	})
}

func TestFlushIsRefused(t *testing.T) {
	p := newRig(t).signedIn()
	p.makeTopic(1)
	body := wire.FlushRequest{Stream: s0, Topic: t0}.Append(nil)
	p.wantStatus(p.ask(p.commandHeader(wire.CommandFlushUnsavedBuffer), body), galgo.CodeFeatureUnavailable)
}

// Memory that the node may still write into, because it never answered, serves no
// other poll.
func TestUnansweredPollKeepsItsPlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		p := r.signedIn()
		p.makeTopic(1)
		p.sendTo(0, "a")
		var plans []*partition.Plan
		r.node.onPoll = func(req PollRequest, _ func(PollReply)) bool {
			plans = append(plans, req.Plan)
			return len(plans) == 1
		}
		body := pollBody(0, galgo.FromFirst(), 1, false)
		p.wantStatus(p.ask(p.commandHeader(wire.CommandPollMessages), body), galgo.CodeTransientNotAccepted)
		for range 10 {
			p.poll(body)
		}
		synctest.Wait()
		if slices.Contains(plans[1:], plans[0]) {
			t.Error("the plan of a poll that the node still has was given to another poll")
		}
	})
}
