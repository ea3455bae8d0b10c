package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"

	"galgo/internal/disk"
	"galgo/internal/vsr"
)

// Recovered is what Open found.
type Recovered struct {
	Fresh  bool             // there was no log; one was made
	Groups []RecoveredGroup // by number
	Cut    *Cut             // nil if no torn tail was found
	Strays []string         // names in the directory that are not the log's; left alone
}

// RecoveredGroup is what the log holds of one group. Bodies are read from the
// log; nothing says yet which ops are committed.
type RecoveredGroup struct {
	Group vsr.GroupID
	// Base is the op before the first that can be read, 0 if that is op 1. If
	// HasFloor its header can be read too.
	Base     vsr.Op
	HasFloor bool
	Last     vsr.Op // Base if there is none above it
	LastID   vsr.Identity
	State    []byte // the newest state record; nil if there is none
}

// Cut is a torn write that was dropped. It was never acknowledged.
type Cut struct {
	File   string
	At     Position
	Bytes  int64 // from At to the end of its last readable record; 0 if none is
	Frames int   // readable records among them
}

// Open recovers the log in dir, or makes one if there is none. If it refuses,
// with an *Error or because a file cannot be read, nothing was changed.
// Otherwise all that was recovered is durable when it returns.
func Open(d disk.Disk, dir string, o Options) (*Log, *Recovered, error) {
	o, err := o.complete()
	if err != nil {
		return nil, nil, err
	}
	l := &Log{d: d, dir: dir, o: o, groups: map[vsr.GroupID]*group{}}
	names, err := listDir(d, dir)
	if err != nil {
		return nil, nil, err
	}
	rec := &Recovered{Strays: names.strays}
	if len(names.sequences) == 0 {
		rec.Fresh = true
		return l, rec, l.create(names.temps)
	}
	left, kept := leftBehind(names.sequences)
	names.sequences, names.temps = kept, append(names.temps, l.named(left)...)
	if err := l.recover(names, rec); err != nil {
		if _, refused := errors.AsType[*Error](err); refused && len(left) > 0 { // what is missing is needed after all
			err = l.gap(left[len(left)-1], kept[0])
		}
		for _, f := range append(l.files, l.spares...) {
			f.f.Close()
		}
		return nil, nil, err
	}
	return l, rec, nil
}

// dirNames are the names in a log's directory.
type dirNames struct {
	sequences []uint64 // of files, in order
	temps     []string // files that were being made
	strays    []string
}

func listDir(d disk.Disk, dir string) (dirNames, error) {
	var n dirNames
	entries, err := d.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return n, nil
	}
	if err != nil {
		return n, fmt.Errorf("wal: list %s: %w", dir, err)
	}
	for _, e := range entries {
		if sequence, ok := parseName(e.Name, fileSuffix); ok && !e.Dir {
			n.sequences = append(n.sequences, sequence)
		} else if _, ok := parseName(e.Name, tempSuffix); (ok || e.Name == "spare"+tempSuffix) && !e.Dir {
			n.temps = append(n.temps, path.Join(dir, e.Name))
		} else {
			n.strays = append(n.strays, e.Name)
		}
	}
	return n, nil
}

// create makes a log where there is none.
func (l *Log) create(temps []string) error {
	if err := l.d.MkdirAll(l.dir); err != nil {
		return fmt.Errorf("wal: make %s: %w", l.dir, err)
	}
	if err := l.dropTemps(temps); err != nil {
		return err
	}
	f, err := l.makeFile(1, l.o.FileSize)
	if err != nil {
		return err
	}
	l.files, l.cur, l.end, l.nextSequence = []*file{f}, f, blockSize, 2
	l.low = 1
	l.reach.start(Position{1, blockSize}, Position{1, blockSize})
	return nil
}

// dropTemps removes what was being made when the process ended, and makes every
// name that is there durable: a file that was just renamed may not be.
func (l *Log) dropTemps(temps []string) error {
	for _, name := range temps {
		if err := l.d.Remove(name); err != nil {
			return fmt.Errorf("wal: %w", err)
		}
	}
	if err := l.d.SyncDir(l.dir); err != nil {
		return fmt.Errorf("wal: %w", err)
	}
	return nil
}

func (l *Log) recover(names dirNames, rec *Recovered) error {
	if err := l.openFiles(names.sequences); err != nil {
		return err
	}
	states := map[vsr.GroupID][]byte{}
	s := newScanner(l.files, &l.o, func(f *file, r *record) error { return l.replay(f, r, states) })
	index, flt, err := s.walk()
	if err != nil {
		return err
	}
	v, err := s.judge(index, flt)
	if err != nil {
		return err
	}
	if v.damage != nil {
		return v.damage
	}
	if err := l.checkComplete(s); err != nil {
		return err
	}
	if v.torn {
		cur := l.files[v.index]
		rec.Cut = &Cut{File: cur.name, At: Position{cur.sequence, v.end}, Bytes: v.bytes, Frames: v.frames}
	}
	if err := l.dropTemps(names.temps); err != nil {
		return err
	}
	rec.Groups = l.recovered(states)
	return l.resume(s, v)
}

// leftBehind splits the files of a log where one is missing. Those before the last gap
// were freed, if the rest says that it needs none of them: the sync behind a removal may
// have failed, and then a power loss brings back what was removed.
func leftBehind(sequences []uint64) (left, kept []uint64) {
	from := len(sequences) - 1
	for from > 0 && sequences[from] == sequences[from-1]+1 {
		from--
	}
	return sequences[:from], sequences[from:]
}

func (l *Log) named(sequences []uint64) (names []string) {
	for _, sequence := range sequences {
		names = append(names, l.fileName(sequence, fileSuffix))
	}
	return names
}

// gap is the refusal of files that are missing behind a file and before another.
func (l *Log) gap(before, after uint64) *Error {
	return l.missing(before+1, after-1, fmt.Sprintf("file %d is there", after))
}

// openFiles opens every file and checks that it is whole, ours and in its place.
func (l *Log) openFiles(sequences []uint64) error {
	for _, sequence := range sequences {
		f, err := openFile(l.d, l.fileName(sequence, fileSuffix))
		if err != nil {
			return err
		}
		l.files = append(l.files, f)
		if err := l.checkOwner(f, sequence); err != nil {
			return err
		}
	}
	l.nextSequence = sequences[len(sequences)-1] + 1
	return nil
}

func (l *Log) missing(from, to uint64, why string) *Error {
	return &Error{
		Kind: ErrMissing, File: l.dir, Offset: -1, Next: nextRestore,
		Reason: fmt.Sprintf("files %0*d to %0*d are not there, but %s", nameDigits, from, nameDigits, to, why),
	}
}

// openFile opens a file and verifies its header and length.
func openFile(d disk.Disk, name string) (*file, error) {
	f, err := d.Open(name)
	if err != nil {
		return nil, fmt.Errorf("wal: %w", err)
	}
	opened := &file{f: f, name: name}
	if err := opened.readHeader(); err != nil {
		f.Close()
		return nil, err
	}
	return opened, nil
}

func (f *file) readHeader() error {
	refuse := func(kind error, next, format string, args ...any) error {
		return &Error{Kind: kind, File: f.name, Offset: -1, Reason: fmt.Sprintf(format, args...), Next: next}
	}
	size, err := f.f.Size()
	if err != nil {
		return fmt.Errorf("wal: %w", err)
	}
	if size < blockSize {
		return refuse(ErrDamaged, nextRestore, "the file has %d bytes, its header %d", size, blockSize)
	}
	header := file{f: f.f, name: f.name, fileHeader: fileHeader{size: blockSize}} // to read no more than this
	b, err := (&window{}).bytes(&header, 0, blockSize)
	if err != nil {
		return err
	}
	f.fileHeader, err = decodeFileHeader(b)
	switch {
	case errors.Is(err, ErrVersion):
		return refuse(ErrVersion, nextUpgrade, "%v", err)
	case err != nil:
		return refuse(ErrDamaged, nextRestore, "%v", err)
	case f.size != size:
		return refuse(ErrDamaged, nextRestore, "the file has %d bytes, its header says %d", size, f.size)
	}
	return nil
}

func (l *Log) checkOwner(f *file, sequence uint64) error {
	h, o := &f.fileHeader, &l.o
	if h.cluster == o.Cluster && h.replica == o.Replica && h.shard == o.Shard && h.sequence == sequence {
		return nil
	}
	return &Error{
		Kind: ErrForeign, File: f.name, Offset: -1, Next: nextForeign,
		Reason: fmt.Sprintf("header of cluster %x, replica %d, shard %d, sequence %d; want cluster %x, replica %d, shard %d, sequence %d",
			h.cluster, h.replica, h.shard, h.sequence, o.Cluster, o.Replica, o.Shard, sequence),
	}
}

// replay puts a record that was read into the index, if it can follow what was
// read before.
func (l *Log) replay(f *file, r *record, states map[vsr.GroupID][]byte) error {
	if r.kind == KindMark {
		return nil
	}
	if r.kind == KindForget {
		delete(l.groups, r.group)
		delete(states, r.group)
		return nil
	}
	g := l.groups[r.group]
	if g == nil {
		g = &group{id: r.group}
		l.groups[r.group] = g
	}
	at := where{f.sequence, uint32(r.at / alignment), r.length}
	switch r.kind {
	case KindPrepare:
		if err := g.admit(&r.header); err != nil {
			return err
		}
		g.push(&r.header, at)
	case KindTruncate:
		if err := g.admitCut(vsr.Op(r.number)); err != nil {
			return err
		}
		g.cut(vsr.Op(r.number))
	case KindState:
		g.state = at
		states[r.group] = slices.Clone(r.state)
	case KindReset:
		g.reset(&r.header, at)
	case KindFloor:
		if err := g.admitFloor(&r.header); err != nil {
			return err
		}
		g.floor(&r.header, at)
	}
	return nil
}

// checkComplete looks for files at the front that are gone though needed, and
// groups whose beginning was in such a file.
func (l *Log) checkComplete(s *scanner) error {
	l.low = max(s.low, 1)
	if first := l.files[0].sequence; first > l.low {
		return l.missing(l.low, first-1, "the log says that they are needed")
	}
	for _, id := range slices.Sorted(maps.Keys(l.groups)) {
		if g := l.groups[id]; g.orphan {
			return &Error{
				Kind: ErrMissing, File: l.dir, Offset: -1, Group: id, Op: g.base + 1, HasOp: true, Next: nextRestore,
				Reason: fmt.Sprintf("the log of the group begins at op %d, and nothing says that it may", g.base+1),
			}
		}
	}
	return nil
}

func (l *Log) recovered(states map[vsr.GroupID][]byte) []RecoveredGroup {
	groups := make([]RecoveredGroup, 0, len(l.groups))
	for _, id := range slices.Sorted(maps.Keys(l.groups)) {
		g := l.groups[id]
		groups = append(groups, RecoveredGroup{
			Group: id, Base: g.base, HasFloor: g.baseAt.file != 0,
			Last: g.last(), LastID: g.lastID(), State: states[id],
		})
	}
	return groups
}
