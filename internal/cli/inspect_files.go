package cli

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"strconv"

	"galgo/internal/partition"
	"galgo/internal/snapshot"
	"galgo/internal/superblock"
	"galgo/internal/wal"
)

func inspectWALCommand() *command {
	records := false
	return inspectSubcommand("wal", "Verify the write-ahead logs",
		func(fs *flagSet) { fs.BoolVar(&records, "records", false, "list every record, not only the files") },
		func(ctx context.Context, in *inspection) error {
			dirs, err := in.logDirs()
			if err != nil {
				return err
			}
			w := walReport{in: in, records: records, view: []any{}}
			if w.table = (table{{"File", "Bytes", "Records", "Highest Op", "Problem"}}); records {
				w.table = table{{"Position", "Kind", "Group", "Op", "View", "Operation", "Bytes", "Problem"}}
			}
			for _, dir := range dirs {
				if err := w.inspect(ctx, dir); err != nil {
					return err
				}
			}
			return in.e.print(w.view, w.table)
		})
}

// logDirs are the directories of the logs: of the metadata and of each shard.
func (in *inspection) logDirs() ([]string, error) {
	all := []string{path.Join(metadataDir, "wal")}
	shards, err := in.dirs(shardsDir)
	for _, s := range shards {
		all = append(all, path.Join(s, "wal"))
	}
	return all, err
}

// walReport collects what is in the logs. view is what JSON shows.
type walReport struct {
	in      *inspection
	records bool
	files   map[string]*logFile
	order   []*logFile
	view    []any
	table   table
}

type logFile struct {
	File    string `json:"file"`
	Bytes   int64  `json:"bytes"`
	Records int    `json:"records"`
	Highest uint64 `json:"highest_op"`
	Problem string `json:"problem,omitempty"`
}

type logRecord struct {
	Position  string `json:"position"`
	Kind      string `json:"kind"`
	Group     uint64 `json:"group"`
	Op        uint64 `json:"op"`
	View      uint32 `json:"view"`
	Operation uint8  `json:"operation"`
	Bytes     int64  `json:"bytes"`
	Problem   string `json:"problem,omitempty"`
	Torn      bool   `json:"torn,omitempty"`
}

func (w *walReport) inspect(ctx context.Context, dir string) error {
	w.files, w.order = map[string]*logFile{}, nil
	err := wal.Inspect(w.in.disk, dir, w.in.vault, func(it wal.Item) error {
		w.in.note(it.Key, 1)
		w.note(it)
		return ctx.Err()
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	w.in.problem(err)
	if w.records {
		return nil
	}
	for _, f := range w.order {
		w.view = append(w.view, f)
		w.table.add(f.File, f.Bytes, f.Records, f.Highest, f.Problem)
	}
	return nil
}

func (w *walReport) note(it wal.Item) {
	f := w.files[it.File]
	if f == nil {
		f = &logFile{File: it.File}
		w.files[it.File] = f
		w.order = append(w.order, f)
	}
	if it.Problem != nil && f.Problem == "" {
		f.Problem = it.Problem.Error()
	}
	if !it.Record {
		f.Bytes = it.Size
		return
	}
	if it.Kind != 0 {
		f.Records++
		f.Highest = max(f.Highest, uint64(it.Op))
	}
	if w.records {
		w.noteRecord(it)
	}
}

func (w *walReport) noteRecord(it wal.Item) {
	r := logRecord{
		Position: path.Dir(it.File) + " " + it.At.String(), Kind: "-", Group: uint64(it.Group), Op: uint64(it.Op), Bytes: it.Size, Torn: it.Torn,
	}
	if it.Kind != 0 {
		r.Kind = it.Kind.String()
	}
	if it.Header != nil {
		r.View, r.Operation = uint32(it.Header.View), it.Header.Operation
	}
	if it.Problem != nil {
		r.Problem = it.Problem.Error()
	}
	w.view = append(w.view, r)
	w.table.add(r.Position, r.Kind, r.Group, r.Op, r.View, r.Operation, r.Bytes, r.Problem)
}

type checkpointReport struct {
	File      string `json:"file"`
	Bytes     int64  `json:"bytes"`
	Op        uint64 `json:"op"`
	CreatedAt string `json:"created_at"`
	Sections  int    `json:"sections"`
	Sum       string `json:"checksum"`
	Problem   string `json:"problem,omitempty"`
}

func inspectSnapshots(_ context.Context, in *inspection) error {
	all, t := []checkpointReport{}, table{{"File", "Bytes", "Op", "Created", "Sections", "Checksum", "Problem"}}
	look := func(dir, ext string, visit func(*snapshot.Snapshot)) error {
		reports, err := in.checkpoints(snapshot.NewStore(in.disk, dir, ext, in.vault), visit)
		for _, r := range reports {
			all = append(all, r)
			t.add(r.File, r.Bytes, r.Op, r.CreatedAt, r.Sections, r.Sum, r.Problem)
		}
		return err
	}
	var newest *snapshot.Snapshot
	err := look(path.Join(metadataDir, "snapshot"), snapshot.ExtMetadata, func(s *snapshot.Snapshot) {
		if newest == nil {
			newest = s
		}
	})
	if err != nil {
		return err
	}
	if err := in.checkPairing(newest); err != nil {
		return err
	}
	shards, err := in.dirs(shardsDir)
	for _, s := range shards {
		err = errors.Join(err, look(path.Join(s, "checkpoint"), snapshot.ExtPartition, nil))
	}
	if err != nil {
		return err
	}
	return in.e.print(all, t)
}

// checkpoints verifies each checkpoint of a store, the newest first.
func (in *inspection) checkpoints(store *snapshot.Store, visit func(*snapshot.Snapshot)) ([]checkpointReport, error) {
	found, err := store.List()
	if err != nil {
		return nil, err
	}
	var all []checkpointReport
	for _, g := range found {
		r := checkpointReport{File: g.Name, Bytes: g.Size, CreatedAt: "-"}
		s, err := store.ReadClosed(g.Number)
		if err == nil {
			in.note(s.Key(), uint64(len(s.Sections)))
			if in.vault != nil {
				err = s.Open(in.vault)
			}
		}
		if err != nil {
			r.Problem = in.problem(err)
			all = append(all, r)
			continue
		}
		r.Op, r.CreatedAt, r.Sections, r.Sum = s.Op, timeOf(s.CreatedAt), len(s.Sections), hex.EncodeToString(s.Sum[:])
		all = append(all, r)
		if visit != nil {
			visit(s)
		}
	}
	return all, nil
}

// checkPairing compares the newest good snapshot of the metadata with what the
// superblock names.
func (in *inspection) checkPairing(newest *snapshot.Snapshot) error {
	store, err := superblock.Open(in.disk, metadataDir)
	if err != nil {
		return err
	}
	o := store.Latest()
	if o.Kind != superblock.Present {
		in.problem(o.Err(metadataDir))
		return nil
	}
	state, err := superblock.DecodeState(o.Payload)
	switch {
	case err != nil:
		in.problem(err)
	case newest == nil:
		in.problem(state.CheckPairing(0, snapshot.Sum{}))
	default:
		in.problem(state.CheckPairing(newest.Op, newest.Sum))
	}
	return nil
}

type segmentReport struct {
	File         string `json:"file"`
	Partition    uint64 `json:"partition_id"`
	Bytes        uint64 `json:"bytes"`
	Sound        uint64 `json:"sound_bytes"`
	Records      uint64 `json:"records"`
	Messages     uint64 `json:"messages"`
	FirstOffset  uint64 `json:"first_offset"`
	LastOffset   uint64 `json:"last_offset"`
	FirstTime    string `json:"first_time"`
	LastTime     string `json:"last_time"`
	IndexEntries int    `json:"index_entries"`
	IndexProblem string `json:"index_problem,omitempty"`
	Problem      string `json:"problem,omitempty"`
}

func inspectSegmentCommand() *command {
	group := ""
	return inspectSubcommand("segment", "Verify the messages of the partitions",
		func(fs *flagSet) {
			fs.StringVar(&group, "group", "", "number of the only group to look at (default: all)")
		},
		func(ctx context.Context, in *inspection) error {
			dirs, err := in.dirs(groupsDir)
			if err != nil {
				return err
			}
			if group != "" {
				n, err := strconv.ParseUint(group, 10, 64)
				if err != nil {
					return usagef("--group %q: want a number", group)
				}
				dirs = []string{partition.Dir(n)}
			}
			return inspectSegments(ctx, in, dirs)
		})
}

// inspectSegments verifies all logs of the groups in dirs. The end of the newest
// one may be a write that a crash cut short; only a checkpoint can tell, so what is
// wrong there is shown and counts as a problem all the same.
func inspectSegments(ctx context.Context, in *inspection, dirs []string) error {
	all, t := []segmentReport{}, table{{"File", "Partition", "Bytes", "Sound", "Messages", "Offsets", "Last Time", "Index", "Problem"}}
	for _, dir := range dirs {
		entries, err := in.disk.List(dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			n, ok := partition.ParseSegmentName(e.Name)
			if !ok || n.Index || e.Dir {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			r, err := partition.InspectSegment(in.disk, path.Join(dir, e.Name), in.vault, nil)
			if err != nil {
				return err
			}
			v := in.segmentOf(r)
			all = append(all, v)
			t.add(v.File, v.Partition, v.Bytes, v.Sound, v.Messages, v.offsets(), v.LastTime, orElse(v.IndexProblem, strconv.Itoa(v.IndexEntries)), v.Problem)
		}
	}
	return in.e.print(all, t)
}

func (in *inspection) segmentOf(r partition.SegmentReport) segmentReport {
	for key, n := range r.Keys {
		in.note(key, n)
	}
	return segmentReport{
		File: r.File, Partition: r.Partition, Bytes: r.Size, Sound: r.Sound, Records: r.Records, Messages: r.Messages,
		FirstOffset: r.Base, LastOffset: r.Last, FirstTime: timeOf(r.FirstTime), LastTime: timeOf(r.LastTime),
		IndexEntries: r.IndexEntries, IndexProblem: r.IndexProblem, Problem: in.problem(r.Problem),
	}
}

func (r *segmentReport) offsets() string {
	if r.Messages == 0 {
		return "-"
	}
	return fmt.Sprintf("%d-%d", r.FirstOffset, r.LastOffset)
}
