// Package wal is the write-ahead log: one per shard, shared by all its groups,
// and one for the metadata group alone. What Write has acknowledged is found
// again after any crash, and damage to it is told apart from a crash.
//
// # On disk
//
// A log is a directory of files <sequence, 20 digits>.wal without a gap. Each is
// written with zeros once and recycled under a later sequence number, so that a
// sync has no metadata to write. A file is a block of 4096 bytes (see
// fileHeader) and then records back to back (see frame), each multiple of 8
// bytes long. The end of a file is where the next record did not fit.
//
//   - A write is padded to whole sectors: bytes that were acknowledged are never
//     in a sector that is written again.
//   - Each record carries the checksum of the record before it, across files, so
//     nothing but the successor can follow a record.
//   - Each record says up to where the log was known synced when it was written
//     ("synced"). It witnesses that everything below was acknowledged or could
//     have been.
//   - A file is left for the next one only when it is synced.
//   - A name that ends in .wal always had a durable, valid header. What is being
//     made ends in .new, and Open drops it.
//
// # Torn or rotten
//
// Open reads from the first file on for as long as records verify. Where that
// stops, at position P, it searches all that follows for records. If one of them
// has synced > P then P was durable once and is not what was written: Open
// refuses and changes nothing. Else nothing from P on was ever known synced: it
// is the torn rest of a write that nobody was told about, even if whole records
// lie behind the hole, and it is cut.
//
// The last batch that was acknowledged has no later record to witness it, and where
// batches are written during the sync of those before, the last two have none. Mark
// writes one. Until the next Write or Mark, rot of these cannot be told from a torn
// tail, and would be cut as one; so would rot that hits a record and every record that
// witnesses it. Call Mark when the log falls idle. Removing the newest files that hold
// records, together with all files after them, cannot be seen from the log alone either:
// the caller compares what it recovered with its own checkpoint.
//
// # After a crash
//
// What Open found readable may never have reached the device: a sync that failed
// in the process before leaves such pages. And what it did not find may still
// come back, if bytes behind the cut were left where a later record ends. So
// whenever the last file has records without a witness, or a torn tail, Open
// copies its valid prefix to a new file, adds a Mark, syncs, and renames it over
// the old one. The old bytes stay whole until the new ones are durable.
//
// # Freeing
//
// Ops at or below a group's checkpoint are released, and whole files below the
// lowest op still needed are freed, never rewritten. What a group needs from a
// freed file (its newest state record, the header at its commit point) is written
// anew at the head of the log first; then a mark records the lowest file that
// is needed, so that a file that is missing later is noticed.
package wal
