package shard

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"galgo"
	"galgo/internal/disk"
	"galgo/internal/disk/memdisk"
	"galgo/internal/partition"
	"galgo/internal/vsr"
	"galgo/internal/wal"
)

// offerOf is the newest checkpoint of a group as a peer is offered it.
func offerOf(t *testing.T, d *Data, id vsr.GroupID) (vsr.Offer, []byte) {
	t.Helper()
	g := d.groups[id]
	p := partsOf(d.config(g.spec), g)
	b := make([]byte, p.size())
	r := p.open(d.cfg.Disk)
	defer r.Close()
	if _, err := r.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	head := g.synced.head
	o := vsr.Offer{Op: head.Op, Identity: head.Identity, Timestamp: head.Timestamp, Size: p.size()}
	var err error
	if o.Sum, err = sumOf(p.open(d.cfg.Disk), o.Size); err != nil {
		t.Fatal(err)
	}
	return o, b
}

// gather puts on a disk what a transfer of a checkpoint leaves there.
func gather(t *testing.T, d disk.Disk, id vsr.GroupID, o vsr.Offer, b []byte) staging {
	t.Helper()
	place := stagingOf(d, transferDir(0), id, testVault)
	if _, err := place.begin(o); err != nil {
		t.Fatal(err)
	}
	for off := 0; off < len(b); off += pieceSize {
		if err := place.write(o, uint64(off), b[off:min(off+pieceSize, len(b))]); err != nil {
			t.Fatal(err)
		}
	}
	if err := place.seal(o); err != nil {
		t.Fatal(err)
	}
	return place
}

// A checkpoint whose op is in the log, and after which a purge came: its files are made,
// those of the older checkpoint are gone, and then power is lost before a table names
// it. The next start finishes what was begun.
func TestStartAfterACheckpointInsideTheLog(t *testing.T) {
	source := memdisk.New(memdisk.Options{})
	d, exec := newData(t, source, nil)
	d.Create(spec(1))
	stored(t, d, exec, 1, 10)
	if err := checkpointed(t, d, exec); err != nil {
		t.Fatal(err)
	}
	d.Purge(1, 1, func() {})
	drive(d, exec)
	stored(t, d, exec, 1, 20)
	stored(t, d, exec, 1, 30)
	receiver := source.Clone()
	if err := checkpointed(t, d, exec); err != nil {
		t.Fatal(err)
	}
	o, b := offerOf(t, d, 1)
	place := gather(t, receiver, 1, o, b)
	_, c, files, err := decodeTaken(place.open(o), spec(1), o)
	if err != nil {
		t.Fatal(err)
	}
	cfg := d.config(spec(1))
	cfg.Disk = receiver
	if _, err := restored(cfg, c, io.NewSectionReader(place.open(o), files, int64(o.Size)-files)); err != nil {
		t.Fatal(err)
	}
	again, _ := reopened(t, receiver.PowerLoss(nil), spec(1))
	wantMessages(t, again, 1, 2)
}

// offeredWithinTheLog is a disk whose log goes beyond its checkpoint, and what a peer offers
// of that, which spoil has made something else: its sum is as the peer reads it.
func offeredWithinTheLog(t *testing.T, spoil func(b []byte, o vsr.Offer)) (receiver *memdisk.Disk) {
	t.Helper()
	source := memdisk.New(memdisk.Options{})
	d, exec := newData(t, source, nil)
	d.Create(spec(1))
	stored(t, d, exec, 1, 10)
	if err := checkpointed(t, d, exec); err != nil {
		t.Fatal(err)
	}
	stored(t, d, exec, 1, 20)
	receiver = source.Clone()
	if err := checkpointed(t, d, exec); err != nil {
		t.Fatal(err)
	}
	o, b := offerOf(t, d, 1)
	spoil(b, o)
	var err error
	if o.Sum, err = sumOf(bytes.NewReader(b), o.Size); err != nil {
		t.Fatal(err)
	}
	gather(t, receiver, 1, o, b)
	return receiver.PowerLoss(nil)
}

// A peer offers what has rotted there. All of it is here when power is lost, before it was
// looked at: the next start does, and keeps what this replica has.
func TestStartWithARottenCheckpointOfAPeer(t *testing.T) {
	files := func(b []byte, o vsr.Offer) (*partition.Checkpoint, []byte) {
		_, c, at, err := decodeTaken(bytes.NewReader(b), spec(1), o)
		if err != nil {
			t.Fatal(err)
		}
		return c, b[at:]
	}
	after := offeredWithinTheLog(t, func(b []byte, o vsr.Offer) {
		c, b := files(b, o)
		b[c.Files("")[0].Size-1] ^= 4 // of the last message
	})
	again, exec := reopened(t, after, spec(1))
	wantMessages(t, again, 1, 2)
	if again.groups[1].taking.unsaved != 0 {
		t.Error("it counts as taken")
	}
	if err := checkpointed(t, again, exec); err != nil {
		t.Fatal(err)
	}
	offered, sent := offerOf(t, again, 1)
	c, b := files(sent, offered)
	if err := partition.Verify(again.config(spec(1)), c, bytes.NewReader(b)); err != nil {
		t.Errorf("what it has now: %v", err)
	}
	if left := after.Bytes(stagingOf(after, transferDir(0), 1, testVault).offerName()); left != nil {
		t.Error("it is kept")
	}
}

// sourceOfOne is a group with two messages and its checkpoint, as a peer would send it.
func sourceOfOne(t *testing.T) (vsr.Offer, []byte) {
	t.Helper()
	d, exec := newData(t, memdisk.New(memdisk.Options{}), nil)
	d.Create(spec(1))
	stored(t, d, exec, 1, 10)
	stored(t, d, exec, 1, 20)
	if err := checkpointed(t, d, exec); err != nil {
		t.Fatal(err)
	}
	return offerOf(t, d, 1)
}

// What a peer sends is a checkpoint of this very group at the op of the offer, or
// nothing. Its size is compared before anything is read by a length in it.
func TestDecodeTaken(t *testing.T) {
	o, b := sourceOfOne(t)
	decode := func(b []byte, s GroupSpec, o vsr.Offer) error {
		_, _, _, err := decodeTaken(bytes.NewReader(b), s, o)
		return err
	}
	if err := decode(b, spec(1), o); err != nil {
		t.Fatal(err)
	}
	for n := range len(b) {
		cut := o
		cut.Size = uint64(n)
		if err := decode(b[:n], spec(1), cut); !errors.Is(err, errStaged) {
			t.Fatalf("%d of %d bytes: %v", n, len(b), err)
		}
	}
	later, forged, timed, huge := o, o, o, o
	later.Op++
	forged.Identity[0] ^= 1
	timed.Timestamp = 1<<64 - 1
	huge.Size = 1<<64 - 1
	stranger := spec(1)
	stranger.Incarnation = 5
	lying := bytes.Clone(b)
	copy(lying, []byte{255, 255, 255, 255})
	for name, err := range map[string]error{
		"another op":             decode(b, spec(1), later),
		"another identity":       decode(b, spec(1), forged),
		"another time":           decode(b, spec(1), timed),
		"a size without end":     decode(b, spec(1), huge),
		"another group":          decode(b, spec(2), o),
		"another incarnation":    decode(b, stranger, o),
		"a length without end":   decode(lying, spec(1), o),
		"... of a size to match": decode(lying, spec(1), huge),
	} {
		if !errors.Is(err, errStaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzDecodeTaken(f *testing.F) {
	p := chain(1, 1)[0]
	f.Add([]byte{4, 0, 0, 0, 0, 0, 0, 0}, uint64(8), uint64(1))
	row := tableRow{id: p.Group, incarnation: p.Incarnation, groupCheckpoint: groupCheckpoint{head: p.Header, blob: []byte("no checkpoint")}}
	table := appendTable(make([]byte, 4), []tableRow{row})
	table[0] = byte(len(table) - 4)
	f.Add(table, uint64(len(table)), uint64(p.Op))
	f.Fuzz(func(t *testing.T, b []byte, size, op uint64) {
		o := vsr.Offer{Op: vsr.Op(op), Identity: p.Identity, Timestamp: p.Timestamp, Size: size}
		row, c, files, err := decodeTaken(bytes.NewReader(b), GroupSpec{ID: p.Group, Incarnation: p.Incarnation}, o)
		if err != nil {
			return
		}
		if row.head.Op != o.Op || c.Op != op || files < 4 || uint64(files) > size {
			t.Fatalf("accepted %x as op %d with files at %d of %d", b, row.head.Op, files, size)
		}
	})
}

// A checkpoint that lies there whole and does not decode, under a log that has begun
// anew behind it, is refused at the start, by name: nothing else covers what is missing.
func TestStartWithoutWhatTheLogBeginsBehind(t *testing.T) {
	o, b := sourceOfOne(t)
	d, exec := newData(t, memdisk.New(memdisk.Options{}), nil)
	d.Create(spec(1))
	receiver := d.cfg.Disk.(*memdisk.Disk)
	row, c, _, err := decodeTaken(bytes.NewReader(b), spec(1), o)
	if err != nil {
		t.Fatal(err)
	}
	d.feed.append(wal.Record{Kind: wal.KindReset, Group: 1, Header: &row.head}, true, nil)
	drive(d, exec)
	whole := gather(t, receiver, 1, o, b)
	again, _ := reopened(t, receiver.Clone().PowerLoss(nil), spec(1))
	wantMessages(t, again, 1, c.Next)
	for name, damage := range map[string]func(*memdisk.Disk){
		"part rotten":  func(d *memdisk.Disk) { d.FlipBit(whole.partName(), int64(o.Size)-1, 0) },
		"part lost":    func(d *memdisk.Disk) { _ = d.Remove(whole.partName()) },
		"offer rotten": func(d *memdisk.Disk) { d.FlipBit(whole.offerName(), 9, 0) },
	} {
		bad := receiver.Clone()
		damage(bad)
		_, err := OpenData(dataConfig(t, bad, &manual{}), []GroupSpec{spec(1)}, 1<<20)
		if !errors.Is(err, ErrLogGap) || !strings.Contains(err.Error(), "group 1") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A checkpoint of several segments arrives as the same files; the same batches, if they
// are sealed.
func TestCheckpointOfSeveralSegments(t *testing.T) {
	small := spec(1)
	small.SegmentSize = 1 << 10
	d, exec := newData(t, memdisk.New(memdisk.Options{}), nil)
	d.Create(small)
	for range 5 {
		stored(t, d, exec, 1, 700)
	}
	if err := checkpointed(t, d, exec); err != nil {
		t.Fatal(err)
	}
	o, b := offerOf(t, d, 1)
	receiver, exec := newData(t, memdisk.New(memdisk.Options{}), nil)
	row, _, _, err := decodeTaken(bytes.NewReader(b), small, o)
	if err != nil {
		t.Fatal(err)
	}
	receiver.feed.append(wal.Record{Kind: wal.KindReset, Group: 1, Header: &row.head}, true, nil)
	drive(receiver, exec)
	gather(t, receiver.cfg.Disk, 1, o, b)
	after := receiver.cfg.Disk.(*memdisk.Disk).PowerLoss(nil)
	again, _ := reopened(t, after, small)
	wantMessages(t, again, 1, 5)
	files := 0
	for name, b := range d.cfg.Disk.(*memdisk.Disk).Files() {
		if strings.HasPrefix(name, groupsDir) {
			sealedLog := testVault != nil && strings.HasSuffix(name, ".log")
			if files++; bytes.Equal(after.Bytes(name), b) == sealedLog || len(after.Bytes(name)) != len(b) {
				t.Errorf("%s: %d bytes, want %d; equal: %v", name, len(after.Bytes(name)), len(b), !sealedLog)
			}
		}
	}
	if files < 4 {
		t.Errorf("%d files", files)
	}
	again.Create(small)
	drive(again, &manual{})
	if _, got := offerOf(t, again, 1); !bytes.Equal(got, b) {
		t.Error("what it offers itself is not what it was sent")
	}
}

// What waits for room in a pipeline is bounded: one more is refused at once, and all that
// were taken are answered.
func TestFullQueueRefuses(t *testing.T) {
	d, exec := newData(t, memdisk.New(memdisk.Options{}), nil)
	d.Create(spec(1))
	const room = 32 + queueFactor*32
	var answers []*galgo.Code
	for range 32 {
		answers = append(answers, d.store(1, 10))
	}
	d.Turn() // these have their ops
	for len(answers) < room+1 {
		answers = append(answers, d.store(1, 10))
	}
	if got := *answers[room]; got != galgo.CodeTransientNotAccepted {
		t.Errorf("one more than there is room for is answered %v", got)
	}
	if got := *answers[room-1]; got != galgo.Code(^uint32(0)) {
		t.Errorf("the last that has room is answered %v before anything is done", got)
	}
	drive(d, exec)
	for i, a := range answers[:room] {
		if *a != galgo.CodeOK {
			t.Errorf("send %d is answered %v", i, *a)
		}
	}
}

// Requests on metadata that wait for room in the pipeline are bounded in bytes as well: a
// body more than there is room for is refused, and alone it is not.
func TestMetadataQueueIsBoundedInBytes(t *testing.T) {
	m := &Metadata{}
	if m.crowded(metadataQueueBytes + 1) {
		t.Error("a large request is refused although none waits")
	}
	m.queue, m.queued = make([]metadataCall, 1), metadataQueueBytes-10
	if m.crowded(10) || !m.crowded(11) {
		t.Errorf("10 bytes of room: 10 are refused (%v), or 11 are not (%v)", m.crowded(10), m.crowded(11))
	}
	m.queue, m.queued = make([]metadataCall, metadataQueueMax), 0
	if !m.crowded(0) {
		t.Errorf("%d wait, and another is taken", metadataQueueMax)
	}
}

// Every flipped bit of a message that travels is found before anything is changed.
func TestRotInATransferIsFound(t *testing.T) {
	o, b := sourceOfOne(t)
	_, c, files, err := decodeTaken(bytes.NewReader(b), spec(1), o)
	if err != nil {
		t.Fatal(err)
	}
	verify := func() error {
		return partition.Verify(partition.Config{Group: 1, Disk: memdisk.New(memdisk.Options{})}, c, bytes.NewReader(b[files:]))
	}
	if err := verify(); err != nil {
		t.Fatal(err)
	}
	log := c.Files("")[0]
	for at := files; at < files+log.Size; at++ {
		b[at] ^= 1 << (at % 8)
		if !isDamage(verify()) {
			t.Errorf("byte %d of the log: %v", at-files, verify())
		}
		b[at] ^= 1 << (at % 8)
	}
}
