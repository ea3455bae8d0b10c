package shard

import (
	"encoding/binary"
	"errors"
	"fmt"

	"galgo/internal/vsr"
	"galgo/internal/wal"
)

// promise is what a replica of a group may not forget, as its log keeps it in a
// state record.
//
//	off  size  field
//	  0     4  view
//	  4     4  log view
//	  8     8  doubt      see vsr.State
//	 16     8  replaced   of the metadata group: groups that were created up to this op
//	                      may have been promised something by the disk before; 0: none
//	 24     8  revision   the first after that op; 0 if it is not applied yet
type promise struct {
	vsr.State
	replaced vsr.Op
	revision uint64
}

const promiseSize = 32

// doubts reports whether a group of this revision may have been promised something by a
// disk that this replica had before.
func (p *promise) doubts(created uint64) bool {
	switch {
	case p.Doubt == vsr.DoubtAll:
		return true
	case p.replaced == 0:
		return false
	}
	return p.revision == 0 || created < p.revision // not applied yet: all there are
}

func (p promise) append(b []byte) []byte {
	le := binary.LittleEndian
	b = le.AppendUint32(b, uint32(p.View))
	b = le.AppendUint32(b, uint32(p.LogView))
	b = le.AppendUint64(b, uint64(p.Doubt))
	b = le.AppendUint64(b, uint64(p.replaced))
	return le.AppendUint64(b, p.revision)
}

func decodePromise(b []byte) (promise, error) {
	if len(b) != promiseSize {
		return promise{}, fmt.Errorf("shard: state record has %d bytes, want %d", len(b), promiseSize)
	}
	le := binary.LittleEndian
	p := promise{
		State:    vsr.State{View: vsr.View(le.Uint32(b)), LogView: vsr.View(le.Uint32(b[4:])), Doubt: vsr.Op(le.Uint64(b[8:]))},
		replaced: vsr.Op(le.Uint64(b[16:])), revision: le.Uint64(b[24:]),
	}
	if p.LogView > p.View {
		return promise{}, fmt.Errorf("shard: state record has log_view %d above view %d", p.LogView, p.View)
	}
	return p, nil
}

// record is the promise as its log takes it.
func (p promise) record(group vsr.GroupID) wal.Record {
	return wal.Record{Kind: wal.KindState, Group: group, State: p.append(nil)}
}

// gone turns "not in the log any more", which is no fault, into nothing.
func gone(err error) error {
	if errors.Is(err, wal.ErrNotFound) {
		return nil
	}
	return err
}
