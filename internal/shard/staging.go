package shard

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/zeebo/xxh3"

	"galgo/internal/disk"
	"galgo/internal/vsr"
)

// staging is where a checkpoint that comes from another replica is gathered: one file
// names the offer, one takes the bytes. What a crash leaves of them serves the next
// attempt, if that is for the same offer.
//
// The file of the offer:
//
//	off  size  field
//	  0     8  magic      "GPOFFER1"
//	  8     8  op
//	 16    16  identity   of the prepare at op
//	 32     8  timestamp  of it, µs
//	 40    16  sum        XXH3-128 of all bytes
//	 56     8  size       bytes
//	 64     8  checksum   XXH3-64 of all before
type staging struct {
	disk disk.Disk
	dir  string
	name string
}

const (
	offerMagic = "GPOFFER1"
	offerSize  = 72
)

// errStaged: what was gathered is not what was offered. It is removed, and asked for
// again.
var errStaged = errors.New("shard: the checkpoint that came from a peer is not the one it offered")

func stagingOf(d disk.Disk, dir string, group vsr.GroupID) staging {
	return staging{disk: d, dir: dir, name: path.Join(dir, fmt.Sprintf("%020d", group))}
}

func (s staging) offerName() string { return s.name + ".offer" }
func (s staging) partName() string  { return s.name + ".part" }

func appendOffer(b []byte, o vsr.Offer) []byte {
	le := binary.LittleEndian
	start := len(b)
	b = append(b, offerMagic...)
	b = le.AppendUint64(b, uint64(o.Op))
	b = append(b, o.Identity[:]...)
	b = le.AppendUint64(b, o.Timestamp)
	b = append(b, o.Sum[:]...)
	b = le.AppendUint64(b, o.Size)
	return le.AppendUint64(b, xxh3.Hash(b[start:]))
}

func decodeOffer(b []byte) (o vsr.Offer, ok bool) {
	le := binary.LittleEndian
	if len(b) != offerSize || string(b[:8]) != offerMagic || xxh3.Hash(b[:offerSize-8]) != le.Uint64(b[offerSize-8:]) {
		return vsr.Offer{}, false
	}
	o = vsr.Offer{Op: vsr.Op(le.Uint64(b[8:])), Timestamp: le.Uint64(b[32:]), Size: le.Uint64(b[56:])}
	copy(o.Identity[:], b[16:])
	copy(o.Sum[:], b[40:])
	return o, true
}

// offer reads which offer is being gathered; false if none that can be told.
func (s staging) offer() (vsr.Offer, bool, error) {
	f, err := s.disk.Open(s.offerName())
	if errors.Is(err, disk.ErrNotExist) {
		return vsr.Offer{}, false, nil
	}
	if err != nil {
		return vsr.Offer{}, false, err
	}
	defer f.Close()
	var b [offerSize + 1]byte
	n, err := f.ReadAt(b[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return vsr.Offer{}, false, err
	}
	o, ok := decodeOffer(b[:n])
	return o, ok, nil
}

// begin prepares for an offer and returns how many bytes of it are there already.
func (s staging) begin(o vsr.Offer) (stored uint64, err error) {
	if err := s.disk.MkdirAll(s.dir); err != nil {
		return 0, err
	}
	if there, ok, err := s.offer(); err == nil && ok && there == o {
		if f, err := s.disk.Open(s.partName()); err == nil {
			defer f.Close()
			size, err := f.Size()
			return min(uint64(max(size, 0)), o.Size), err
		}
	}
	if err := s.discard(); err != nil {
		return 0, err
	}
	if err := disk.Replace(s.disk, s.offerName(), [][]byte{appendOffer(nil, o)}); err != nil {
		return 0, err
	}
	f, err := s.disk.Create(s.partName(), 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return 0, s.disk.SyncDir(s.dir)
}

// write adds data at off. Nothing need be durable before seal.
func (s staging) write(off uint64, data []byte) error {
	f, err := s.disk.Open(s.partName())
	if err != nil {
		return err
	}
	defer f.Close()
	return f.WriteAt(data, int64(off))
}

// seal makes what was gathered durable and checks that it is what was offered.
func (s staging) seal(o vsr.Offer) error {
	f, err := s.disk.Open(s.partName())
	if err != nil {
		return err
	}
	defer f.Close()
	if size, err := f.Size(); err != nil || uint64(size) != o.Size {
		return errors.Join(err, fmt.Errorf("%w: %s has %d bytes of %d", errStaged, s.partName(), size, o.Size))
	}
	sum, err := sumOf(f, o.Size)
	if err != nil {
		return err
	}
	if sum != o.Sum {
		return fmt.Errorf("%w: %s has checksum %x, want %x", errStaged, s.partName(), sum, o.Sum)
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return s.disk.SyncDir(s.dir)
}

// sealed reports whether what a crash left is a whole checkpoint, and which.
func (s staging) sealed() (o vsr.Offer, ok bool, err error) {
	if o, ok, err = s.offer(); err != nil || !ok {
		return o, false, err
	}
	err = s.seal(o)
	if errors.Is(err, errStaged) || errors.Is(err, disk.ErrNotExist) {
		return o, false, nil
	}
	return o, err == nil, err
}

// discard removes what was gathered.
func (s staging) discard() error {
	for _, name := range []string{s.offerName(), s.partName()} {
		if err := s.disk.Remove(name); err != nil && !errors.Is(err, disk.ErrNotExist) {
			return err
		}
	}
	return nil
}

// covers reports whether a checkpoint up to this prepare is the one of the offer.
func covers(head *vsr.Header, o vsr.Offer) bool {
	return head.Op == o.Op && head.Identity == o.Identity && head.Timestamp == o.Timestamp
}

// sumOf is the checksum of the first size bytes.
func sumOf(r io.ReaderAt, size uint64) (sum [16]byte, err error) {
	h := xxh3.New()
	n, err := io.CopyBuffer(writerOnly{h}, io.NewSectionReader(r, 0, int64(size)), make([]byte, min(size, 1<<20)+1))
	if err == nil && uint64(n) != size {
		err = io.ErrUnexpectedEOF
	}
	return h.Sum128().Bytes(), err
}

// writerOnly hides the other methods of a writer, so that the buffer given is used.
type writerOnly struct{ io.Writer }

// parts are readers back to back.
type parts []part

type part struct {
	bytes []byte // or, if nil, the first size bytes of a file
	name  string
	size  int64
}

func (p parts) size() (n uint64) {
	for i := range p {
		n += uint64(p[i].size)
	}
	return n
}

// open makes the parts readable; close the reader behind.
func (p parts) open(d disk.Disk) *partsReader { return &partsReader{disk: d, parts: p} }

// partsReader reads parts, with one file open at a time.
type partsReader struct {
	disk  disk.Disk
	parts parts
	at    int // of the open file
	file  disk.File
}

// ReadAt implements io.ReaderAt; it is not for use by several at a time.
func (r *partsReader) ReadAt(b []byte, off int64) (n int, err error) {
	for i := range r.parts {
		p := &r.parts[i]
		if off >= p.size {
			off -= p.size
			continue
		}
		for n < len(b) && i < len(r.parts) {
			p = &r.parts[i]
			want := b[n:min(int64(len(b)), int64(n)+p.size-off)]
			if err := r.readPart(i, want, off); err != nil {
				return n, err
			}
			n += len(want)
			off, i = 0, i+1
		}
		break
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (r *partsReader) readPart(i int, b []byte, off int64) error {
	p := &r.parts[i]
	if p.bytes != nil {
		copy(b, p.bytes[off:])
		return nil
	}
	if r.file == nil || r.at != i {
		r.Close()
		f, err := r.disk.Open(p.name)
		if err != nil {
			return err
		}
		r.file, r.at = f, i
	}
	n, err := r.file.ReadAt(b, off)
	if n < len(b) {
		return errors.Join(err, fmt.Errorf("%s: %d bytes at %d of %d: %w", p.name, n, off, len(b), io.ErrUnexpectedEOF))
	}
	return nil
}

// Close closes what is open.
func (r *partsReader) Close() {
	if r.file != nil {
		r.file.Close()
		r.file = nil
	}
}

// open makes what was gathered readable; close the reader behind.
func (s staging) open(o vsr.Offer) *partsReader {
	return parts{{name: s.partName(), size: int64(o.Size)}}.open(s.disk)
}

// bytes returns all of what was gathered.
func (s staging) bytes(o vsr.Offer) ([]byte, error) {
	r := s.open(o)
	defer r.Close()
	b := make([]byte, o.Size)
	_, err := r.ReadAt(b, 0)
	return b, err
}
