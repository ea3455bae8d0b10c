package superblock

import (
	"bytes"
	"fmt"
	"sync/atomic"
)

// Mem is a Store in memory, for tests and simulation: it survives what its
// holder survives, and can be made to fail. The zero value is empty.
type Mem struct {
	latest  Outcome
	fail    error
	during  func() // tests: runs once, in the middle of a write
	writes  int
	writing atomic.Bool
}

var _ Store = (*Mem)(nil)

// Fail makes every following Write fail with err, without effect; nil ends that.
func (m *Mem) Fail(err error) { m.fail = err }

// Writes returns how many writes succeeded.
func (m *Mem) Writes() int { return m.writes }

// Latest implements Store.
func (m *Mem) Latest() Outcome {
	o := m.latest
	o.Payload = bytes.Clone(o.Payload)
	return o
}

// Write implements Store.
func (m *Mem) Write(payload []byte) error {
	if !m.writing.CompareAndSwap(false, true) {
		panic(fmt.Sprintf("superblock: write %d in memory began while another was under way: the store has one writer", m.latest.Sequence+1))
	}
	defer m.writing.Store(false)
	if len(payload) > PayloadMax {
		return fmt.Errorf("%w: %d bytes of at most %d", ErrPayload, len(payload), PayloadMax)
	}
	if m.fail != nil {
		return fmt.Errorf("superblock: write record %d in memory: %w", m.latest.Sequence+1, m.fail)
	}
	if do := m.during; do != nil {
		m.during = nil
		do()
	}
	m.latest.Kind, m.latest.Payload = Present, append([]byte{}, payload...)
	m.latest.Sequence++
	m.writes++
	return nil
}
