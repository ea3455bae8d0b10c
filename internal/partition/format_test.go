package partition

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"galgo"
)

// TestGoldenBytes pins the formats: a change must show here, and files written
// before it must still open.
func TestGoldenBytes(t *testing.T) {
	c := &Checkpoint{
		Group: 7, Incarnation: 11, Op: 300, Next: 40, Low: 10, Time: 1700000000000123, Generation: 2,
		segments: []segmentState{
			{base: 10, size: 4100, last: 29, time: 1700000000000050, indexed: 3000, entries: 3, sealed: true},
			{base: 30, size: 600, last: 39, time: 1700000000000123, indexed: 0, entries: 1},
		},
		consumers: []storedOffset{{galgo.ConsumerSingle, 5, 12}, {galgo.ConsumerGroup, 1, 39}},
		producers: []producerState{
			{client: galgo.ClientID{1, 2}, lastOp: 250, ring: []sent{{9, 30}}},
			{client: galgo.ClientID{3}, lastOp: 299, floor: 4, anyForgotten: true, ring: []sent{{6, 31}, {5, 33}}},
		},
		tenures: []tenure{{1, 17}, {258, 3}},
	}
	id := indexIdentity{interval: 32768, group: 7, generation: 2, base: 10}
	golden := []struct {
		name string
		got  []byte
		want string
	}{
		{"checkpoint", c.Append(nil), goldenCheckpoint},
		{"index header", id.appendHeader(nil), goldenIndexHeader},
		{"index entry", indexEntry{offset: 25, time: 1700000000000050, pos: 3000}.append(nil, id.seed(), 2), goldenIndexEntry},
		{"store offset", StoreOffset{galgo.ConsumerGroup, true, 7, 300, 5}.Append(nil), "0201070000002c010000000000000500000000000000"},
		{"delete offset", DeleteOffset{galgo.ConsumerGroup, 258, 6}.Append(nil), "02020100000600000000000000"},
		{"claim", Claim{258, 6}.Append(nil), "020100000600000000000000"},
		{"purge", AppendPurge(nil, 3), "0300000000000000"},
		{"truncate", AppendTruncate(nil, 4), "0400000000000000"},
	}
	for _, g := range golden {
		if got := hex.EncodeToString(g.got); got != strings.Join(strings.Fields(g.want), "") {
			t.Errorf("%s:\n got %s\nwant %s", g.name, got, g.want)
		}
	}
}

const (
	goldenCheckpoint = `
		4750434b01000000780100000000000007000000000000000b000000000000002c010000000000002800000000000000
		0a000000000000007b401e18240a06000200000000000000020000000200000002000000020000000a00000000000000
		04100000000000001d0000000000000032401e18240a0600b80b00000000000003000000010000001e00000000000000
		580200000000000027000000000000007b401e18240a0600000000000000000001000000000000000100000005000000
		0c000000000000000200000001000000270000000000000001020000000000000000000000000000fa00000000000000
		0000000000000000010000000000000009000000000000001e0000000000000003000000000000000000000000000000
		2b010000000000000400000000000000020000000100000006000000000000001f000000000000000500000000000000
		2100000000000000010000001100000000000000020100000300000000000000ecf97d81ea8d4cbe`
	goldenIndexHeader = `
		67616c676f6964780100000000800000070000000000000002000000000000000a000000000000000000000000000000
		0000000000000000000000009b1066b2`
	goldenIndexEntry = `
		190000000000000032401e18240a0600b80b0000000000000200000095d433ea`
)

func TestCheckpointRefusesEveryFlippedBit(t *testing.T) {
	r, _ := settledRig(t)
	good := r.m.state().Append(nil)
	for at := range good {
		bad := bytes.Clone(good)
		bad[at] ^= 1 << (at % 8)
		if _, err := DecodeCheckpoint(bad); !errors.Is(err, ErrCheckpoint) {
			t.Fatalf("bit flipped at byte %d: %v", at, err)
		}
		if _, err := DecodeCheckpoint(good[:at]); !errors.Is(err, ErrCheckpoint) {
			t.Fatalf("cut at byte %d: %v", at, err)
		}
	}
	if _, err := DecodeCheckpoint(append(bytes.Clone(good), 0)); !errors.Is(err, ErrCheckpoint) {
		t.Fatalf("with a byte behind it: %v", err)
	}
	future := bytes.Clone(good)
	future[4] = 2
	if _, err := DecodeCheckpoint(future); err == nil || !strings.Contains(err.Error(), "version 2") {
		t.Fatalf("version 2: %v, want an error that says so", err)
	}
}

func TestCheckpointRefusesWhatNoMachineHas(t *testing.T) {
	spoils := map[string]func(c *Checkpoint){
		"gap between segments":      func(c *Checkpoint) { c.segments[1].base++ },
		"segment ends before start": func(c *Checkpoint) { c.segments[0].last = c.segments[0].base - 1 },
		"segment without index":     func(c *Checkpoint) { c.segments[0].entries = 0 },
		"two active segments":       func(c *Checkpoint) { c.segments[0].sealed = false },
		"times out of order":        func(c *Checkpoint) { c.segments[1].time = c.segments[0].time },
		"indexed behind its end":    func(c *Checkpoint) { c.segments[0].indexed = c.segments[0].size },
		"segment above the limit":   func(c *Checkpoint) { c.segments[0].size = SegmentSizeMax + RecordMax },
		"time above the last":       func(c *Checkpoint) { c.Time = c.segments[len(c.segments)-1].time - 1 },
		"empty segment":             func(c *Checkpoint) { *c = emptySegment(5) },
		"too many numbers":          func(c *Checkpoint) { c.producers[0].ring = make([]sent, ProducerRingMax+1) },
		"next behind the segments":  func(c *Checkpoint) { c.Next++ },
		"low before the segments":   func(c *Checkpoint) { c.Low++ },
		"stored beyond the end":     func(c *Checkpoint) { c.consumers[0].offset = c.Next },
		"consumers out of order": func(c *Checkpoint) {
			c.consumers = append(c.consumers, c.consumers[0])
		},
		"tenures out of order":     func(c *Checkpoint) { c.tenures = []tenure{{2, 1}, {2, 1}} },
		"kind of consumer":         func(c *Checkpoint) { c.consumers[0].kind = 3 },
		"producer of a later op":   func(c *Checkpoint) { c.producers[0].lastOp = c.Op + 1 },
		"producer twice":           func(c *Checkpoint) { p := c.producers[0]; p.lastOp++; c.producers = append(c.producers, p) },
		"producers out of order":   func(c *Checkpoint) { p := c.producers[0]; p.client[3]++; c.producers = append(c.producers, p) },
		"producer without numbers": func(c *Checkpoint) { c.producers[0].ring = nil },
		"number beyond the end":    func(c *Checkpoint) { c.producers[0].ring[0].base = c.Next },
		"floor that is not known":  func(c *Checkpoint) { c.producers[0].floor = 1 },
	}
	for what, spoil := range spoils {
		r, _ := settledRig(t)
		r.sendAs(galgo.ClientID{1}, 1, 1, 8)
		r.send(1, 8)
		c := r.m.state()
		if _, err := DecodeCheckpoint(c.Append(nil)); err != nil {
			t.Fatalf("a sound checkpoint: %v", err)
		}
		spoil(c)
		if _, err := DecodeCheckpoint(c.Append(nil)); !errors.Is(err, ErrCheckpoint) {
			t.Errorf("%s: %v, want ErrCheckpoint", what, err)
		}
	}
}

// emptySegment is a checkpoint whose one segment has no message.
func emptySegment(at uint64) Checkpoint {
	return Checkpoint{Op: 1, Low: at, Next: at, Time: 1, segments: []segmentState{{base: at, last: at - 1, size: 100, time: 1, entries: 1}}}
}

// A producer whose numbers take the room of the one behind it is not read beyond
// the end.
func TestCheckpointWithAProducerTooMany(t *testing.T) {
	r := newRig(t, smallConfig(newDisk()))
	for number := range uint64(4) {
		r.sendAs(galgo.ClientID{1}, number, 1, 8)
	}
	b := r.m.state().Append(nil)
	binary.LittleEndian.PutUint32(b[80:], 2)
	if _, err := DecodeCheckpoint(reseal(b)); !errors.Is(err, ErrCheckpoint) {
		t.Errorf("%v, want ErrCheckpoint", err)
	}
}

func TestIndexEntryRefusesEveryFlippedBit(t *testing.T) {
	id := indexIdentity{interval: 1024, group: 7, base: 3}
	entry := indexEntry{3, 9, 1}.append(nil, id.seed(), 2)
	header := id.appendHeader(nil)
	for at := range 8 * len(entry) {
		bad := bytes.Clone(entry)
		bad[at/8] ^= 1 << (at % 8)
		if _, err := decodeIndexEntry(bad, id.seed(), 2); err == nil {
			t.Fatalf("entry with bit %d flipped decodes", at)
		}
	}
	for at := range 8 * len(header) {
		bad := bytes.Clone(header)
		bad[at/8] ^= 1 << (at % 8)
		if _, err := decodeIndexHeader(bad); err == nil {
			t.Fatalf("header with bit %d flipped decodes", at)
		}
	}
	for _, b := range [][]byte{entry[:indexEntrySize-1], append(bytes.Clone(entry), 0)} {
		if _, err := decodeIndexEntry(b, id.seed(), 2); err == nil {
			t.Fatalf("an entry of %d bytes decodes", len(b))
		}
	}
	if _, err := decodeIndexEntry(entry, id.seed(), 3); err == nil {
		t.Fatal("entry 2 decodes as entry 3")
	}
	other := id
	other.group++
	if _, err := decodeIndexEntry(entry, other.seed(), 2); err == nil {
		t.Fatal("an entry of another group decodes")
	}
}

func FuzzDecodeCheckpoint(f *testing.F) {
	r, _ := fuzzRig(f)
	good := r.m.state().Append(nil)
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add(newRig(f, smallConfig(newDisk())).m.state().Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		tryCheckpoint(t, b)
		if len(b) >= checkpointHeader+checkpointTrailer { // past the frame
			tryCheckpoint(t, reseal(bytes.Clone(b)))
		}
	})
}

func tryCheckpoint(t *testing.T, b []byte) {
	c, err := DecodeCheckpoint(b)
	if err != nil {
		return
	}
	if got := c.Append(nil); !bytes.Equal(got, b) {
		t.Fatalf("decodes, and encodes to\n%x, was\n%x", got, b)
	}
}

func FuzzDecodeIndex(f *testing.F) {
	id := indexIdentity{interval: 1024, group: 7, base: 3}
	f.Add(indexEntry{3, 9, 0}.append(id.appendHeader(nil), id.seed(), 0), uint32(0))
	f.Fuzz(func(t *testing.T, b []byte, number uint32) {
		if got, err := decodeIndexHeader(b); err == nil && !bytes.Equal(got.appendHeader(nil), b[:indexHeaderSize]) {
			t.Fatalf("header %x decodes to %+v", b[:indexHeaderSize], got)
		}
		if len(b) < indexHeaderSize {
			return
		}
		rest := b[indexHeaderSize:]
		if e, err := decodeIndexEntry(rest, id.seed(), number); err == nil && !bytes.Equal(e.append(nil, id.seed(), number), rest) {
			t.Fatalf("entry %x decodes to %+v", rest, e)
		}
	})
}

func FuzzDecodeBodies(f *testing.F) {
	f.Add(StoreOffset{1, true, 2, 3, 0}.Append(nil))
	f.Add(DeleteOffset{2, 2, 4}.Append(nil))
	f.Add(Claim{2, 4}.Append(nil))
	f.Add(AppendPurge(nil, 9))
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := DecodeClaim(b); err == nil && !bytes.Equal(c.Append(nil), b) {
			t.Fatalf("%x decodes to %+v", b, c)
		}
		if s, err := DecodeStoreOffset(b); err == nil && !bytes.Equal(s.Append(nil), b) {
			t.Fatalf("%x decodes to %+v", b, s)
		}
		if d, err := DecodeDeleteOffset(b); err == nil && !bytes.Equal(d.Append(nil), b) {
			t.Fatalf("%x decodes to %+v", b, d)
		}
		if g, err := DecodePurge(b); err == nil && !bytes.Equal(AppendPurge(nil, g), b) {
			t.Fatalf("%x decodes to %d", b, g)
		}
		if u, err := DecodeTruncate(b); err == nil && !bytes.Equal(AppendTruncate(nil, u), b) {
			t.Fatalf("%x decodes to %d", b, u)
		}
	})
}

// FuzzWalk gives the walker a segment of any bytes.
func FuzzWalk(f *testing.F) {
	r, d := fuzzRig(f)
	f.Add(d.Bytes(r.m.segments[0].logName))
	f.Fuzz(func(t *testing.T, b []byte) {
		d := newDisk()
		d.Put("log", b)
		file, err := d.Open("log")
		if err != nil {
			t.Fatal(err)
		}
		w := walker{
			seg: &segment{logName: "log"}, file: file, partition: testPartition, end: uint64(len(b)), want: 512,
			buffer: func(n int) []byte {
				if n > len(b) {
					t.Fatalf("a buffer of %d bytes for a log of %d", n, len(b))
				}
				return make([]byte, n)
			},
		}
		for {
			record, _, err := w.record()
			if err != nil {
				if !errors.Is(err, ErrDamaged) {
					t.Fatalf("walk: %v", err)
				}
				return
			}
			if record == nil {
				return
			}
		}
	})
}

func TestSegmentNames(t *testing.T) {
	for _, n := range []SegmentName{{0, 0, false}, {0, 17, true}, {3, 0, false}, {^uint64(0), ^uint64(0), true}} {
		suffix := logSuffix
		if n.Index {
			suffix = indexSuffix
		}
		name := fileName(n.Generation, n.Base, suffix)
		if got, ok := ParseSegmentName(name); !ok || got != n {
			t.Errorf("%s parses to %+v, %v; want %+v", name, got, ok, n)
		}
	}
	for _, name := range []string{
		"", ".log", "0.log", "00000000000000000000", "00000000000000000000.idx", "00000000000000000000.log.tmp",
		"00000000000000000000-00000000000000000001.log", "99999999999999999999.log", "+0000000000000000001.log", "1-2.index",
	} {
		if got, ok := ParseSegmentName(name); ok {
			t.Errorf("%q parses to %+v", name, got)
		}
	}
}
