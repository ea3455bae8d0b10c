package shard

import (
	"errors"
	"io"
	"testing"

	"galgo/internal/disk"
	"galgo/internal/disk/memdisk"
	"galgo/internal/vsr"
)

// offerOf is the newest checkpoint of a group as a peer is offered it.
func offerOf(t *testing.T, d *Data, id vsr.GroupID) (vsr.Offer, []byte) {
	t.Helper()
	g := d.groups[id]
	p := partsOf(g)
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
	place := stagingOf(d, transferDir(0), id)
	if _, err := place.begin(o); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(place.write(0, b), place.seal(o)); err != nil {
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
