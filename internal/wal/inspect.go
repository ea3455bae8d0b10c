package wal

import (
	"errors"
	"fmt"

	"galgo/internal/cipher"
	"galgo/internal/disk"
	"galgo/internal/vsr"
)

// Item is one thing that Inspect found. Problem is nil for a file or a record
// that is as it should be.
type Item struct {
	File   string
	Record bool     // a record, or the place where one should be; else the file
	At     Position // of the record
	Size   int64    // bytes of record or file
	Kind   Kind     // 0 if there is no record
	Synced Position
	Group  vsr.GroupID
	Op     vsr.Op // of a prepare, truncation, reset or floor
	// Header is that of a prepare, reset or floor. It is valid until visit returns.
	Header *vsr.Header
	State  []byte // of a state record, until visit returns
	// Key is the id of the key of a sealed record. Op and Header are those of a record that
	// the vault opens.
	Key cipher.ID
	// Problem is an *Error. With Torn it is what a crash in a write leaves, and
	// Open will cut it; else Open refuses.
	Problem error
	Torn    bool
}

// Inspect reads the log in dir without changing it and shows what it finds to
// visit: the files, then the records in order. After damage it goes on with what
// can still be read. It returns the problems that Open would refuse with,
// joined; an error of visit ends it. Without a vault what is sealed is verified and stays
// closed, and whether it goes on where the record before ends is not looked at.
func Inspect(d disk.Disk, dir string, vault *cipher.Vault, visit func(Item) error) error {
	in := inspector{l: &Log{dir: dir, groups: map[vsr.GroupID]*group{}}, visit: visit}
	in.l.o.Vault = vault
	names, err := listDir(d, dir)
	if err != nil {
		return err
	}
	if len(names.sequences) == 0 {
		return fmt.Errorf("wal: no log in %s: %w", dir, disk.ErrNotExist)
	}
	defer func() {
		for _, f := range in.l.files {
			f.f.Close()
		}
	}()
	left, kept := leftBehind(names.sequences)
	in.openFiles(d, kept)
	if err := in.run(); err != nil {
		return err
	}
	if len(left) > 0 && len(in.problems) > 0 {
		in.problems = append([]error{in.l.gap(left[len(left)-1], kept[0])}, in.problems...)
	}
	return errors.Join(in.problems...)
}

type inspector struct {
	l        *Log
	visit    func(Item) error
	files    []Item
	problems []error
	closed   bool // a record stayed closed: what the groups have is not known
}

// openFiles opens what it can. The first readable file says whose log it is.
func (in *inspector) openFiles(d disk.Disk, sequences []uint64) {
	l := in.l
	for _, sequence := range sequences {
		it := Item{File: l.fileName(sequence, fileSuffix), At: Position{File: sequence}}
		f, err := openFile(d, it.File)
		if err == nil {
			if len(l.files) == 0 {
				l.o.Cluster, l.o.Replica, l.o.Shard = f.cluster, f.replica, f.shard
			}
			it.Size = f.size
			l.files = append(l.files, f)
			err = l.checkOwner(f, sequence)
		}
		if err != nil {
			it.Problem = err
			in.problems = append(in.problems, err)
		}
		in.files = append(in.files, it)
	}
}

func (in *inspector) run() error {
	for _, it := range in.files {
		if err := in.visit(it); err != nil {
			return err
		}
	}
	if len(in.l.files) == 0 {
		return nil
	}
	states := map[vsr.GroupID][]byte{}
	var stopped error
	s := newScanner(in.l.files, &in.l.o, func(f *file, r *record) error {
		in.closed = in.closed || r.closed != nil
		if !in.closed {
			if err := in.l.replay(f, r, states); err != nil {
				return err
			}
		}
		stopped = in.visitRecord(f, r)
		return stopped
	})
	s.lenient = true
	index, flt, err := s.walk()
	if stopped != nil || err != nil {
		return errors.Join(stopped, err)
	}
	return in.end(s, index, flt)
}

func (in *inspector) visitRecord(f *file, r *record) error {
	it := Item{
		File: f.name, Record: true, At: Position{f.sequence, r.at}, Size: r.size(), Kind: r.kind,
		Synced: r.synced, Group: r.group, Op: r.header.Op, State: r.state, Key: r.key,
	}
	switch {
	case r.closed != nil:
		if in.l.o.Vault != nil {
			it.Problem = r.closed
			in.problems = append(in.problems, r.closed)
		}
	case r.kind.secret():
		it.Header = &r.header
	case r.kind == KindTruncate:
		it.Op = vsr.Op(r.number)
	}
	return in.visit(it)
}

// end says what the end of the readable records is, and what frames lie behind.
func (in *inspector) end(s *scanner, index int, flt *fault) error {
	v, err := s.judge(index, flt)
	if err != nil {
		return err
	}
	at := in.l.files[v.index]
	it := Item{File: at.name, Record: true, At: Position{at.sequence, v.end}, Size: v.bytes}
	switch {
	case v.damage != nil:
		it.File, it.At.Offset, it.Group, it.Op, it.Problem = v.damage.File, v.damage.Offset, v.damage.Group, v.damage.Op, v.damage
		in.problems = append(in.problems, v.damage)
	case v.torn:
		it.Torn, it.Problem = true, &Error{
			Kind: ErrDamaged, File: at.name, Offset: v.end,
			Reason: fmt.Sprintf("torn tail of a write that was never acknowledged, %d bytes with %d readable records", v.bytes, v.frames),
			Next:   "none needed; the next start cuts it",
		}
	default:
		return in.incomplete(s)
	}
	if err := in.visit(it); err != nil {
		return err
	}
	if err := in.behind(s, v); err != nil || v.damage != nil {
		return err
	}
	return in.incomplete(s)
}

func (in *inspector) incomplete(s *scanner) error {
	if in.closed {
		clear(in.l.groups)
	}
	if err := in.l.checkComplete(s); err != nil {
		in.problems = append(in.problems, err)
	}
	return nil
}

// behind shows the frames that can still be read behind the end.
func (in *inspector) behind(s *scanner, v verdict) error {
	from := v.end
	for _, f := range in.l.files[v.index:] {
		var stopped error
		err := s.search(f, from, func(fr frame) bool {
			stopped = in.visit(Item{
				File: f.name, Record: true, At: Position{f.sequence, fr.at}, Size: fr.size(), Kind: fr.kind,
				Synced: fr.synced, Group: fr.group, Torn: v.damage == nil,
				Problem: &Error{Kind: ErrDamaged, File: f.name, Offset: fr.at, Reason: "lies behind the end of the readable log"},
			})
			return stopped == nil
		})
		if err := errors.Join(stopped, err); err != nil {
			return err
		}
		from = blockSize
	}
	return nil
}
