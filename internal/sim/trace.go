package sim

import (
	"fmt"
	"hash/crc32"
	"io"
)

// trace is the fingerprint of a run, and the events of it for people. The
// fingerprint covers every loop turn, disk call with its bytes, frame and answer.
// Events are only written down when somebody reads them: a failed run is played
// again for that.
type trace struct {
	hash uint64
	on   bool
	out  io.Writer // nil: only the last events are kept
	last []string
	next int
}

// traceKeep is how many events are shown of a failure.
const traceKeep = 120

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Kinds of what goes into the fingerprint.
const (
	markTurn = iota + 1
	markDisk
	markFrame
	markDeliver
	markAnswer
	markNode
	markTick
)

// mark adds to the fingerprint.
func (w *world) mark(kind int, words ...uint64) {
	h := w.trace.hash ^ uint64(kind) ^ uint64(w.now)<<8
	for _, x := range words {
		h = (h ^ x) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	w.trace.hash = h * 0xbf58476d1ce4e5b9
}

// markBytes adds to the fingerprint what bytes hold.
func (w *world) markBytes(kind int, a uint64, b []byte) {
	w.mark(kind, a, uint64(len(b)), uint64(crc32.Checksum(b, castagnoli)))
}

func markText(s string) uint64 { return uint64(crc32.Checksum([]byte(s), castagnoli)) }

// say writes an event for people.
func (w *world) say(format string, args ...any) {
	t := &w.trace
	if !t.on {
		return
	}
	line := fmt.Sprintf("%8d %s  %s", w.steps, clock(w.now), fmt.Sprintf(format, args...))
	if t.out != nil {
		fmt.Fprintln(t.out, line)
	}
	if len(t.last) < traceKeep {
		t.last = append(t.last, line)
		return
	}
	t.last[t.next] = line
	t.next = (t.next + 1) % traceKeep
}

// events returns the last ones, oldest first.
func (t *trace) events() []string {
	return append(append([]string(nil), t.last[t.next:]...), t.last[:t.next]...)
}

// content is a sum of what is written and where.
func content(bufs [][]byte, off int64) uint32 {
	sum := uint32(off)
	for _, b := range bufs {
		sum = crc32.Update(sum, castagnoli, b)
	}
	return sum
}
