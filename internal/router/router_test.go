package router

import (
	"bytes"
	"reflect"
	"slices"
	"sync"
	"testing"

	"galgo"
	"galgo/internal/edge"
	"galgo/internal/metadata"
	"galgo/internal/peer"
	"galgo/internal/wire"
)

// fakeNode is an engine that answers as it is told to.
type fakeNode struct {
	edge.Backend
	mu      sync.Mutex
	codes   []galgo.Code // of the next sends; the last one for all others
	leader  []int        // of the next questions; -1: unknown; the last one for all others
	told    map[uint64]uint64
	stored  []uint64
	reached []uint64
	sends   []edge.SendRequest
	asked   []edge.MetadataRequest
	reply   edge.MetadataReply
	stale   bool
	slow    bool // ops of others take too long to be applied
	view    *metadata.View
}

func (n *fakeNode) Current() bool { return !n.stale }

func (n *fakeNode) View() *metadata.View {
	if n.view == nil {
		n.view = metadata.New().View()
	}
	return n.view
}

func next[T any](list *[]T) T {
	v := (*list)[0]
	if len(*list) > 1 {
		*list = (*list)[1:]
	}
	return v
}

func (n *fakeNode) Send(req edge.SendRequest, done func(edge.SendReply)) {
	n.mu.Lock()
	gate := req.Gate
	req.Gate = nil
	n.sends = append(n.sends, req)
	code := next(&n.codes)
	if gate != nil && !gate.Admit() {
		code = refused
	}
	n.mu.Unlock()
	done(edge.SendReply{Code: code, Base: 70, Op: 7})
}

func (n *fakeNode) StoreOffset(req edge.OffsetRequest, done func(edge.OffsetReply)) {
	done(edge.OffsetReply{Code: next(&n.codes), Op: req.Offset})
}

func (n *fakeNode) DeleteOffset(edge.OffsetRequest, func(edge.OffsetReply)) {}

func (n *fakeNode) Metadata(req edge.MetadataRequest, done func(edge.MetadataReply)) {
	n.asked = append(n.asked, req)
	r := n.reply
	if code := next(&n.codes); code != galgo.CodeOK {
		r = edge.MetadataReply{Outcome: edge.OutcomeResult, Operation: req.Operation, Code: code}
	}
	done(r)
}

func (n *fakeNode) Leader(_ uint64, done func(uint8, bool)) {
	n.mu.Lock()
	l := next(&n.leader)
	n.mu.Unlock()
	done(uint8(max(l, 0)), l >= 0)
}

func (n *fakeNode) Reached(op uint64, done func(bool)) {
	n.reached = append(n.reached, op)
	done(!n.slow)
}

func (n *fakeNode) Told(group, op uint64) { n.told[group] = op }

func (n *fakeNode) Stored(req edge.OffsetRequest) { n.stored = append(n.stored, req.Offset) }

func (n *fakeNode) Claim(req edge.OffsetRequest, done func(edge.OffsetReply)) {
	done(edge.OffsetReply{Code: next(&n.codes), Op: req.Tenure})
}

// fakePeers asks the router of another node, or fails.
type fakePeers struct {
	mu     sync.Mutex
	others map[uint8]*Router
	fail   []error // of the next questions; nil: asked; the last one for all others
	asked  []uint8
}

func (p *fakePeers) Ask(to uint8, _ peer.Lane, subject uint8, head, body []byte, done func([]byte, error)) func() {
	p.mu.Lock()
	p.asked = append(p.asked, to)
	err := next(&p.fail)
	p.mu.Unlock()
	if err != nil {
		done(nil, err)
	} else {
		p.others[to].Asked(0, subject, slices.Concat(head, body), func(b []byte) { done(b, nil) })
	}
	return func() {}
}

func batch() []byte {
	b, err := wire.AppendBatch(nil, []galgo.Message{{Payload: []byte("x")}})
	if err != nil {
		panic(err)
	}
	return b
}

// world is node 0, which the client asks, and node 1.
func world(here, there *fakeNode, fail ...error) (*Router, *fakePeers) {
	if len(fail) == 0 {
		fail = []error{nil}
	}
	for _, n := range []*fakeNode{here, there} {
		n.told = map[uint64]uint64{}
	}
	p := &fakePeers{others: map[uint8]*Router{}, fail: fail}
	p.others[1] = New(there, 1, p)
	return New(here, 0, p), p
}

const (
	accepted = galgo.CodeOK
	refused  = galgo.CodeTransientNotAccepted
	open     = galgo.CodeTransientNotCommitted
)

func TestSend(t *testing.T) {
	for _, c := range []struct {
		name        string
		here, there []galgo.Code
		leader      []int
		fail        []error
		want        galgo.Code
		asked       int // questions to the other node
		told        bool
		numbered    bool
	}{
		{"this node leads", []galgo.Code{accepted}, nil, []int{0}, nil, accepted, 0, false, false},
		{"this node leads, and refuses for good", []galgo.Code{galgo.CodeResourceNotFound}, nil, []int{0}, nil, galgo.CodeResourceNotFound, 0, false, false},
		{"this node leads, and has too much to do", []galgo.Code{refused}, nil, []int{0}, nil, refused, 0, false, false},
		{"another leads", []galgo.Code{refused}, []galgo.Code{accepted}, []int{1}, nil, accepted, 1, true, false},
		{"another leads, and refuses for good", []galgo.Code{refused}, []galgo.Code{galgo.CodeResourceNotFound}, []int{1}, nil, galgo.CodeResourceNotFound, 1, false, false},
		{"nobody leads for a while", []galgo.Code{refused}, []galgo.Code{accepted}, []int{-1, -1, 1}, nil, accepted, 1, true, false},
		{"this node comes to lead", []galgo.Code{refused, refused, accepted}, nil, []int{-1}, nil, accepted, 0, false, false},
		{"the other does not lead any more", []galgo.Code{refused}, []galgo.Code{refused, refused, accepted}, []int{1}, nil, accepted, 3, true, false},
		{"no connection for a while", []galgo.Code{refused}, []galgo.Code{accepted}, []int{1}, []error{peer.ErrNotAsked, peer.ErrNotAsked, nil}, accepted, 3, true, false},
		{"the answer is lost", []galgo.Code{refused}, []galgo.Code{accepted}, []int{1}, []error{peer.ErrLost}, open, 1, false, false},
		{"the answer is lost, and the log will know it", []galgo.Code{refused}, []galgo.Code{accepted}, []int{1}, []error{peer.ErrLost, nil}, accepted, 2, true, true},
		{"the answer is lost, and it is under way", []galgo.Code{refused}, []galgo.Code{open, open, accepted}, []int{1}, []error{peer.ErrLost, nil}, accepted, 4, true, true},
		{"the outcome is open there", []galgo.Code{refused}, []galgo.Code{open}, []int{1}, nil, open, 1, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			here, there := &fakeNode{codes: c.here, leader: c.leader}, &fakeNode{codes: c.there, leader: []int{-1}}
			r, p := world(here, there, c.fail...)
			got := make(chan edge.SendReply, 2)
			req := edge.SendRequest{Group: 5, Batch: batch(), Count: 1, Client: galgo.ClientID{3}, Request: 9, Numbered: c.numbered, User: 4, Born: 8}
			r.Send(req, func(v edge.SendReply) { got <- v })
			v := <-got
			if v.Code != c.want || len(p.asked) != c.asked || (here.told[5] == 7) != c.told {
				t.Errorf("code %d after %d questions, told %v; want %d, %d, %v", v.Code, len(p.asked), here.told, c.want, c.asked, c.told)
			}
			if c.want == accepted && (v.Base != 70 || v.Op != 7) {
				t.Errorf("stored at %d by op %d", v.Base, v.Op)
			}
			for _, s := range there.sends {
				if !reflect.DeepEqual(s, req) {
					t.Errorf("the other node was asked %+v", s)
				}
			}
		})
	}
}

// What another node has decided is answered when it is seen here.
func TestMetadataOfAnotherNode(t *testing.T) {
	reply := edge.MetadataReply{Outcome: edge.OutcomeReply, Body: []byte("made"), Operation: wire.OperationCreateStream, Op: 12, Born: 3, Timestamp: 99}
	here, there := &fakeNode{codes: []galgo.Code{refused}, leader: []int{1}}, &fakeNode{codes: []galgo.Code{accepted}, leader: []int{-1}, reply: reply}
	r, _ := world(here, there)
	req := edge.MetadataRequest{
		Operation: wire.OperationCreateStream, Client: galgo.ClientID{1, 2}, Session: 5, Request: 6, RequestSum: [16]byte{7}, User: 8, Body: []byte("body"),
	}
	got := make(chan edge.MetadataReply, 1)
	r.Metadata(req, func(v edge.MetadataReply) { got <- v })
	if v := <-got; !reflect.DeepEqual(v, reply) {
		t.Errorf("answered %+v", v)
	}
	if !reflect.DeepEqual(there.asked, []edge.MetadataRequest{req}) || !slices.Equal(here.reached, []uint64{12}) {
		t.Errorf("asked %+v, waited for %v", there.asked, here.reached)
	}
	there.reply = edge.MetadataReply{Outcome: edge.OutcomeEvict, Reason: wire.EvictionNoSession, Body: []byte{}}
	r.Metadata(req, func(v edge.MetadataReply) { got <- v })
	if v := <-got; v.Outcome != edge.OutcomeEvict || v.Reason != wire.EvictionNoSession {
		t.Errorf("answered %+v", v)
	}
}

// What a client is told although it does not show here yet is remembered: what is read
// here has it.
func TestMetadataThatDoNotShowYet(t *testing.T) {
	reply := edge.MetadataReply{Outcome: edge.OutcomeReply, Operation: wire.OperationCreateStream, Op: 12}
	here, there := &fakeNode{codes: []galgo.Code{refused}, leader: []int{1}}, &fakeNode{codes: []galgo.Code{accepted}, leader: []int{-1}, reply: reply}
	r, _ := world(here, there)
	ask := func() {
		got := make(chan struct{})
		r.Metadata(edge.MetadataRequest{}, func(edge.MetadataReply) { close(got) })
		<-got
	}
	ask()
	if len(here.told) > 0 {
		t.Errorf("told %v, although it shows", here.told)
	}
	here.slow = true
	ask()
	if here.told[0] != 12 {
		t.Errorf("told %v, want op 12 of the metadata", here.told)
	}
}

func TestOffsetOnAnotherNode(t *testing.T) {
	here, there := &fakeNode{codes: []galgo.Code{refused}, leader: []int{1}}, &fakeNode{codes: []galgo.Code{accepted}, leader: []int{-1}}
	r, _ := world(here, there)
	got := make(chan edge.OffsetReply, 1)
	r.StoreOffset(edge.OffsetRequest{Group: 5, Offset: 44}, func(v edge.OffsetReply) { got <- v })
	if v := <-got; v.Op != 44 || v.Code != accepted || here.told[5] != 44 || !slices.Equal(here.stored, []uint64{44}) {
		t.Errorf("answered %+v, told %v, stored %v", v, here.told, here.stored)
	}
	r.Claim(edge.OffsetRequest{Group: 6, Kind: galgo.ConsumerGroup, Tenure: 9}, func(v edge.OffsetReply) { got <- v })
	if v := <-got; v.Op != 9 || v.Code != accepted || here.told[6] != 9 || len(here.stored) > 1 {
		t.Errorf("claim: answered %+v, told %v, stored %v", v, here.told, here.stored)
	}
}

// A node that stops has nobody wait until somebody leads.
func TestStop(t *testing.T) {
	here := &fakeNode{codes: []galgo.Code{refused}, leader: []int{-1}}
	r, _ := world(here, &fakeNode{})
	r.Stop()
	got := make(chan edge.SendReply, 1)
	r.Send(edge.SendRequest{}, func(v edge.SendReply) { got <- v })
	if v := <-got; v.Code != refused {
		t.Errorf("code %d", v.Code)
	}
}

// A question that makes no sense has done nothing.
func TestQuestionsThatMakeNoSense(t *testing.T) {
	n := &fakeNode{codes: []galgo.Code{accepted}}
	r := New(n, 0, nil)
	damaged := batch()
	damaged[len(damaged)-1]++
	for _, q := range []struct {
		subject  uint8
		question []byte
	}{
		{0, nil}, {99, make([]byte, 100)}, {subjectMetadata, make([]byte, metadataSize-1)}, {subjectSend, make([]byte, turnSize-1)}, {subjectSend, make([]byte, turnSize+sendSize)},
		{subjectSend, append(appendSend(appendTurn(nil, 1, 1), &edge.SendRequest{}, 0), damaged...)}, {subjectStoreOffset, make([]byte, turnSize+offsetSize+1)}, {subjectFresh, []byte{1}},
	} {
		answers := 0
		r.Asked(0, q.subject, q.question, func(b []byte) {
			answers++
			if len(b) > 0 {
				t.Errorf("subject %d is answered %x", q.subject, b)
			}
		})
		if answers != 1 {
			t.Errorf("subject %d has %d answers", q.subject, answers)
		}
	}
	if len(n.sends)+len(n.asked) > 0 {
		t.Error("something was done")
	}
}

func FuzzQuestions(f *testing.F) {
	f.Add(subjectMetadata, appendMetadata(nil, &edge.MetadataRequest{Operation: 130, User: 3}))
	f.Add(subjectSend, append(appendSend(nil, &edge.SendRequest{Group: 3, Numbered: true}, 9), batch()...))
	f.Add(subjectStoreOffset, appendOffset(nil, &edge.OffsetRequest{Group: 1, NoAck: true, Monotone: true, Member: galgo.ClientID{5}, Tenure: 6, Born: 4}, 9))
	f.Fuzz(func(t *testing.T, subject uint8, b []byte) {
		var again []byte
		switch subject {
		case subjectMetadata:
			if r, err := decodeMetadata(b); err == nil {
				again = append(appendMetadata(nil, &r), r.Body...)
			}
		case subjectSend:
			if r, seen, err := decodeSend(b); err == nil {
				again = append(appendSend(nil, &r, seen), r.Batch...)
			}
		case subjectStoreOffset:
			if r, seen, err := decodeOffset(b); err == nil {
				again = appendOffset(nil, &r, seen)
			}
		}
		if again != nil && !bytes.Equal(again, b) {
			t.Errorf("%x comes back as %x", b, again)
		}
		for _, decode := range []func() error{
			func() error { _, err := decodeMetadataReply(b); return err },
			func() error { _, err := decodeSendReply(b); return err },
			func() error { _, err := decodeOffsetReply(b); return err },
			func() error { _, err := decodeFreshness(b); return err },
		} {
			_ = decode()
		}
	})
}

func TestReplyRoundTrips(t *testing.T) {
	m := edge.MetadataReply{Outcome: edge.OutcomeResult, Operation: 130, Op: 1, Born: 2, Timestamp: 3, Code: 57, Reason: 4, Body: []byte("x")}
	if got, err := decodeMetadataReply(appendMetadataReply(nil, &m)); err != nil || !reflect.DeepEqual(got, m) {
		t.Errorf("got %+v, %v", got, err)
	}
	s := edge.SendReply{Code: 58, Base: 1, Op: 2}
	if got, err := decodeSendReply(appendSendReply(nil, &s)); err != nil || got != s {
		t.Errorf("got %+v, %v", got, err)
	}
	o := edge.OffsetReply{Code: 1, Found: true, Stored: 2, Current: 3, Op: 4}
	if got, err := decodeOffsetReply(appendOffsetReply(nil, &o)); err != nil || got != o {
		t.Errorf("got %+v, %v", got, err)
	}
}
