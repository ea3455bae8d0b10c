package metadata

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"galgo"
	"galgo/internal/wire"
)

// oracle is a second, naive machine: slices that are searched from front to back,
// and one plain list of all that a session was ever told. The property test wants
// the two to agree.
type oracle struct {
	revision, nextGroup uint64
	clientsMax          int
	op                  uint64 // of the last input
	users               []*oUser
	caller              *oClient // whose request is run
	streams             []*oStream
	clients             []*oClient
}

type oStream struct {
	id      uint32
	name    string
	created uint64
	topics  []*oTopic
}

type oTopic struct {
	id         uint32
	name       string
	created    uint64
	options    wire.TopicOptions
	partitions []*oPartition
	groups     []*oGroup
	nextGroup  uint32
}

type oPartition struct{ group, created, revision, purges, below, until uint64 }

type oGroup struct {
	id         uint32
	name       string
	generation uint64
	members    []*oMember
}

type oClient struct {
	id           galgo.ClientID
	slot, user   uint32
	epoch        uint64
	latestCommit uint64
	detached     bool
	home         Home
	told         []oTold // all of it; only the last RepliesMax may be given again
}

// oTold is an answer; request 0 is that to a Register.
type oTold struct {
	request uint64
	sum     [16]byte
	body    string
}

func pick[T any](list []*T, match func(*T) bool) *T {
	for _, e := range list {
		if match(e) {
			return e
		}
	}
	return nil
}

func without[T any](list []*T, gone *T) []*T {
	return slices.DeleteFunc(slices.Clone(list), func(e *T) bool { return e == gone })
}

func lowestUnused[T any](list []*T, idOf func(*T) uint32) uint32 {
	for n := uint32(0); ; n++ {
		if pick(list, func(e *T) bool { return idOf(e) == n }) == nil {
			return n
		}
	}
}

func matches(id galgo.Identifier, n uint32, name string) bool {
	return id == galgo.NumericID(n) || id == galgo.NamedID(name)
}

func (o *oracle) stream(id galgo.Identifier) *oStream {
	return pick(o.streams, func(s *oStream) bool { return matches(id, s.id, s.name) })
}

func (s *oStream) topic(id galgo.Identifier) *oTopic {
	return pick(s.topics, func(t *oTopic) bool { return matches(id, t.id, t.name) })
}

func (o *oracle) find(stream, topic galgo.Identifier) (*oStream, *oTopic, galgo.Code) {
	s := o.stream(stream)
	if s == nil {
		return nil, nil, galgo.CodeStreamIDNotFound
	}
	t := s.topic(topic)
	if t == nil {
		return s, nil, galgo.CodeTopicIDNotFound
	}
	return s, t, galgo.CodeOK
}

// admit is what a primary should refuse.
func (o *oracle) admit(req any) galgo.Code {
	var err error
	switch req := req.(type) {
	case wire.CreateTopicRequest:
		if req.Partitions > 1000 {
			return galgo.CodeTooManyPartitions
		}
		_, err = wire.ParseTopicOptions(req.Options, req.Partitions)
	case wire.UpdateTopicRequest:
		_, err = wire.DefaultTopicOptions().Update(req.Options)
		if code, _ := galgo.CodeOf(err); code == galgo.CodeInvalidTopicSize {
			err = nil
		}
		if _, t, code := o.find(req.Stream, req.Topic); err == nil && code == galgo.CodeOK {
			_, err = t.options.Update(req.Options)
		}
	case wire.PartitionsRequest:
		if req.Count < 1 || req.Count > 1000 {
			return galgo.CodeTooManyPartitions
		}
	case wire.UpdateUserRequest:
		if len(req.Options) > 0 {
			return galgo.CodeUnsupportedOptionKey
		}
	}
	code, _ := galgo.CodeOf(err)
	return code
}

// run is what a committed request should do and answer.
func (o *oracle) run(op wire.Operation, req any, client galgo.ClientID, user uint32, now uint64) (galgo.Code, wire.Body) {
	switch req := req.(type) {
	case oJoin:
		return o.joinGroup(req, client, user, now), nil
	case Truncation:
		return o.truncate(req, user), nil
	case wire.CreateStreamRequest:
		return o.createStream(req, user, now)
	case wire.UpdateStreamRequest, wire.StreamRequest:
		return o.onStream(op, req, user), nil
	case wire.CreateTopicRequest:
		return o.createTopic(req, user, now)
	case wire.UpdateTopicRequest:
		return o.updateTopic(req, user), nil
	case wire.TopicRequest:
		return o.onTopic(op, req, user), nil
	case wire.PartitionsRequest:
		return o.onPartitions(op, req, user, now), nil
	case wire.CreateGroupRequest:
		return o.createGroup(req, user)
	case wire.GroupRequest:
		if op == wire.OperationLeaveConsumerGroup {
			return o.leaveGroup(req, client, user), nil
		}
		return o.deleteGroup(req, user), nil
	default:
		return o.runUsers(req, user, now)
	}
}

func (o *oracle) createStream(req wire.CreateStreamRequest, user uint32, now uint64) (galgo.Code, wire.Body) {
	if !o.may(user, RuleCreateStream, 0, 0) {
		return galgo.CodeUnauthorized, nil
	}
	if o.stream(galgo.NamedID(req.Name)) != nil {
		return galgo.CodeStreamNameAlreadyExists, nil
	}
	s := &oStream{lowestUnused(o.streams, func(s *oStream) uint32 { return s.id }), req.Name, now, nil}
	o.streams = append(o.streams, s)
	return galgo.CodeOK, wire.StreamDetails{StreamInfo: wire.StreamInfo{ID: s.id, Name: s.name, CreatedAt: now}}
}

func (o *oracle) onStream(op wire.Operation, req any, user uint32) galgo.Code {
	var id galgo.Identifier
	update, isUpdate := req.(wire.UpdateStreamRequest)
	if isUpdate {
		id = update.Stream
	} else {
		id = req.(wire.StreamRequest).Stream
	}
	s := o.stream(id)
	if s == nil {
		return galgo.CodeStreamIDNotFound
	}
	if !o.may(user, RuleManageStream, s.id, 0) {
		return galgo.CodeUnauthorized
	}
	switch op {
	case wire.OperationUpdateStream:
		if other := o.stream(galgo.NamedID(update.Name)); other != nil && other != s {
			return galgo.CodeStreamNameAlreadyExists
		}
		s.name = update.Name
	case wire.OperationDeleteStream:
		o.streams = without(o.streams, s)
		o.revision++
	case wire.OperationPurgeStream:
		purged := 0
		for _, t := range s.topics {
			purged += t.purge()
		}
		if purged > 0 {
			o.revision++
		}
	}
	return galgo.CodeOK
}

func (t *oTopic) purge() int {
	for _, p := range t.partitions {
		p.purges++
		p.below, p.until = 0, 0
	}
	return len(t.partitions)
}

func (o *oracle) grow(t *oTopic, count uint32, now uint64) {
	o.revision++
	for range count {
		t.partitions = append(t.partitions, &oPartition{group: o.nextGroup, created: now, revision: o.revision})
		o.nextGroup++
	}
}

func (o *oracle) createTopic(req wire.CreateTopicRequest, user uint32, now uint64) (galgo.Code, wire.Body) {
	s := o.stream(req.Stream)
	if s == nil {
		return galgo.CodeStreamIDNotFound, nil
	}
	if !o.may(user, RuleCreateTopic, s.id, 0) {
		return galgo.CodeUnauthorized, nil
	}
	if s.topic(galgo.NamedID(req.Name)) != nil {
		return galgo.CodeTopicNameAlreadyExists, nil
	}
	options, err := wire.ParseTopicOptions(req.Options, req.Partitions)
	if err != nil {
		panic(err)
	}
	t := &oTopic{id: lowestUnused(s.topics, func(t *oTopic) uint32 { return t.id }), name: req.Name, created: now, options: options}
	s.topics = append(s.topics, t)
	o.grow(t, req.Partitions, now)
	d := wire.TopicDetails{TopicInfo: wire.TopicInfo{
		ID: t.id, Name: t.name, CreatedAt: now, MessageExpiry: options.MessageExpiry, Compression: options.Compression,
		MaxTopicSize: options.MaxTopicSize, Options: options.AppendExplicit(nil), DerivedOptions: options.AppendDerived(nil),
	}}
	for i := range t.partitions {
		d.Partitions = append(d.Partitions, wire.PartitionInfo{ID: uint32(i), CreatedAt: now})
	}
	return galgo.CodeOK, d
}

func (o *oracle) updateTopic(req wire.UpdateTopicRequest, user uint32) galgo.Code {
	s, t, code := o.find(req.Stream, req.Topic)
	if code != galgo.CodeOK {
		return code
	}
	if !o.may(user, RuleManageTopic, s.id, t.id) {
		return galgo.CodeUnauthorized
	}
	if other := s.topic(galgo.NamedID(req.Name)); other != nil && other != t {
		return galgo.CodeTopicNameAlreadyExists
	}
	options, err := t.options.Update(req.Options)
	if code, ok := galgo.CodeOf(err); ok {
		return code
	}
	t.name, t.options = req.Name, options
	return galgo.CodeOK
}

func (o *oracle) onTopic(op wire.Operation, req wire.TopicRequest, user uint32) galgo.Code {
	s, t, code := o.find(req.Stream, req.Topic)
	if code != galgo.CodeOK {
		return code
	}
	if !o.may(user, RuleManageTopic, s.id, t.id) {
		return galgo.CodeUnauthorized
	}
	if op == wire.OperationDeleteTopic {
		s.topics = without(s.topics, t)
		o.revision++
	} else if t.purge() > 0 {
		o.revision++
	}
	return galgo.CodeOK
}

func (o *oracle) onPartitions(op wire.Operation, req wire.PartitionsRequest, user uint32, now uint64) galgo.Code {
	s, t, code := o.find(req.Stream, req.Topic)
	if code != galgo.CodeOK {
		return code
	}
	if !o.may(user, RuleManageTopic, s.id, t.id) {
		return galgo.CodeUnauthorized
	}
	if op == wire.OperationCreatePartitions {
		o.grow(t, req.Count, now)
	} else {
		keep := len(t.partitions) - int(req.Count)
		if keep < 0 {
			return galgo.CodeInvalidPartitionsCount
		}
		t.partitions = t.partitions[:keep:keep]
		o.revision++
	}
	for _, g := range t.groups {
		g.dealAll(len(t.partitions))
	}
	return galgo.CodeOK
}

func (o *oracle) createGroup(req wire.CreateGroupRequest, user uint32) (galgo.Code, wire.Body) {
	s, t, code := o.find(req.Stream, req.Topic)
	if code != galgo.CodeOK {
		return code, nil
	}
	if !o.may(user, RuleGetTopic, s.id, t.id) {
		return galgo.CodeUnauthorized, nil
	}
	if pick(t.groups, func(g *oGroup) bool { return g.name == req.Name }) != nil {
		return galgo.CodeConsumerGroupNameAlreadyExists, nil
	}
	g := &oGroup{id: t.nextGroup, name: req.Name}
	t.nextGroup++
	t.groups = append(t.groups, g)
	return galgo.CodeOK, wire.ConsumerGroupDetails{GroupInfo: wire.GroupInfo{
		ID: g.id, Name: g.name, PartitionsCount: uint32(len(t.partitions)),
	}}
}

func (o *oracle) deleteGroup(req wire.GroupRequest, user uint32) galgo.Code {
	s, t, code := o.find(req.Stream, req.Topic)
	if code != galgo.CodeOK {
		return code
	}
	if !o.may(user, RuleGetTopic, s.id, t.id) {
		return galgo.CodeUnauthorized
	}
	g := pick(t.groups, func(g *oGroup) bool { return matches(req.Group, g.id, g.name) })
	if g == nil {
		return galgo.CodeConsumerGroupIDNotFound
	}
	t.groups = without(t.groups, g)
	o.revision++
	return galgo.CodeOK
}

func (o *oracle) client(id galgo.ClientID) *oClient {
	return pick(o.clients, func(c *oClient) bool { return c.id == id })
}

// check returns the verdict and, for a duplicate, the answer.
func (o *oracle) check(id galgo.ClientID, session, request uint64, sum [16]byte) (VerdictKind, string) {
	c := o.client(id)
	switch {
	case c == nil:
		return VerdictNoSession, ""
	case session < c.epoch:
		return VerdictFenced, ""
	case session > c.epoch:
		return VerdictEpochAhead, ""
	case request > c.watermark():
		return VerdictNew, ""
	}
	ring := c.told[max(0, len(c.told)-RepliesMax):]
	for _, told := range ring {
		if told.request == request {
			if told.sum != sum {
				return VerdictChecksumMismatch, ""
			}
			return VerdictDuplicate, told.body
		}
	}
	return VerdictAlreadyApplied, ""
}

func (c *oClient) watermark() (highest uint64) {
	for _, told := range c.told {
		highest = max(highest, told.request)
	}
	return highest
}

func (o *oracle) login(id galgo.ClientID, user uint32, by Credential, now uint64) (login Login, ended []galgo.ClientID) {
	op, c := o.op, o.client(id)
	if refused := o.credential(user, by, now); refused != 0 {
		return refused, nil
	}
	switch {
	case c != nil && c.user != user:
		return LoginOtherUser, nil
	case c == nil:
		ended = o.shrink(o.clientsMax - 1)
		c = &oClient{id: id, user: user, slot: lowestUnused(o.clients, func(c *oClient) uint32 { return c.slot })}
		o.clients = append(o.clients, c)
	default:
		o.gone(id)
	}
	// The answer to the former Register goes, wherever it is.
	c.told = slices.DeleteFunc(c.told[max(0, len(c.told)-RepliesMax):], func(t oTold) bool { return t.request == 0 })
	c.told = append(c.told, oTold{})
	c.epoch, c.latestCommit, c.detached, c.home = op, op, false, by.Home
	return LoginAccepted, ended
}

func (o *oracle) shrink(limit int) (ended []galgo.ClientID) {
	for len(o.clients) > limit {
		sort.Slice(o.clients, func(i, j int) bool {
			a, b := o.clients[i], o.clients[j]
			if a.detached != b.detached {
				return a.detached
			}
			return a.latestCommit < b.latestCommit
		})
		ended = append(ended, o.clients[0].id)
		o.gone(o.clients[0].id)
		o.clients = slices.Clone(o.clients[1:])
	}
	return ended
}

// dump prints all that the oracle knows, in the order of ids.
func (o *oracle) dump() string {
	var b strings.Builder
	fmt.Fprintf(&b, "revision %d next group %d clients max %d\n", o.revision, o.nextGroup, o.clientsMax)
	o.dumpUsers(&b)
	sort.Slice(o.streams, func(i, j int) bool { return o.streams[i].id < o.streams[j].id })
	for _, s := range o.streams {
		fmt.Fprintf(&b, "stream %d %q %d topics %d\n", s.id, s.name, s.created, len(s.topics))
		sort.Slice(s.topics, func(i, j int) bool { return s.topics[i].id < s.topics[j].id })
		for _, t := range s.topics {
			fmt.Fprintf(&b, " topic %d %q %d next group %d\n  %v\n", t.id, t.name, t.created, t.nextGroup, t.options)
			for i, p := range t.partitions {
				fmt.Fprintf(&b, "  partition %d group %d %d revision %d purges %d below %d until %d\n", i, p.group, p.created, p.revision, p.purges, p.below, p.until)
			}
			for _, g := range t.groups {
				g.dump(&b)
			}
		}
	}
	sort.Slice(o.clients, func(i, j int) bool { return o.clients[i].slot < o.clients[j].slot })
	for _, c := range o.clients {
		fmt.Fprintf(&b, "client %d %x user %d epoch %d watermark %d latest %d detached %t home %v\n",
			c.slot, c.id[:1], c.user, c.epoch, c.watermark(), c.latestCommit, c.detached, c.home)
	}
	return b.String()
}

// dumpView prints a view the same way.
func dumpView(v *View) string {
	var b strings.Builder
	fmt.Fprintf(&b, "revision %d next group %d clients max %d\n", v.Revision(), v.s.nextGroup, v.Settings().ClientsMax)
	dumpViewUsers(&b, v)
	for s := range v.Streams() {
		fmt.Fprintf(&b, "stream %d %q %d topics %d\n", s.ID, s.Name, s.CreatedAt, s.Topics)
		for t := range v.Topics(s) {
			fmt.Fprintf(&b, " topic %d %q %d next group %d\n  %v\n", t.ID, t.Name, t.CreatedAt, t.NextConsumerGroup, t.Options)
			for p := range v.Partitions(t) {
				fmt.Fprintf(&b, "  partition %d group %d %d revision %d purges %d below %d until %d\n", p.ID, p.Group, p.CreatedAt, p.CreatedRevision, p.PurgeGeneration, p.DeletedBelow, p.DeletedUntil)
			}
			for g := range v.ConsumerGroups(t) {
				dumpGroup(&b, g)
			}
		}
	}
	for c := range v.Clients() {
		fmt.Fprintf(&b, "client %d %x user %d epoch %d watermark %d latest %d detached %t home %v\n",
			c.Slot, c.ID[:1], c.User, c.Epoch, c.Watermark, c.LatestCommit, c.Detached, c.Home)
	}
	return b.String()
}
