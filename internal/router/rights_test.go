package router

import (
	"testing"

	"galgo"
	"galgo/internal/edge"
	"galgo/internal/metadata"
	"galgo/internal/wire"
)

// onePartition is metadata with one partition, and a user who may write to it.
func onePartition(t *testing.T) (view *metadata.View, group uint64, who metadata.Actor) {
	t.Helper()
	m := metadata.New()
	op := uint64(0)
	apply := func(in metadata.Input) metadata.Output {
		op++
		in.Op, in.Timestamp, in.Client = op, op, galgo.ClientID{1}
		return m.Apply(in)
	}
	body, err := metadata.Bootstrap{Username: "root", PasswordHash: "x", Settings: metadata.Settings{ClientsMax: 64}}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	apply(metadata.Input{Operation: metadata.OperationBootstrap, Body: body})
	root, _ := m.View().User(galgo.NumericID(0))
	session := apply(metadata.Input{Operation: wire.OperationRegister, Body: metadata.PasswordOf(root).Append(nil)}).Session
	apply(metadata.Input{Operation: wire.OperationCreateStream, Session: session, Request: 1, Body: wire.CreateStreamRequest{Name: "s"}.Append(nil)})
	topic := wire.CreateTopicRequest{Stream: galgo.NumericID(0), Partitions: 1, Name: "t"}.Append(nil)
	operation, topic, err := metadata.Admit(m.View(), wire.OperationCreateTopic, topic)
	if err != nil {
		t.Fatal(err)
	}
	made := apply(metadata.Input{Operation: operation, Session: session, Request: 2, Body: topic})
	if len(made.Changes) != 1 {
		t.Fatalf("no partition: %+v", made)
	}
	user := metadata.NewUser{Username: "user", PasswordHash: "x", Active: true, Permissions: &galgo.Permissions{
		Global: galgo.GlobalPermissions{PollMessages: true, SendMessages: true},
	}}
	apply(metadata.Input{Operation: wire.OperationCreateUser, Session: session, Request: 3, Body: user.Append(nil)})
	u, ok := m.View().User(galgo.NumericID(1))
	if !ok {
		t.Fatal("no user")
	}
	return m.View(), made.Changes[0].Group, u.Actor()
}

// The node that decides judges a write by what it knows itself, and not before it knows
// what the one that asks has seen.
func TestRightsAreJudgedByWhoDecides(t *testing.T) {
	view, group, user := onePartition(t)
	for _, c := range []struct {
		name  string
		who   metadata.Actor
		stale bool
		seen  uint64
		want  judgement
	}{
		{"who may", user, false, view.Op(), allowed},
		{"who is gone", metadata.Actor{User: 9, Born: 1}, false, 0, denied},
		{"who had the number before", metadata.Actor{User: user.User, Born: user.Born + 1}, false, 0, denied},
		{"by a node that is of the past", user, true, 0, unknown},
		{"by a node that has not seen as much", user, false, view.Op() + 1, unknown},
	} {
		n := &fakeNode{view: view, stale: c.stale, codes: []galgo.Code{accepted}}
		r := New(n, 1, nil)
		send := edge.SendRequest{Group: group, Batch: batch(), User: c.who.User, Born: c.who.Born}
		offset := edge.OffsetRequest{Group: group, User: c.who.User, Born: c.who.Born}
		got := map[uint8]judgement{}
		judged := func(subject uint8, code func([]byte) (galgo.Code, error)) func([]byte) {
			return func(b []byte) {
				switch code, err := code(b); {
				case len(b) == 0:
					got[subject] = unknown
				case err == nil && code == accepted:
					got[subject] = allowed
				case err == nil && code == galgo.CodeUnauthorized:
					got[subject] = denied
				}
			}
		}
		r.Asked(0, subjectSend, append(appendSend(appendTurn(nil, 1, 1), &send, c.seen), send.Batch...), judged(subjectSend, func(b []byte) (galgo.Code, error) {
			v, err := decodeSendReply(b)
			return v.Code, err
		}))
		r.Asked(0, subjectStoreOffset, appendOffset(appendTurn(nil, 1, 1), &offset, c.seen), judged(subjectStoreOffset, func(b []byte) (galgo.Code, error) {
			v, err := decodeOffsetReply(b)
			return v.Code, err
		}))
		for _, subject := range []uint8{subjectSend, subjectStoreOffset} {
			if v, ok := got[subject]; !ok || v != c.want {
				t.Errorf("%s: subject %d: judged %d, %v, want %d", c.name, subject, v, ok, c.want)
			}
		}
		if len(n.sends) > 0 && c.want != allowed {
			t.Errorf("%s: sent", c.name)
		}
	}
}
