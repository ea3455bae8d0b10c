package wal

import "fmt"

// verdict says where the log ends and what that end is.
type verdict struct {
	index  int      // of the file to go on with
	end    int64    // where in it
	before Position // end of the file before, if end is at the first record
	torn   bool     // a write was under way there
	bytes  int64    // from end to that of the last frame behind it
	frames int      // found at or behind end
	damage *Error   // nil unless something that was durable is gone
}

// found is what a search of the rest of a file came up with.
type found struct {
	frames int
	synced Position // of the first frame
	high   Position // the highest "synced"
	end    int64    // of the last frame
}

func (s *scanner) rest(f *file, from int64) (found, error) {
	var r found
	err := s.search(f, from, func(fr frame) bool {
		if r.frames++; r.frames == 1 {
			r.synced = fr.synced
		}
		if r.high.Less(fr.synced) {
			r.high = fr.synced
		}
		r.end = fr.at + fr.size()
		return true
	})
	return r, err
}

// judge tells a torn tail from rot, given where walk stopped. Something behind
// that place that was written when the place was known to be synced makes it rot.
func (s *scanner) judge(index int, flt *fault) (verdict, error) {
	here, err := s.rest(s.files[index], flt.at)
	if err != nil {
		return verdict{}, err
	}
	last, beyond, high := index, found{}, here.high
	for i := index + 1; i < len(s.files); i++ {
		r, err := s.rest(s.files[i], blockSize)
		if err != nil {
			return verdict{}, err
		}
		if r.frames == 0 {
			continue
		}
		if last == index {
			beyond = r
		}
		if last = i; high.Less(r.high) {
			high = r.high
		}
	}
	if last == index {
		v := verdict{index: index, end: flt.at, bytes: max(0, here.end-flt.at), frames: here.frames, torn: flt.trace || here.frames > 0}
		return v.against(flt, flt.position().Less(high), high), nil
	}
	// A file is left only when it is synced. So either this one ended here and the
	// write that is torn is the first into the next, or more was here.
	v := verdict{index: index + 1, end: blockSize, before: flt.position(), bytes: beyond.end - blockSize, frames: beyond.frames, torn: true}
	next, err := s.crossed(index, flt, beyond)
	if err != nil {
		return verdict{}, err
	}
	if next == nil {
		return v.against(flt, true, high), nil
	}
	return v.against(next, next.position().Less(high), high), nil
}

// against says whether the fault is damage.
func (v verdict) against(flt *fault, damage bool, high Position) verdict {
	if damage {
		v.damage = flt.asError(fmt.Sprintf("a later record witnesses that the log was synced up to %v", high))
	}
	return v
}

// crossed returns the fault at the beginning of the next file if this one, where
// walk stopped, ended there: by what the first frame in the next file says or, if
// that one is gone, because nothing is left of a record here. Else nil.
func (s *scanner) crossed(index int, flt *fault, beyond found) (*fault, error) {
	ended := flt.position() == beyond.synced || beyond.synced.File != flt.file.sequence && !flt.trace
	if !ended {
		return nil, nil
	}
	_, next, err := s.read(s.files[index+1], blockSize)
	return next, err
}
