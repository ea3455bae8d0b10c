package shard

import (
	"encoding/binary"
	"errors"
	"fmt"

	"galgo/internal/disk"
	"galgo/internal/snapshot"
	"galgo/internal/vsr"
)

// A table is the checkpoint file of a shard: one section with a row for each
// group that has ever had an operation, by ascending group.
//
//	off  size  field
//	  0     4  rows
//	row
//	  0     8  group
//	  8     8  incarnation
//	 16   192  header       of the op that the checkpoint covers
//	208     4  length       n
//	212     n  checkpoint   of the partition, see partition.Checkpoint
const (
	sectionTable = 4
	rowHead      = 212
)

type tableRow struct {
	id          vsr.GroupID
	incarnation uint64
	groupCheckpoint
}

func appendTable(b []byte, rows []tableRow) []byte {
	le := binary.LittleEndian
	b = le.AppendUint32(b, uint32(len(rows)))
	for i := range rows {
		r := &rows[i]
		b = le.AppendUint64(b, uint64(r.id))
		b = le.AppendUint64(b, r.incarnation)
		b = r.head.AppendHeader(b)
		b = le.AppendUint32(b, uint32(len(r.blob)))
		b = append(b, r.blob...)
	}
	return b
}

func decodeTable(b []byte) ([]tableRow, error) {
	bad := func(i uint32, what string) error {
		return fmt.Errorf("%w: row %d: %s", snapshot.ErrMalformed, i, what)
	}
	le := binary.LittleEndian
	if len(b) < 4 {
		return nil, bad(0, "no count")
	}
	count := le.Uint32(b)
	b = b[4:]
	var rows []tableRow
	for i := range count {
		if len(b) < rowHead {
			return nil, bad(i, "cut short")
		}
		r := tableRow{id: vsr.GroupID(le.Uint64(b)), incarnation: le.Uint64(b[8:])}
		head, err := vsr.DecodeHeader(b[16:])
		if err != nil {
			return nil, fmt.Errorf("%w: row %d: %w", snapshot.ErrMalformed, i, err)
		}
		n := le.Uint32(b[208:])
		switch {
		case uint64(n) > uint64(len(b)-rowHead):
			return nil, bad(i, "checkpoint cut short")
		case head.Group != r.id || head.Incarnation != r.incarnation:
			return nil, bad(i, "header of another group")
		case i > 0 && r.id <= rows[i-1].id:
			return nil, bad(i, "out of order")
		}
		r.head, r.blob = head, b[rowHead:rowHead+int(n)]
		rows = append(rows, r)
		b = b[rowHead+int(n):]
	}
	if len(b) > 0 {
		return nil, bad(count, "bytes after the last row")
	}
	return rows, nil
}

// pairing is the state record by which the log names the table that counts.
//
//	off  size  field
//	  0     8  number
//	  8    16  checksum of the file
type pairing struct {
	number uint64
	sum    snapshot.Sum
}

const pairingSize = 24

func (p pairing) append(b []byte) []byte {
	return append(binary.LittleEndian.AppendUint64(b, p.number), p.sum[:]...)
}

func decodePairing(b []byte) (pairing, error) {
	if len(b) != pairingSize {
		return pairing{}, fmt.Errorf("shard: record of the paired checkpoint has %d bytes, want %d", len(b), pairingSize)
	}
	p := pairing{number: binary.LittleEndian.Uint64(b)}
	copy(p.sum[:], b[8:])
	return p, nil
}

func shardDir(shard uint32) string { return fmt.Sprintf("shards/%d", shard) }

func tablesOf(cfg DataConfig) *snapshot.Store {
	return snapshot.NewStore(cfg.Disk, shardDir(cfg.Shard)+"/checkpoint", snapshot.ExtPartition, cfg.Vault)
}

func writeTable(cfg DataConfig, number uint64, rows []tableRow) (snapshot.Sum, error) {
	// The time of the newest op, not of the clock: equal input, equal file.
	h := snapshot.Header{Cluster: cfg.Cluster, Group: uint64(cfg.Shard), Op: number}
	for i := range rows {
		h.CreatedAt = max(h.CreatedAt, rows[i].head.Timestamp)
	}
	section := snapshot.Section{Kind: sectionTable, Version: sectionVersion, Data: [][]byte{appendTable(nil, rows)}}
	return tablesOf(cfg).Write(number, h, []snapshot.Section{section})
}

// readTable reads the table that the log names.
func readTable(cfg DataConfig, p pairing) ([]tableRow, error) {
	name := tablesOf(cfg).Name(p.number)
	s, err := tablesOf(cfg).Read(p.number)
	if errors.Is(err, disk.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s is not there; restore it, or rebuild this replica from its peers", ErrCheckpointLost, name)
	}
	if err != nil {
		return nil, err
	}
	if err := s.CheckOwner(cfg.Cluster, uint64(cfg.Shard)); err != nil {
		return nil, err
	}
	if s.Sum != p.sum {
		return nil, fmt.Errorf("%w: %s has checksum %v, the log names %v; restore it, or rebuild this replica from its peers", ErrCheckpointLost, name, s.Sum, p.sum)
	}
	b, err := s.Section(sectionTable, sectionVersion)
	if err != nil {
		return nil, err
	}
	rows, err := decodeTable(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return rows, nil
}
