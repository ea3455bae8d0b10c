package wal

import (
	"math/rand/v2"
	"testing"

	"galgo/internal/disk/memdisk"
)

// Where one mark alone says that the files before are not needed any more, a start does
// not write over it: a loss of power meanwhile could take it, and then files would be
// missing of which nothing says that they may be.
func TestMarkThatAloneSaysWhatIsNeededIsNotWrittenOver(t *testing.T) {
	rng, armed := rand.New(rand.NewPCG(1, 2)), false
	var d *memdisk.Disk
	d = memdisk.New(memdisk.Options{OnCall: func(c memdisk.Call) {
		if !armed || c.Op&(memdisk.OpSync|memdisk.OpSyncDir|memdisk.OpRename) == 0 {
			return
		}
		for range 20 {
			if _, _, err := Open(d.Clone().PowerLoss(rng), testDir, testOptions()); err != nil {
				t.Fatalf("power is lost at %v %s: %v", c.Op, c.Name, err)
			}
		}
	}})
	l, _ := mustOpen(t, d)
	p := newPrepares()
	for range 6 {
		must(t, l.Write([]Record{p.next(1, 3000)}, true))
	}
	l.Release(1, 6)
	must(t, l.Reclaim())
	if l.oldest() == 1 {
		t.Fatal("no file was freed")
	}
	armed = true
	if _, _, err := Open(d, testDir, testOptions()); err != nil {
		t.Fatal(err)
	}
}
