package shard

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/zeebo/xxh3"

	"galgo/internal/cipher"
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
//
// With a vault it is sealed whole, and the bytes are in pieces of pieceSize, each sealed by
// itself: what comes is in the clear, and what does not open is not there.
type staging struct {
	disk  disk.Disk
	dir   string
	name  string
	vault *cipher.Vault
	group vsr.GroupID
}

const (
	offerMagic = "GPOFFER1"
	offerSize  = 72

	// pieceSize is what is asked for at a time, but for the end.
	pieceSize   = vsr.ChunkMax
	sealedPiece = pieceSize + cipher.Overhead
)

// errStaged: what was gathered is not what was offered. It is removed, and asked for
// again.
var errStaged = errors.New("shard: the checkpoint that came from a peer is not the one it offered")

func stagingOf(d disk.Disk, dir string, group vsr.GroupID, vault *cipher.Vault) staging {
	return staging{disk: d, dir: dir, name: path.Join(dir, fmt.Sprintf("%020d", group)), vault: vault, group: group}
}

func (s staging) offerName() string  { return s.name + ".offer" }
func (s staging) partName() string   { return s.name + ".part" }
func (s staging) sealedName() string { return s.name + ".sealed" }

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
func (s staging) offer() (vsr.Offer, bool, error) { return s.offerIn(s.offerName()) }

func (s staging) offerIn(name string) (vsr.Offer, bool, error) {
	f, err := s.disk.Open(name)
	if errors.Is(err, disk.ErrNotExist) {
		return vsr.Offer{}, false, nil
	}
	if err != nil {
		return vsr.Offer{}, false, err
	}
	defer f.Close()
	var b [offerSize + cipher.Overhead + 1]byte
	n, err := f.ReadAt(b[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return vsr.Offer{}, false, err
	}
	o, ok := s.openOffer(b[:n])
	return o, ok, nil
}

func (s staging) openOffer(b []byte) (o vsr.Offer, ok bool) {
	if s.vault != nil {
		var err error
		if b, err = s.vault.Open(nil, b, cipher.KindOffer, uint64(s.group)); err != nil {
			return o, false
		}
	}
	return decodeOffer(b)
}

func (s staging) sealOffer(o vsr.Offer) []byte {
	b := appendOffer(nil, o)
	if s.vault != nil {
		b = s.vault.Seal(nil, b, cipher.KindOffer, uint64(s.group))
	}
	return b
}

// begin prepares for an offer and returns how many bytes of it are there already.
func (s staging) begin(o vsr.Offer) (stored uint64, err error) {
	if err := s.disk.MkdirAll(s.dir); err != nil {
		return 0, err
	}
	if stored, there, err := s.resume(o); there || err != nil {
		return stored, err
	}
	if err := s.discard(); err != nil {
		return 0, err
	}
	f, err := s.disk.Create(s.partName(), 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if err := s.disk.SyncDir(s.dir); err != nil { // and nothing names it: it is made anew
		return 0, err
	}
	return 0, s.record(s.offerName(), o)
}

// resume tells how many bytes of an offer are there already, and whether any of it is.
// The offer is written anew, as the sync behind its name may have failed. So may that of
// the bytes, once all of them are there: then they are worth something only if they were
// sealed.
func (s staging) resume(o vsr.Offer) (stored uint64, there bool, err error) {
	if found, ok, err := s.offer(); err != nil || !ok || found != o {
		return 0, false, nil
	}
	f, err := s.disk.Open(s.partName())
	if err != nil {
		return 0, false, nil
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return 0, false, err
	}
	stored = s.stored(o, uint64(max(size, 0)))
	if sealed, ok, err := s.offerIn(s.sealedName()); stored == o.Size && (err != nil || !ok || sealed != o) {
		return 0, false, nil
	}
	return stored, true, s.record(s.offerName(), o)
}

// record writes an offer to a file, durably.
func (s staging) record(file string, o vsr.Offer) error {
	return disk.Replace(s.disk, file, [][]byte{s.sealOffer(o)})
}

// stored is how much of an offer is in a file of size bytes: whole pieces, if they are
// sealed.
func (s staging) stored(o vsr.Offer, size uint64) uint64 {
	switch {
	case s.vault == nil:
		return min(size, o.Size)
	case size >= s.sizeOf(o):
		return o.Size
	}
	return min(size/sealedPiece*pieceSize, o.Size)
}

// sizeOf is the size of the file that has all of an offer.
func (s staging) sizeOf(o vsr.Offer) uint64 {
	const never = 1 << 62
	if s.vault == nil || o.Size > never {
		return o.Size
	}
	return o.Size + (o.Size+pieceSize-1)/pieceSize*cipher.Overhead
}

// fits reports whether data at off can be written: whole pieces only, if they are sealed.
// A peer that sends less is asked again.
func (s staging) fits(o vsr.Offer, off uint64, data []byte) bool {
	return s.vault == nil || off%pieceSize == 0 && (len(data) == pieceSize || off+uint64(len(data)) == o.Size && len(data) < pieceSize)
}

// write adds data at off. Nothing need be durable before seal.
func (s staging) write(o vsr.Offer, off uint64, data []byte) error {
	f, err := s.disk.Open(s.partName())
	if err != nil {
		return err
	}
	defer f.Close()
	if s.vault != nil {
		data = s.vault.Seal(make([]byte, 0, len(data)+cipher.Overhead), data, cipher.KindPiece, uint64(s.group), uint64(o.Op), off)
		off = off / pieceSize * sealedPiece
	}
	return f.WriteAt(data, int64(off))
}

// seal makes what was gathered durable and checks that it is what was offered.
func (s staging) seal(o vsr.Offer) error {
	f, err := s.disk.Open(s.partName())
	if err != nil {
		return err
	}
	defer f.Close()
	if size, err := f.Size(); err != nil || uint64(size) != s.sizeOf(o) {
		return errors.Join(err, fmt.Errorf("%w: %s has %d bytes of %d", errStaged, s.partName(), size, s.sizeOf(o)))
	}
	r := s.open(o)
	defer r.Close()
	sum, err := sumOf(r, o.Size)
	if err != nil {
		return err
	}
	if sum != o.Sum {
		return fmt.Errorf("%w: %s has checksum %x, want %x", errStaged, s.partName(), sum, o.Sum)
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return s.record(s.sealedName(), o)
}

// sealed reports whether what a crash left is a whole checkpoint, and which. Only what
// was sealed by whoever gathered it is: of anything else the sync may have failed, and no
// later one would tell.
func (s staging) sealed() (o vsr.Offer, ok bool, err error) {
	if o, ok, err = s.offer(); err != nil || !ok {
		return o, false, err
	}
	if is, ok, err := s.offerIn(s.sealedName()); err != nil || !ok || is != o {
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
	for _, name := range []string{s.sealedName(), s.offerName(), s.partName()} {
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
	bytes  []byte      // or, if nil,
	reader io.ReaderAt // or, if that is nil, the first size bytes of a file
	name   string
	size   int64
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
	if p.reader != nil {
		n, err := p.reader.ReadAt(b, off)
		if n < len(b) {
			return fmt.Errorf("%s: %d bytes at %d of %d: %w", p.name, n, off, len(b), cmp.Or(err, io.ErrUnexpectedEOF))
		}
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
	p := part{name: s.partName(), size: int64(o.Size)}
	if s.vault != nil {
		p.reader = &piecesReader{place: s, offer: o}
	}
	return parts{p}.open(s.disk)
}

// piecesReader opens sealed pieces. It keeps the last one open, as reads are seldom whole
// pieces.
type piecesReader struct {
	place staging
	offer vsr.Offer
	at    int64  // of the last piece
	piece []byte // nil: none
}

// ReadAt implements io.ReaderAt; it is not for use by several at a time.
func (r *piecesReader) ReadAt(b []byte, off int64) (n int, err error) {
	f, err := r.place.disk.Open(r.place.partName())
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for n < len(b) && off < int64(r.offer.Size) {
		if at := off / pieceSize * pieceSize; r.piece == nil || at != r.at {
			if err := r.load(f, at); err != nil {
				return n, err
			}
		}
		m := copy(b[n:], r.piece[off-r.at:])
		n, off = n+m, off+int64(m)
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (r *piecesReader) load(f disk.File, at int64) error {
	sealed := make([]byte, min(pieceSize, int64(r.offer.Size)-at)+cipher.Overhead)
	r.piece = nil
	if _, err := f.ReadAt(sealed, at/pieceSize*sealedPiece); err != nil {
		return err
	}
	piece, err := r.place.vault.OpenInPlace(sealed, cipher.KindPiece, uint64(r.place.group), uint64(r.offer.Op), uint64(at))
	if err != nil {
		return fmt.Errorf("%w: %s at %d: %w", errStaged, r.place.partName(), at, err)
	}
	r.at, r.piece = at, piece
	return nil
}

// bytes returns all of what was gathered.
func (s staging) bytes(o vsr.Offer) ([]byte, error) {
	r := s.open(o)
	defer r.Close()
	b := make([]byte, o.Size)
	_, err := r.ReadAt(b, 0)
	return b, err
}
