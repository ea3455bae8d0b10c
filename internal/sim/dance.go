package sim

import (
	"math/rand/v2"
	"slices"

	"galgo/internal/metadata"
	"galgo/internal/shard"
	"galgo/internal/vsr"
)

// A dance is a series of steps around one group, so that what needs several misfortunes
// in a row happens more than once in a thousand runs: two ops for one place, a log that
// only one replica has, a vote that comes too late. A step waits until somebody says
// something of a certain kind, lets only some of those hear it whom it is for, and
// strikes: one of those concerned is cut off, killed or loses its disk, and at the same
// moment whoever was cut off before is let in again. Clients press on the group all the
// time. Most dances are one of the figures; the others are made of any steps.
type dance struct {
	s     *nemesis
	rng   *rand.Rand
	group vsr.GroupID
	name  string
	steps []step
	trap  *trap
	begun bool              // the first step was taken: first and second are known
	first uint8             // who spoke then
	other uint8             // who heard it
	op    vsr.Op            // what it was about
	cut   map[[2]uint8]bool // beside that of the network
	eyed  *node             // whom clients read from most
	said  map[vsr.GroupID]spoken
	hush  bool // clients ask for nothing
	gaze  bool // clients only read, from whom they look at
	grows bool // clients press for partitions that come and go
	alone bool // nothing else goes wrong
}

// spoken is the last op of a group that was spoken of, and the commit point that its
// prepare or one before it names.
type spoken struct{ op, commit vsr.Op }

// step of a dance.
type step struct {
	kind    vsr.MessageKind
	birth   bool // the first op of any partition that all nodes have
	fresh   bool // it is of an op that was not spoken of before
	news    bool // it tells those who may hear it of a commit point that they do not know
	by      role // who has to say it: first, second, or anybody
	reaches bool // it is of the op of the first step, or of a later one
	until   bool // whoever else says it is cut off: the step lasts until it is the turn of by
	quiet   bool // clients ask for nothing until it is over
	reading bool // clients only read until it is over, from whom they look at
	unseen  bool // nobody sees the connections break of who is harmed
	mute    bool // nor those that are cut
	hears   int  // how many of those whom it is for
	cut     role // who is cut off
	hit     role // who is harmed
	harm    harm
	lag     role  // whose disk does nothing but the logs from then on
	eye     role  // whom clients look at from then on
	wait    bool  // until it has arrived
	echo    bool  // old answers come to who speaks
	before  int64 // µs until it begins
}

// role in a step.
type role uint8

const (
	nobody role = iota
	speaker
	hearer    // one who hears it or, if nobody does, one it was for
	bystander // one of the others
	between2  // speaker and bystander hear nothing of each other
	theFirst  // the speaker of the first step
	theSecond // the hearer of the first step
	letIn     // nobody, and who was cut off before is let in
)

type harm uint8

const (
	unharmed harm = iota
	killed
	powerless
	blackout // powerless, and all that was not synced is gone
	robbed   // of its disk
	anyHarm
)

// all receivers.
const all = 99

// figure is a dance that is known.
type figure struct {
	name   string
	around floor
	alone  bool // nothing else goes wrong meanwhile: it needs more steps than misfortune leaves time for
	steps  []step
}

// floor says around which groups a figure goes.
type floor uint8

const (
	anyGroup      floor = iota
	metadataGroup       // and clients press for partitions that come and go
	partitions
)

// figures are dances that are known to be dangerous.
var figures = []figure{
	{name: "three logs", steps: []step{ // the latest of them is not the one with the latest op
		{kind: vsr.MessagePrepare, cut: speaker},
		{kind: vsr.MessageStartView, cut: speaker},
		{kind: vsr.MessagePrepareOk, hears: all, cut: hearer},
		{kind: vsr.MessageStartView, hears: all, before: 20 * millisecond},
	}},
	{name: "an answer to another question", steps: []step{ // the body of an op that is not wanted any more
		{kind: vsr.MessagePrepare, cut: bystander, hit: speaker, harm: killed, wait: true},
		{kind: vsr.MessageRepairPrepare, cut: speaker},
		{kind: vsr.MessagePrepare},
		{kind: vsr.MessageRequestPrepares, hears: all, echo: true},
		{kind: vsr.MessagePrepareOk, hears: all, cut: hearer},
	}},
	{name: "a part of a log", steps: []step{ // one that is replaced holds less than before
		{kind: vsr.MessagePrepare, hears: all, cut: bystander},
		{kind: vsr.MessagePrepareOk, hears: all, cut: between2, hit: speaker, harm: robbed, wait: true, before: 60 * millisecond},
		{kind: vsr.MessageRepairPrepare, hears: all, cut: speaker, hit: hearer, harm: anyHarm, wait: true},
		{kind: vsr.MessageStartView, hears: all},
	}},
	{name: "a part of a young log", alone: true, steps: []step{ // the same in the first view, which leaves no record of its own
		{kind: vsr.MessagePrepare, birth: true, hears: 1, cut: between2},
		{kind: vsr.MessagePrepareOk, by: theSecond, hears: all, hit: speaker, harm: robbed, wait: true, unseen: true, before: 60 * millisecond},
		{kind: vsr.MessageRepairPrepare, by: theFirst, hears: 1, cut: speaker, hit: theSecond, harm: killed, wait: true, unseen: true},
		{kind: vsr.MessageStartView, hears: all},
		{kind: vsr.MessagePrepareOk, hears: all, wait: true},
	}},
	{name: "a birth", steps: []step{ // the first primary forgets what it has begun
		{kind: vsr.MessagePrepare, birth: true, hears: 1, hit: speaker, harm: blackout, unseen: true},
		{kind: vsr.MessagePrepare, by: theFirst, hears: all, wait: true, before: 5 * millisecond},
		{kind: vsr.MessageCommit, hears: all, wait: true},
	}},
	{name: "what a start took for committed", around: metadataGroup, alone: true, steps: []step{ // it learned that of an op which a view drops
		{kind: vsr.MessagePrepare, fresh: true, news: true, hears: 1, cut: hearer, lag: hearer, hit: speaker, harm: blackout},
		{kind: vsr.MessagePrepareOk, by: theSecond, reaches: true, hit: speaker, harm: blackout, quiet: true},
		{kind: vsr.MessageDoViewChange, hears: all, cut: letIn, quiet: true},
		{kind: vsr.MessagePrepareOk, by: theSecond, hit: speaker, harm: anyHarm, quiet: true},
		{kind: vsr.MessageStartView, hears: all},
	}},
	{name: "a forgotten vote", steps: []step{ // who voted is replaced, and its vote comes late
		{kind: vsr.MessagePrepare, cut: speaker},
		{kind: vsr.MessageDoViewChange, cut: hearer, hit: speaker, harm: robbed},
		{kind: vsr.MessagePrepareOk, hears: all, cut: hearer, wait: true, before: 20 * millisecond},
		{kind: vsr.MessageStartViewChange, hears: all, echo: true},
	}},
	{name: "a forgotten view", steps: []step{ // who acknowledged in a view is replaced, and meets the one before
		{kind: vsr.MessagePrepare, cut: speaker},
		{kind: vsr.MessagePrepareOk, hears: all, cut: hearer, hit: speaker, harm: robbed, wait: true},
		{kind: vsr.MessagePrepareOk, hears: all, before: 20 * millisecond},
	}},
	{name: "a reader goes back", steps: []step{ // only one has heard what is committed, and forgets it
		{kind: vsr.MessageCommit, hears: 1, cut: speaker, hit: hearer, harm: anyHarm, wait: true, before: 10 * millisecond},
		{kind: vsr.MessageStartView, hears: all},
		{kind: vsr.MessagePrepareOk, cut: bystander, wait: true},
	}},
	{name: "a silence", around: partitions, alone: true, steps: []step{ // who was cut off hears its primary again, and has missed what others were answered
		{kind: vsr.MessageCommit, hears: 1, cut: hearer, eye: hearer, mute: true},
		{kind: vsr.MessageSuspect, by: theSecond},
		{kind: vsr.MessagePrepare, by: theFirst, fresh: true, hears: all},
		{kind: vsr.MessageCommit, by: theFirst, hears: all, cut: letIn, reading: true, before: 60 * millisecond},
		{kind: vsr.MessageCommit, by: theFirst, hears: all, reading: true, before: 150 * millisecond},
	}},
	{name: "an acknowledgement of another view", alone: true, steps: []step{ // who leads again is told of an op that it has lost
		{kind: vsr.MessagePrepare, fresh: true, hears: 1, cut: hearer, hit: speaker, harm: blackout},
		{kind: vsr.MessageStartView, by: theFirst, until: true, hears: all, quiet: true},
		{kind: vsr.MessagePrepare, by: theFirst, echo: true, cut: speaker, wait: true},
		{kind: vsr.MessageStartView, hears: all, before: 20 * millisecond},
		{kind: vsr.MessagePrepareOk, hears: all, wait: true},
	}},
	{name: "late acknowledgements", steps: []step{
		{kind: vsr.MessagePrepareOk, cut: hearer},
		{kind: vsr.MessageStartView, hears: all, echo: true},
		{kind: vsr.MessagePrepare, echo: true, cut: speaker, wait: true},
		{kind: vsr.MessageStartView, hears: all},
	}},
	{name: "a gap", steps: []step{ // one lags behind while views come and go
		{kind: vsr.MessagePrepare, hears: 1, cut: bystander},
		{kind: vsr.MessagePrepare, cut: speaker, before: 40 * millisecond},
		{kind: vsr.MessageStartView, hears: all, before: 5 * millisecond},
	}},
}

// longFigures are those that nothing disturbs: few of them come to their end, so they are
// drawn more often.
var longFigures = slices.DeleteFunc(slices.Clone(figures), func(f figure) bool { return !f.alone })

// trap waits for what a step is about.
type trap struct {
	step
	sprung bool
	op     vsr.Op
	at     int64
	from   uint8
	to     uint8
	heard  int
}

// trapKinds are what steps wait for that are drawn, the more telling ones more often.
var trapKinds = []vsr.MessageKind{
	vsr.MessagePrepare, vsr.MessagePrepare, vsr.MessagePrepare, vsr.MessagePrepare, vsr.MessagePrepare,
	vsr.MessagePrepareOk, vsr.MessagePrepareOk, vsr.MessagePrepareOk, vsr.MessageStartView, vsr.MessageStartView, vsr.MessageStartView,
	vsr.MessageDoViewChange, vsr.MessageDoViewChange, vsr.MessageStartViewChange, vsr.MessageCommit, vsr.MessageRequestPrepares,
	vsr.MessageRepairPrepare, vsr.MessageRequestChunk, vsr.MessageRequestStartView,
}

func drawStep(rng *rand.Rand) step {
	return step{
		kind: pick(rng, trapKinds...), hears: pick(rng, 0, 0, 1, 1, all), cut: pick(rng, nobody, speaker, speaker, speaker, hearer, bystander, between2),
		hit: pick(rng, nobody, nobody, speaker, hearer, bystander), harm: pick(rng, killed, powerless, powerless, anyHarm),
		wait: oneIn(rng, 2), echo: oneIn(rng, 3), before: pick(rng, 0, 0, between(rng, 0, 100*millisecond)),
	}
}

// beginDance starts one, and the next one when it is over.
func (s *nemesis) beginDance() {
	s.w.after(between(s.dancing, 10*millisecond, 250*millisecond), func() {
		if s.w.calm {
			return
		}
		d := &dance{s: s, rng: s.dancing, group: s.danceFloor(), name: "of any steps", cut: map[[2]uint8]bool{}, said: map[vsr.GroupID]spoken{}}
		if oneIn(d.rng, 4) {
			for range 3 + d.rng.IntN(8) {
				d.steps = append(d.steps, drawStep(d.rng))
			}
		} else {
			f := pick(d.rng, figures...)
			if oneIn(d.rng, 4) {
				f = pick(d.rng, longFigures...)
			}
			d.follow(f)
			if oneIn(d.rng, 4) {
				d.steps[d.rng.IntN(len(d.steps))] = drawStep(d.rng)
			}
		}
		s.dance = d
		d.gather(100)
		d.press()
	})
}

// follow makes the dance a figure.
func (d *dance) follow(f figure) {
	d.name, d.steps, d.alone = f.name, slices.Clone(f.steps), f.alone || oneIn(d.rng, 2)
	switch f.around {
	case metadataGroup:
		d.group, d.grows = vsr.MetadataGroup, true
	case partitions:
		for range 8 {
			if d.group == vsr.MetadataGroup {
				d.group = d.s.danceFloor()
			}
		}
	}
	if d.alone {
		d.s.relent()
	}
}

// gather waits until all nodes have come who may, and somebody leads the group.
func (d *dance) gather(patience int) {
	w := d.s.w
	ready := len(d.leaders()) == 1
	robs := slices.ContainsFunc(d.steps, func(s step) bool { return s.harm == robbed })
	for _, n := range w.nodes {
		ready = ready && (!robs || !n.rotten && !n.replaced) // else nobody may lose a disk
		if n.engine == nil && !w.calm {
			n.start()
		}
		s, ok := shard.Status{}, false
		if n.engine != nil {
			s, ok = n.status(d.group)
		}
		ready = ready && ok && s.Status == vsr.StatusNormal && s.State.View == s.State.LogView && !n.paused
	}
	if !ready && patience > 0 {
		w.after(10*millisecond, func() {
			if d.s.dance == d && w.failure == nil {
				d.gather(patience - 1)
			}
		})
		return
	}
	w.cover.deed(faultFork)
	w.say("a dance around group %d: %s", d.group, d.name)
	d.next()
}

// danceFloor draws the group: young ones have less behind them, so more can go wrong.
func (s *nemesis) danceFloor() vsr.GroupID {
	var groups []vsr.GroupID
	for p := range s.w.model.metadata.View().AllPartitions() {
		groups = append(groups, vsr.GroupID(p.Group))
	}
	if len(groups) == 0 || oneIn(s.dancing, 4) {
		return vsr.MetadataGroup
	}
	return groups[s.dancing.IntN(len(groups))]
}

// next sets the trap of the next step. If nobody walks into it the dance is over.
func (d *dance) next() {
	w := d.s.w
	if w.calm || len(d.steps) == 0 || d.group != vsr.MetadataGroup && !w.model.lives(d.group) {
		d.end()
		return
	}
	t := &trap{step: d.steps[0]}
	d.steps = d.steps[1:]
	d.hush, d.gaze = t.quiet, t.reading
	patience := int64(w.plan.timing.ElectionTicks+w.plan.timing.ViewChangeTicks) * 10 * millisecond
	if t.until {
		patience *= int64(len(w.nodes)) // each of them may lead before
	}
	w.after(t.before, func() {
		if d.s.dance == d {
			d.trap = t
		}
	})
	w.after(t.before+3*patience, func() {
		if d.s.dance == d && !t.sprung {
			w.say("nobody walks into the trap for %v", t.kind)
			d.end()
		}
	})
}

// sees looks at a message on its way and says whether it is lost. All that is said at
// one moment is one saying.
func (d *dance) sees(m *vsr.Message) (lost bool) {
	t := d.trap
	again := m.Kind == vsr.MessagePrepare && m.Op <= d.said[m.Group].op
	if p := m.Prepare; m.Kind == vsr.MessagePrepare && !again {
		d.s.w.after(0, func() { // what is said now is one saying
			d.said[p.Group] = spoken{max(d.said[p.Group].op, p.Op), max(d.said[p.Group].commit, p.Commit)}
		})
	}
	if again && t != nil && t.fresh && !t.sprung {
		return d.cut[[2]uint8{m.From, m.To}]
	}
	severed := d.cut[[2]uint8{m.From, m.To}]
	if severed && (t == nil || t.by == nobody) { // a step may wait for one who is cut off, if it names him
		return true
	}
	return d.hears(m) || severed
}

// hears holds a message against the trap and says whether it is lost there.
func (d *dance) hears(m *vsr.Message) (lost bool) {
	w, t := d.s.w, d.trap
	if t == nil || m.Kind != t.kind {
		return false
	}
	if awaited := t.birth && !t.sprung; awaited && !d.newborn(m) || !awaited && m.Group != d.group {
		return false
	}
	if who, named := d.named(t.by); named && m.From != who {
		d.passOver(t, m.From)
		return false
	}
	if t.reaches && m.Op < d.op || t.news && !t.sprung && !d.tellsNews(m) {
		return false
	}
	if !t.sprung {
		if t.birth {
			d.group = m.Group
		}
		t.sprung, t.at, t.from, t.to, t.op = true, w.now, m.From, m.To, m.Op
		w.after(0, func() { d.spring(t) })
	}
	if w.now != t.at || m.From != t.from {
		return t.hears == 0 && m.Op == t.op && d.trap == t // what is said again
	}
	if t.heard < t.hears && (t.hears == all || t.news && d.isNews(m, m.To) || !t.news && !oneIn(d.rng, 3)) {
		t.heard++
		t.to = m.To
		return false
	}
	return true
}

// newborn: the message carries the first op of a partition that all nodes have.
func (d *dance) newborn(m *vsr.Message) bool {
	if m.Group == vsr.MetadataGroup || m.Op != 1 {
		return false
	}
	return d.known(m.Group)
}

// known reports whether all nodes have a group.
func (d *dance) known(group vsr.GroupID) bool {
	for _, n := range d.s.w.nodes {
		if n.engine == nil {
			return false
		}
		if _, ok := n.status(group); !ok {
			return false
		}
	}
	return true
}

// tellsNews: what is said is news to one of those to whom it may be said.
func (d *dance) tellsNews(m *vsr.Message) bool {
	for to := range uint8(len(d.s.w.nodes)) {
		if to != m.From && d.isNews(m, to) {
			return true
		}
	}
	return false
}

// isNews: the message tells of a commit point that its receiver does not know and, in the
// metadata, beyond what other prepares tell, of a partition of which the receiver is the first primary: it writes down at
// once that it has begun with that.
func (d *dance) isNews(m *vsr.Message, receiver uint8) bool {
	to := d.s.w.nodes[receiver]
	if to.engine == nil {
		return false
	}
	s, ok := to.status(m.Group)
	if !ok || m.Prepare == nil || m.Prepare.Commit <= s.CommitMax {
		return false
	}
	results := d.s.w.model.results
	if m.Group != vsr.MetadataGroup || int(m.Prepare.Commit) > len(results) {
		return m.Group != vsr.MetadataGroup
	}
	known := min(max(s.CommitMax, d.said[m.Group].commit), m.Prepare.Commit)
	for _, r := range results[known:m.Prepare.Commit] {
		for _, c := range r.output.Changes {
			if c.Kind == metadata.GroupCreated && uint8(c.Group%uint64(len(d.s.w.nodes))) == receiver {
				return true
			}
		}
	}
	return false
}

// passOver cuts off somebody whose turn a step does not wait for.
func (d *dance) passOver(t *trap, who uint8) {
	if !t.until || t.sprung || d.cut[[2]uint8{who, d.first}] {
		return
	}
	d.s.w.after(0, func() {
		if d.s.dance == d && d.trap == t && !t.sprung {
			clear(d.cut)
			d.cutOff(who, false)
		}
	})
}

// spring strikes, at once or when the message has arrived.
func (d *dance) spring(t *trap) {
	w := d.s.w
	w.cover.Traps++
	wait := int64(0)
	if t.wait {
		wait = w.plan.network.delayMax + between(d.rng, 0, 20*millisecond)
	}
	if t.echo {
		w.echoes.all(t.from, d.group)
	}
	w.after(wait, func() {
		if d.s.dance != d || w.calm {
			return
		}
		d.trap = nil
		d.strike(t)
		d.next()
	})
}

// named are the roles that are given by the first step.
func (d *dance) named(r role) (uint8, bool) {
	switch r {
	case theFirst:
		return d.first, true
	case theSecond:
		return d.other, true
	}
	return 0, false
}

// is names who has a role.
func (d *dance) is(r role, t *trap) (uint8, bool) {
	switch r {
	case theFirst, theSecond:
		return d.named(r)
	case speaker:
		return t.from, true
	case hearer:
		return t.to, true
	case bystander, between2:
		var others []uint8
		for i := range uint8(len(d.s.w.nodes)) {
			if i != t.from && i != t.to {
				others = append(others, i)
			}
		}
		if len(others) > 0 {
			return others[d.rng.IntN(len(others))], true
		}
	}
	return 0, false
}

// strike cuts off a node, lets in whoever was cut off before, and does harm.
func (d *dance) strike(t *trap) {
	w := d.s.w
	if !d.begun {
		d.begun, d.first, d.other, d.op = true, t.from, t.to, t.op
	}
	w.say("%v of n%d springs the trap", t.kind, t.from)
	if t.cut != nobody {
		clear(d.cut)
	}
	switch victim, ok := d.is(t.cut, t); {
	case !ok:
	case t.cut == between2:
		d.sever(victim, t.from, t.mute)
	default:
		d.cutOff(victim, t.mute)
	}
	if who, ok := d.is(t.lag, t); ok {
		w.nodes[who].lags = true
	}
	if victim, ok := d.is(t.hit, t); ok {
		d.hurt(w.nodes[victim], t.harm, t.unseen)
	}
	if who, ok := d.is(t.eye, t); ok {
		d.eyed = w.nodes[who]
	}
}

// cutOff severs all links of a node.
func (d *dance) cutOff(victim uint8, mute bool) {
	d.s.w.say("n%d is cut off", victim)
	for other := range uint8(len(d.s.w.nodes)) {
		if other != victim {
			d.sever(victim, other, mute)
		}
	}
}

// sever cuts a link, sometimes in one direction only, and may break connections over it.
func (d *dance) sever(a, b uint8, mute bool) {
	w := d.s.w
	d.cut[[2]uint8{a, b}] = true
	if !oneIn(d.rng, 12) {
		d.cut[[2]uint8{b, a}] = true
	}
	for _, pair := range [][2]uint8{{a, b}, {b, a}} {
		if n := w.nodes[pair[0]]; n.engine != nil && !mute && oneIn(d.rng, 2) {
			n.engine.LinkDown(pair[1])
		}
	}
}

func (d *dance) hurt(n *node, h harm, unseen bool) {
	w := d.s.w
	d.eyed = n
	if n.engine == nil || n.paused {
		return
	}
	n.unseen = unseen
	defer func() { n.unseen = false }()
	if h == anyHarm {
		h = pick(d.rng, killed, powerless)
	}
	switch h {
	case killed:
		n.crash(endKill)
	case powerless:
		n.crash(endPower)
	case blackout:
		n.blackout()
	case robbed:
		if !w.mayLose(n) {
			return
		}
		w.cover.deed(faultReplace)
		n.crash(endKill)
		n.replace()
	default:
		return
	}
	life := n.life
	w.after(between(d.rng, millisecond, 40*millisecond), func() {
		if n.engine == nil && n.life == life {
			n.start()
		}
	})
}

// press has clients ask something of whoever leads the group, or thinks so, and read
// from anybody.
func (d *dance) press() {
	w := d.s.w
	w.after(between(d.rng, millisecond, 10*millisecond), func() {
		if d.s.dance != d || w.calm {
			return
		}
		d.press()
		c := w.crowd.clients[d.rng.IntN(len(w.crowd.clients))]
		if d.hush || d.trap != nil && d.trap.birth && !d.trap.sprung && d.wantBirth(c) {
			return
		}
		if leads := d.leaders(); len(leads) > 0 && !d.gaze && !oneIn(d.rng, 4) {
			c.node = leads[d.rng.IntN(len(leads))]
			if d.grows {
				c.change(pick(c.rng, workGrow, workGrow, workCreate, workRemove, workShrink))
			} else {
				c.press(d.group)
			}
			return
		}
		n := w.nodes[d.rng.IntN(len(w.nodes))]
		if d.eyed != nil && (d.gaze || oneIn(d.rng, 2)) {
			n = d.eyed
		}
		if g, ok := w.model.metadata.View().PartitionOf(uint64(d.group)); ok && n.engine != nil {
			c.node = n
			c.pollOf(g)
		}
	})
}

// wantBirth has a client make partitions, or send the first message to one.
func (d *dance) wantBirth(c *client) bool {
	w := d.s.w
	if oneIn(d.rng, 3) {
		c.change(pick(c.rng, workCreate, workCreate, workRemove, workGrow))
		return true
	}
	for p := range w.model.metadata.View().AllPartitions() {
		g := vsr.GroupID(p.Group)
		if w.model.group(g).head() > 0 || !d.known(g) {
			continue
		}
		if leads := leadersOf(w, g); len(leads) > 0 {
			c.node = leads[d.rng.IntN(len(leads))]
			c.press(g)
			return true
		}
	}
	return false
}

// leaders are the nodes that may propose, or think so.
func (d *dance) leaders() []*node { return leadersOf(d.s.w, d.group) }

func leadersOf(w *world, group vsr.GroupID) (leads []*node) {
	for _, n := range w.nodes {
		if n.engine == nil || n.paused {
			continue
		}
		if s, ok := n.status(group); ok && s.Primary {
			leads = append(leads, n)
		}
	}
	return leads
}

// press asks for something that goes into the log of a group.
func (c *client) press(group vsr.GroupID) {
	if group == vsr.MetadataGroup {
		c.change(pick(c.rng, workCreate, workRename, workGroup, workGrow))
		return
	}
	c.sendTo(group, oneIn(c.rng, 2))
}

// end lets everybody in again.
func (d *dance) end() {
	s := d.s
	if s.dance != d {
		return
	}
	s.w.say("the dance is over, %d steps before its end", len(d.steps))
	if len(d.steps) == 0 {
		s.w.cover.Dances++
	}
	s.dance = nil
	for _, n := range s.w.nodes {
		n.lags = false
	}
	s.beginDance()
}
