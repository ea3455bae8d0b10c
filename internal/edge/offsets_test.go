package edge

import (
	"testing"

	"galgo"
	"galgo/internal/partition"
	"galgo/internal/wire"
)

func offsetBodies(c galgo.Consumer, stream, topic galgo.Identifier, p wire.OptionalPartition, offset uint64) (get, store, del []byte) {
	return wire.GetOffsetRequest{Consumer: c, Stream: stream, Topic: topic, Partition: p}.Append(nil),
		wire.StoreOffsetRequest{Consumer: c, Stream: stream, Topic: topic, Partition: p, Offset: offset, Ack: galgo.AckQuorum}.Append(nil),
		wire.DeleteOffsetRequest{Consumer: c, Stream: stream, Topic: topic, Partition: p, Ack: galgo.AckQuorum}.Append(nil)
}

// Rows of wire.md §6.11.
func TestOffsetAnswers(t *testing.T) {
	r := newRig(t)
	r.node.addUser(t, "nobody", "secret", true, nil)
	p := r.signedIn()
	p.makeTopic(2)
	p.must(wire.OperationCreateConsumerGroup, wire.CreateGroupRequest{Stream: s0, Topic: t0, Name: "g"}.Append(nil))
	p.sendTo(0, "a", "b")
	p.sendTo(1, "c")
	nobody := r.connect()
	nobody.login("nobody", "secret")
	group := galgo.Consumer{Kind: galgo.ConsumerGroup, ID: galgo.NamedID("g")}
	noGroup := galgo.Consumer{Kind: galgo.ConsumerGroup, ID: galgo.NamedID("none")}
	zero := wire.Partition(0)
	const empty = galgo.CodeOK // of a get: an empty body
	for name, tc := range map[string]struct {
		by                    *peer
		consumer              galgo.Consumer
		stream, topic         galgo.Identifier
		partition             wire.OptionalPartition
		offset                uint64
		get, store, deleteNow galgo.Code
	}{
		"partition absent":  {p, consumer7, s0, t0, wire.OptionalPartition{}, 0, empty, galgo.CodeResourceNotFound, galgo.CodeResourceNotFound},
		"partition missing": {p, consumer7, s0, t0, wire.Partition(2), 0, galgo.CodePartitionNotFound, galgo.CodeResourceNotFound, galgo.CodeResourceNotFound},
		"stream missing":    {p, consumer7, galgo.NumericID(9), t0, zero, 0, empty, galgo.CodeResourceNotFound, galgo.CodeResourceNotFound},
		"topic missing":     {p, consumer7, s0, galgo.NamedID("x"), zero, 0, empty, galgo.CodeResourceNotFound, galgo.CodeResourceNotFound},
		"group missing":     {p, noGroup, s0, t0, zero, 0, empty, galgo.CodeResourceNotFound, galgo.CodeResourceNotFound},
		"not a member":      {p, group, s0, t0, zero, 0, empty, galgo.CodeResourceNotFound, galgo.CodeResourceNotFound},
		"no permission":     {nobody, consumer7, s0, t0, zero, 0, galgo.CodeUnauthorized, galgo.CodeUnauthorized, galgo.CodeUnauthorized},
		"above the end":     {p, consumer7, s0, t0, zero, 2, empty, galgo.CodeInvalidOffset, galgo.CodeConsumerOffsetNotFound},
		"far above the end": {p, consumer7, s0, t0, zero, 1<<64 - 1, empty, galgo.CodeInvalidOffset, galgo.CodeConsumerOffsetNotFound},
	} {
		get, store, del := offsetBodies(tc.consumer, tc.stream, tc.topic, tc.partition, tc.offset)
		check := func(what string, f []byte, want galgo.Code) {
			t.Helper()
			h, err := wire.DecodeReplyHeader(f)
			if err != nil || h.Status != want || len(f) != wire.HeaderSize {
				t.Errorf("%s: %s answers status %v in %d bytes, %v, want %v in 256", name, what, h.Status, len(f), err, want)
			}
		}
		check("get", tc.by.ask(tc.by.commandHeader(wire.CommandGetConsumerOffset), get), tc.get)
		check("store", tc.by.ask(tc.by.header(wire.OperationStoreConsumerOffset), store), tc.store)
		check("delete", tc.by.ask(tc.by.header(wire.OperationDeleteConsumerOffset), del), tc.deleteNow)
	}
}

func TestOffsetsOfAnEmptyPartition(t *testing.T) {
	p := newRig(t).signedIn()
	p.makeTopic(1)
	_, store, _ := offsetBodies(consumer7, s0, t0, wire.Partition(0), 0)
	p.wantStatus(p.ask(p.header(wire.OperationStoreConsumerOffset), store), galgo.CodeInvalidOffset)
}

func TestOffsetRoundTrip(t *testing.T) {
	r := newRig(t)
	p := r.signedIn()
	p.makeTopic(1)
	p.sendTo(0, "a", "b", "c")
	// A name and the number that it hashes to are the same consumer.
	byName := galgo.Consumer{Kind: galgo.ConsumerSingle, ID: galgo.NamedID("consumer-1")}
	byNumber := galgo.Consumer{Kind: galgo.ConsumerSingle, ID: galgo.NumericID(1338303147)}
	read := func() (wire.ConsumerOffset, bool) {
		get, _, _ := offsetBodies(byNumber, s0, t0, wire.Partition(0), 0)
		body := p.mustRead(wire.CommandGetConsumerOffset, get)
		if len(body) == 0 {
			return wire.ConsumerOffset{}, false
		}
		o, err := wire.DecodeConsumerOffset(body)
		if err != nil {
			t.Fatal(err)
		}
		return o, true
	}
	for _, offset := range []uint64{1, 2, 0} { // also back
		_, store, _ := offsetBodies(byName, s0, t0, wire.Partition(0), offset)
		f := p.ask(p.header(wire.OperationStoreConsumerOffset), store)
		if string(f[wire.HeaderSize:]) != "\x00\x00\x00\x00" {
			t.Fatalf("store answers %x, want a result section alone", f[wire.HeaderSize:])
		}
		if o, ok := read(); !ok || o.StoredOffset != offset || o.CurrentOffset != 2 {
			t.Fatalf("after a store of %d: %+v, %v", offset, o, ok)
		}
	}
	_, _, del := offsetBodies(byName, s0, t0, wire.Partition(0), 0)
	if f := p.ask(p.header(wire.OperationDeleteConsumerOffset), del); string(f[wire.HeaderSize:]) != "\x00\x00\x00\x00" {
		t.Fatalf("delete answers %x", f[wire.HeaderSize:])
	}
	if o, ok := read(); ok {
		t.Fatalf("after the delete: %+v", o)
	}
}

func TestNoAckTravels(t *testing.T) {
	r := newRig(t)
	p := r.signedIn()
	p.makeTopic(1)
	p.sendTo(0, "a")
	var got []bool
	r.node.onStore = func(req OffsetRequest, _ func(OffsetReply)) bool {
		got = append(got, req.NoAck)
		return false
	}
	for _, ack := range []galgo.Ack{galgo.AckNone, galgo.AckQuorum} {
		p.must(wire.OperationStoreConsumerOffset, wire.StoreOffsetRequest{Consumer: consumer7, Stream: s0, Topic: t0, Partition: wire.Partition(0), Ack: ack}.Append(nil))
	}
	if len(got) != 2 || !got[0] || got[1] {
		t.Errorf("NoAck of the two stores: %v, want true, false", got)
	}
}

func TestGroupOffsetMayBeReadByAnybody(t *testing.T) {
	r := newRig(t)
	p := r.signedIn()
	p.makeTopic(1)
	p.must(wire.OperationCreateConsumerGroup, wire.CreateGroupRequest{Stream: s0, Topic: t0, Name: "g"}.Append(nil))
	r.node.onOffset = func(done func(OffsetReply)) bool {
		done(OffsetReply{Found: true, Stored: 4, Current: 9})
		return true
	}
	get, _, _ := offsetBodies(galgo.Consumer{Kind: galgo.ConsumerGroup, ID: galgo.NamedID("g")}, s0, t0, wire.Partition(0), 0)
	o, err := wire.DecodeConsumerOffset(p.mustRead(wire.CommandGetConsumerOffset, get))
	if err != nil || o != (wire.ConsumerOffset{CurrentOffset: 9, StoredOffset: 4}) {
		t.Errorf("got %+v, %v", o, err)
	}
}

func TestOffsetTroubles(t *testing.T) {
	r := newRig(t)
	p := r.signedIn()
	p.makeTopic(1)
	here := true
	r.node.onStats = func(uint64) (partition.Figures, bool, bool) { return partition.Figures{}, false, !here }
	refuse := func(done func(OffsetReply)) bool {
		done(OffsetReply{Code: galgo.CodeTransientNotAccepted})
		return true
	}
	r.node.onOffset = refuse
	r.node.onStore = func(_ OffsetRequest, done func(OffsetReply)) bool { return refuse(done) }
	get, store, _ := offsetBodies(consumer7, s0, t0, wire.Partition(0), 0)
	p.wantStatus(p.ask(p.commandHeader(wire.CommandGetConsumerOffset), get), galgo.CodeTransientNotAccepted)
	p.wantStatus(p.ask(p.header(wire.OperationStoreConsumerOffset), store), galgo.CodeTransientNotAccepted)
	here = false // a partition that is being made: nothing is stored
	if body := p.mustRead(wire.CommandGetConsumerOffset, get); len(body) != 0 {
		t.Errorf("early get: %x", body)
	}
}
