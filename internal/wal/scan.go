package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"galgo/internal/cipher"
	"galgo/internal/vsr"
)

// windowSize is how much of a file is read at once, in bytes. A larger record is
// read whole.
const windowSize = 1 << 20

// window reads a file in pieces. What bytes returns is valid until the next call.
type window struct {
	f   *file
	buf []byte
	at  int64
}

// bytes returns n bytes of f at off, which are within its size.
func (w *window) bytes(f *file, off, n int64) ([]byte, error) {
	if f == w.f && off >= w.at && off+n <= w.at+int64(len(w.buf)) {
		return w.buf[off-w.at:][:n], nil
	}
	want := min(max(n, windowSize), f.size-off)
	if int64(cap(w.buf)) < want {
		w.buf = make([]byte, want)
	}
	w.buf = w.buf[:want]
	w.f, w.at = f, off
	got, err := f.f.ReadAt(w.buf, off)
	if int64(got) < want {
		w.f = nil
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("wal: read %s at %d: %w", f.name, off, err)
	}
	return w.buf[:n], nil
}

// record is one that verified.
type record struct {
	frame
	header vsr.Header // of a prepare, reset or floor
	number uint64     // op of a truncation, lowest file of a mark
	state  []byte     // until the next record is read
	key    cipher.ID  // of what is sealed
	closed error      // why it is not opened; the scanner is lenient then
}

// fault says why there is no record at a place.
type fault struct {
	file  *file
	at    int64
	err   error
	group vsr.GroupID // if hasOp
	op    vsr.Op
	hasOp bool
	trace bool // what is there was once written as a record of this file
}

func (f *fault) position() Position { return Position{f.file.sequence, f.at} }

// asError makes the refusal of it.
func (f *fault) asError(reason string) *Error {
	return &Error{
		Kind: ErrDamaged, File: f.file.name, Offset: f.at, Group: f.group, Op: f.op, HasOp: f.hasOp,
		Reason: fmt.Sprintf("%v, although %s", f.err, reason), Next: nextRestore,
	}
}

// scanner reads records in order.
type scanner struct {
	files   []*file
	cluster [16]byte
	vault   *cipher.Vault
	lenient bool                           // goes on behind a record that does not open
	visit   func(f *file, r *record) error // an error means the record cannot be
	win     window
	plain   []byte // what was sealed of the last record

	chain   uint64   // checksum of the last record
	chained bool     // false before the first record of a log whose beginning was freed
	starts  []uint64 // chain before the first record of each file
	witness Position // the highest "synced" of the records read
	dataEnd Position // end of the last record that is no mark
	low     uint64   // what the last mark says
	settled uint64   // what the last one before dataEnd says
	marks   []lowMark
}

// lowMark is a mark behind dataEnd: where it ends, and what it says.
type lowMark struct {
	end Position
	low uint64
}

// witnessedLow is what is known of the lowest file that is needed without the marks
// that nothing witnesses.
func (s *scanner) witnessedLow() uint64 {
	low := s.settled
	for _, m := range s.marks {
		if !s.witness.Less(m.end) {
			low = m.low
		}
	}
	return max(low, 1)
}

func newScanner(files []*file, o *Options, visit func(*file, *record) error) *scanner {
	return &scanner{
		files: files, cluster: o.Cluster, vault: o.Vault, visit: visit,
		chained: files[0].sequence == 1, starts: make([]uint64, len(files)),
	}
}

// walk reads from the first record on. It returns the file and the fault where
// the records end, be that the end of the log or damage. An error is one of
// reading, or a refusal.
func (s *scanner) walk() (int, *fault, error) {
	for i := 0; ; i++ {
		s.starts[i] = s.chain
		end, err := s.walkFile(s.files[i])
		if err != nil {
			return 0, nil, err
		}
		if i+1 == len(s.files) {
			return i, end, nil
		}
		// The file ended here if the next one goes on from here.
		next, f, err := s.read(s.files[i+1], blockSize)
		if err != nil || f != nil || next.synced != end.position() {
			return i, end, err
		}
	}
}

// walkFile reads one file and returns where no record follows.
func (s *scanner) walkFile(f *file) (*fault, error) {
	for at := int64(blockSize); ; {
		r, flt, err := s.read(f, at)
		if flt != nil || err != nil {
			return flt, err
		}
		if err := s.visit(f, &r); err != nil {
			flt = &fault{file: f, at: at, err: err, trace: true}
			flt.name(&r)
			return flt, nil
		}
		s.advance(f, &r)
		at += r.size()
	}
}

func (s *scanner) advance(f *file, r *record) {
	s.chain, s.chained = r.sum, true
	if s.witness.Less(r.synced) {
		s.witness = r.synced
	}
	if r.kind == KindMark {
		s.low = r.number
		s.marks = append(s.marks, lowMark{Position{f.sequence, r.at + r.size()}, r.number})
		return
	}
	s.settled, s.marks = s.low, s.marks[:0]
	s.dataEnd = Position{f.sequence, r.at + r.size()}
}

// read verifies the record at a place: bounds, file, checksum, chain, and what
// its kind asks for.
func (s *scanner) read(f *file, at int64) (record, *fault, error) {
	r := record{}
	flt := &fault{file: f, at: at, err: errNoFrame}
	if f.size-at < frameSize {
		return r, flt, nil
	}
	b, err := s.win.bytes(f, at, frameSize)
	if err != nil {
		return r, nil, err
	}
	flt.trace = looksLikeFrame(b, f.sequence)
	if r.frame, flt.err = parseFrame(b, f.sequence, at, f.size); flt.err != nil {
		return r, flt, nil
	}
	if b, err = s.win.bytes(f, at, frameSize+int64(r.head)); err != nil {
		return r, nil, err
	}
	if flt.err = r.verify(b, f.salt); flt.err != nil {
		return r, flt, nil
	}
	if s.chained && r.prev != s.chain {
		flt.err = fmt.Errorf("%w: after %016x, want %016x", errChain, r.prev, s.chain)
		return r, flt, nil
	}
	flt.err, err = s.readPayload(f, &r, b[frameSize:])
	if err != nil {
		return r, nil, err
	}
	if flt.err != nil {
		flt.name(&r)
		return r, flt, nil
	}
	return r, nil, nil
}

// name says which op the fault hit, if that is known.
func (flt *fault) name(r *record) {
	switch r.kind {
	case KindPrepare, KindReset, KindFloor:
		if r.header.Op > 0 {
			flt.group, flt.op, flt.hasOp = r.group, r.header.Op, true
		}
	case KindTruncate:
		flt.group, flt.op, flt.hasOp = r.group, vsr.Op(r.number), true
	}
}

// readPayload takes the payload apart. The first error is a fault, the second one
// of reading, or a refusal: of a later version, or of what is whole and does not open.
func (s *scanner) readPayload(f *file, r *record, head []byte) (error, error) {
	if err := r.checkPayload(); err != nil {
		return splitVersion(f, r, err)
	}
	switch {
	case r.kind == KindTruncate || r.kind == KindMark:
		r.number = binary.LittleEndian.Uint64(head)
	case r.kind == KindState:
		r.state = head
	case !r.kind.secret():
	case r.sealed || s.vault != nil:
		return s.readSealed(f, r)
	default:
		return s.readPrepare(f, r, head)
	}
	return nil, nil
}

// readPrepare decodes a header that is in the clear, and verifies the body behind it.
func (s *scanner) readPrepare(f *file, r *record, head []byte) (error, error) {
	if err := s.decodeHeader(r, head); err != nil || r.kind != KindPrepare {
		return splitVersion(f, r, err)
	}
	body, err := s.win.bytes(f, r.at+frameSize+vsr.HeaderSize, int64(r.length)-vsr.HeaderSize)
	if err != nil {
		return nil, err
	}
	return r.header.CheckBody(body), nil
}

func (s *scanner) decodeHeader(r *record, head []byte) error {
	h, err := vsr.DecodeHeader(head)
	if err != nil {
		return err
	}
	r.header = h
	if h.Group != r.group || h.Cluster != s.cluster {
		return fmt.Errorf("%w: header of group %d, cluster %x", errPayload, h.Group, h.Cluster)
	}
	return nil
}

// readSealed is readPrepare where the log is sealed. Once the checksum holds nothing is a
// fault any more, which could be cut as the torn rest of a write: it is refused.
func (s *scanner) readSealed(f *file, r *record) (error, error) {
	payload, err := s.win.bytes(f, r.at+frameSize, int64(r.length))
	if err != nil {
		return nil, err
	}
	if r.sealed {
		if err := checkSealed(payload); err != nil {
			return err, nil
		}
		r.key = keyOf(payload)
	}
	if s.plain, err = r.open(s.vault, s.plain[:0], payload); err == nil {
		return nil, s.opened(f, r)
	}
	if s.lenient {
		r.closed = sealError(f.name, r.at, err)
		return nil, nil
	}
	return nil, sealError(f.name, r.at, err)
}

// opened takes apart what was sealed.
func (s *scanner) opened(f *file, r *record) error {
	err := s.decodeHeader(r, s.plain)
	if err == nil && r.kind == KindPrepare {
		err = r.header.CheckBody(s.plain[vsr.HeaderSize:])
	}
	if fault, refusal := splitVersion(f, r, err); fault == nil {
		return refusal
	}
	return &Error{Kind: ErrDamaged, File: f.name, Offset: r.at, Reason: "opens, and holds no " + r.kind.String() + ": " + err.Error(), Next: nextRestore}
}

// splitVersion makes a refusal of a version that is unknown although the frame
// verifies: a later program wrote it, and to cut it could lose what that
// acknowledged.
func splitVersion(f *file, r *record, err error) (error, error) {
	if !errors.Is(err, ErrVersion) && !errors.Is(err, vsr.ErrHeaderVersion) {
		return err, nil
	}
	return nil, &Error{Kind: ErrVersion, File: f.name, Offset: r.at, Reason: err.Error(), Next: nextUpgrade}
}

// search looks for frames from a place on, chained or not, and shows them to
// visit until that returns false. A frame is enough: what it says about the rest
// of the log is covered by its checksum, whatever became of its body.
func (s *scanner) search(f *file, from int64, visit func(frame) bool) error {
	for at := from; f.size-at >= frameSize; {
		b, err := s.win.bytes(f, at, min(windowSize, f.size-at))
		if err != nil {
			return err
		}
		skip, found := findFrame(b, f.sequence)
		at += skip
		if !found {
			continue
		}
		r, ok, err := s.frameAt(f, at)
		if err != nil {
			return err
		}
		if !ok {
			at += alignment
			continue
		}
		if !visit(r) {
			return nil
		}
		at += r.size()
	}
	return nil
}

// findFrame returns the offset of the first thing that looks like a frame, or
// how much of b holds none.
func findFrame(b []byte, file uint64) (int64, bool) {
	i := 0
	for ; i+frameSize <= len(b); i += alignment {
		if looksLikeFrame(b[i:], file) {
			return int64(i), true
		}
	}
	return int64(i), false
}

func (s *scanner) frameAt(f *file, at int64) (frame, bool, error) {
	b, err := s.win.bytes(f, at, frameSize)
	if err != nil {
		return frame{}, false, err
	}
	r, err := parseFrame(b, f.sequence, at, f.size)
	if err != nil {
		return frame{}, false, nil
	}
	if b, err = s.win.bytes(f, at, frameSize+int64(r.head)); err != nil {
		return frame{}, false, err
	}
	return r, r.verify(b, f.salt) == nil, nil
}
