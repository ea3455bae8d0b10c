package telemetry

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// rotatedMax bounds the files beside the one that is written. Beyond, the oldest
// is overwritten. It bounds the renames of one rotation, too.
const rotatedMax = 1000

// rotated is a file that is not written any more.
type rotated struct {
	number   int // from 1, the newest
	size     int64
	modified time.Time // when its last record was written
}

func sizeOf(files []rotated) (sum int64) {
	for _, r := range files {
		sum += r.size
	}
	return sum
}

func (f *file) numbered(n int) string { return f.path + "." + strconv.Itoa(n) }

// numberOf tells rotated files from what others put beside them, such as .1.gz or
// a date.
func (f *file) numberOf(name string) (int, bool) {
	text, ok := strings.CutPrefix(name, filepath.Base(f.path)+".")
	n, err := strconv.Atoi(text)
	return n, ok && err == nil && 1 <= n && n <= f.countMax && strconv.Itoa(n) == text
}

// rotated lists the rotated files, newest first.
func (f *file) rotated() ([]rotated, error) {
	entries, err := os.ReadDir(filepath.Dir(f.path))
	if err != nil {
		return nil, err
	}
	var files []rotated
	for _, e := range entries {
		number, ok := f.numberOf(e.Name())
		if !ok || !e.Type().IsRegular() {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		files = append(files, rotated{number, info.Size(), info.ModTime()})
	}
	slices.SortFunc(files, func(a, b rotated) int { return a.number - b.number })
	return files, nil
}

// makeRoom keeps the limits when n more bytes are written. If it cannot, they are
// written all the same: better a long log than none.
func (f *file) makeRoom(n int64) {
	if f.clock().Before(f.rotateAgain) {
		return
	}
	var err error
	if f.size > 0 && f.size+n > f.limit {
		err = f.rotate()
	}
	if err == nil && f.kept > 0 && f.kept+f.size+n > f.totalMax {
		err = f.prune(n)
	}
	f.rotationEnded(err)
}

func (f *file) rotationEnded(err error) {
	if err != nil {
		f.rotateAgain = f.clock().Add(retryAfter)
		f.trouble(err)
	}
}

// rotate begins a new file. The old one stays open until there is a new one: if
// there is none, records go on to the old one under its new name.
func (f *file) rotate() error {
	if err := f.shift(); err != nil {
		return err
	}
	// Not there: somebody else has moved it.
	if err := os.Rename(f.path, f.numbered(1)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	old := f.out
	if err := f.open(); err != nil {
		return err
	}
	return errors.Join(old.Close(), f.prune(0))
}

// shift makes .1 free. The oldest go first, so that none overwrites another; what
// is behind a gap stays.
func (f *file) shift() error {
	files, err := f.rotated()
	if err != nil {
		return err
	}
	run := 0
	for run < len(files) && run < f.countMax-1 && files[run].number == run+1 {
		run++
	}
	for n := run; n > 0; n-- {
		if err := os.Rename(f.numbered(n), f.numbered(n+1)); err != nil {
			return err
		}
	}
	return nil
}

// prune removes the rotated files that are too old and, oldest first, those that
// do not fit when n more bytes are written.
func (f *file) prune(n int64) error {
	files, err := f.rotated()
	if err != nil {
		return err
	}
	now := f.clock()
	f.kept = sizeOf(files)
	for _, r := range slices.Backward(files) {
		if f.kept+f.size+n <= f.totalMax && now.Sub(r.modified) <= f.retention {
			continue
		}
		if err := os.Remove(f.numbered(r.number)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		f.kept -= r.size
	}
	return nil
}

// check does what is due by time: it removes old files, and tries again what did
// not work.
func (f *file) check() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.phase != opened {
		return
	}
	before := f.troubles
	f.lookAgain()
	f.flush()
	if f.out != nil {
		f.rotateAgain = time.Time{}
		f.makeRoom(0)
		f.rotationEnded(f.prune(0))
	}
	if f.troubles == before {
		f.told = false
	}
}

// lookAgain opens the file anew if others have moved or removed it, and counts
// anew what they may have cut.
func (f *file) lookAgain() {
	if f.out == nil {
		return
	}
	mine, err := f.out.Stat()
	if err == nil {
		f.size = mine.Size()
		if named, err := os.Stat(f.path); err == nil && os.SameFile(mine, named) {
			return
		}
	}
	old := f.out
	if err := f.open(); err != nil {
		f.trouble(err)
		return
	}
	old.Close() // nothing is in doubt: each write has told its own error
}
