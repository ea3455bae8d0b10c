package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"galgo/internal/cipher"
	"galgo/internal/disk"
	"galgo/internal/verify"
)

func verifyCommand() *command {
	keyFile := ""
	return &command{
		use: "verify DIRECTORY...", short: "Verify the data directories of stopped nodes, and compare them", args: atLeast(1),
		long: `Verify the data directories of the nodes of a cluster, one or several, while the nodes are
stopped. Checksums of all files; offsets without a gap; no numbered send stored twice; offsets of
consumers within the log. Of several: that all hold the same committed operations, the same state at
the same operation, and the same messages, batch by batch and byte by byte. Nothing is changed. It
takes as much memory as the starts of these nodes together. What a log holds and no disk knows to be
committed is not judged. What is sealed is opened with the keys of --key-file, which may have those
of several nodes, or of GALGO_SYSTEM_ENCRYPTION_KEY and _OLDER_KEYS. The exit status is 1 if anything
is wrong.`,
		example: "  galgo verify /var/lib/galgo\n  galgo verify a/data b/data c/data --output json",
		flags:   func(fs *flagSet) { keyFileFlag(fs, &keyFile) },
		run: func(ctx context.Context, e *env, args []string) error {
			keys, err := e.keys(keyFile)
			if err != nil {
				return err
			}
			report, err := verifyDirectories(ctx, args, keys)
			if err != nil {
				return err
			}
			return e.tellReport(report)
		},
	}
}

// verifyDirectories looks at directories, each held so that no server starts on it.
func verifyDirectories(ctx context.Context, dirs []string, keys *cipher.Ring) (*verify.Report, error) {
	var sources []verify.Source
	for _, dir := range dirs {
		d, err := openReadOnly(dir)
		if err != nil {
			return nil, err
		}
		defer d.Close()
		release, err := d.hold()
		if err != nil {
			return nil, err
		}
		defer release()
		sources = append(sources, verify.Source{Name: dir, Disk: d, Keys: keys})
	}
	return verify.Run(ctx, sources)
}

// hold keeps servers away from the directory. A LOCK that is not there is not made.
func (d *readOnly) hold() (release func(), err error) {
	f, err := d.root.Open(disk.LockName)
	if errors.Is(err, fs.ErrNotExist) {
		return func() {}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.dir, err)
	}
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	}
	if err == nil {
		return func() { f.Close() }, nil
	}
	defer f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fmt.Errorf("%w: %s is held by %s; stop that server: only files that nobody writes to can be judged", disk.ErrLocked, d.dir, holderOf(f))
	}
	return nil, fmt.Errorf("lock %s in %s: %w", disk.LockName, d.dir, err)
}

// holderOf describes who has the lock, as far as LOCK tells.
func holderOf(f *os.File) string {
	var buf [32]byte
	n, _ := f.ReadAt(buf[:], 0)
	return "process " + printable(strings.TrimSpace(string(buf[:n])))
}

func (e *env) tellReport(r *verify.Report) error {
	for _, d := range r.Directories {
		e.say("%s: replica %d of %d, view %d, metadata up to op %d, %d partitions, %d messages in %d bytes", d.Name, d.Replica, d.Replicas, d.View, d.Op, d.Groups, d.Messages, d.Bytes)
	}
	t := table{{"Group", "Stream", "Topic", "Partition", "Op", "Held by", "Messages", "Bytes", "Verdict"}}
	for _, g := range r.Groups {
		held := fmt.Sprintf("%d of %d", g.Held, g.Of)
		if g.Group == 0 {
			t.add(g.Group, "-", "-", "-", g.Op, held, "-", "-", g.Verdict)
			continue
		}
		t.add(g.Group, g.Stream, g.Topic, g.Partition, g.Op, held, g.Messages, g.Bytes, g.Verdict)
	}
	if err := e.print(r, t); err != nil {
		return err
	}
	if r.Sound {
		e.say("Nothing is wrong.")
		return nil
	}
	for _, p := range r.Problems {
		e.say("%s", printable(p.String()))
	}
	return fmt.Errorf("%d problems; the first: %s", len(r.Problems), printable(r.Problems[0].String()))
}
