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
//	 16     8  replaced   of the metadata group: groups that were created up to this
//	                      revision may have been promised something by the disk before
type promise struct {
	vsr.State
	replaced uint64
}

const promiseSize = 24

func (p promise) append(b []byte) []byte {
	le := binary.LittleEndian
	b = le.AppendUint32(b, uint32(p.View))
	b = le.AppendUint32(b, uint32(p.LogView))
	b = le.AppendUint64(b, uint64(p.Doubt))
	return le.AppendUint64(b, p.replaced)
}

func decodePromise(b []byte) (promise, error) {
	if len(b) != promiseSize {
		return promise{}, fmt.Errorf("shard: state record has %d bytes, want %d", len(b), promiseSize)
	}
	le := binary.LittleEndian
	p := promise{
		State:    vsr.State{View: vsr.View(le.Uint32(b)), LogView: vsr.View(le.Uint32(b[4:])), Doubt: vsr.Op(le.Uint64(b[8:]))},
		replaced: le.Uint64(b[16:]),
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
