package partition

// Segments is how many segments a checkpoint names.
func (c *Checkpoint) Segments() int { return len(c.segments) }

// SegmentBytes is how many bytes the files of segment i have together, as a checkpoint
// travels: the log and then the index.
func (c *Checkpoint) SegmentBytes(i int) int64 {
	return int64(c.segments[i].size) + indexPos(c.segments[i].entries)
}

// Present gives write what this replica has of the files of segment i of a checkpoint that
// another replica made, from their first byte on and in order. It ends where that ends or
// does not verify: others have the rest. Of the log each record is verified, and the index
// is derived from it. What write is given is valid during the call; the error is its own.
func (c *Checkpoint) Present(cfg Config, i int, write func(b []byte) error) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil // who installs the checkpoint refuses it
	}
	seg := newSegment(&cfg, c.Generation, c.segments[i].base)
	file, err := cfg.Disk.Open(seg.logName)
	if err != nil {
		return nil
	}
	defer file.Close()
	size, err := file.Size()
	if err != nil {
		return nil
	}
	want := &c.segments[i]
	w := walker{
		seg: seg, file: file, partition: uint64(cfg.Partition), end: min(uint64(size), want.size), next: want.base, want: windowMax, buffer: oneWindow(),
	}
	for {
		b, head, err := w.record()
		if err != nil || b == nil {
			break
		}
		seg.append(head.length, head.base, head.count, head.time, cfg.IndexInterval)
		if err := write(b); err != nil {
			return err
		}
	}
	if seg.size != want.size || seg.entries() != want.entries {
		return nil
	}
	id := seg.indexIdentity(cfg.IndexInterval)
	index := id.appendHeader(make([]byte, 0, indexPos(want.entries)))
	return write(appendEntries(index, id.seed(), 0, seg.fresh))
}
