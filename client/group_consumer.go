package client

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"galgo"
)

const (
	// assignmentFresh is how long the assignment of a member is trusted. A change shows
	// earlier where a poll meets it.
	assignmentFresh = 5 * time.Second
	// assignmentWanted is how long it is if there is nothing in it.
	assignmentWanted = time.Second
)

// GroupConsumerSpec says what a GroupConsumer reads.
type GroupConsumerSpec struct {
	Stream galgo.Identifier
	Topic  galgo.Identifier
	Group  galgo.Identifier
	// Create makes the group if there is none of that name.
	Create bool
	Commit CommitMode
	// CommitInterval is that of CommitAtIntervals; 0 is 1 s.
	CommitInterval time.Duration
	// Count bounds the messages of a batch; 0 is 1000.
	Count uint32
	// PollInterval is the longest pause between rounds of polls that find nothing; 0 is
	// 100 ms. Pauses start at 1 ms and double.
	PollInterval time.Duration
}

// GroupConsumer reads the partitions that the client has as a member of a consumer group,
// one batch of one partition at a time. It joins by itself, again if it has to after a
// lost connection, and gives partitions up as others join: what it has processed of them
// is stored at once then. It is for one goroutine.
//
// A client is one member of a group, so a second GroupConsumer of the same client and
// group would take turns with the first: use a client for each.
type GroupConsumer struct {
	client *Client
	spec   GroupConsumerSpec
	clock  commitClock
	batch  Batch

	assigned   []uint32
	generation uint64
	syncedAt   time.Time // zero: the assignment is not known
	turn       int       // index in assigned of the next partition to poll
	positions  map[uint32]*position
	before     position // of the partition of the batch, without the batch
}

// NewGroupConsumer makes a consumer. It does nothing until its first Next.
func (c *Client) NewGroupConsumer(spec GroupConsumerSpec) *GroupConsumer {
	pollDefaults(&spec.Count, &spec.PollInterval)
	return &GroupConsumer{
		client: c, spec: spec, clock: newCommitClock(spec.Commit, spec.CommitInterval), positions: map[uint32]*position{},
	}
}

// Next returns the next batch, which has at least one message; Batch.PartitionID tells
// of which partition. It waits until there is one or ctx ends. The batch is good until
// the next call of Next, which takes it for processed.
func (k *GroupConsumer) Next(ctx context.Context) (*Batch, error) {
	if k.clock.onNext() {
		if err := k.Commit(ctx); err != nil {
			return nil, err
		}
	}
	for delay := pollDelayMin; ; delay = min(2*delay, k.spec.PollInterval) {
		if err := k.refresh(ctx); err != nil {
			return nil, err
		}
		found, err := k.round(ctx)
		if err != nil {
			return nil, err
		}
		if found {
			return &k.batch, nil
		}
		if err := sleep(ctx, min(delay, k.spec.PollInterval)); err != nil {
			return nil, err
		}
	}
}

// round polls the assigned partitions in turn until one has messages.
func (k *GroupConsumer) round(ctx context.Context) (found bool, err error) {
	for range k.assigned {
		partition := k.assigned[k.turn%len(k.assigned)]
		k.turn++
		if err := k.poll(ctx, partition); err != nil {
			return false, err
		}
		if k.batch.PartitionID != partition { // it is not the member's any more
			k.syncedAt = time.Time{}
			return false, nil
		}
		if k.batch.Len() > 0 {
			if k.spec.Commit != CommitOnPoll {
				p := k.positionOf(partition)
				k.before = *p
				p.mark(k.batch.LastOffset())
			}
			return true, nil
		}
	}
	return false, nil
}

func (k *GroupConsumer) poll(ctx context.Context, partition uint32) error {
	strategy := galgo.FromNext()
	if p := k.positions[partition]; p != nil && p.dirty {
		strategy = p.next()
	}
	return k.client.PollInto(ctx, PollRequest{
		Consumer: k.consumer(), Stream: k.spec.Stream, Topic: k.spec.Topic, Partition: partition,
		Strategy: strategy, Count: k.spec.Count, AutoCommit: k.spec.Commit == CommitOnPoll,
	}, &k.batch)
}

func (k *GroupConsumer) consumer() galgo.Consumer {
	return galgo.Consumer{Kind: galgo.ConsumerGroup, ID: k.spec.Group}
}

func (k *GroupConsumer) positionOf(partition uint32) *position {
	p := k.positions[partition]
	if p == nil {
		p = new(position)
		k.positions[partition] = p
	}
	return p
}

// refresh sees to it that the assignment is known and not too old.
func (k *GroupConsumer) refresh(ctx context.Context) error {
	fresh := assignmentFresh
	if len(k.assigned) == 0 {
		fresh = assignmentWanted
	}
	if !k.syncedAt.IsZero() && time.Since(k.syncedAt) < fresh {
		return nil
	}
	a, member, err := k.client.SyncConsumerGroup(ctx, k.spec.Stream, k.spec.Topic, k.spec.Group)
	if err == nil && !member {
		if err = k.join(ctx); err == nil {
			a, member, err = k.client.SyncConsumerGroup(ctx, k.spec.Stream, k.spec.Topic, k.spec.Group)
		}
	}
	if err != nil {
		return err
	}
	if !member { // it ended as soon as it began, as by a connection that was lost
		a = GroupAssignment{}
	}
	return k.assign(ctx, a)
}

// join makes the client a member, which goes on where the group is: what it has processed
// as a member before may be behind that.
func (k *GroupConsumer) join(ctx context.Context) error {
	err := k.joinOrCreate(ctx)
	if err == nil {
		clear(k.positions)
	}
	return err
}

// joinOrCreate makes the client a member, and the group, if it is to be made.
func (k *GroupConsumer) joinOrCreate(ctx context.Context) error {
	err := k.client.JoinConsumerGroup(ctx, k.spec.Stream, k.spec.Topic, k.spec.Group)
	if !k.spec.Create || k.spec.Group.Kind != galgo.IdentifierNamed || !refused(err, galgo.CodeConsumerGroupIDNotFound) {
		return err
	}
	_, err = k.client.CreateConsumerGroup(ctx, k.spec.Stream, k.spec.Topic, k.spec.Group.Name)
	if err != nil && !refused(err, galgo.CodeConsumerGroupNameAlreadyExists) {
		return err
	}
	return k.client.JoinConsumerGroup(ctx, k.spec.Stream, k.spec.Topic, k.spec.Group)
}

// assign takes an assignment over. What is not in it any more is stored, while the server
// still allows it: the next owner waits for that. If the caller commits, it may still do
// so. What is new in it may have been another's meanwhile, so its position is the group's.
func (k *GroupConsumer) assign(ctx context.Context, a GroupAssignment) error {
	if a.Generation != k.generation {
		k.turn = 0
	}
	maps.DeleteFunc(k.positions, func(partition uint32, _ *position) bool {
		return slices.Contains(a.Partitions, partition) && !slices.Contains(k.assigned, partition)
	})
	k.assigned, k.generation, k.syncedAt = a.Partitions, a.Generation, time.Now()
	for partition, p := range k.positions {
		if slices.Contains(k.assigned, partition) {
			continue
		}
		if k.clock.atEnd() {
			if err := k.commit(ctx, partition); err != nil {
				return err
			}
		}
		if !p.dirty || k.clock.atEnd() {
			delete(k.positions, partition)
		}
	}
	return nil
}

// Commit stores how far the consumer has come in each partition, where that is not stored
// already. What it was given of a partition that it has lost since is another member's to
// process, and no error.
func (k *GroupConsumer) Commit(ctx context.Context) error {
	for partition := range k.positions {
		if err := k.commit(ctx, partition); err != nil {
			return err
		}
	}
	k.clock.done()
	return nil
}

func (k *GroupConsumer) commit(ctx context.Context, partition uint32) error {
	p := k.positions[partition]
	if !p.dirty {
		return nil
	}
	err := k.client.StoreOffset(ctx, k.consumer(), k.spec.Stream, k.spec.Topic, partition, p.last)
	switch {
	case err == nil:
		p.dirty = false
		return nil
	case refused(err, galgo.CodeResourceNotFound), refused(err, galgo.CodeInvalidOffset): // lost, or purged
		delete(k.positions, partition)
		k.syncedAt = time.Time{}
		return nil
	}
	return err
}

// Run hands every message to handle until that returns an error, which Run returns,
// or ctx ends. Messages alias memory that is used again: handle copies what it keeps.
// What was handled is committed before Run returns, as the mode says, also a batch
// handled in part; that takes 2 s at most if ctx has ended. The client stays a member.
func (k *GroupConsumer) Run(ctx context.Context, handle func(ctx context.Context, partition uint32, m galgo.Message) error) error {
	for {
		b, err := k.Next(ctx)
		if err == nil {
			err = k.handle(ctx, b, handle)
		}
		if err != nil {
			return k.clock.finish(ctx, err, k.Commit)
		}
	}
}

func (k *GroupConsumer) handle(ctx context.Context, b *Batch, handle func(context.Context, uint32, galgo.Message) error) error {
	keeps := k.spec.Commit != CommitOnPoll
	if keeps {
		*k.positionOf(b.PartitionID) = k.before
	}
	for m := range b.Messages() {
		if err := handle(ctx, b.PartitionID, m); err != nil {
			return err
		}
		if keeps {
			k.positionOf(b.PartitionID).mark(m.Offset)
		}
		if k.clock.onMessage() {
			if err := k.Commit(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// Close stores what was processed, as the mode says, and leaves the group, so that others
// have the partitions at once. The client stays open.
func (k *GroupConsumer) Close(ctx context.Context) error {
	var err error
	if k.clock.atEnd() {
		err = k.Commit(ctx)
	}
	k.assigned, k.syncedAt = nil, time.Time{}
	clear(k.positions)
	left := k.client.LeaveConsumerGroup(ctx, k.spec.Stream, k.spec.Topic, k.spec.Group)
	for _, code := range []galgo.Code{galgo.CodeConsumerGroupMemberNotFound, galgo.CodeConsumerGroupIDNotFound} {
		if refused(left, code) {
			left = nil // it is what was wanted
		}
	}
	return errors.Join(err, left)
}
