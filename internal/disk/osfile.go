//go:build linux

package disk

import (
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// iovMax is the most buffers Linux takes in one call (IOV_MAX).
const iovMax = 1024

// osFile is a file of an OS disk. What a vectored write or a sync needs is kept
// here and not captured by a closure, so that neither allocates: each has one
// caller at a time, as File demands.
type osFile struct {
	d    *OS
	f    *os.File
	raw  syscall.RawConn
	name string

	call struct {
		bufs [][]byte
		off  int64
		n    int
		err  error
	}
	syncErr  error
	bufs     [][]byte // scratch of WritevAt
	dropped  int64    // up to here WriteBack has given up what the system keeps
	reserved int64    // up to here Reserve has asked for room
	doWritev func(fd uintptr) bool
	doSync   func(fd uintptr)
}

func newOSFile(d *OS, f *os.File, name string) (*osFile, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, err
	}
	o := &osFile{d: d, f: f, raw: raw, name: name}
	o.doWritev = o.writevOnce
	o.doSync = o.syncOnce
	return o, nil
}

func (o *osFile) Name() string { return o.name }

func (o *osFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := o.f.ReadAt(p, off)
	if err != nil && n < len(p) && err != io.EOF {
		return n, o.d.wrap(fmt.Sprintf("read %d bytes at %d of", len(p), off), o.name, err)
	}
	return n, err
}

func (o *osFile) WriteAt(p []byte, off int64) error {
	if _, err := o.f.WriteAt(p, off); err != nil {
		return o.wrapWrite(len(p), off, err)
	}
	return nil
}

func (o *osFile) WritevAt(bufs [][]byte, off int64) error {
	o.bufs = append(o.bufs[:0], bufs...)
	defer func() { clear(o.bufs) }() // keep nobody's buffer alive
	at := off
	for left := skipEmpty(o.bufs); len(left) > 0; left = skipEmpty(left) {
		n, err := o.writev(left[:min(len(left), iovMax)], at)
		if err == nil && n == 0 {
			err = errStuck
		}
		if err != nil {
			return o.wrapWrite(total(bufs), off, err)
		}
		left, at = advance(left, n), at+int64(n)
	}
	return nil
}

// skipEmpty drops leading empty buffers.
func skipEmpty(bufs [][]byte) [][]byte {
	for len(bufs) > 0 && len(bufs[0]) == 0 {
		bufs = bufs[1:]
	}
	return bufs
}

// advance drops the first n bytes of bufs, changing its elements.
func advance(bufs [][]byte, n int) [][]byte {
	for n > 0 {
		if n < len(bufs[0]) {
			bufs[0] = bufs[0][n:]
			return bufs
		}
		n -= len(bufs[0])
		bufs = bufs[1:]
	}
	return bufs
}

func total(bufs [][]byte) int {
	n := 0
	for _, b := range bufs {
		n += len(b)
	}
	return n
}

// writev makes one system call; a short write is no error.
func (o *osFile) writev(bufs [][]byte, off int64) (int, error) {
	o.call.bufs, o.call.off = bufs, off
	err := o.raw.Write(o.doWritev)
	o.call.bufs = nil
	if err != nil {
		return 0, err
	}
	return o.call.n, o.call.err
}

func (o *osFile) writevOnce(fd uintptr) bool {
	for {
		o.call.n, o.call.err = unix.Pwritev(int(fd), o.call.bufs, o.call.off)
		if o.call.err != unix.EINTR {
			return true
		}
	}
}

func (o *osFile) wrapWrite(n int, off int64, err error) error {
	return o.d.wrap(fmt.Sprintf("write %d bytes at %d of", n, off), o.name, err)
}

func (o *osFile) Truncate(size int64) error {
	if err := o.f.Truncate(size); err != nil {
		return o.d.wrap(fmt.Sprintf("set to %d bytes", size), o.name, err)
	}
	return nil
}

// Sync is fdatasync: contents, and of the metadata only what is needed to read
// them back, which includes the length.
func (o *osFile) Sync() error {
	err := o.raw.Control(o.doSync)
	if err == nil {
		err = o.syncErr
	}
	if err != nil {
		return o.d.wrap("sync", o.name, err)
	}
	return nil
}

func (o *osFile) syncOnce(fd uintptr) {
	for {
		if o.syncErr = unix.Fdatasync(int(fd)); o.syncErr != unix.EINTR {
			return
		}
	}
}

func (o *osFile) Size() (int64, error) {
	info, err := o.f.Stat()
	if err != nil {
		return 0, o.d.wrap("size of", o.name, err)
	}
	return info.Size(), nil
}

func (o *osFile) Close() error {
	if err := o.f.Close(); err != nil {
		return o.d.wrap("close", o.name, err)
	}
	return nil
}

// fill reserves size bytes in one piece where the filesystem can, which also
// finds out early that they do not fit, and writes them as zeros.
func (o *osFile) fill(size int64) error {
	if size < 0 {
		return fmt.Errorf("size %d: %w", size, unix.EINVAL)
	}
	if size == 0 {
		return nil
	}
	err := retry(func() error { return unix.Fallocate(int(o.f.Fd()), 0, 0, size) })
	if err != nil && err != unix.EOPNOTSUPP && err != unix.ENOSYS {
		return err
	}
	for off := int64(0); off < size; off += zeroChunk {
		if _, err := o.f.WriteAt(zeros[:min(zeroChunk, size-off)], off); err != nil {
			return err
		}
	}
	return nil
}

// dropStep is how much of a file leaves the memory of the system at a time, in bytes.
const dropStep = 8 << 20

// WriteBack has the system begin to write a range to the device, without waiting, and
// give up what lies far behind: by now that is on the device. Neither call takes an
// error of the device away from the next Sync; a call that waits would.
func (o *osFile) WriteBack(off, n int64) {
	drop := off - o.d.cachedBehind - o.dropped
	o.raw.Control(func(fd uintptr) {
		unix.SyncFileRange(int(fd), off, n, unix.SYNC_FILE_RANGE_WRITE)
		if o.d.cachedBehind > 0 && drop >= dropStep {
			unix.Fadvise(int(fd), o.dropped, drop, unix.FADV_DONTNEED)
			o.dropped += drop
		}
	})
}

// A file is given room for a part of what it has, so that all together are never much
// larger than what is in them, and no more than reserveMax at a time, in bytes.
const (
	reservePart = 8
	reserveMax  = 64 << 20
)

// Reserve has the filesystem set blocks aside. Where it cannot, or is full, the write
// will find out by itself.
func (o *osFile) Reserve(end int64) {
	if end <= o.reserved {
		return
	}
	from := o.reserved
	o.reserved = end + min(end/reservePart, reserveMax)
	o.raw.Control(func(fd uintptr) { unix.Fallocate(int(fd), unix.FALLOC_FL_KEEP_SIZE, from, o.reserved-from) })
}

// Unreserve sets the length that the file has, which frees the blocks behind it, also
// those that it was given when it was open before.
func (o *osFile) Unreserve() {
	o.reserved = 0
	o.raw.Control(func(fd uintptr) {
		var st unix.Stat_t
		if unix.Fstat(int(fd), &st) == nil {
			unix.Ftruncate(int(fd), st.Size)
		}
	})
}
