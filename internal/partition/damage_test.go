package partition

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"galgo"
	"galgo/internal/disk"
	"galgo/internal/disk/memdisk"
)

// settledRig has several segments, a checkpoint, and all of it on disk alone.
func settledRig(t *testing.T) (*rig, *memdisk.Disk) {
	t.Helper()
	d := newDisk()
	r := newRig(t, smallConfig(d))
	for i := range 24 {
		r.send(1+i%3, 100+i*20)
	}
	r.send(2, 30)
	if r.m.segments[len(r.m.segments)-1].sealed {
		t.Fatal("the last segment is full: there is no active one")
	}
	r.store(galgo.ConsumerSingle, 1, 9, false)
	r.must(r.save())
	r.m.Trim(0)
	return r, d
}

func TestGarbageBehindTheFilesIsCut(t *testing.T) {
	for _, redo := range []bool{false, true} {
		for _, n := range []int{1, 7, 10, 40, 300, 5000} {
			t.Run(fmt.Sprintf("%d bytes, operations to redo %v", n, redo), func(t *testing.T) {
				r, d := settledRig(t)
				if redo { // the garbage lies over what the log redoes
					r.send(2, 50)
					r.must(r.write(true))
				}
				d = d.Kill()
				active := r.m.segments[len(r.m.segments)-1]
				garbage := make([]byte, n)
				rng := seeded(uint64(n))
				for i := range garbage {
					garbage[i] = byte(rng.Uint32())
				}
				for _, name := range []string{active.logName, active.indexName} {
					d.Put(name, append(d.Bytes(name), garbage...))
				}
				c, logFrom := r.recovered()
				cfg := r.cfg
				cfg.Disk, cfg.Files = d, nil
				if _, err := Open(cfg, c, logFrom); err != nil {
					t.Fatalf("open: %v", err)
				}
				want := c.segments[len(c.segments)-1]
				if got := uint64(len(d.Bytes(active.logName))); got != want.size {
					t.Fatalf("log has %d bytes after open, want the recovery point %d", got, want.size)
				}
				if got := int64(len(d.Bytes(active.indexName))); got != indexPos(want.entries) {
					t.Fatalf("index has %d bytes after open, want %d", got, indexPos(want.entries))
				}
				d = d.PowerLoss(nil)
				if got := uint64(len(d.Bytes(active.logName))); got != want.size {
					t.Fatalf("log has %d bytes after a power loss: the cut was not synced", got)
				}
				r.must(r.reopen(d))
				r.must(sendAndWrite(r, 100, 60))
				r.must(r.save())
				r.must(r.reopen(d.Kill()))
				mustEqual(t, "second start", r, r.twin())
			})
		}
	}
}

// TestTornWriteBehindTheRecoveryPoint tears the records that were being written
// when power was lost at every length, and lets holes of zeros stay.
func TestTornWriteBehindTheRecoveryPoint(t *testing.T) {
	r, d := settledRig(t)
	r.send(3, 120)
	r.send(1, 700)
	r.must(r.write(true))
	active := r.m.segments[len(r.m.segments)-1]
	whole := d.Bytes(active.logName)
	point := r.m.state().segments // sizes at the head, the checkpoint's are smaller
	c, _ := r.recovered()
	from := c.segments[len(c.segments)-1].size
	for cut := int(from); cut <= int(point[len(point)-1].size); cut += 61 {
		left := d.Clone()
		torn := slices.Clone(whole[:cut])
		if cut%2 == 0 {
			torn = append(torn, make([]byte, 512)...)
		}
		left.Put(active.logName, torn)
		again := *r
		r.must(again.reopen(left))
		mustEqual(t, fmt.Sprintf("torn at byte %d", cut), &again, again.twin())
	}
}

func TestIndexIsRebuiltWhateverIsWrongWithIt(t *testing.T) {
	r, d := settledRig(t)
	seg := r.m.segments[1]
	name := seg.indexName
	good := d.Bytes(name)
	if len(good) < indexHeaderSize+3*indexEntrySize {
		t.Fatalf("index of %d bytes: too few entries to spoil", len(good))
	}
	flip := func(at int) func([]byte) []byte {
		return func(b []byte) []byte { b[at] ^= 0x10; return b }
	}
	spoils := map[string]func([]byte) []byte{
		"empty":           func(b []byte) []byte { return nil },
		"header only":     func(b []byte) []byte { return b[:indexHeaderSize] },
		"cut in an entry": func(b []byte) []byte { return b[:len(b)-indexEntrySize-5] },
		"zeros":           func(b []byte) []byte { clear(b); return b },
		"entries swapped": func(b []byte) []byte {
			one := slices.Clone(b[indexHeaderSize : indexHeaderSize+indexEntrySize])
			copy(b[indexHeaderSize:], b[indexHeaderSize+indexEntrySize:indexHeaderSize+2*indexEntrySize])
			copy(b[indexHeaderSize+indexEntrySize:], one)
			return b
		},
		"of another segment": func([]byte) []byte { return d.Bytes(r.m.segments[0].indexName) },
	}
	for what, change := range map[string]func(e *indexEntry){
		"another place":  func(e *indexEntry) { e.pos += 48 },
		"another offset": func(e *indexEntry) { e.offset-- },
		"a later time":   func(e *indexEntry) { e.time += 5 },
	} {
		spoils["naming "+what+", with a sound checksum"] = func(b []byte) []byte {
			seed := seg.indexIdentity(r.m.cfg.IndexInterval).seed()
			for i := uint32(1); indexPos(i) < int64(len(b)); i++ {
				e, _ := decodeIndexEntry(b[indexPos(i):indexPos(i+1)], seed, i)
				change(&e)
				copy(b[indexPos(i):], e.append(nil, seed, i))
			}
			return b
		}
	}
	for at := indexHeaderSize; at < len(good); at += 5 {
		spoils[fmt.Sprintf("bit flipped at %d", at)] = flip(at)
	}
	spoils["missing"] = nil
	for what, spoil := range spoils {
		left := d.Clone()
		if spoil == nil {
			left.Delete(name)
		} else {
			left.Put(name, spoil(slices.Clone(good)))
		}
		again := *r
		if err := again.reopen(left); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if what == "missing" || len(left.Bytes(name)) < len(good) {
			again.poll(galgo.FromOffset(seg.last), 1)
			if got := left.Bytes(name); !bytes.Equal(got, good) {
				t.Fatalf("%s: index was not mended: %d bytes, want %d", what, len(got), len(good))
			}
		}
		mustPollEqual(t, what, &again, again.twin())
	}
}

// TestFlippedBitsAreNeverServed flips a bit here and there in sealed and active
// segments: what is polled is right, or the poll fails and names the file.
func TestFlippedBitsAreNeverServed(t *testing.T) {
	r, d := settledRig(t)
	found := 0
	for _, seg := range r.m.segments {
		name := seg.logName
		good := d.Bytes(name)
		for at := 0; at < len(good); at += 29 {
			bad := slices.Clone(good)
			bad[at] ^= 1 << (at % 8)
			d.Put(name, bad)
			r.m.cfg.Files.Close()
			req := PollRequest{Strategy: galgo.FromOffset(seg.base), Count: uint32(seg.messages())}
			_, err := pollMachine(r.m, req)
			damage, ok := errors.AsType[*DamageError](err)
			if !ok || !errors.Is(err, ErrDamaged) || damage.File != name {
				t.Fatalf("bit flipped at byte %d of %s: poll says %v", at, name, err)
			}
			found++
		}
		d.Put(name, good)
	}
	if found < 300 {
		t.Fatalf("only %d bits flipped", found)
	}
	mustPollEqual(t, "all bits set right", r, r.twin())
}

// TestSoundRecordsInTheWrongPlace: writes that went astray leave records whose
// checksums are right and that are not what belongs there.
func TestSoundRecordsInTheWrongPlace(t *testing.T) {
	place := func(partition, base, time uint64) func(b []byte) {
		return func(b []byte) { stampRecord(b, partition, base, time) }
	}
	for what, spoil := range map[string]func(b []byte){
		"another offset":    place(testPartition, 4, startTime+60),
		"another partition": place(testPartition+1, 5, startTime+60),
		"another time":      place(testPartition, 5, startTime+50),
	} {
		d := newDisk()
		r := newRig(t, smallConfig(d))
		for range 12 {
			r.send(1, 100)
		}
		r.must(r.save())
		r.m.Trim(0)
		seg := r.m.segments[0]
		content := d.Bytes(seg.logName)
		size := len(r.log[0].Body)
		spoil(content[5*size : 6*size]) // was offset 5 of partition 3 at start + 60
		d.Put(seg.logName, content)
		r.m.cfg.Files.Close()
		if _, err := pollMachine(r.m, PollRequest{Strategy: galgo.FromOffset(3), Count: 8}); !errors.Is(err, ErrDamaged) {
			t.Fatalf("record of %s: %v, want ErrDamaged", what, err)
		}
	}
}

func TestReadFaultsAreErrors(t *testing.T) {
	everything := PollRequest{Strategy: galgo.FromFirst(), Count: 1000}
	t.Run("nothing of what came before", func(t *testing.T) {
		r, d := settledRig(t)
		r.m.cfg.Files.Close()
		d.Delete(r.m.segments[1].logName)
		var p Plan
		var reply Reply
		r.m.Poll(everything, &p)
		if err := p.Read(&reply); err == nil || reply.Count != 0 || len(reply.Chunks) != 0 || reply.Bytes != 0 {
			t.Fatalf("read says %v, the reply has %d messages", err, reply.Count)
		}
	})
	t.Run("i/o error", func(t *testing.T) {
		r, d := settledRig(t)
		d.Inject(memdisk.Fault{Class: memdisk.Fail, Ops: memdisk.OpRead, Match: memdisk.Named(r.m.segments[1].logName)})
		if got, err := pollMachine(r.m, everything); !errors.Is(err, memdisk.ErrIO) {
			t.Fatalf("polled %d messages, %v; want the error of the disk", len(got), err)
		}
	})
	t.Run("file gone", func(t *testing.T) {
		r, d := settledRig(t)
		r.m.cfg.Files.Close()
		d.Delete(r.m.segments[1].logName)
		if got, err := pollMachine(r.m, everything); !errors.Is(err, ErrMissing) {
			t.Fatalf("polled %d messages, %v; want ErrMissing", len(got), err)
		}
	})
	t.Run("file cut short", func(t *testing.T) {
		r, d := settledRig(t)
		r.m.cfg.Files.Close()
		name := r.m.segments[1].logName
		d.Put(name, d.Bytes(name)[:1000])
		if got, err := pollMachine(r.m, everything); !errors.Is(err, ErrMissing) {
			t.Fatalf("polled %d messages, %v; want ErrMissing", len(got), err)
		}
	})
}

func TestRefusals(t *testing.T) {
	type spoiled struct {
		cfg     Config
		c       *Checkpoint
		logFrom uint64
	}
	cases := []struct {
		name  string
		want  error
		says  string
		spoil func(r *rig, d *memdisk.Disk, s *spoiled)
	}{
		{"log missing", ErrMissing, "the file is not there, the checkpoint names it", func(r *rig, d *memdisk.Disk, s *spoiled) {
			d.Delete(r.m.segments[0].logName)
		}},
		{"directory missing", ErrMissing, "00000000000000000000.log", func(r *rig, d *memdisk.Disk, s *spoiled) {
			if err := RemoveDir(d, r.m.cfg.Dir); err != nil {
				t.Fatal(err)
			}
		}},
		{"log short by a byte", ErrMissing, "checkpoint has", func(r *rig, d *memdisk.Disk, s *spoiled) {
			name := r.m.segments[1].logName
			d.Put(name, d.Bytes(name)[:r.m.segments[1].size-1])
		}},
		{"segment between the segments", ErrUnexplained, "00000000000000000002.log", func(r *rig, d *memdisk.Disk, s *spoiled) {
			d.Put(r.m.cfg.Dir+"/"+fileName(0, 2, logSuffix), []byte("x"))
		}},
		{"sound records behind the checkpoint, none in the log", ErrUnexplained, "sound record", func(r *rig, d *memdisk.Disk, s *spoiled) {
			r.send(1, 8)
			r.must(r.write(true))
			s.logFrom = 0
		}},
		{"sound records behind the checkpoint, a gap before the log", ErrUnexplained, "restore the shard's checkpoint", func(r *rig, d *memdisk.Disk, s *spoiled) {
			r.send(1, 8)
			r.must(r.write(true))
			s.logFrom = s.c.Op + 2
		}},
		{"a segment behind the checkpoint, none in the log", ErrUnexplained, "sound record", func(r *rig, d *memdisk.Disk, s *spoiled) {
			s.logFrom = 0
			s.c = nil
		}},
		{"a life behind the checkpoint, none in the log", ErrUnexplained, "00000000000000000001-", func(r *rig, d *memdisk.Disk, s *spoiled) {
			r.purge(1)
			r.send(1, 8)
			r.must(r.write(true))
			s.logFrom = 0
		}},
		{"checkpoint of another group", ErrForeign, "group 8", func(r *rig, d *memdisk.Disk, s *spoiled) { s.cfg.Group = 8; s.cfg.Dir = r.m.cfg.Dir }},
		{"checkpoint of another incarnation", ErrForeign, "incarnation 12", func(r *rig, d *memdisk.Disk, s *spoiled) { s.cfg.Incarnation = 12 }},
		{"a file behind the checkpoint that cannot be read", memdisk.ErrIO, "", func(r *rig, d *memdisk.Disk, s *spoiled) {
			r.send(1, 8)
			r.must(r.write(true))
			s.logFrom = 0
			d.Inject(memdisk.Fault{Class: memdisk.Fail, Ops: memdisk.OpRead})
		}},
		{"directory that cannot be listed", memdisk.ErrIO, "list groups/", func(r *rig, d *memdisk.Disk, s *spoiled) {
			d.Inject(memdisk.Fault{Class: memdisk.Fail, Ops: memdisk.OpList})
		}},
		{"fewer producers allowed", nil, "must not shrink", func(r *rig, d *memdisk.Disk, s *spoiled) {
			s.c.producers = make([]producerState, 2)
			s.cfg.Producers = 1
		}},
		{"fewer numbers allowed", nil, "must not shrink", func(r *rig, d *memdisk.Disk, s *spoiled) {
			s.c.producers = []producerState{{ring: make([]sent, 3)}}
			s.cfg.ProducerRing = 2
		}},
		{"fewer consumers allowed", nil, "must not shrink", func(r *rig, d *memdisk.Disk, s *spoiled) {
			s.c.consumers = append(s.c.consumers, storedOffset{2, 9, 1})
			s.cfg.Consumers = 1
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r, d := settledRig(t)
			s := &spoiled{cfg: r.cfg}
			s.c, s.logFrom = r.recovered()
			c.spoil(r, d, s)
			s.cfg.Disk, s.cfg.Files = d, nil
			before := d.Clone()
			_, err := Open(s.cfg, s.c, s.logFrom)
			if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("open says %v, want %v with %q", err, c.want, c.says)
			}
			if diff := memdisk.Diff(before, d); diff != "" {
				t.Fatalf("the refusal changed the disk: %s", diff)
			}
		})
	}
}

// A cut that may not be durable is no start: what was cut could come back.
func TestCutThatCannotBeSynced(t *testing.T) {
	for _, op := range []memdisk.Op{memdisk.OpSync, memdisk.OpSyncDir} {
		r, d := settledRig(t)
		active := r.m.segments[len(r.m.segments)-1]
		d.Put(active.logName, append(d.Bytes(active.logName), "garbage"...))
		d.Put(r.m.cfg.Dir+"/"+fileName(1, 0, logSuffix), nil)
		d.Inject(memdisk.Fault{Class: memdisk.SyncFailure, Ops: op})
		if err := r.reopen(d); !errors.Is(err, ErrSync) || d.Fired() != 1 {
			t.Errorf("open with a failed %v: %v, want ErrSync", op, err)
		}
	}
}

// TestOpenWithoutLog: what the checkpoint explains is cut although the log holds
// nothing of the group any more.
func TestOpenWithoutLog(t *testing.T) {
	r, d := settledRig(t)
	dir := r.m.cfg.Dir + "/"
	old := d.Bytes(r.m.segments[0].logName)
	r.purge(3)
	r.must(sendAndWrite(r, 20, 300))
	r.truncate(r.m.segments[0].last)
	r.must(r.save())
	low := r.m.low
	if low == 0 {
		t.Fatal("nothing was truncated")
	}
	want := segmentFiles(d)
	d.Put(dir+fileName(0, 0, logSuffix), old)                          // of an older life
	d.Put(dir+fileName(3, 0, logSuffix), []byte("to be removed"))      // below the low mark
	d.Put(dir+fileName(3, 0, indexSuffix), nil)                        //
	d.Put(dir+fileName(3, r.m.next, logSuffix), make([]byte, 4096))    // begun, preallocated, empty
	d.Put(dir+fileName(3, r.m.next, indexSuffix), []byte("some"))      //
	d.Put(dir+fileName(4, 0, logSuffix), []byte("garbage at the end")) // of a life that never was
	d.Put(dir+"notes.txt", []byte("not a partition's"))
	cfg := r.cfg
	cfg.Disk, cfg.Files = d, nil
	c, _ := r.recovered()
	m, err := Open(cfg, c, 0)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	if got := segmentFiles(d.PowerLoss(nil)); !slices.Equal(got, want) {
		t.Fatalf("files after open %v, want %v", got, want)
	}
	if d.Bytes(dir+"notes.txt") == nil {
		t.Fatal("a file that is not ours was removed")
	}
	if got := m.Stats().Figures().FirstOffset; got != low {
		t.Fatalf("first offset %d, want %d", got, low)
	}
}

func TestNewNeverTouchesWhatIsThere(t *testing.T) {
	r, d := settledRig(t)
	before := d.Clone()
	other := newRig(t, r.cfg) // the same group, made a second time by mistake
	other.send(1, 8)
	if err := other.write(true); err == nil {
		t.Fatal("a second machine wrote into files that exist")
	}
	if diff := memdisk.Diff(before, d); diff != "" {
		t.Fatalf("files of the first machine changed: %s", diff)
	}
}

// TestDirectoryIsSyncedAgain: an attempt to make the directory that failed half
// way, or a process that was killed in it, may have left a name that no sync
// covers; a checkpoint must not rest on it.
func TestDirectoryIsSyncedAgain(t *testing.T) {
	d := &halfMkdir{Disk: newDisk()}
	cfg := smallConfig(d)
	r := newRig(t, cfg)
	r.send(1, 8)
	if err := r.write(true); !errors.Is(err, memdisk.ErrIO) {
		t.Fatalf("write with a failing mkdir: %v", err)
	}
	r.must(r.save())
	if !d.synced {
		t.Fatal("a checkpoint rests on a directory whose name was never synced")
	}
	d.synced, r.checkpoint, r.freed = false, nil, 0
	r.must(r.reopen(d))
	r.must(r.save())
	if !d.synced {
		t.Fatal("after a restart a checkpoint rests on a directory whose name was never synced")
	}
}

// TestHalfMadeLogIsMadeAnew: a file that a failed attempt left is replaced by the
// machine that made the attempt.
func TestHalfMadeLogIsMadeAnew(t *testing.T) {
	d := &halfCreate{Disk: newDisk()}
	r := newRig(t, smallConfig(d))
	r.send(1, 8)
	if err := r.write(true); !errors.Is(err, memdisk.ErrIO) {
		t.Fatalf("write with a failing create: %v", err)
	}
	r.must(r.save())
	if got := d.Bytes(r.m.segments[0].logName); !bytes.Equal(got, r.log[0].Body) {
		t.Fatalf("log has %d bytes, want the %d of one record", len(got), len(r.log[0].Body))
	}
}

// halfCreate makes a file with something in it, and fails, once.
type halfCreate struct {
	*memdisk.Disk
	failed bool
}

func (d *halfCreate) Create(name string, size int64) (disk.File, error) {
	if d.failed {
		return d.Disk.Create(name, size)
	}
	d.failed = true
	d.Put(name, make([]byte, 5000))
	return nil, memdisk.ErrIO
}

// halfMkdir makes a directory, and fails in the sync of its parent, once.
type halfMkdir struct {
	*memdisk.Disk
	failed, synced bool
}

func (d *halfMkdir) MkdirAll(name string) error {
	err := d.Disk.MkdirAll(name)
	if d.failed {
		return err
	}
	d.failed = true
	return memdisk.ErrIO
}

func (d *halfMkdir) SyncDir(name string) error {
	d.synced = d.synced || name == "groups"
	return d.Disk.SyncDir(name)
}
