package partition

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"galgo"
	"galgo/internal/disk/memdisk"
)

// model is a partition as simply as it can be told.
type model struct {
	messages []polled // since the last purge, also those truncated
	low      uint64
	batches  []modelBatch
	stored   map[string]uint64
	gen      uint64
	size     uint64 // of the last segment, to know where segments end
	segment  uint64 // segment size
}

type modelBatch struct {
	base, last uint64
	ends       bool // the last of its segment
}

func newModel(segment uint64) *model { return &model{stored: map[string]uint64{}, segment: segment} }

func (m *model) send(base uint64, numbers []uint64, time, bytes uint64) {
	for i, n := range numbers {
		m.messages = append(m.messages, polled{base + uint64(i), n, time})
	}
	m.size += bytes
	b := modelBatch{base: base, last: base + uint64(len(numbers)) - 1}
	if m.size >= m.segment {
		b.ends, m.size = true, 0
	}
	m.batches = append(m.batches, b)
}

func (m *model) truncate(upTo uint64) {
	for _, b := range m.batches {
		if b.ends && b.last <= upTo {
			m.low = max(m.low, b.last+1)
		}
	}
}

func (m *model) purge(gen uint64) {
	if gen <= m.gen {
		return
	}
	*m = model{stored: map[string]uint64{}, gen: gen, segment: m.segment}
}

// poll answers by looking at every message.
func (m *model) poll(req PollRequest) []polled {
	retained := m.messages[m.low:]
	end := uint64(len(m.messages))
	start := func(x polled) bool { return x.offset >= req.Strategy.Value }
	from := func(o uint64) func(polled) bool { return func(x polled) bool { return x.offset >= o } }
	switch req.Strategy.Kind {
	case galgo.PollFromTimestamp:
		start = func(x polled) bool { return x.time >= req.Strategy.Value }
	case galgo.PollFirst:
		start = from(0)
	case galgo.PollLast:
		start = from(end - min(end, uint64(req.Count)))
	case galgo.PollNext:
		start = from(0)
		if s, ok := m.stored[consumerName(req.Kind, req.Key)]; ok {
			start = from(s + 1)
		}
	}
	i := slices.IndexFunc(retained, start)
	if i < 0 {
		return nil
	}
	return retained[i:min(len(retained), i+int(req.Count))]
}

func consumerName(kind galgo.ConsumerKind, key uint32) string { return fmt.Sprint(kind, key) }

// modelled is a rig beside its model.
type modelled struct {
	*rig
	model *model
}

func (r *modelled) send(count, size int) {
	numbers := make([]uint64, count)
	for i := range numbers {
		numbers[i] = r.sent + uint64(i)
	}
	base := r.rig.send(count, size).Base
	r.model.send(base, numbers, r.time, uint64(len(r.log[len(r.log)-1].Body)))
}

func (r *modelled) store(kind galgo.ConsumerKind, key uint32, offset uint64, monotone bool) {
	if code := r.rig.store(kind, key, offset, monotone); code != galgo.CodeOK {
		return
	}
	name := consumerName(kind, key)
	if monotone {
		offset = max(offset, r.model.stored[name])
	}
	r.model.stored[name] = offset
}

func (r *modelled) check(req PollRequest) {
	r.t.Helper()
	got, err := pollMachine(r.m, req)
	if err != nil {
		r.t.Fatalf("op %d: poll %+v: %v", r.m.Op(), req, err)
	}
	if want := r.model.poll(req); !slices.Equal(got, want) {
		r.t.Fatalf("op %d: poll %+v:\n got %v\nwant %v\nsegments %+v", r.m.Op(), req, got, want, r.m.Segments())
	}
}

// TestPollsEveryStart asks for every start and count, wherever the messages are.
func TestPollsEveryStart(t *testing.T) {
	places := map[string]func(r *modelled){
		"memory":                func(r *modelled) {},
		"written, in memory":    func(r *modelled) { r.must(r.write(true)) },
		"disk":                  func(r *modelled) { r.must(r.write(true)); r.m.Trim(0) },
		"disk, then memory":     func(r *modelled) { r.must(r.write(true)); r.m.Trim(1200) },
		"checkpoint":            func(r *modelled) { r.must(r.save()); r.m.Trim(0) },
		"checkpoint and memory": func(r *modelled) { r.must(r.save()); r.m.Trim(0); r.send(3, 50); r.send(1, 9) },
		"recovered":             func(r *modelled) { r.must(r.save()); r.must(r.reopen(killed(r.rig))) },
		"recovered and redone":  func(r *modelled) { r.must(r.save()); r.send(4, 80); r.must(r.reopen(killed(r.rig))) },
		"redone from nothing":   func(r *modelled) { r.must(r.write(true)); r.must(r.reopen(killed(r.rig))) },
		"truncated": func(r *modelled) {
			r.truncate(20)
			r.model.truncate(20)
			r.must(r.save())
			r.m.Trim(0)
		},
	}
	for name, place := range places {
		t.Run(name, func(t *testing.T) {
			cfg := smallConfig(newDisk())
			cfg.TailBytes = 1 << 20
			r := &modelled{newRig(t, cfg), newModel(cfg.SegmentSize)}
			for i := range 14 {
				r.send(1+i%4, 40+97*i)
			}
			r.store(galgo.ConsumerSingle, 1, 12, false)
			place(r)
			everyPoll(r)
		})
	}
}

func killed(r *rig) *memdisk.Disk { return r.cfg.Disk.(*memdisk.Disk).Kill() }

func everyPoll(r *modelled) {
	r.t.Helper()
	var starts []galgo.PollingStrategy
	for o := range r.m.NextOffset() + 2 {
		starts = append(starts, galgo.FromOffset(o))
	}
	for ts := uint64(startTime); ts <= r.time+10; ts += 5 {
		starts = append(starts, galgo.FromTimestamp(ts))
	}
	starts = append(starts, galgo.FromOffset(^uint64(0)), galgo.FromTimestamp(0), galgo.FromTimestamp(^uint64(0)),
		galgo.FromFirst(), galgo.FromLast(), galgo.FromNext())
	for _, s := range starts {
		for _, count := range []uint32{0, 1, 2, 3, 5, 8, 13, 21, 34, 1000, ^uint32(0)} {
			r.check(PollRequest{Strategy: s, Count: count, Kind: galgo.ConsumerSingle, Key: 1})
		}
	}
	r.check(PollRequest{Strategy: galgo.FromNext(), Count: 5, Kind: galgo.ConsumerGroup, Key: 1})
}

func TestUnknownStrategyIsRefused(t *testing.T) {
	r := newRig(t, smallConfig(newDisk()))
	var p Plan
	if code := r.m.Poll(PollRequest{Strategy: galgo.PollingStrategy{Kind: 6}, Count: 1}, &p); code != galgo.CodeInvalidCommand {
		t.Fatalf("strategy 6: %v, want InvalidCommand", code)
	}
}

// TestRandomHistories compares the machine with the model over random histories
// of operations, jobs and restarts.
func TestRandomHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := smallConfig(newDisk())
		cfg.TailBytes = rapid.SampledFrom([]int{-1, 700, 1500, 5000, 1 << 20}).Draw(t, "tail")
		cfg.Preallocate = rapid.Bool().Draw(t, "preallocate")
		r := &modelled{newRig(t, cfg), newModel(cfg.SegmentSize)}
		h := history{modelled: r, t: t}
		t.Repeat(map[string]func(*rapid.T){
			"send":     h.sendSome,
			"store":    h.storeSome,
			"delete":   h.deleteSome,
			"purge":    h.purgeSome,
			"truncate": h.truncateSome,
			"job":      h.startJob,
			"done":     h.endJob,
			"settle":   func(*rapid.T) { h.endJob(nil); r.must(r.save()) },
			"trim":     func(*rapid.T) { r.m.Trim(0) },
			"restart":  h.restart,
			"power":    h.powerLoss,
			"poll":     h.pollSome,
			"":         h.invariants,
		})
		h.endJob(nil)
		mustEqual(r.t, "at the end", r.rig, r.twin())
	})
}

type history struct {
	*modelled
	t    *rapid.T
	done func() // ends the job in flight
}

func (h *history) sendSome(t *rapid.T) {
	h.send(rapid.IntRange(1, 6).Draw(t, "count"), rapid.IntRange(8, 700).Draw(t, "size"))
}

func (h *history) storeSome(t *rapid.T) {
	kind := galgo.ConsumerKind(rapid.IntRange(1, 2).Draw(t, "kind"))
	offset := rapid.Uint64Range(0, h.m.NextOffset()+1).Draw(t, "offset")
	h.store(kind, rapid.Uint32Range(1, 3).Draw(t, "key"), offset, rapid.Bool().Draw(t, "monotone"))
}

func (h *history) deleteSome(t *rapid.T) {
	key := rapid.Uint32Range(1, 3).Draw(t, "key")
	h.deleteOffset(galgo.ConsumerSingle, key)
	delete(h.model.stored, consumerName(galgo.ConsumerSingle, key))
}

func (h *history) purgeSome(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "rarely") > 0 {
		t.Skip()
	}
	gen := h.m.Generation() + rapid.Uint64Range(0, 2).Draw(t, "generation")
	h.purge(gen)
	h.model.purge(gen)
}

func (h *history) truncateSome(t *rapid.T) {
	upTo := rapid.Uint64Range(0, h.m.NextOffset()+1).Draw(t, "up to")
	h.truncate(upTo)
	h.model.truncate(upTo)
}

// startJob runs a job but does not end it: operations and polls come between.
func (h *history) startJob(t *rapid.T) {
	if h.done != nil {
		t.Skip()
	}
	if rapid.Bool().Draw(t, "write") {
		if j := h.m.NextWrite(rapid.Bool().Draw(t, "force")); j != nil {
			err := j.Run()
			h.done = func() { h.m.WriteDone(j, err); h.must(err) }
		}
		return
	}
	j := h.m.BeginCheckpoint()
	err := j.Run()
	h.done = func() {
		h.m.SyncDone(j, err)
		h.must(err)
		h.checkpoint, h.freed = j.Checkpoint().Append(nil), j.Checkpoint().Op
		h.m.Settled(h.freed)
		h.must(h.remove())
	}
}

func (h *history) endJob(*rapid.T) {
	if h.done != nil {
		h.done()
		h.done = nil
	}
}

func (h *history) restart(*rapid.T) {
	h.done = nil
	h.must(h.reopen(h.cfg.Disk.(*memdisk.Disk).Kill()))
}

func (h *history) powerLoss(t *rapid.T) {
	h.done = nil
	seed := rapid.Uint64().Draw(t, "seed")
	h.must(h.reopen(h.cfg.Disk.(*memdisk.Disk).PowerLoss(seeded(seed))))
}

func (h *history) pollSome(t *rapid.T) {
	s := galgo.PollingStrategy{Kind: galgo.PollingKind(rapid.IntRange(1, 5).Draw(t, "strategy"))}
	s.Value = rapid.Uint64Range(0, h.m.NextOffset()+1).Draw(t, "offset")
	if s.Kind == galgo.PollFromTimestamp {
		s.Value = startTime + s.Value*3
	}
	h.check(PollRequest{
		Strategy: s, Count: rapid.Uint32Range(0, 40).Draw(t, "count"),
		Kind: galgo.ConsumerSingle, Key: rapid.Uint32Range(1, 3).Draw(t, "key"),
	})
}

func (h *history) invariants(*rapid.T) {
	tail := &h.m.tail
	bytes, unwritten, messages := 0, uint64(0), uint64(0)
	for i, b := range tail.live() {
		bytes += len(b.body)
		if tail.first+uint64(i) >= tail.written {
			unwritten += uint64(len(b.body))
			messages += uint64(b.count)
		}
	}
	if bytes != tail.bytes || unwritten != tail.unwrittenBytes || messages != tail.unwrittenMessages {
		h.t.Fatalf("tail counts %d bytes, %d unwritten bytes, %d messages; has %d, %d, %d",
			tail.bytes, tail.unwrittenBytes, tail.unwrittenMessages, bytes, unwritten, messages)
	}
	if got, want := h.m.NextOffset(), uint64(len(h.model.messages)); got != want {
		h.t.Fatalf("next offset %d, want %d", got, want)
	}
	if f := h.m.Stats().Figures(); f.Messages != uint64(len(h.model.messages))-h.model.low {
		h.t.Fatalf("figures %+v, model has %d messages from %d", f, len(h.model.messages), h.model.low)
	}
}
