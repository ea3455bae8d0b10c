package wal

import (
	"testing"

	"galgo/internal/disk"
	"galgo/internal/vsr"
)

// nullDisk takes every write and holds nothing.
type nullDisk struct{ disk.Disk }

type nullFile struct{ size int64 }

func (nullDisk) Create(_ string, size int64) (disk.File, error) { return nullFile{size}, nil }
func (nullDisk) Open(string) (disk.File, error)                 { return nullFile{}, nil }
func (nullDisk) Rename(string, string) error                    { return nil }
func (nullDisk) Remove(string) error                            { return nil }
func (nullDisk) List(string) ([]disk.Entry, error)              { return nil, disk.ErrNotExist }
func (nullDisk) MkdirAll(string) error                          { return nil }
func (nullDisk) SyncDir(string) error                           { return nil }
func (nullFile) ReadAt(p []byte, _ int64) (int, error)          { return len(p), nil }
func (nullFile) WriteAt([]byte, int64) error                    { return nil }
func (nullFile) WritevAt([][]byte, int64) error                 { return nil }
func (nullFile) Truncate(int64) error                           { return nil }
func (nullFile) Sync() error                                    { return nil }
func (f nullFile) Size() (int64, error)                         { return f.size, nil }
func (nullFile) Close() error                                   { return nil }
func (nullFile) Name() string                                   { return "null" }

func BenchmarkWrite(b *testing.B) {
	for _, c := range []struct {
		name          string
		records, size int
	}{{"64x256B", 64, 256}, {"1x1MiB", 1, 1 << 20}, {"1x256B", 1, 256}} {
		b.Run(c.name+"/null", func(b *testing.B) { benchWrite(b, nullDisk{}, c.records, c.size) })
		b.Run(c.name+"/os", func(b *testing.B) {
			d, err := disk.OpenOS(b.TempDir())
			if err != nil {
				b.Fatal(err)
			}
			benchWrite(b, d, c.records, c.size)
		})
	}
}

// benchWrite writes batches to a log whose spares are made outside the clock and
// whose files are recycled, as in a node that keeps up.
func benchWrite(b *testing.B, d disk.Disk, records, size int) {
	o := Options{FilesSpare: 4, Cluster: testCluster}
	l, _, err := Open(d, "wal", o)
	if err != nil {
		b.Fatal(err)
	}
	if err := l.EnsureSpare(l.o.FilesSpare); err != nil {
		b.Fatal(err)
	}
	p := newPrepares()
	body := make([]byte, size)
	recs := make([]Record, records)
	b.SetBytes(int64(records * size))
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		for i := range recs {
			recs[i] = p.next(1, 0)
			pr := vsr.Prepare{Header: *recs[i].Header, Body: body}
			pr.Seal()
			recs[i].Header, recs[i].Body = &pr.Header, body
			p.last[1] = pr.Header
		}
		if _, null := d.(nullDisk); !null && l.Stats().Files > 2 {
			l.Release(1, p.last[1].Op-vsr.Op(records))
			if err := l.Reclaim(); err != nil {
				b.Fatal(err)
			}
		}
		b.StartTimer()
		if err := l.Write(recs, true); err != nil {
			b.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkOpen opens a log with an empty file and one spare: what each start
// pays for looking behind the end.
func BenchmarkOpen(b *testing.B) {
	d, err := disk.OpenOS(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	o := Options{FilesSpare: 1, Cluster: testCluster}
	b.SetBytes(2 * FileSizeDefault)
	for b.Loop() {
		l, _, err := Open(d, "wal", o)
		if err != nil {
			b.Fatal(err)
		}
		if err := l.EnsureSpare(l.o.FilesSpare); err != nil {
			b.Fatal(err)
		}
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
