// Package sim runs whole clusters of galgo in one goroutine, in virtual time, from
// one seed: the same seed gives the same run, and the same trace hash, on every
// machine. docs/simulator.md says how to use it.
//
// What is simulated is what production code is handed from outside, and nothing
// else: the loops and lanes of engine.Loop, the disk (memdisk), the network between
// replicas (shard.Network) and the clock. Everything below edge.Backend is the code
// that runs in production: engine, shards, cores, logs, superblock, snapshots,
// segments, machines. The edge and the client have goroutines of their own and are
// left out; a client here calls edge.Backend as the edge does, and sleeps, retries
// and gives up as the client does.
//
//	run.go         a run from beginning to end
//	plan.go        what a seed draws: size, settings, faults (swarm testing)
//	world.go       virtual time and the queue of events
//	random.go      a stream of chance for each part
//	node.go        a node: start, crash, stop
//	loop.go        loops and lanes without threads
//	tap.go         the disk as a node sees it, which may die at any call
//	network.go     frames between replicas
//	nemesis.go     what goes wrong, and when
//	dance.go       primaries that are cut off in the middle of what they say
//	echo.go        old answers that come again
//	ambush.go      deaths between two steps of one thing
//	rot.go         bits that flip
//	doubt.go       names that no sync makes durable
//	astray.go      writes that were lost or went elsewhere, segments that decay
//	client.go      clients: attempts, time-outs, retries
//	work_*.go      what clients ask for
//	model.go       what must be true of each group, from what replicas apply
//	memory.go      what a topic with durability memory may lose
//	check_*.go     what is compared with it
//	history.go     linearizability of the metadata
//	coverage.go    what a run has reached
//	trace.go       hash and table of events
//	batch.go       many seeds in many processes
package sim
