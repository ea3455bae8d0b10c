// Package partition is the machine of a partition group: the messages of one
// partition in segments, the offsets of its consumers and the recent numbers of
// its producers, built by applying the committed operations of the group's log
// in order. Equal operations give equal bytes on every replica.
//
// # The host
//
// A Machine belongs to one goroutine, the shard loop, and starts none. Nothing
// that the loop calls touches a file; what does is handed out as a job whose Run
// the host calls on another goroutine and whose Done the host calls on the loop
// when Run has returned. The host:
//
//  1. builds the machine with New (a group that was never here) or with Open (a
//     group whose files may exist) and then applies what its log holds above the
//     checkpoint;
//  2. as primary calls Check… before it admits a request, Stamp on the batch of
//     a send just before it seals the prepare, and Note… for what else changes
//     the frontier; Abandon when the uncommitted suffix is lost;
//  3. on every replica calls Apply for each committed operation, in order, once,
//     with bodies that nobody changes afterwards: the machine keeps and shares
//     them;
//  4. after applying runs NextWrite, and from time to time BeginCheckpoint, each
//     to its Done; writes the bytes of the checkpoint to stable storage, then
//     calls Settled, and runs NextRemove;
//  5. frees the part of its log that a settled checkpoint covers, no other.
//
// The log holds every operation above the checkpoint, so segment files are
// written lazily and carry no promise of their own above the recovery point that
// the checkpoint names. Open cuts what lies beyond it, and redoing the log
// writes the same bytes again.
//
// # Files
//
// All are in one directory per group, groups/<group id, 20 digits>, which is
// made when the first segment is written:
//
//	<base offset, 20 digits>.log            batch records back to back, as polled
//	<base offset, 20 digits>.index          derived from the log, see index.go
//	<generation, 20 digits>-<base, 20 digits>.log, .index
//
// A purge starts offsets at 0 again, so names would meet. The generation of the
// last purge is therefore part of the name (the first, generation 0, has the
// short form): a checkpoint names files of one generation only, and a file left
// from another life can be told by its name alone.
//
// Files that a purge or a truncation leaves behind are removed only after a
// checkpoint that no longer names them is settled.
//
// # Where to look
//
//	config.go      settings and limits
//	operation.go   bodies of the operations
//	machine.go     state, Apply
//	frontier.go    what the primary decides before an operation commits
//	consumers.go   stored offsets
//	tenures.go     which member of a consumer group may write them
//	producers.go   which sends can be recognised
//	tail.go        batches in memory
//	segment.go     segments and their names
//	index.go       index format and search
//	walk.go        verified reading of a log
//	write.go       jobs: write, sync
//	remove.go      jobs: remove
//	checkpoint.go  format of the checkpoint
//	open.go        recovery
//	poll.go        planning a poll
//	read.go        reading what a plan names
//	files.go       open files, shared and counted
//	retention.go   which segments need not be kept
//	stats.go       figures for other goroutines
//	inspect.go     a look at the files without a server
package partition
