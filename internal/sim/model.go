package sim

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"sort"

	"galgo"
	"galgo/internal/metadata"
	"galgo/internal/partition"
	"galgo/internal/vsr"
	"galgo/internal/wire"
)

// model is what must be true. It is made of what replicas apply: the first to apply
// an op of a group makes it chosen for ever, and all others are held to that. What
// a group holds at each op follows from the bodies, by code that shares nothing with
// the machines but the metadata's, which runs here once more.
type model struct {
	w      *world
	groups map[vsr.GroupID]*groupModel
	order  []*groupModel // as they came up

	metadata *metadata.Machine
	results  []metadataResult // by op - 1
	users    userLedger
}

// groupModel is the log of one group, and what follows from it.
type groupModel struct {
	id     vsr.GroupID
	chosen []imprint // by op - 1

	sends       []storedSend
	purges      []storedPurge
	truncations []storedTruncation
	asked       map[uint64]vsr.Op // by offset below which segments are to go: the head then
	offsets     map[consumerKey][]storedOffset
	claims      map[uint32][]claimed // by consumer group
	next        uint64               // offset of the next message
	time        uint64
	acked       vsr.Op // highest that a client was answered for
	answers     []timedOp
	due         vsr.Op      // the last of them that is long ago
	beginnings  []beginning // by view

	volatile bool // a power loss of a single node may take its end
	forgot   bool // and has
}

// imprint tells one prepare from another without trusting the identities of the system.
type imprint struct {
	identity vsr.Identity
	bytes    uint64
}

func (i imprint) String() string { return fmt.Sprintf("%v (%08x)", i.identity, i.bytes>>32) }

func imprintOf(p *vsr.Prepare) imprint {
	var head [vsr.HeaderSize]byte
	p.PutHeader(head[:])
	sum := crc32.Update(crc32.Checksum(head[:], castagnoli), castagnoli, p.Body)
	return imprint{p.Identity, uint64(sum)<<32 | uint64(len(p.Body))}
}

type storedSend struct {
	op         vsr.Op
	generation uint64
	base       uint64
	send       *sendRecord
}

type storedPurge struct {
	op         vsr.Op
	generation uint64
}

type consumerKey struct {
	kind galgo.ConsumerKind
	key  uint32
}

// storedOffset is what a consumer's offset is from an op on.
type storedOffset struct {
	op    vsr.Op
	value uint64
	set   bool
	by    galgo.ClientID
}

// claimed is since when the member has a partition that claimed it for its consumer group.
type claimed struct {
	op    vsr.Op
	since uint64
}

// metadataResult is what an op of the metadata group did.
type metadataResult struct {
	client    galgo.ClientID
	request   uint64
	operation wire.Operation // as in the log: wire.OperationInReply of a client's
	time      int64          // when it was first applied anywhere
	output    metadata.Output
	hash      uint64 // of the state after it
}

func newModel(w *world) *model {
	return &model{w: w, groups: map[vsr.GroupID]*groupModel{}, metadata: metadata.New(), users: newUserLedger()}
}

func (m *model) group(id vsr.GroupID) *groupModel {
	g := m.groups[id]
	if g == nil {
		g = &groupModel{id: id, offsets: map[consumerKey][]storedOffset{}, claims: map[uint32][]claimed{}}
		m.groups[id] = g
		m.order = append(m.order, g)
	}
	return g
}

// head is the last op that anybody has applied.
func (g *groupModel) head() vsr.Op { return vsr.Op(len(g.chosen)) }

// applies takes note that a replica is about to apply an op.
func (m *model) applies(n *node, p *vsr.Prepare) {
	g := m.group(p.Group)
	m.w.cover.Applied++
	if was, ok := n.applied[p.Group]; ok && p.Op != was+1 && !n.installed(p.Group, p.Op) {
		m.w.fail("order", "node %d applies op %d of group %d after op %d", n.id, p.Op, p.Group, was)
	}
	n.applied[p.Group] = p.Op
	switch head := g.head(); {
	case p.Op == 0 || p.Op > head+1:
		m.w.fail("order", "node %d applies op %d of group %d, nobody has applied op %d", n.id, p.Op, p.Group, head+1)
	case p.Op <= head:
		if was, is := g.chosen[p.Op-1], imprintOf(p); was != is {
			m.w.fail("agreement", "node %d applies %v at op %d of group %d, where %v was applied before", n.id, is, p.Op, p.Group, was)
		}
	default:
		g.chosen = append(g.chosen, imprintOf(p))
		m.learn(g, p)
	}
}

// learn follows what a newly chosen op does.
func (m *model) learn(g *groupModel, p *vsr.Prepare) {
	if p.Group == vsr.MetadataGroup {
		m.learnMetadata(p)
		return
	}
	var err error
	switch p.Operation {
	case partition.OpSend:
		err = m.learnSend(g, p)
	case partition.OpStoreOffset:
		var s partition.StoreOffset
		if s, err = partition.DecodeStoreOffset(p.Body); err == nil {
			m.learnStore(g, p, s)
		}
	case partition.OpDeleteOffset:
		var d partition.DeleteOffset
		if d, err = partition.DecodeDeleteOffset(p.Body); err == nil {
			g.delete(p.Op, d)
		}
	case partition.OpClaim:
		var c partition.Claim
		if c, err = partition.DecodeClaim(p.Body); err == nil {
			g.claim(p.Op, galgo.ConsumerGroup, c.Key, c.Tenure)
		}
	case partition.OpPurge:
		var generation uint64
		if generation, err = partition.DecodePurge(p.Body); err == nil {
			g.purge(p.Op, generation)
		}
	case partition.OpTruncate:
		var upTo uint64
		if upTo, err = partition.DecodeTruncate(p.Body); err == nil {
			m.truncate(g, p.Op, upTo)
		}
	}
	if err != nil {
		m.w.fail("log", "op %d of group %d: %v", p.Op, p.Group, err)
	}
}

func (m *model) learnMetadata(p *vsr.Prepare) {
	m.w.cover.MetadataApplied++
	before := m.metadata.View()
	out := m.metadata.Apply(metadata.Input{
		Op: uint64(p.Op), Timestamp: p.Timestamp, Operation: wire.Operation(p.Operation), Client: p.Client,
		Session: p.Session, Request: p.Request, RequestSum: p.RequestSum, User: p.User, Body: p.Body,
	})
	m.learnUsers(p, before, &out)
	for _, change := range out.Changes {
		switch change.Kind {
		case metadata.GroupCreated:
			m.born(change.Group)
		case metadata.GroupTruncated:
			m.group(vsr.GroupID(change.Group)).ask(change.Below)
		}
	}
	if p.Operation == uint8(wire.OperationCompleteGroupRevocation) {
		m.w.cover.HandOvers++
	}
	m.w.checks.groups(m.metadata.View())
	m.results = append(m.results, metadataResult{p.Client, p.Request, wire.Operation(p.Operation), m.w.now, out, hashOf(m.metadata.View())})
}

// hashOf sums up what the metadata is: the bytes of a snapshot of it.
func hashOf(v *metadata.View) uint64 { return sum64(v.EncodeState()) ^ sum64(v.EncodeClients())<<1 }

func sum64(b []byte) uint64 {
	h := uint64(14695981039346656037)
	for len(b) >= 8 {
		h = (h ^ binary.LittleEndian.Uint64(b)) * 1099511628211
		h ^= h >> 32
		b = b[8:]
	}
	for _, c := range b {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h
}

// learnSend checks that offsets are dense and times grow, and gives the batch to
// the send that it came from.
func (m *model) learnSend(g *groupModel, p *vsr.Prepare) error {
	batch, rest, err := wire.SplitBatch(p.Body)
	if err == nil {
		err = batch.Validate()
	}
	if err != nil || len(rest) > 0 {
		return fmt.Errorf("no batch (%d bytes after it): %w", len(rest), err)
	}
	s, count, err := m.w.crowd.sendOf(batch)
	if err != nil {
		return err
	}
	if base := batch.BaseOffset(); base != g.next || p.Offset != g.next {
		m.w.fail("offsets", "op %d of group %d: batch at offset %d, prepare at %d, the partition ends at %d", p.Op, g.id, base, p.Offset, g.next)
	}
	if batch.BaseTimestamp() <= g.time {
		m.w.fail("offsets", "op %d of group %d is stamped %d, the batch before %d", p.Op, g.id, batch.BaseTimestamp(), g.time)
	}
	g.time = batch.BaseTimestamp()
	g.sends = append(g.sends, storedSend{op: p.Op, generation: g.generation(), base: g.next, send: s})
	g.next += uint64(count)
	m.w.checks.stored(g, p.Op, s, batch.BaseOffset())
	return nil
}

func (g *groupModel) generation() uint64 { return g.generationAt(g.head()) }

// generationAt is that of the last purge up to an op.
func (g *groupModel) generationAt(op vsr.Op) uint64 {
	i := sort.Search(len(g.purges), func(i int) bool { return g.purges[i].op > op })
	if i == 0 {
		return 0
	}
	return g.purges[i-1].generation
}

func (g *groupModel) purge(op vsr.Op, generation uint64) {
	if generation <= g.generation() {
		return
	}
	g.purges = append(g.purges, storedPurge{op, generation})
	g.next = 0
	// order-free: each consumer gets an entry of its own.
	for k := range g.offsets {
		g.offsets[k] = append(g.offsets[k], storedOffset{op: op})
	}
}

// learnStore follows a stored offset. No member of a consumer group takes back what another
// has committed: it goes on where that one was.
func (m *model) learnStore(g *groupModel, p *vsr.Prepare, s partition.StoreOffset) {
	k := consumerKey{s.Kind, s.Key}
	was := g.offsetAt(k, p.Op)
	if !g.store(p.Op, k, s, p.Client) || s.Kind != galgo.ConsumerGroup || g.forgot {
		return
	}
	if was.set && s.Offset < was.value && was.by != p.Client {
		m.w.fail("members", "op %d of group %d: %v commits offset %d in consumer group %d, where %v has committed %d",
			p.Op, g.id, p.Client, s.Offset, s.Key, was.by, was.value)
	}
}

// store follows a stored offset. What is above the last message is refused, when it
// is applied too, and so is what comes from a member that had the partition before.
func (g *groupModel) store(op vsr.Op, k consumerKey, s partition.StoreOffset, by galgo.ClientID) (stored bool) {
	was := g.offsetAt(k, op)
	if !g.claim(op, s.Kind, s.Key, s.Tenure) || s.Offset >= g.next || s.Monotone && was.set && s.Offset <= was.value {
		return false
	}
	g.offsets[k] = append(g.offsets[k], storedOffset{op: op, value: s.Offset, set: true, by: by})
	return true
}

func (g *groupModel) delete(op vsr.Op, d partition.DeleteOffset) {
	if d.Tenure == partition.Forever {
		g.claims[d.Key] = append(g.claims[d.Key], claimed{op: op})
	} else if !g.claim(op, d.Kind, d.Key, d.Tenure) {
		return
	}
	k := consumerKey{d.Kind, d.Key}
	g.offsets[k] = append(g.offsets[k], storedOffset{op: op})
}

// claim follows who was the last to have the partition for a consumer group and to write
// anything: whoever had it before may not write any more.
func (g *groupModel) claim(op vsr.Op, kind galgo.ConsumerKind, key uint32, since uint64) (may bool) {
	if kind != galgo.ConsumerGroup {
		return true
	}
	var last uint64
	if all := g.claims[key]; len(all) > 0 {
		last = all[len(all)-1].since
	}
	if since > last {
		g.claims[key] = append(g.claims[key], claimed{op, since})
	}
	return since >= last
}

// offsetAt is a consumer's offset as of an op.
func (g *groupModel) offsetAt(k consumerKey, op vsr.Op) storedOffset {
	all := g.offsets[k]
	i := sort.Search(len(all), func(i int) bool { return all[i].op > op })
	if i == 0 {
		return storedOffset{}
	}
	return all[i-1]
}

// at returns the batches of a group as of an op, oldest first, and the offset after
// them.
func (g *groupModel) at(op vsr.Op) (sends []storedSend, next uint64) {
	to := sort.Search(len(g.sends), func(i int) bool { return g.sends[i].op > op })
	generation := g.generationAt(op)
	from := sort.Search(to, func(i int) bool { return g.sends[i].generation >= generation })
	if sends = g.sends[from:to]; len(sends) > 0 {
		last := sends[len(sends)-1]
		next = last.base + uint64(last.send.count)
	}
	return sends, next
}

// goal is an op that a replica has to reach before it counts as whole again.
type goal struct {
	group vsr.GroupID
	op    vsr.Op
}

// goals are all groups as far as anybody knows them.
func (m *model) goals() (all []goal) {
	for _, g := range m.order {
		all = append(all, goal{g.id, g.head()})
	}
	return all
}

// lives reports whether the metadata, at its newest, has a group.
func (m *model) lives(id vsr.GroupID) bool {
	_, ok := m.metadata.View().PartitionOf(uint64(id))
	return ok
}
