package engine

import (
	"math"
	"testing"
	"time"

	"galgo"
	"galgo/internal/config"
	"galgo/internal/disk/memdisk"
	"galgo/internal/edge"
	"galgo/internal/metadata"
	"galgo/internal/partition"
	"galgo/internal/shard"
	"galgo/internal/vsr"
	"galgo/internal/wire"
)

// Retention takes sealed segments by age and by size, never the open one, holds what a
// consumer has not read, and follows a change of the options (PF-storage-07, -17).
func TestRetention(t *testing.T) {
	const hour = 3600 * 1_000_000
	for name, tt := range map[string]struct {
		options []galgo.Header
		prepare func(*grouped)
		pass    time.Duration
		first   uint64 // offset that is left after it
	}{
		"nothing asked":   {nil, nil, 100 * time.Hour, 0},
		"too young":       {expiry(10 * hour), nil, time.Hour, 0},
		"too old":         {expiry(10 * hour), nil, 11 * time.Hour, 4},
		"held":            {expiry(10 * hour), func(g *grouped) { g.storeOffset(g.group("s", "r", 0), 5, 1) }, 11 * time.Hour, 2},
		"held by a group": {expiry(10 * hour), func(g *grouped) { g.unfenced(g.group("s", "r", 0), 0, 3) }, 11 * time.Hour, 4},
		"too large":       {size(1 << 20), nil, 0, 2},
		"large enough":    {size(400 << 20), nil, 0, 0},
		"expiry updated": {expiry(10 * hour), func(g *grouped) {
			options, _ := wire.NewOptions(expiry(100 * hour))
			g.must(0, wire.OperationUpdateTopic, wire.UpdateTopicRequest{Stream: galgo.NamedID("s"), Topic: galgo.NamedID("r"), Name: "r", Options: options}.Append(nil))
		}, 11 * time.Hour, 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := healthy()
			g := openGrouped(t, d, 1)
			g.engine.retention.batch = 1 << 20
			options, err := wire.NewOptions(append([]galgo.Header{{Key: galgo.StringValue(galgo.OptionSegmentSize), Value: galgo.Uint64Value(1 << 20)}}, tt.options...))
			if err != nil {
				t.Fatal(err)
			}
			g.must(0, wire.OperationCreateTopic, wire.CreateTopicRequest{Stream: galgo.NamedID("s"), Partitions: 1, Name: "r", Options: options}.Append(nil))
			g.must(0, wire.OperationCreateConsumerGroup, wire.CreateGroupRequest{Stream: galgo.NamedID("s"), Topic: galgo.NamedID("r"), Name: "g"}.Append(nil))
			group := g.group("s", "r", 0)
			for range 5 { // two sealed segments of two messages, one open with one
				if r, ok := g.send(group, galgo.ClientID{}, 0, big("m", 600<<10)); !ok || r.Code != galgo.CodeOK {
					t.Fatalf("send: %+v", r)
				}
			}
			if tt.prepare != nil {
				tt.prepare(g)
			}
			g.pass(tt.pass)
			g.engine.Retain()
			g.settle()
			for _, when := range []string{"after it", "after a restart"} {
				f, _ := g.engine.Stats(group)
				if f.FirstOffset != tt.first || f.CurrentOffset != 4 || f.Messages != 5-tt.first {
					t.Errorf("%s: first offset %d, current %d, %d messages; want %d, 4, %d", when, f.FirstOffset, f.CurrentOffset, f.Messages, tt.first, 5-tt.first)
				}
				w, err := open(t, d.Kill(), worldConfig(), 2, g.now)
				if err != nil {
					t.Fatal(err)
				}
				g.world = w
			}
		})
	}
}

func expiry(us uint64) []galgo.Header {
	return []galgo.Header{{Key: galgo.StringValue(galgo.OptionMessageExpiry), Value: galgo.Uint64Value(us)}}
}

func size(bytes uint64) []galgo.Header {
	return []galgo.Header{{Key: galgo.StringValue(galgo.OptionMaxTopicSize), Value: galgo.Uint64Value(bytes)}}
}

// rolled is a node whose partition 0 of s/t has two sealed segments of two messages and
// an open one.
func rolled(t *testing.T, d *memdisk.Disk) (*grouped, uint64) {
	t.Helper()
	g := openGrouped(t, d, 1)
	group := g.group("s", "t", 0)
	for range 5 {
		if r, ok := g.send(group, galgo.ClientID{}, 0, big("m", 600<<10)); !ok || r.Code != galgo.CodeOK {
			t.Fatalf("send: %+v", r)
		}
	}
	return g, group
}

func (g *grouped) first(group uint64) uint64 {
	f, _ := g.engine.Stats(group)
	return f.FirstOffset
}

// A deletion of segments is answered when it has happened, and is done at start where a
// crash came between the logs of the metadata and of the partition.
func TestTruncationCutShortIsDoneAtStart(t *testing.T) {
	d := healthy()
	g, group := rolled(t, d)
	request := func(below uint64) edge.MetadataRequest {
		g.members[0].request++
		body := metadata.Truncation{
			DeleteSegmentsRequest: wire.DeleteSegmentsRequest{Stream: galgo.NamedID("s"), Topic: galgo.NamedID("t"), Segments: 1},
			Group:                 group, Below: below, Until: math.MaxUint64,
		}.Append(nil)
		return edge.MetadataRequest{Operation: wire.OperationDeleteSegments, Client: g.members[0].id, Session: g.members[0].epoch, Request: g.members[0].request, Body: body}
	}
	answered := false
	g.engine.submit(request(2), func(edge.MetadataReply) {
		if answered = true; g.first(group) != 2 {
			t.Errorf("answered, and the first offset is %d, want 2", g.first(group))
		}
	})
	g.settle()
	if !answered {
		t.Fatal("no answer")
	}
	g.engine.submit(request(4), func(edge.MetadataReply) { t.Error("answered although the partition's loop stands still") })
	g.metadataAlone()
	if p, _ := g.engine.View().PartitionOf(group); p.DeletedBelow != 4 || g.first(group) != 2 {
		t.Fatalf("the metadata has %+v, the partition begins at %d", p, g.first(group))
	}
	w, err := open(t, d.Kill(), worldConfig(), 2, 2_000_000)
	if err != nil {
		t.Fatal(err)
	}
	g.world = w
	if got := g.first(group); got != 4 {
		t.Errorf("after a restart the partition begins at %d, want 4", got)
	}
}

// What retention has decided about one life of a partition does not meet the next.
func TestRetentionMeetsAPurge(t *testing.T) {
	g, group := rolled(t, healthy())
	rule := func(vsr.GroupID) partition.Retention { return partition.Retention{Bytes: 1} }
	g.loops[1].Post(func() {
		data := g.engine.data[0]
		data.Purge(vsr.GroupID(group), 1, func() {})
		for range 3 { // a sealed segment and an open one, of the next life
			data.Send(shard.SendRequest{Group: vsr.GroupID(group), Batch: batchOf(big("n", 600<<10))}, func(galgo.Code, uint64, vsr.Op) {})
		}
		data.Retain(rule)
	})
	g.settle()
	if f, _ := g.engine.Stats(group); f.FirstOffset != 0 || f.Messages != 3 {
		t.Errorf("the new life begins at offset %d and has %d messages, want 0 and 3", f.FirstOffset, f.Messages)
	}
	g.loops[1].Post(func() { g.engine.data[0].Retain(rule) })
	g.settle()
	if got := g.first(group); got != 2 {
		t.Errorf("it begins at %d after the next pass, want 2", got)
	}
}

// Power loss takes what a topic in memory had, and not what the metadata know of it: the
// segments that were asked to go are not those that are written in their place, in this
// life of the node or in the next.
func TestTruncationIsNotOfWhatTookItsPlace(t *testing.T) {
	c := worldConfig()
	c.Partition.Durability = config.DurabilityMemory
	c.WAL.FileSize = 64 << 20
	d := healthy()
	w, err := open(t, d, c, 1, 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	k := &cast{}
	for _, s := range script[:4] {
		if !s.run(w, k) {
			t.Fatalf("step %q", s.name)
		}
	}
	group := w.group("s", "t", 0)
	// No tick from here on: there is no time for a sync of the log.
	until := func(what string, there *bool) {
		t.Helper()
		for range 2000 {
			if *there {
				return
			}
			w.step()
		}
		t.Fatal(what)
	}
	for range 9 {
		sent := false
		w.engine.Send(edge.SendRequest{Group: group, Batch: batchOf(big("m", 600<<10)), Count: 1}, func(r edge.SendReply) { sent = r.Code == galgo.CodeOK })
		until("send", &sent)
	}
	deleted := false
	k.admin.request++
	w.engine.Metadata(edge.MetadataRequest{
		Operation: wire.OperationDeleteSegments, Client: k.admin.id, Session: k.admin.epoch, Request: k.admin.request,
		Body: wire.DeleteSegmentsRequest{Stream: galgo.NamedID("s"), Topic: galgo.NamedID("t"), Segments: 9}.Append(nil),
	}, func(edge.MetadataReply) { deleted = true })
	until("delete segments", &deleted)
	if f, _ := w.engine.Stats(group); f.FirstOffset != 8 {
		t.Fatalf("the partition begins at %d, want 8", f.FirstOffset)
	}
	d = d.PowerLoss(nil)
	var acknowledged []uint64 // offsets
	for life := range uint64(2) {
		if w, err = open(t, d, c, 2+life, 9_000_000*(1+life)); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			r, ok := w.send(group, galgo.ClientID{}, 0, big("n", 600<<10))
			if !ok || r.Code != galgo.CodeOK {
				t.Fatalf("send: %+v", r)
			}
			acknowledged = append(acknowledged, r.Base)
		}
		f, _ := w.engine.Stats(group)
		if acknowledged[0] >= 6 || f.FirstOffset != acknowledged[0] || f.Messages != uint64(len(acknowledged)) {
			t.Errorf("life %d: the partition begins at %d and has %d messages, those of offsets %v are acknowledged", life, f.FirstOffset, f.Messages, acknowledged)
		}
		d = d.Kill()
	}
}

// What a consumer goes back to is not dropped by what was decided before: neither by a
// deletion of segments, which goes on when the consumer has come to their end, nor by
// retention.
func TestRewindMeetsADeletion(t *testing.T) {
	back := func(g *grouped, group uint64) {
		code := galgo.CodeError
		g.engine.StoreOffset(edge.OffsetRequest{Group: group, Kind: galgo.ConsumerSingle, Key: 1}, func(r edge.OffsetReply) { code = r.Code })
		g.engine.Retain()
		g.settle()
		if code != galgo.CodeOK {
			g.t.Fatalf("store: %v", code)
		}
	}
	begins := func(g *grouped, group, want uint64) {
		g.t.Helper()
		if got := g.first(group); got != want {
			g.t.Errorf("the partition begins at %d, want %d", got, want)
		}
	}
	t.Run("delete segments", func(t *testing.T) {
		g, group := rolled(t, healthy())
		g.storeOffset(group, 1, 4)
		answered := false
		g.members[0].request++
		g.engine.Metadata(edge.MetadataRequest{
			Operation: wire.OperationDeleteSegments, Client: g.members[0].id, Session: g.members[0].epoch, Request: g.members[0].request,
			Body: wire.DeleteSegmentsRequest{Stream: galgo.NamedID("s"), Topic: galgo.NamedID("t"), Segments: 9}.Append(nil),
		}, func(edge.MetadataReply) { answered = true })
		back(g, group)
		begins(g, group, 0)
		if !answered {
			t.Error("no answer, although nothing is left that may go")
		}
		g.storeOffset(group, 1, 3)
		begins(g, group, 4)
	})
	t.Run("retention", func(t *testing.T) {
		g, group := rolled(t, healthy())
		g.storeOffset(group, 1, 4)
		options, err := wire.NewOptions(expiry(1))
		if err != nil {
			t.Fatal(err)
		}
		g.must(0, wire.OperationUpdateTopic, wire.UpdateTopicRequest{Stream: galgo.NamedID("s"), Topic: galgo.NamedID("t"), Name: "t", Options: options}.Append(nil))
		g.now += 1000
		back(g, group)
		begins(g, group, 0)
	})
}
