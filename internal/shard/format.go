package shard

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"galgo/internal/cipher"
	"galgo/internal/disk"
	"galgo/internal/superblock"
	"galgo/internal/vsr"
	"galgo/internal/wal"
)

// FormatConfig says whose a data directory is to be and how its logs are made.
type FormatConfig struct {
	Identity    superblock.Identity
	Shards      int
	WALFileSize int64
	Salt        uint64
	// Ring has the keys that the directory is sealed under; nil: it is in the clear.
	Ring *cipher.Ring
	// Replace: the disk of this replica is lost, and this one takes its place.
	Replace bool
}

// Format makes an empty data directory one of this node, or checks that it is
// one. FORMAT is written last: where it exists, superblock and logs were durable
// before it, so whichever is missing later was lost. Without it nothing was ever
// acknowledged, and formatting that was cut short is done again; but not where
// there is anything to lose.
func Format(d disk.Disk, cfg FormatConfig) error {
	id, err := superblock.ReadIdentity(d)
	switch {
	case errors.Is(err, superblock.ErrIdentityAbsent):
		return format(d, cfg)
	case err != nil:
		return err
	}
	if err := id.Check(cfg.Identity.Cluster, cfg.Identity.Replica, cfg.Identity.ReplicaCount); err != nil {
		return err
	}
	if err := admit(cfg.Ring, &id); err != nil {
		return err
	}
	if err := checkFormatted(d, cfg); err != nil {
		return err
	}
	return turnKey(d, cfg.Ring, id)
}

// VaultOf returns what seals the data of a formatted directory; nil for one in the clear.
func VaultOf(d disk.Disk, ring *cipher.Ring) (*cipher.Vault, error) {
	if ring == nil {
		return nil, nil
	}
	id, err := superblock.ReadIdentity(d)
	return ring.Vault(id.Node), err
}

// admit refuses a directory that the configured keys are not for.
func admit(ring *cipher.Ring, id *superblock.Identity) error {
	err := ring.Admit(cipher.ID(id.Key))
	next := ""
	switch {
	case err == nil:
		return nil
	case errors.Is(err, cipher.ErrKeyMissing):
		next = "set system.encryption.enabled to true, and system.encryption.key or key_file to that key"
	case errors.Is(err, cipher.ErrKeyUnknown):
		next = "set system.encryption.key to that key, or add it to system.encryption.older_keys"
	case errors.Is(err, cipher.ErrClear):
		next = "a directory is sealed from its first start on or never: set system.encryption.enabled to false, or copy the data into an empty directory through a client"
	}
	return fmt.Errorf("%s: %w; %s", superblock.IdentityName, err, next)
}

// turnKey has FORMAT name the key that is sealed under from now on. It is written in any
// case: a process whose sync of the directory failed has left a name that no later sync
// makes durable. Where there is no room the next start does it: the key that it names is
// in the ring.
func turnKey(d disk.Disk, ring *cipher.Ring, id superblock.Identity) error {
	id.Key = ring.Current()
	if err := superblock.ReplaceIdentity(d, id); err != nil && !errors.Is(err, disk.ErrNoSpace) {
		return err
	}
	return nil
}

// format lays out the directory. Every step may find itself done.
func format(d disk.Disk, cfg FormatConfig) error {
	if err := checkVirgin(d, cfg); err != nil {
		return err
	}
	dirs := []string{metadataDir, metadataLogDir, metadataSnapshotDir, groupsDir}
	for i := range cfg.Shards {
		dirs = append(dirs, logDir(uint32(i)), shardDir(uint32(i))+"/checkpoint")
	}
	for _, dir := range dirs {
		if err := d.MkdirAll(dir); err != nil {
			return fmt.Errorf("format: %w", err)
		}
	}
	if err := firstSuperblock(d, cfg.Identity); err != nil {
		return fmt.Errorf("format: %w", err)
	}
	shards := []uint32{metadataShard}
	for i := range cfg.Shards {
		shards = append(shards, uint32(i))
	}
	for _, s := range shards {
		if err := firstLog(d, cfg, s); err != nil {
			return fmt.Errorf("format: %w", err)
		}
	}
	if cfg.Replace {
		if err := writeDoubt(d, cfg); err != nil {
			return fmt.Errorf("format: %w", err)
		}
	}
	cfg.Identity.Key = cfg.Ring.Current()
	if err := superblock.WriteIdentity(d, cfg.Identity); err != nil {
		return fmt.Errorf("format: %w", err)
	}
	return nil
}

// writeDoubt has the metadata log say that this disk knows nothing of what the replica
// has promised before.
func writeDoubt(d disk.Disk, cfg FormatConfig) error {
	log, _, err := wal.Open(d, metadataLogDir, wal.Options{
		FileSize: cfg.WALFileSize, Salt: cfg.Salt, Cluster: cfg.Identity.Cluster, Replica: cfg.Identity.Replica, Shard: metadataShard,
	})
	if err != nil {
		return err
	}
	doubt := promise{State: vsr.State{Doubt: vsr.DoubtAll}}
	return errors.Join(log.Write([]wal.Record{doubt.record(vsr.MetadataGroup)}, true), log.Close())
}

func logDir(shard uint32) string {
	if shard == metadataShard {
		return metadataLogDir
	}
	return shardDir(shard) + "/wal"
}

func firstSuperblock(d disk.Disk, id superblock.Identity) error {
	store, err := superblock.Open(d, metadataDir)
	if err != nil {
		return err
	}
	if outcome := store.Latest(); outcome.Kind == superblock.Unreadable {
		return outcome.Err(metadataDir)
	}
	// Also over one that an earlier attempt has left: the sync of its name may have failed.
	first := superblock.State{Cluster: id.Cluster, Replica: id.Replica, ReplicaCount: id.ReplicaCount}
	return store.Write(first.Append(nil))
}

func firstLog(d disk.Disk, cfg FormatConfig, shard uint32) error {
	log, _, err := wal.Open(d, logDir(shard), wal.Options{
		FileSize: cfg.WALFileSize, Salt: cfg.Salt, Cluster: cfg.Identity.Cluster, Replica: cfg.Identity.Replica, Shard: shard,
	})
	if err != nil {
		return err
	}
	return log.Close()
}

// Untouched reports whether a directory holds nothing that a node has done: formatted or
// not, its replica has promised nothing.
func Untouched(d disk.Disk, cfg FormatConfig) (bool, error) {
	err := checkVirgin(d, cfg)
	if errors.Is(err, ErrFormatLost) {
		return false, nil
	}
	return err == nil, err
}

// checkVirgin refuses to format a directory that holds what a node has done.
func checkVirgin(d disk.Disk, cfg FormatConfig) error {
	lost := func(what string) error {
		return fmt.Errorf("%w: %s; restore FORMAT from a copy of this directory, or use an empty directory", ErrFormatLost, what)
	}
	for _, dir := range []string{metadataSnapshotDir, groupsDir} {
		names, err := namesIn(d, dir)
		if err != nil {
			return err
		}
		if len(names) > 0 {
			return lost(dir + "/" + names[0] + " exists")
		}
	}
	if err := checkVirginSuperblock(d, cfg.Identity, lost); err != nil {
		return err
	}
	return checkVirginLogs(d, cfg, lost)
}

// checkVirginSuperblock: a superblock that is not the first one means a life.
func checkVirginSuperblock(d disk.Disk, id superblock.Identity, lost func(string) error) error {
	if _, err := d.List(metadataDir); errors.Is(err, disk.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("list %s: %w", metadataDir, err)
	}
	store, err := superblock.Open(d, metadataDir)
	if err != nil {
		return err
	}
	outcome := store.Latest()
	if outcome.Kind == superblock.Present {
		first := superblock.State{Cluster: id.Cluster, Replica: id.Replica, ReplicaCount: id.ReplicaCount}
		if string(outcome.Payload) != string(first.Append(nil)) {
			return lost("the superblock is not that of a new node")
		}
	}
	return outcome.Err(metadataDir)
}

// checkVirginLogs: logs are made after the superblock and hold nothing before
// FORMAT is written.
func checkVirginLogs(d disk.Disk, cfg FormatConfig, lost func(string) error) error {
	dirs, err := logDirs(d)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		records := 0
		err := wal.Inspect(d, dir, nil, func(i wal.Item) error {
			if i.Record && i.Kind != 0 && i.Kind != wal.KindMark && !isDoubt(i) {
				records++
			}
			return nil
		})
		if err != nil && !errors.Is(err, disk.ErrNotExist) {
			return err
		}
		if records > 0 {
			return lost(dir + " holds records")
		}
	}
	return nil
}

// isDoubt: the record is the one that formatting writes for a replaced disk.
func isDoubt(i wal.Item) bool {
	p, err := decodePromise(i.State)
	return i.Kind == wal.KindState && i.Group == vsr.MetadataGroup && err == nil && p == promise{State: vsr.State{Doubt: vsr.DoubtAll}}
}

// logDirs lists the log directories that exist.
func logDirs(d disk.Disk) ([]string, error) {
	dirs := []string{metadataLogDir}
	names, err := namesIn(d, "shards")
	for _, n := range names {
		dirs = append(dirs, "shards/"+n+"/wal")
	}
	return dirs, err
}

// checkFormatted refuses a formatted directory from which something is missing.
func checkFormatted(d disk.Disk, cfg FormatConfig) error {
	names, err := namesIn(d, "shards")
	if err != nil {
		return err
	}
	found := 0
	for _, n := range names {
		if _, err := strconv.ParseUint(n, 10, 32); err == nil {
			found++
		}
	}
	if found != cfg.Shards {
		return fmt.Errorf("%w: the data directory has %d, the configuration says %d; set system.shards to %d", ErrShardsChanged, found, cfg.Shards, found)
	}
	dirs := []string{metadataLogDir}
	for i := range cfg.Shards {
		dirs = append(dirs, logDir(uint32(i)))
	}
	for _, dir := range dirs {
		names, err := namesIn(d, dir)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(names, isLogFile) {
			return fmt.Errorf("%w: %s has no files; restore it, or rebuild this replica from its peers", ErrLogLost, dir)
		}
	}
	return nil
}

// isLogFile tells a file of a log from what was being made when the node stopped.
func isLogFile(name string) bool { return strings.HasSuffix(name, ".wal") }

// namesIn lists a directory; one that does not exist is empty.
func namesIn(d disk.Disk, dir string) ([]string, error) {
	entries, err := d.List(dir)
	if err != nil && !errors.Is(err, disk.ErrNotExist) {
		return nil, fmt.Errorf("list %s: %w", dir, err)
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name
	}
	return names, nil
}
