package wal

import (
	"fmt"
	"io"

	"galgo/internal/cipher"
	"galgo/internal/vsr"
)

// Read returns an op of a group with its body, which belongs to the caller. All
// checksums are verified each time. The error is ErrNotFound, an *Error of kind
// ErrDamaged, or one of the disk.
func (l *Log) Read(g vsr.GroupID, op vsr.Op) (vsr.Prepare, error) {
	return l.readOp(g, op, false)
}

// Header returns the header of an op, from the commit point on. Errors are as
// those of Read.
func (l *Log) Header(g vsr.GroupID, op vsr.Op) (vsr.Header, error) {
	p, err := l.readOp(g, op, true)
	return p.Header, err
}

func (l *Log) readOp(id vsr.GroupID, op vsr.Op, headerOnly bool) (vsr.Prepare, error) {
	l.mu.RLock()
	e, ok := l.find(id, op, headerOnly)
	if !ok {
		l.mu.RUnlock()
		return vsr.Prepare{}, fmt.Errorf("%w: group %d op %d", ErrNotFound, id, op)
	}
	f := l.fileOf(e.at)
	f.readers.RLock() // before mu is let go, so that f is not recycled in between
	defer f.readers.RUnlock()
	l.mu.RUnlock()
	p, err := l.readAt(f, e.at, headerOnly)
	if err == nil && (p.Group != id || p.Op != op || p.Identity != e.id) {
		err = fmt.Errorf("%w: found group %d op %d %v, want %v", errPayload, p.Group, p.Op, p.Identity, e.id)
	}
	if err != nil {
		return vsr.Prepare{}, readError(f, e.at, id, op, err)
	}
	return p, nil
}

// find looks up an op, and the commit-point op too if a header is enough.
func (l *Log) find(id vsr.GroupID, op vsr.Op, headerOnly bool) (entry, bool) {
	g := l.groups[id]
	switch {
	case g == nil:
		return entry{}, false
	case op > g.base && op <= g.last():
		return g.entries[op-g.base-1], true
	case headerOnly && op == g.base && g.baseAt.file != 0:
		return entry{g.baseID, g.baseAt}, true
	}
	return entry{}, false
}

// fileOf returns the file of an index entry. Files are without a gap.
func (l *Log) fileOf(at where) *file {
	i := at.file - l.files[0].sequence
	if i >= uint64(len(l.files)) {
		panic(fmt.Sprintf("wal: index names file %d, log has %d to %d", at.file, l.files[0].sequence, l.files[len(l.files)-1].sequence))
	}
	return l.files[i]
}

// readAt reads and verifies a prepare or, if the header is enough, a reset or floor.
func (l *Log) readAt(f *file, at where, headerOnly bool) (vsr.Prepare, error) {
	size := at.size
	if headerOnly && l.o.Vault == nil {
		size = vsr.HeaderSize
	}
	r, b, err := readFrame(f, at, size)
	if err != nil {
		return vsr.Prepare{}, err
	}
	payload, err := l.openRead(&r, b[frameSize:])
	if err != nil {
		return vsr.Prepare{}, err
	}
	h, err := vsr.DecodeHeader(payload)
	if err != nil {
		return vsr.Prepare{}, fmt.Errorf("%w: %w", errPayload, err)
	}
	if h.Cluster != l.o.Cluster || r.kind != KindPrepare && !headerOnly {
		return vsr.Prepare{}, fmt.Errorf("%w: %v of cluster %x", errPayload, r.kind, h.Cluster)
	}
	p := vsr.Prepare{Header: h}
	if !headerOnly {
		p.Body = payload[vsr.HeaderSize:]
		if err := h.CheckBody(p.Body); err != nil {
			return vsr.Prepare{}, fmt.Errorf("%w: %w", errPayload, err)
		}
	}
	return p, nil
}

// openRead opens a payload that was read whole, where it is.
func (l *Log) openRead(r *frame, payload []byte) ([]byte, error) {
	if !r.sealed {
		return r.open(l.o.Vault, nil, payload)
	}
	if err := checkSealed(payload); err != nil {
		return nil, err
	}
	const text = sealedHead + cipher.HeadSize
	return r.open(l.o.Vault, payload[text:text], payload)
}

// readFrame reads a frame and size bytes of its payload, and verifies the frame.
func readFrame(f *file, at where, size uint32) (frame, []byte, error) {
	b := make([]byte, frameSize+int(size))
	if n, err := f.f.ReadAt(b, at.offset()); n < len(b) {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return frame{}, nil, &diskError{err}
	}
	r, err := parseFrame(b, f.sequence, at.offset(), f.size)
	if err == nil && (r.length != at.size || r.head > size) {
		err = fmt.Errorf("%w: length %d, want %d", errBounds, r.length, at.size)
	}
	if err == nil {
		err = r.verify(b, f.salt)
	}
	if err == nil {
		err = r.checkPayload()
	}
	return r, b, err
}

// diskError marks that a file could not be read, which says nothing about its
// content.
type diskError struct{ error }

func (e *diskError) Unwrap() error { return e.error }

func readError(f *file, at where, id vsr.GroupID, op vsr.Op, err error) error {
	if d, ok := err.(*diskError); ok {
		return fmt.Errorf("wal: read group %d op %d: %s at %d: %w", id, op, f.name, at.offset(), d.error)
	}
	if _, kind := sealKind(err); kind != nil {
		e := sealError(f.name, at.offset(), err)
		e.Group, e.Op, e.HasOp = id, op, true
		return e
	}
	return &Error{
		Kind: ErrDamaged, File: f.name, Offset: at.offset(), Group: id, Op: op, HasOp: true,
		Reason: err.Error(), Next: "restore the file from a copy, or rebuild this replica from its peers",
	}
}
