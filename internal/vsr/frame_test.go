package vsr

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"testing"
)

// samples has a message of each kind with all of its fields set.
func samples() []Message {
	p := &Prepare{Header: Header{Group: 7, Incarnation: 3, Op: 12, Timestamp: 5, View: 1, Operation: 160, Parent: Identity{1}}, Body: []byte("order-1")}
	p.Seal()
	q := &Prepare{Header: Header{Group: 7, Incarnation: 3, Op: 13, Timestamp: 6, View: 2, Operation: 160, Parent: p.Identity}, Body: []byte("order-2")}
	q.Seal()
	offer := Offer{Op: 40, Identity: Identity{4}, Timestamp: 99, Sum: [16]byte{5}, Size: 1 << 20}
	return []Message{
		{Kind: MessageSuspect},
		{Kind: MessagePrepare, Op: p.Op, Identity: p.Identity, Prepare: p},
		{Kind: MessagePrepareOk, Op: 12, Identity: p.Identity},
		{Kind: MessageCommit, Op: 12, Identity: p.Identity, Beat: 77},
		{Kind: MessageStartViewChange},
		{Kind: MessageDoViewChange, Op: 13, Identity: q.Identity, Doubt: 20, Unknown: true, Rest: &Rest{CommitIdentity: Identity{1}, Boots: []uint64{1, 2, 3}, Headers: []Header{p.Header, q.Header}}},
		{Kind: MessageStartView, Op: 13, Identity: q.Identity, Echo: 9, Rest: &Rest{CommitIdentity: Identity{1}, Headers: []Header{p.Header, q.Header}}},
		{Kind: MessagePresentView, Echo: 9},
		{Kind: MessageRequestStartView, Doubt: DoubtAll},
		{Kind: MessageRequestPrepares, Rest: &Rest{Refs: []Ref{{12, p.Identity}, {13, q.Identity}}}},
		{Kind: MessageRepairPrepare, Op: q.Op, Identity: q.Identity, Prepare: q},
		{Kind: MessageRequestHeaders, Op: 13, Identity: q.Identity, Low: 2},
		{Kind: MessageHeaders, Op: 13, Identity: q.Identity, Rest: &Rest{Headers: []Header{p.Header, q.Header}}},
		{Kind: MessageGone, Op: 13, Identity: q.Identity, Low: 20},
		{Kind: MessageRequestOffer, Op: 13, Identity: q.Identity},
		{Kind: MessageOffer, Rest: &Rest{Offer: offer}},
		{Kind: MessageRequestChunk, Offset: 64, Length: 1000, Rest: &Rest{Offer: offer}},
		{Kind: MessageChunk, Offset: 64, Rest: &Rest{Offer: offer, Data: []byte("state")}},
	}
}

func enveloped(m Message) Message {
	m.From, m.To, m.Group, m.Incarnation, m.Boot, m.View, m.LogView, m.Commit = 2, 1, 7, 3, 1000, 5, 4, 11
	if m.Rest == nil {
		m.Rest = &nothing
	}
	return m
}

func encode(m *Message) []byte {
	head, body := AppendFrame(nil, m)
	return append(head, body...)
}

func TestFramesOfEveryKind(t *testing.T) {
	seen := map[MessageKind]bool{}
	for _, m := range samples() {
		m = enveloped(m)
		b := encode(&m)
		if n, err := FrameSize(b[:EnvelopeSize]); err != nil || n != len(b) {
			t.Errorf("%v: size %d, %v; want %d", m.Kind, n, err, len(b))
		}
		got, err := DecodeFrame(b)
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%v: %v\n got %+v\nwant %+v", m.Kind, err, got, m)
		}
		for i := range len(b) * 8 {
			b[i/8] ^= 1 << (i % 8)
			if _, err := DecodeFrame(b); err == nil {
				t.Fatalf("%v: a frame with bit %d flipped is accepted", m.Kind, i)
			}
			b[i/8] ^= 1 << (i % 8)
		}
		for n := range b {
			if _, err := DecodeFrame(b[:n]); err == nil {
				t.Fatalf("%v: the first %d of %d bytes are accepted", m.Kind, n, len(b))
			}
		}
		seen[m.Kind] = true
	}
	for k := range messageNames {
		if kind := MessageKind(k); kind != MessageNone && kind.known() && !seen[kind] {
			t.Errorf("no sample of %v", kind)
		}
	}
}

// Golden bytes: a change here is another version of the protocol.
func TestFrameBytes(t *testing.T) {
	m := enveloped(Message{Kind: MessageCommit, Op: 12, Identity: Identity{0xaa, 0xbb}, Beat: 77})
	const want = "079b4388b96bba421d041f727f1393c4"
	got := hex.EncodeToString(encode(&m))
	const rest = "67767372" + "01" + "09" + "00" + "02" + "01" + "00" + "0000" + "20000000" +
		"0700000000000000" + "0300000000000000" + "e803000000000000" + "05000000" + "04000000" + "0b00000000000000" +
		"0c00000000000000" + "aabb0000000000000000000000000000" + "4d00000000000000"
	if got != want+rest {
		t.Errorf("commit is\n%s, want\n%s", got, want+rest)
	}
}

func TestFrameRefusals(t *testing.T) {
	resealed := func(m Message, change func(b []byte)) []byte {
		m = enveloped(m)
		b := encode(&m)
		change(b)
		sum := sum128(b[16:])
		copy(b, sum[:])
		return b
	}
	commit := Message{Kind: MessageCommit}
	for name, c := range map[string]struct {
		in   []byte
		want error
	}{
		"magic":              {resealed(commit, func(b []byte) { b[16]++ }), ErrFrameMagic},
		"version":            {resealed(commit, func(b []byte) { b[20] = 2 }), ErrFrameVersion},
		"no kind":            {resealed(commit, func(b []byte) { b[21] = 0 }), ErrFrameKind},
		"unknown kind":       {resealed(commit, func(b []byte) { b[21] = 200 }), ErrFrameKind},
		"gap in the kinds":   {resealed(commit, func(b []byte) { b[21] = 8 }), ErrFrameKind},
		"flag of a vote":     {resealed(commit, func(b []byte) { b[22] = 1 }), ErrFrameField},
		"from":               {resealed(commit, func(b []byte) { b[23] = ReplicasMax }), ErrFrameField},
		"to":                 {resealed(commit, func(b []byte) { b[24] = ReplicasMax }), ErrFrameField},
		"boots of no vote":   {resealed(commit, func(b []byte) { b[25] = 1 }), ErrFrameField},
		"reserved":           {resealed(commit, func(b []byte) { b[27] = 1 }), ErrFrameField},
		"log_view":           {resealed(commit, func(b []byte) { b[60] = 6 }), ErrFrameField},
		"size above fields":  {resealed(commit, func(b []byte) { b[28]++ }), ErrFrameSize},
		"size of 4 GiB":      {resealed(samples()[1], func(b []byte) { copy(b[28:], "\xff\xff\xff\xff") }), ErrFrameSize},
		"half a header":      {resealed(samples()[6], func(b []byte) { b[28]++ }), ErrFrameSize},
		"too many headers":   {resealed(Message{Kind: MessageHeaders, Rest: &Rest{Headers: make([]Header, HeadersMax+1)}}, func([]byte) {}), ErrFrameSize},
		"too many refs":      {resealed(Message{Kind: MessageRequestPrepares, Rest: &Rest{Refs: make([]Ref, RefsMax+1)}}, func([]byte) {}), ErrFrameSize},
		"a body of another":  {append(encode(&samples()[1:2][0])[:EnvelopeSize+24+HeaderSize], "ORDER-1"...), ErrBodyChecksum},
		"data of another":    {append(encode(&samples()[17:18][0])[:EnvelopeSize+8+56+16], "STATE"...), ErrFrameChecksum},
		"another op is said": {encode(&Message{Kind: MessagePrepare, Op: 11, Identity: samples()[1].Identity, Prepare: samples()[1].Prepare}), ErrFrameField},
	} {
		if _, err := DecodeFrame(c.in); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func FuzzDecodeFrame(f *testing.F) {
	for _, m := range samples() {
		m = enveloped(m)
		f.Add(encode(&m))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		// A fuzzer finds no checksum by chance: give it the right one.
		if e, err := parseEnvelope(b); err == nil && len(b) >= EnvelopeSize+int(e.size) && e.size < 1<<16 {
			b = b[:EnvelopeSize+int(e.size)]
			covered := len(b)
			if fields := fieldsOf[e.kind]; fields&restPrepare != 0 {
				covered = min(covered, EnvelopeSize+fieldsSize(fields, e.boots)+HeaderSize)
			} else if fields&restData != 0 {
				covered = EnvelopeSize + fieldsSize(fields, e.boots)
			}
			sum := sum128(b[16:covered])
			copy(b, sum[:])
		}
		m, err := DecodeFrame(b)
		if err != nil {
			return
		}
		if got := encode(&m); !bytes.Equal(got, b) {
			t.Fatalf("accepted %x, encodes to %x", b, got)
		}
	})
}
