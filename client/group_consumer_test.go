package client

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"galgo"
	"galgo/client/clienttest"
	"galgo/internal/wire"
)

var groupSpec = GroupConsumerSpec{Stream: orders, Topic: events, Group: galgo.NamedID("g"), Count: 2}

// seat is a server with one consumer group, of which the client is the only member; the
// test says which partitions it has.
type seat struct {
	member, exists bool
	generation     uint64
	partitions     []uint32
	shelves        map[uint32]*shelf
	refuseStore    galgo.Code
	stored         []uint64
	commits        int // polls that commit
}

func (q *seat) install(s *clienttest.Server) {
	s.Handle(wire.CommandCreateConsumerGroup, func(*clienttest.Request) clienttest.Answer {
		q.exists = true
		return clienttest.OK(wire.ConsumerGroupDetails{GroupInfo: wire.GroupInfo{Name: "g"}}.Append(nil))
	})
	s.Handle(wire.CommandJoinConsumerGroup, func(*clienttest.Request) clienttest.Answer {
		if !q.exists {
			return clienttest.Reject(galgo.CodeConsumerGroupIDNotFound)
		}
		q.member = true
		return clienttest.OK(nil)
	})
	s.Handle(wire.CommandLeaveConsumerGroup, func(*clienttest.Request) clienttest.Answer {
		if !q.member {
			return clienttest.Reject(galgo.CodeConsumerGroupMemberNotFound)
		}
		q.member = false
		return clienttest.OK(nil)
	})
	s.Handle(wire.CommandSyncConsumerGroup, func(*clienttest.Request) clienttest.Answer {
		if !q.member {
			return clienttest.OK(nil)
		}
		return clienttest.OK(wire.GroupAssignment{Generation: q.generation, Partitions: q.partitions}.Append(nil))
	})
	s.Handle(wire.CommandPollMessages, func(r *clienttest.Request) clienttest.Answer {
		p, err := wire.DecodePollMessagesRequest(r.Body)
		if err != nil || p.Consumer.Kind != galgo.ConsumerGroup {
			return clienttest.Deny(galgo.CodeInvalidCommand)
		}
		if p.AutoCommit {
			q.commits++
		}
		if !q.member || !slices.Contains(q.partitions, p.Partition.ID) {
			return clienttest.OK(wire.PollPrefix{PartitionID: wire.PollPartitionResync}.Append(nil))
		}
		return inPartition(q.shelves[p.Partition.ID].poll(r), p.Partition.ID)
	})
	s.Handle(wire.CommandStoreConsumerOffset, func(r *clienttest.Request) clienttest.Answer {
		o, err := wire.DecodeStoreOffsetRequest(r.Body)
		if err != nil {
			return clienttest.Deny(galgo.CodeInvalidCommand)
		}
		if q.refuseStore != 0 {
			return clienttest.Deny(q.refuseStore)
		}
		q.stored = append(q.stored, o.Offset)
		return q.shelves[o.Partition.ID].store(r)
	})
}

// inPartition has a poll be of another partition than 0.
func inPartition(a clienttest.Answer, id uint32) clienttest.Answer {
	return a.Edit(func(payload []byte) { payload[0] = byte(id) })
}

func newSeat(partitions ...uint32) *seat {
	q := &seat{exists: true, generation: 1, partitions: partitions, shelves: map[uint32]*shelf{}}
	for id := range uint32(3) {
		q.shelves[id] = &shelf{}
	}
	return q
}

func next(t *testing.T, k *GroupConsumer) (got []string) {
	t.Helper()
	b, err := k.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for m := range b.Messages() {
		got = append(got, string(m.Payload))
	}
	return got
}

func TestGroupConsumerJoinsAndTakesTurns(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		q := newSeat(0, 2)
		q.exists = false
		q.shelves[0].payloads = []string{"a", "b", "c"}
		q.shelves[2].payloads = []string{"x"}
		q.install(s)
		spec := groupSpec
		if _, err := c.NewGroupConsumer(spec).Next(t.Context()); !refused(err, galgo.CodeConsumerGroupIDNotFound) {
			t.Fatalf("without the group: %v", err)
		}
		spec.Create = true
		k := c.NewGroupConsumer(spec)
		var got []string
		for range 3 {
			got = append(got, next(t, k)...)
		}
		if want := []string{"a", "b", "x", "c"}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if err := k.Close(t.Context()); err != nil || q.member {
			t.Errorf("close: %v, a member: %t", err, q.member)
		}
		if got := q.shelves[0].stored; !slices.Equal(got, []uint64{1, 2}) {
			t.Errorf("partition 0: stored %v", got)
		}
		if err := k.Close(t.Context()); err != nil {
			t.Errorf("second close: %v", err)
		}
	})
}

// A member whose connection was lost is none any more: the consumer joins again.
func TestGroupConsumerJoinsAgain(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		q := newSeat(0)
		q.shelves[0].payloads = []string{"a", "b", "c"}
		q.install(s)
		k := c.NewGroupConsumer(groupSpec)
		next(t, k)
		q.member = false
		q.refuseStore = galgo.CodeResourceNotFound // what was given cannot be committed now
		s.HangUp()
		if got := next(t, k); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("got %v, want what was not committed", got)
		}
		if n := len(s.Requests(wire.CommandJoinConsumerGroup)); n != 2 {
			t.Errorf("%d joins, want 2", n)
		}
	})
}

// What is taken away is committed at once, so that the next owner need not wait.
func TestGroupConsumerCommitsWhatItLoses(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		q := newSeat(0, 1)
		q.shelves[0].payloads = []string{"a"}
		q.shelves[1].payloads = []string{"x"}
		q.install(s)
		spec := groupSpec
		spec.Commit, spec.CommitInterval = CommitAtIntervals, time.Hour
		k := c.NewGroupConsumer(spec)
		next(t, k)
		next(t, k)
		if len(q.stored) != 0 {
			t.Fatalf("stored %v before the interval", q.stored)
		}
		q.partitions, q.generation = []uint32{0}, 2
		q.shelves[0].payloads = []string{"a", "b"}
		time.Sleep(assignmentFresh)
		if got := next(t, k); !slices.Equal(got, []string{"b"}) {
			t.Errorf("got %v", got)
		}
		if got := q.shelves[1].stored; !slices.Equal(got, []uint64{0}) {
			t.Errorf("of the partition that was taken away %v is stored, want [0]", got)
		}
		if got := q.shelves[0].stored; len(got) != 0 {
			t.Errorf("of the one that was kept %v is stored", got)
		}
	})
}

func TestGroupConsumerWithoutPartitionsWaits(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		q := newSeat()
		q.install(s)
		k := c.NewGroupConsumer(groupSpec)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := k.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("error %v", err)
		}
		if n := len(s.Requests(wire.CommandPollMessages)); n != 0 {
			t.Errorf("%d polls of no partition", n)
		}
		if n := len(s.Requests(wire.CommandSyncConsumerGroup)); n < 9 || n > 12 {
			t.Errorf("%d syncs in 10 s, want about one a second", n)
		}
	})
}

func TestCommitModes(t *testing.T) {
	bad := errors.New("bad")
	for name, tt := range map[string]struct {
		mode    CommitMode
		stored  []uint64 // of four messages in batches of two, the last of which fails
		commits int
	}{
		"on next":      {CommitOnNext, []uint64{1, 2}, 0},
		"each":         {CommitEach, []uint64{0, 1, 2}, 0},
		"at intervals": {CommitAtIntervals, []uint64{1, 2}, 0}, // 1.2 s after the first, then at the end
		"manually":     {CommitManually, nil, 0},
		"on poll":      {CommitOnPoll, nil, 2},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
				q := newSeat(0)
				q.shelves[0].payloads = []string{"a", "b", "c", "d"}
				q.install(s)
				if tt.mode == CommitOnPoll { // the server stores
					s.Handle(wire.CommandPollMessages, func(r *clienttest.Request) clienttest.Answer {
						a := q.shelves[0].poll(r)
						q.commits++
						q.shelves[0].stored = append(q.shelves[0].stored, uint64(2*q.commits-1))
						return a
					})
				}
				spec := groupSpec
				spec.Commit = tt.mode
				err := c.NewGroupConsumer(spec).Run(t.Context(), func(_ context.Context, _ uint32, m galgo.Message) error {
					if string(m.Payload) == "d" {
						return bad
					}
					time.Sleep(600 * time.Millisecond)
					return nil
				})
				if !errors.Is(err, bad) || !slices.Equal(q.stored, tt.stored) || q.commits != tt.commits {
					t.Errorf("%v; stored %v, %d polls commit; want %v, %d", err, q.stored, q.commits, tt.stored, tt.commits)
				}
			})
			bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
				h := &shelf{payloads: []string{"a", "b", "c", "d"}}
				h.install(s)
				single := spec
				single.Commit = tt.mode
				err := c.NewConsumer(single).Run(t.Context(), func(_ context.Context, m galgo.Message) error {
					if string(m.Payload) == "d" {
						return bad
					}
					time.Sleep(600 * time.Millisecond)
					return nil
				})
				if !errors.Is(err, bad) || !slices.Equal(h.stored, tt.stored) {
					t.Errorf("single: %v; stored %v, want %v", err, h.stored, tt.stored)
				}
			})
		})
	}
}

func TestGroupCalls(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		ctx, g := t.Context(), galgo.NamedID("g")
		s.Script(wire.CommandGetConsumerGroups, clienttest.OK(wire.AppendGroups(nil, []wire.GroupInfo{{ID: 4, Name: "g"}})))
		if v, err := c.ConsumerGroups(ctx, orders, events); err != nil || len(v) != 1 || v[0].ID != 4 {
			t.Errorf("groups %+v, %v", v, err)
		}
		details := wire.ConsumerGroupDetails{GroupInfo: wire.GroupInfo{ID: 4, Name: "g"}, Members: []wire.GroupMember{{ID: 0, Partitions: []uint32{1}}}}
		for _, command := range []wire.Command{wire.CommandGetConsumerGroup, wire.CommandCreateConsumerGroup} {
			s.Script(command, clienttest.OK(details.Append(nil)), clienttest.OK(nil))
		}
		if v, err := c.ConsumerGroup(ctx, orders, events, g); err != nil || len(v.Members) != 1 || v.Members[0].Partitions[0] != 1 {
			t.Errorf("group %+v, %v", v, err)
		}
		if _, err := c.ConsumerGroup(ctx, orders, events, g); !refused(err, galgo.CodeConsumerGroupIDNotFound) {
			t.Errorf("missing group: %v", err)
		}
		if v, err := c.CreateConsumerGroup(ctx, orders, events, "g"); err != nil || v.ID != 4 {
			t.Errorf("create group %+v, %v", v, err)
		}
		s.Script(wire.CommandSyncConsumerGroup, clienttest.OK(wire.GroupAssignment{Generation: 3}.Append(nil)), clienttest.OK(nil))
		if a, member, err := c.SyncConsumerGroup(ctx, orders, events, g); err != nil || !member || a.Generation != 3 {
			t.Errorf("sync %+v, %t, %v", a, member, err)
		}
		if _, member, err := c.SyncConsumerGroup(ctx, orders, events, g); err != nil || member {
			t.Errorf("sync of no member: %t, %v", member, err)
		}
		for command, call := range map[wire.Command]func(context.Context, galgo.Identifier, galgo.Identifier, galgo.Identifier) error{
			wire.CommandJoinConsumerGroup: c.JoinConsumerGroup, wire.CommandLeaveConsumerGroup: c.LeaveConsumerGroup, wire.CommandDeleteConsumerGroup: c.DeleteConsumerGroup,
		} {
			s.Script(command, clienttest.OK(nil), clienttest.Reject(galgo.CodeConsumerGroupIDNotFound))
			if err := call(ctx, orders, events, g); err != nil {
				t.Errorf("%v: %v", command, err)
			}
			if err := call(ctx, orders, events, g); !refused(err, galgo.CodeConsumerGroupIDNotFound) {
				t.Errorf("%v: %v", command, err)
			}
			if err := call(ctx, orders, events, galgo.NamedID("")); err == nil {
				t.Errorf("%v of a group without a name", command)
			}
		}
	})
}

// Who commits manually may still commit what is on its way to another member, which waits
// for that.
func TestGroupConsumerCommitsManuallyWhatIsTakenAway(t *testing.T) {
	bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
		q := newSeat(0, 1)
		q.shelves[0].payloads = []string{"a"}
		q.shelves[1].payloads = []string{"x"}
		q.install(s)
		spec := groupSpec
		spec.Commit = CommitManually
		k := c.NewGroupConsumer(spec)
		next(t, k)
		next(t, k)
		q.partitions, q.generation = []uint32{0}, 2
		q.shelves[0].payloads = []string{"a", "b"}
		time.Sleep(assignmentFresh)
		next(t, k)
		if err := k.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := q.shelves[1].stored; !slices.Equal(got, []uint64{0}) {
			t.Errorf("stored %v of the partition on its way, want [0]", got)
		}
	})
}

// A consumer that joins again, or gets a partition back, goes on where the group is and
// not where it was: another member may have been farther since.
func TestGroupConsumerGoesOnWhereTheGroupIs(t *testing.T) {
	for name, change := range map[string]func(*seat, *clienttest.Server){
		"joins again": func(q *seat, s *clienttest.Server) {
			q.member, q.generation = false, 5
			s.HangUp()
		},
		"gets it back": func(q *seat, _ *clienttest.Server) { q.partitions, q.generation = nil, 2 },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *clienttest.Server, c *Client) {
				q := newSeat(0)
				q.shelves[0].payloads = []string{"a", "b", "c", "d", "e", "f"}
				q.install(s)
				spec := groupSpec
				spec.Commit = CommitManually
				k := c.NewGroupConsumer(spec)
				next(t, k)
				change(q, s)
				q.shelves[0].stored = []uint64{4} // by who had the partition meanwhile
				if len(q.partitions) == 0 {
					time.Sleep(assignmentFresh)
					ctx, cancel := context.WithTimeout(t.Context(), assignmentWanted/2)
					defer cancel()
					if _, err := k.Next(ctx); err == nil {
						t.Fatal("a batch of no partition")
					}
					q.partitions, q.generation = []uint32{0}, 3
				}
				time.Sleep(assignmentFresh)
				if got := next(t, k); !slices.Equal(got, []string{"f"}) {
					t.Errorf("got %v, want what the group has not committed", got)
				}
			})
		})
	}
}
