package engine

import (
	"sync"

	"galgo"
	"galgo/internal/edge"
	"galgo/internal/metadata"
	"galgo/internal/shard"
	"galgo/internal/vsr"
	"galgo/internal/wire"
)

// deliveries knows which partitions of consumer groups are busy: their owner was given
// messages at this node that it has not committed, or is being given some. Such a
// partition is not taken from it at once when another member joins. All of it is a
// memory of this process, for the members whose connections are here: what it forgets may
// be given out again, which consumers have to expect at any time.
type deliveries struct {
	mu   sync.Mutex
	open map[uint64]map[uint32]*delivery // by partition, then group; see deliveryKey
	// joining are the groups that a member is about to join, with the polls that wait
	// until that is decided: what they were given meanwhile, the join could not know.
	joining map[groupKey]*joining
}

// deliveryKey names a partition for a consumer group. Neither number is used again for
// something else.
type deliveryKey struct {
	partition uint64 // its consensus group
	group     uint32
}

// delivery is what a member was given of a partition.
type delivery struct {
	client    galgo.ClientID
	polls     int // that are under way
	served    uint64
	committed uint64
	any, some bool // something was served; something was committed
}

// idle: there is nothing that the owner could still commit.
func (d *delivery) idle() bool {
	return d.polls == 0 && (!d.any || d.some && d.committed >= d.served)
}

type groupKey struct{ stream, topic, group uint32 }

func keyOf(g *metadata.ConsumerGroup) groupKey { return groupKey{g.Stream, g.Topic, g.ID} }

type joining struct {
	joins int      // that are being decided
	polls []func() // that wait for them
	next  []func() // joins that wait for those polls to begin
}

func newDeliveries() *deliveries {
	return &deliveries{open: map[uint64]map[uint32]*delivery{}, joining: map[groupKey]*joining{}}
}

// begin takes note of a poll of the client, which end ends. It returns nil if a join has to
// be decided first: retry is called when it is.
func (d *deliveries) begin(g groupKey, k deliveryKey, client galgo.ClientID, retry func()) *delivery {
	d.mu.Lock()
	defer d.mu.Unlock()
	if j := d.joining[g]; j != nil {
		j.polls = append(j.polls, retry)
		return nil
	}
	e := d.at(k)
	if e == nil || e.client != client {
		e = &delivery{client: client}
		d.put(k, e)
	}
	e.polls++
	return e
}

func (d *deliveries) at(k deliveryKey) *delivery { return d.open[k.partition][k.group] }

func (d *deliveries) put(k deliveryKey, e *delivery) {
	groups := d.open[k.partition]
	if groups == nil {
		groups = map[uint32]*delivery{}
		d.open[k.partition] = groups
	}
	groups[k.group] = e
}

func (d *deliveries) drop(k deliveryKey) {
	groups := d.open[k.partition]
	if delete(groups, k.group); len(groups) == 0 {
		delete(d.open, k.partition)
	}
}

// end takes note of what a poll has yielded, up to the offset last if any. If the partition
// has been another's since, nothing is known of the delivery any more.
func (d *deliveries) end(k deliveryKey, e *delivery, last uint64, any bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e.polls--
	if any {
		e.served, e.any = max(e.served, last), true
	}
	d.forgetIdle(k, e)
}

// commit takes note of a stored offset.
func (d *deliveries) commit(k deliveryKey, offset uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.at(k); e != nil {
		e.committed, e.some = offset, true
		d.forgetIdle(k, e)
	}
}

func (d *deliveries) forgetIdle(k deliveryKey, e *delivery) {
	if d.at(k) == e && e.idle() {
		d.drop(k)
	}
}

// busy reports whether the client has, or is being given, what it has not committed.
func (d *deliveries) busy(k deliveryKey, client galgo.ClientID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.at(k)
	return e != nil && e.client == client
}

// forget drops what is known of a partition that is gone, or empty.
func (d *deliveries) forget(partition uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.open, partition)
}

// forgetGroup drops what is known of a partition for a consumer group that is gone.
func (d *deliveries) forgetGroup(k deliveryKey) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drop(k)
}

// hold has polls of a group's members wait until release: a join is about to be decided.
// It reports false if polls wait already: again is called when they have begun, so that no
// number of joins keeps them waiting.
func (d *deliveries) hold(g groupKey, again func()) (release func(), ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	j := d.joining[g]
	if j == nil {
		j = new(joining)
		d.joining[g] = j
	}
	if len(j.polls) > 0 {
		j.next = append(j.next, again)
		return nil, false
	}
	j.joins++
	return func() { d.release(g, j) }, true
}

func (d *deliveries) release(g groupKey, j *joining) {
	d.mu.Lock()
	j.joins--
	decided := j.joins == 0
	if decided {
		delete(d.joining, g)
	}
	d.mu.Unlock()
	if !decided {
		return
	}
	for _, retry := range j.polls {
		retry()
	}
	for _, again := range j.next {
		again()
	}
}

// holdFor has polls of the group that a request joins wait until it is decided. It reports
// false if the request has to wait itself, until again is called.
func (e *Engine) holdFor(req *edge.MetadataRequest, again func()) (release func(), ok bool) {
	nothing := func() {}
	if req.Operation != wire.OperationJoinConsumerGroup {
		return nothing, true
	}
	m, err := wire.DecodeGroupRequest(req.Body)
	if err != nil {
		return nothing, true
	}
	g, ok := e.meta.View().Joining(req.Client, m)
	if !ok { // it will change nothing, or take all partitions for busy
		return nothing, true
	}
	return e.deliveries.hold(keyOf(g), again)
}

// isHere reports whether what a client was given was given by this node.
func (e *Engine) isHere(view *metadata.View, id galgo.ClientID) bool { return view.IsAt(id, e.home) }

// busy lists the partitions of a group that their owners may have uncommitted messages
// of. What members elsewhere were given is for their nodes to know, who say when they are
// done.
func (e *Engine) busy(g *metadata.ConsumerGroup) (busy []uint32) {
	view := e.meta.View()
	for i := range g.Members {
		m := &g.Members[i]
		here := e.isHere(view, m.Client)
		for _, id := range m.Partitions {
			if p, ok := view.PartitionAt(g.Stream, g.Topic, id); ok && (!here || e.deliveries.busy(deliveryKey{p.Group, g.ID}, m.Client)) {
				busy = append(busy, id)
			}
		}
	}
	return busy
}

// handOversLookedAt bounds the partitions on their way that one tick looks at, give or take
// those of one group. The rest has its turn with the ticks that follow.
const handOversLookedAt = 4096

// mayHandOver lists, for the primary of the metadata, what may be handed over: what owners
// that are here are done with, and what anybody was given time enough for.
func (e *Engine) mayHandOver(view *metadata.View, now uint64) []metadata.Completion {
	return e.handOvers(view, &e.handOversFrom, func(r *metadata.Revocation) bool { return now >= r.Since+e.patience })
}

// Done is a look, on a node that does not lead the metadata, for what the members whose
// connections are here are done with, and others are to have: the primary cannot know it.
type Done struct {
	engine *Engine
	from   groupKey
}

// Done begins to look. It is for one goroutine.
func (e *Engine) Done() *Done { return &Done{engine: e} }

// Next lists what may be handed over, as the primary is to be told.
func (d *Done) Next() []metadata.Completion {
	return d.engine.handOvers(d.engine.View(), &d.from, func(*metadata.Revocation) bool { return false })
}

// handOvers lists what owners that are here are done with, and what is late. A look goes on
// where the one before has ended.
func (e *Engine) handOvers(view *metadata.View, next *groupKey, late func(*metadata.Revocation) bool) (list []metadata.Completion) {
	from, left := *next, handOversLookedAt
	*next = groupKey{}
	for g := range view.Revoking(from.stream, from.topic, from.group) {
		if left <= 0 {
			*next = keyOf(g)
			break
		}
		c := metadata.Completion{Stream: g.Stream, Topic: g.Topic, Group: g.ID}
		for i := range g.Members {
			left -= len(g.Members[i].Revoked)
			e.handOversOf(view, g, &g.Members[i], late, &c)
		}
		if len(c.HandOvers) > 0 {
			list = append(list, c)
		}
	}
	return list
}

// handOversOf adds those of one member. What there is no room for comes later.
func (e *Engine) handOversOf(view *metadata.View, g *metadata.ConsumerGroup, m *metadata.Member, late func(*metadata.Revocation) bool, c *metadata.Completion) {
	here := e.isHere(view, m.Client)
	for i := range m.Revoked {
		if len(c.HandOvers) == metadata.HandOversMax {
			return
		}
		r := &m.Revoked[i]
		p, ok := view.PartitionAt(g.Stream, g.Topic, r.Partition)
		if late(r) || here && ok && !e.deliveries.busy(deliveryKey{p.Group, g.ID}, m.Client) {
			c.HandOvers = append(c.HandOvers, metadata.HandOver{Client: m.Client, Partition: r.Partition, Since: r.Since})
		}
	}
}

// sharing finds a consumer group and the number that a partition has in its topic, as of
// now; nil if one of them is gone.
func (e *Engine) sharing(partition uint64, group uint32) (*metadata.ConsumerGroup, uint32) {
	view := e.View()
	p, ok := view.PartitionOf(partition)
	if !ok {
		return nil, 0
	}
	g, ok := view.ConsumerGroupAt(p.Stream, p.Topic, group)
	if !ok {
		return nil, 0
	}
	return g, p.ID
}

// mayPoll is CodeOK if the member of the request may poll the partition, and has not lost it
// since it has claimed it: what others have committed meanwhile need not be here yet.
func (e *Engine) mayPoll(req *edge.PollRequest) (groupKey, galgo.Code) {
	g, p := e.sharing(req.Group, req.Key)
	if g == nil || !g.MayPoll(req.Member, p) {
		return groupKey{}, galgo.CodeConsumerGroupPartitionNotOwned
	}
	if since, _ := g.Tenure(req.Member, p); req.Tenure != 0 && req.Tenure != since {
		return groupKey{}, galgo.CodeConsumerGroupPartitionNotOwned
	}
	return keyOf(g), galgo.CodeOK
}

// pollAsMember begins the poll of a member. If it may go on, Polled has to end it.
func (e *Engine) pollAsMember(req edge.PollRequest, done func(edge.PollReply)) {
	g, code := e.mayPoll(&req)
	if code != galgo.CodeOK {
		done(edge.PollReply{Code: code})
		return
	}
	k := deliveryKey{req.Group, req.Key}
	begun := e.deliveries.begin(g, k, req.Member, func() { e.pollAsMember(req, done) })
	if begun == nil {
		return
	}
	// Looked at once more: a join that was decided before begin may have been published
	// after the first look.
	if _, code := e.mayPoll(&req); code != galgo.CodeOK {
		e.deliveries.end(k, begun, 0, false)
		done(edge.PollReply{Code: code})
		return
	}
	e.poll(req, func(r edge.PollReply) {
		if r.Code != galgo.CodeOK {
			e.deliveries.end(k, begun, 0, false)
		} else {
			r.Ticket = begun
		}
		done(r)
	})
}

// Polled implements edge.Backend.
func (e *Engine) Polled(req edge.PollRequest, last uint64, any bool) bool {
	_, code := e.mayPoll(&req)
	if begun, ok := req.Ticket.(*delivery); ok {
		e.deliveries.end(deliveryKey{req.Group, req.Key}, begun, last, any && code == galgo.CodeOK)
	}
	return code == galgo.CodeOK
}

// allowed is what a shard asks before it writes an offset of a consumer group: only who
// has the partition may. It is nil for other consumers.
func (e *Engine) allowed(req *edge.OffsetRequest) func() galgo.Code {
	if req.Kind != galgo.ConsumerGroup {
		return nil
	}
	partition, group, member := req.Group, req.Key, req.Member
	return func() galgo.Code {
		if g, p := e.sharing(partition, group); g == nil || !g.Owns(member, p) {
			return galgo.CodeResourceNotFound
		}
		return galgo.CodeOK
	}
}

// groupDeleted reports whether a consumer group of the topic of a partition was deleted.
// One that the metadata here does not know yet was not.
func (e *Engine) groupDeleted(partition vsr.GroupID, group uint32) bool {
	view := e.View()
	p, ok := view.PartitionOf(uint64(partition))
	if !ok {
		return false
	}
	t, ok := view.TopicOf(p)
	if !ok || uint64(group) >= t.NextConsumerGroup {
		return false
	}
	_, ok = view.ConsumerGroupAt(p.Stream, p.Topic, group)
	return !ok
}

// forgetGroup has the offsets of a deleted consumer group removed from every partition of
// its topic; finish is called for the group.
func (e *Engine) forgetGroup(c metadata.Change, finish func()) {
	view := e.View()
	t, err := view.Topic(galgo.NumericID(c.Stream), galgo.NumericID(c.Topic))
	if err != nil {
		finish() // they went with the topic
		return
	}
	shards := make([][]vsr.GroupID, len(e.data))
	for p := range view.Partitions(t) {
		e.deliveries.forgetGroup(deliveryKey{p.Group, c.ConsumerGroup})
		i := e.shardOf(p.Group)
		shards[i] = append(shards[i], vsr.GroupID(p.Group))
	}
	finish = countdown(int(t.Partitions)+1, finish)
	for i, d := range e.data {
		e.dataLoops[i].Post(func() {
			for _, id := range shards[i] {
				d.ForgetGroup(id, c.ConsumerGroup, finish)
			}
		})
	}
	finish()
}

// resolveSegments finds out what a request to delete segments means and hands it on.
func (e *Engine) resolveSegments(req edge.MetadataRequest, run func(edge.MetadataRequest), done func(edge.MetadataReply)) {
	m, err := wire.DecodeDeleteSegmentsRequest(req.Body)
	if err != nil {
		run(req)
		return
	}
	t := metadata.Truncation{DeleteSegmentsRequest: m}
	hand := func() {
		req.Body = t.Append(nil)
		run(req)
	}
	view := e.View()
	topic, err := view.Topic(m.Stream, m.Topic)
	if err != nil {
		hand()
		return
	}
	p, ok := view.Partition(topic, m.PartitionID)
	if !ok {
		hand()
		return
	}
	refuse := func() {
		done(edge.MetadataReply{Outcome: edge.OutcomeResult, Operation: wire.OperationInReply(req.Operation), Code: galgo.CodeTransientNotAccepted})
	}
	e.onData(p.Group, func(d *shard.Data) {
		generation, bound, ok := d.Oldest(vsr.GroupID(p.Group), int(min(m.Segments, segmentsAtOnce)))
		if !ok {
			refuse()
			return
		}
		t.Group, t.Generation, t.Below, t.Until = p.Group, generation, bound.Below, bound.Until
		hand()
	}, refuse)
}

// segmentsAtOnce bounds the segments that one request deletes: as many as there can be.
const segmentsAtOnce = 1 << 20
