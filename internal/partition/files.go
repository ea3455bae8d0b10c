package partition

import (
	"container/list"
	"errors"
	"fmt"
	"sync"

	"galgo/internal/disk"
)

// FilesDefault is how many unused files a Files keeps open.
const FilesDefault = 256

// Files keeps files open between uses and shares them between readers: an idle
// partition has none. It is safe for use by many goroutines. What is in use is
// not counted against the limit, so segments that await their sync may pass it.
type Files struct {
	disk  disk.Disk
	limit int

	mu   sync.Mutex
	open map[string]*openFile
	idle list.List // of *openFile with no user, longest unused in front
}

// openFile is a counted reference to an open file. The nil one may be released.
type openFile struct {
	disk.File
	files *Files

	// guarded by files.mu
	users   int
	dropped bool          // no longer to be found by name: close with the last user
	place   *list.Element // in idle
}

// NewFiles keeps up to limit unused files of d open.
func NewFiles(d disk.Disk, limit int) *Files {
	return &Files{disk: d, limit: limit, open: make(map[string]*openFile)}
}

// acquire returns the file of a name, opening it if it is not open.
func (f *Files) acquire(name string) (*openFile, error) {
	if o := f.find(name); o != nil {
		return o, nil
	}
	file, err := f.disk.Open(name) // no lock is held across the call
	if err != nil {
		return nil, fmt.Errorf("partition: open %s: %w", name, err)
	}
	return f.add(name, file), nil
}

// create makes a file of size bytes, zeroed. With again, a file that an earlier
// try left half made is replaced; else an existing file is never touched.
func (f *Files) create(name string, size int64, again bool) (*openFile, error) {
	file, err := f.disk.Create(name, size)
	if again && errors.Is(err, disk.ErrExist) {
		f.drop(name)
		if err = f.disk.Remove(name); err == nil {
			file, err = f.disk.Create(name, size)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("partition: create %s: %w", name, err)
	}
	return f.add(name, file), nil
}

func (f *Files) find(name string) *openFile {
	f.mu.Lock()
	defer f.mu.Unlock()
	o := f.open[name]
	if o != nil {
		f.use(o)
	}
	return o
}

func (f *Files) use(o *openFile) {
	o.users++
	if o.place != nil {
		f.idle.Remove(o.place)
		o.place = nil
	}
}

// add makes an opened file known; if another goroutine was faster, its file is
// taken and this one closed.
func (f *Files) add(name string, file disk.File) *openFile {
	f.mu.Lock()
	defer f.mu.Unlock()
	if o := f.open[name]; o != nil {
		file.Close() // nothing was written through it
		f.use(o)
		return o
	}
	o := &openFile{File: file, files: f, users: 1}
	f.open[name] = o
	return o
}

// release gives a reference back.
func (o *openFile) release() {
	if o == nil {
		return
	}
	f := o.files
	f.mu.Lock()
	defer f.mu.Unlock()
	o.users--
	if o.users > 0 {
		return
	}
	if o.dropped {
		o.File.Close() // all that mattered was synced, or is to be removed
		return
	}
	o.place = f.idle.PushBack(o)
	for f.idle.Len() > f.limit {
		f.forget(f.idle.Front().Value.(*openFile))
	}
}

// forget closes an unused file.
func (f *Files) forget(o *openFile) {
	f.idle.Remove(o.place)
	o.place = nil
	delete(f.open, o.Name())
	o.File.Close()
}

// drop makes a name unknown, as its file is about to go. Who uses it still may,
// until it is released.
func (f *Files) drop(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	o := f.open[name]
	if o == nil {
		return
	}
	if o.users == 0 {
		f.forget(o)
		return
	}
	delete(f.open, name)
	o.dropped = true
}

// Close closes the unused files. Others close with their last user.
func (f *Files) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.idle.Len() > 0 {
		f.forget(f.idle.Front().Value.(*openFile))
	}
	for name, o := range f.open {
		delete(f.open, name)
		o.dropped = true
	}
}

// Open returns how many files are open, for figures and tests.
func (f *Files) Open() (inUse, idle int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.open) - f.idle.Len(), f.idle.Len()
}
