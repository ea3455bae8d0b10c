package wal

import (
	"encoding/binary"
	"fmt"

	"galgo/internal/disk"
	"galgo/internal/vsr"
)

// markRoom is kept free at the end of each file, so that a mark fits.
const markRoom = disk.Sector

const _ = uint(markRoom - frameSize - 8)

// batch is the scratch of one Write, reused by the next.
type batch struct {
	spans   []span
	scratch []byte   // frames, headers and padding
	bufs    [][]byte // what goes to disk: parts of scratch, and bodies between
	places  []where  // of each record
	mark    [1]Record
}

// span is a part of a batch that goes into one file.
type span struct {
	from, to int   // records
	size     int64 // of the next file, if from is its first record
}

// Write appends records in order, with one vectored write, more only where a
// file ends. With sync it returns when they are durable; without, they are
// readable, and durable after the next Write with sync, Sync or Mark.
//
// An error that is ErrPoisoned leaves open what is durable, and the log can only
// be closed. With any other (disk.ErrNoSpace if the next file could not be made)
// nothing of the batch was written and the log can be used. A record that does
// not continue its group is a bug, and panics.
func (l *Log) Write(recs []Record, sync bool) error {
	for i := range recs {
		if k := recs[i].Kind; k == 0 || k > KindReset {
			panic(fmt.Sprintf("wal: write a record of kind %v", k))
		}
	}
	return l.write(recs, sync)
}

func (l *Log) write(recs []Record, sync bool) error {
	if err := l.poisoned(); err != nil {
		return err
	}
	if len(recs) > 0 {
		if err := l.append(recs); err != nil {
			return err
		}
	}
	if sync {
		if err := l.syncWritten(); err != nil {
			return err
		}
	}
	l.publish(recs)
	return nil
}

func (l *Log) append(recs []Record) error {
	l.stage(recs)
	if err := l.plan(recs); err != nil {
		l.unstage(recs)
		return err
	}
	l.batch.places = l.batch.places[:0]
	for _, s := range l.batch.spans {
		if s.size > 0 {
			if err := l.roll(); err != nil {
				return err
			}
		}
		if err := l.writeSpan(recs[s.from:s.to]); err != nil {
			return err
		}
	}
	return nil
}

// Sync makes everything durable that was written before it was called. It may run at
// the same time as Write, which then writes what the next Sync will cover. Errors are as
// those of Write.
func (l *Log) Sync() error {
	if err := l.poisoned(); err != nil {
		return err
	}
	return l.syncWritten()
}

func (l *Log) syncWritten() error {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	to, release := l.reach.begin()
	if to.file == nil {
		return nil
	}
	err := to.file.f.Sync()
	release()
	if err != nil {
		return l.poison(err)
	}
	l.reach.synced(to)
	l.mu.Lock()
	l.stats.Syncs++
	l.mu.Unlock()
	return nil
}

// Mark makes everything written durable and adds a record that says so, unless
// one does already. Errors are as those of Write.
func (l *Log) Mark() error {
	if err := l.Sync(); err != nil {
		return err
	}
	if !l.reach.witnessed().Less(l.dataEnd) {
		return nil
	}
	return l.writeMark()
}

func (l *Log) writeMark() error {
	l.batch.mark[0] = Record{Kind: KindMark, Op: vsr.Op(l.low)}
	return l.write(l.batch.mark[:], true)
}

// scratchKeep bounds what is kept between writes of the scratch of a sealed log, which has
// whole bodies in it.
const scratchKeep = 4 << 20

// payloadSize and headSize are length and head of a record's frame.
func (l *Log) payloadSize(r *Record) int64 {
	if l.seals(r) {
		return r.clearSize() + sealedOverhead
	}
	return r.clearSize()
}

func (r *Record) clearSize() int64 {
	switch r.Kind {
	case KindPrepare:
		return vsr.HeaderSize + int64(len(r.Body))
	case KindReset, KindFloor:
		return vsr.HeaderSize
	case KindTruncate, KindMark:
		return 8
	case KindState:
		return int64(len(r.State))
	case KindForget:
		return 0
	}
	panic(fmt.Sprintf("wal: record of kind %v", r.Kind))
}

func (l *Log) headSize(r *Record) int64 {
	switch {
	case l.seals(r):
		return sealedHead
	case r.Kind == KindPrepare:
		return vsr.HeaderSize
	}
	return r.clearSize()
}

// inScratch is how much of a record's payload stands in the scratch of its batch: all of
// what is sealed, else the head.
func (l *Log) inScratch(r *Record) int64 {
	if l.seals(r) {
		return l.payloadSize(r)
	}
	return l.headSize(r)
}

func (l *Log) sizeOf(r *Record) int64 { return frameSize + roundUp(l.payloadSize(r), alignment) }

// plan divides a batch into spans and makes sure that every file it needs
// exists, before a byte is written.
func (l *Log) plan(recs []Record) error {
	b := &l.batch
	b.spans = b.spans[:0]
	cur := span{}
	end, size := l.end, l.cur.size
	for i := range recs {
		room := int64(markRoom)
		if recs[i].Kind == KindMark {
			room = 0
		}
		n := roundUp(l.sizeOf(&recs[i]), disk.Sector)
		if end+n+room > size {
			if cur.to = i; cur.to > cur.from || cur.size > 0 {
				b.spans = append(b.spans, cur)
			}
			size = max(l.o.FileSize, blockSize+n+room)
			if err := l.reserve(rolls(b.spans), size); err != nil {
				return err
			}
			cur = span{from: i, size: size}
			end = blockSize
		}
		end += l.sizeOf(&recs[i])
	}
	cur.to = len(recs)
	b.spans = append(b.spans, cur)
	return nil
}

// rolls counts the spans that begin a file.
func rolls(spans []span) int {
	n := 0
	for _, s := range spans {
		if s.size > 0 {
			n++
		}
	}
	return n
}

// roll leaves the current file, which has to be durable first: a record in the
// next one witnesses that it was.
func (l *Log) roll() error {
	if err := l.syncWritten(); err != nil {
		return err
	}
	l.cur, l.end = l.takeSpare(), blockSize
	l.mu.Lock()
	l.files = append(l.files, l.cur)
	l.mu.Unlock()
	return nil
}

// writeSpan writes records to the current file.
func (l *Log) writeSpan(recs []Record) error {
	start, synced := l.end, l.reach.known()
	l.encode(recs, synced)
	if err := l.cur.f.WritevAt(l.batch.bufs, start); err != nil {
		return l.poison(err)
	}
	clear(l.batch.bufs) // keep nobody's body alive
	if l.o.Vault != nil && cap(l.batch.scratch) > scratchKeep {
		l.batch.scratch = nil
	}
	l.reach.wrote(written{file: l.cur, end: l.end, carries: synced})
	for i := range recs {
		if recs[i].Kind != KindMark {
			l.dataEnd = Position{l.cur.sequence, l.end}
		}
	}
	return nil
}

// encode fills scratch and bufs, and moves end and chain behind the records, which say
// that the log was known synced up to synced. The last one is padded to the end of a
// sector.
func (l *Log) encode(recs []Record, synced Position) {
	b := &l.batch
	b.bufs = b.bufs[:0]
	b.scratch = grown(b.scratch[:0], l.scratchBytes(recs))
	done := 0 // bytes of scratch that bufs has
	for i := range recs {
		r := &recs[i]
		size := l.sizeOf(r)
		if i == len(recs)-1 {
			size = roundUp(l.end+size, disk.Sector) - l.end
		}
		pad := size - frameSize - l.payloadSize(r)
		l.appendFrame(r, uint16(pad), synced)
		if len(r.Body) > 0 && !l.seals(r) {
			b.bufs = append(b.bufs, b.scratch[done:], r.Body)
			done = len(b.scratch)
		}
		b.scratch = append(b.scratch, zeros[:pad]...)
		b.places = append(b.places, where{l.cur.sequence, uint32(l.end / alignment), uint32(l.payloadSize(r))})
		l.end += size
	}
	b.bufs = append(b.bufs, b.scratch[done:])
}

var zeros [padMax]byte

// scratchBytes bounds what encode appends, so that scratch never moves while
// bufs point into it.
func (l *Log) scratchBytes(recs []Record) int {
	n := int64(disk.Sector)
	for i := range recs {
		n += frameSize + l.inScratch(&recs[i]) + alignment
	}
	return int(n)
}

func grown(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, 0, n+n/4)
	}
	return b
}

// appendFrame appends to scratch the frame of a record, and what of its payload stands
// there.
func (l *Log) appendFrame(r *Record, pad uint16, synced Position) {
	start := len(l.batch.scratch)
	b := l.batch.scratch[:start+frameSize+int(l.inScratch(r))]
	head := uint32(l.headSize(r))
	f := frame{
		kind: r.Kind, sealed: l.seals(r), pad: pad, file: l.cur.sequence, group: r.Group, synced: synced, at: l.end,
		length: uint32(l.payloadSize(r)), head: head, prev: l.chain,
	}
	f.put(b[start:])
	l.putPayload(b[start+frameSize:], r)
	l.chain = seal(b[start:start+frameSize+int(head)], l.cur.salt)
	l.batch.scratch = b
}

func (l *Log) putPayload(b []byte, r *Record) {
	switch r.Kind {
	case KindPrepare, KindReset, KindFloor:
		if l.seals(r) {
			l.sealPayload(b, r)
			return
		}
		r.Header.PutHeader(b)
	case KindTruncate, KindMark:
		binary.LittleEndian.PutUint64(b, uint64(r.Op))
	case KindState:
		copy(b, r.State)
	}
}

// publish lets readers see a batch.
func (l *Log) publish(recs []Record) {
	if len(recs) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range recs {
		l.apply(&recs[i], l.batch.places[i])
	}
	l.stats.Records += uint64(len(recs))
	l.stats.Writes += uint64(len(l.batch.spans))
}

// apply puts one record into the index. A group that is gone was forgotten while
// the batch was written.
func (l *Log) apply(r *Record, at where) {
	g := l.groups[r.Group]
	if g == nil {
		return
	}
	switch r.Kind {
	case KindPrepare:
		g.push(r.Header, at)
	case KindTruncate:
		g.cut(r.Op)
	case KindState:
		g.state = at
	case KindReset:
		g.reset(r.Header, at)
	case KindFloor:
		g.floor(r.Header, at)
	}
}
