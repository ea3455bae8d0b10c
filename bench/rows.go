package main

import (
	"context"
	"fmt"
)

// kind is what a job does.
type kind string

const (
	publish  kind = "publish"  // store messages
	consume  kind = "consume"  // read what is stored, from the memory of the system
	metadata kind = "metadata" // operations that are ordered by the log of the metadata
	offsets  kind = "offsets"  // a consumer's offset, through the log of its partition
	writers  kind = "writers"  // one message at a time by each of many clients, each into a stream or partition of its own
	failover kind = "failover" // the longest gap of one writer whose leader is killed
	recovery kind = "recovery" // from a kill to the first right answer
)

// job is a load, in words that every system can translate for its own tool.
type job struct {
	kind        kind
	tool        string // of a peer's own tool: which of its ways
	clients     int    // that work at a time
	connections int    // they share; 0: one each
	inFlight    int    // batches of a client
	batch       int    // messages
	count       int    // messages or operations in all
	memory      bool   // acknowledged without a sync
}

const messageSize = 1024

func (j job) scaled(by float64) job {
	j.count = max(int(float64(j.count)*by), j.clients, 1)
	return j
}

// load is what a job reached.
type load struct {
	rate     float64 // messages or operations a second, or seconds where less is better
	p50, p99 float64 // ms; of a batch, or of an operation
	bytes    float64 // of payload, in all
	cpu      float64 // processor seconds of the tool
}

// system is one of those that are compared, running.
type system interface {
	servers() []*process
	run(ctx context.Context, j job) (load, error)
	stop()
}

// starter brings a system up in an empty directory.
type starter func(ctx context.Context, o *options, dir string) (system, error)

// row is one line of the table.
type row struct {
	id, what string
	beside   string  // the peer, and what its acknowledgement means if not the same
	must     float64 // the ratio that galgo has to reach; 0: nothing is said
	target   float64 // what it aims at
	less     bool    // less is better
	ours     job
	theirs   []job // its ways; the best one counts
	bare     *job  // of the bare program; nil: it has nothing to do here
}

// stage is a pair of systems and the rows that are taken while both run in turn.
type stage struct {
	name   string
	ours   starter
	theirs starter
	bare   starter // nil: none
	warm   job     // before anything is measured
	warmed job     // the same for the peer
	rows   []row
}

// ways are a job in several ways of a peer's tool.
func ways(j job, tools ...string) (all []job) {
	for _, t := range tools {
		j.tool = t
		all = append(all, j)
	}
	return all
}

func sends(clients, inFlight, batch, count int, memory bool) job {
	return job{kind: publish, clients: clients, inFlight: inFlight, batch: batch, count: count, memory: memory}
}

func single(clients, count int, memory bool) job { return sends(clients, 1, 1, count, memory) }

func reads(count int) job { return job{kind: consume, clients: 1, batch: 1000, count: count} }

// operations are a peer's puts, or ours: of the metadata, where each client has a
// connection of its own since a session has one operation at a time.
func operations(k kind, clients, connections, count int) job {
	return job{kind: k, clients: clients, connections: connections, count: count}
}

// stages are the rows in the order in which they are taken. What galgo does on a row the
// bare program does as well, but for polls, failover and recovery.
func stages() []stage {
	all := []stage{
		oneNodeMemory(), oneNodeSynced(), threeNodes(), threeNodesSynced(), manyPartitions(),
		metadataStage("metadata of one node", 1, "M2", "M3", [2]float64{2, 3}, [2]float64{3, 8}),
		metadataStage("metadata of three nodes", 3, "M5", "M6", [2]float64{2, 3}, [2]float64{3, 6}),
		failoverStage("F1", "etcd", 0.35, etcdNodes(3)),
		failoverStage("F1n", "NATS, without a sync", 0.35, natsNodes(3, false)),
		recoveryStage(),
	}
	for i := range all {
		for j := range all[i].rows {
			r := &all[i].rows[j]
			if k := r.ours.kind; all[i].bare != nil && k != consume {
				r.bare = &r.ours
			}
		}
	}
	return all
}

func oneNodeMemory() stage {
	return stage{
		name: "one node, acknowledged without a sync", ours: galgoNodes(1), theirs: natsNodes(1, false), bare: bareNodes(1, false),
		warm: sends(1, 4, 1000, 700_000, true), warmed: ways(sends(1, 4, 1000, 30_000, true), "fast")[0],
		rows: []row{
			{id: "P1", what: "publish 1 KiB in batches of 1000, 4 in flight, one node, no sync", beside: "NATS", must: 4, target: 8,
				ours: sends(1, 4, 1000, 1_500_000, true), theirs: ways(sends(1, 4, 1000, 250_000, true), "fast", "async")},
			{id: "C1", what: "poll 1 KiB in batches of 1000 from memory, one node", beside: "NATS", must: 5, target: 10,
				ours: reads(1_500_000), theirs: ways(reads(250_000), "consume", "ordered", "fetch")},
			{id: "P9A", what: "32 connections, one message each at a time, one node, no sync", beside: "NATS", target: 2,
				ours: single(32, 60_000, true), theirs: ways(single(32, 30_000, true), "sync")},
		},
	}
}

func oneNodeSynced() stage {
	return stage{
		name: "one node, synced", ours: galgoNodes(1), theirs: natsNodes(1, true), bare: bareNodes(1, true),
		warm: sends(1, 4, 1000, 700_000, false), warmed: ways(sends(1, 1, 1000, 30_000, false), "atomic")[0],
		rows: []row{
			{id: "P2", what: "publish 1 KiB in batches of 1000, 4 in flight, one node, synced", beside: "NATS", must: 5, target: 8,
				ours: sends(1, 4, 1000, 1_200_000, false), theirs: ways(sends(4, 1, 1000, 150_000, false), "atomic")},
			{id: "P7", what: "one message at a time, one node, synced", beside: "NATS", must: 1.2, target: 1.5,
				ours: single(1, 5_000, false), theirs: ways(single(1, 3_000, false), "sync")},
			{id: "P9B", what: "32 connections, one message each at a time, one node, synced", beside: "NATS", must: 4, target: 4,
				ours: single(32, 30_000, false), theirs: ways(single(32, 6_000, false), "sync")},
		},
	}
}

// weaker says what galgo's cluster does more than the peer: it knows no
// acknowledgement of a cluster without a sync.
const weaker = "NATS without a sync, galgo with"

func threeNodes() stage {
	return stage{
		name: "three nodes, the peer without a sync", ours: galgoNodes(3), theirs: natsNodes(3, false), bare: bareNodes(3, true),
		warm: sends(1, 4, 1000, 700_000, false), warmed: ways(sends(1, 4, 1000, 20_000, false), "fast")[0],
		rows: []row{
			{id: "P3", what: "publish 1 KiB in batches of 1000, 4 in flight, three nodes", beside: weaker, must: 3, target: 5,
				ours: sends(1, 4, 1000, 600_000, false), theirs: ways(sends(1, 4, 1000, 150_000, false), "fast", "atomic")},
			{id: "C2", what: "poll 1 KiB in batches of 1000 from memory, three nodes, from the leader", beside: "NATS", must: 5, target: 10,
				ours: reads(600_000), theirs: ways(reads(150_000), "ordered", "consume")},
			{id: "P9C", what: "32 connections, one message each at a time, three nodes", beside: weaker, target: 2,
				ours: single(32, 20_000, false), theirs: ways(single(32, 20_000, false), "sync")},
		},
	}
}

func threeNodesSynced() stage {
	return stage{
		name: "three nodes, synced", ours: galgoNodes(3), theirs: natsNodes(3, true), bare: bareNodes(3, true),
		warm: sends(1, 4, 1000, 700_000, false), warmed: ways(sends(1, 4, 1000, 10_000, false), "atomic")[0],
		rows: []row{
			{id: "P4", what: "publish 1 KiB in batches of 1000, 16 in flight, three nodes, synced", beside: "NATS", must: 5, target: 8,
				ours: sends(1, 16, 1000, 600_000, false), theirs: append(ways(sends(4, 1, 1000, 60_000, false), "atomic"), ways(sends(1, 16, 1000, 40_000, false), "fast")...)},
			{id: "P8", what: "one message at a time, three nodes, synced", beside: "NATS", must: 1.2, target: 1.5,
				ours: single(1, 2_000, false), theirs: ways(single(1, 1_200, false), "sync")},
			{id: "P9D", what: "32 connections, one message each at a time, three nodes, synced", beside: "NATS", must: 1.5, target: 2,
				ours: single(32, 15_000, false), theirs: ways(single(32, 8_000, false), "sync")},
		},
	}
}

func manyPartitions() stage {
	j := job{kind: writers, clients: 64, batch: 1, count: 8_000}
	ours, one := j, single(64, 8_000, false)
	ours.count, one.tool = 16_000, "sync"
	return stage{
		name: "64 partitions", ours: galgoNodes(3), theirs: natsNodes(3, true), bare: bareNodes(3, true),
		rows: []row{{id: "S64", what: "64 partitions on three nodes, one client each, one message at a time, synced", beside: "NATS, the better of 64 streams and one", target: 2,
			ours: ours, theirs: []job{j, one}}},
	}
}

func metadataStage(name string, nodes int, few, many string, musts, targets [2]float64) stage {
	on := fmt.Sprintf(", %s", map[int]string{1: "one node", 3: "three nodes"}[nodes])
	n := map[int]int{1: 40_000, 3: 20_000}[nodes]
	puts := func(clients, connections, count int) []job {
		return []job{operations(metadata, clients, connections, count)}
	}
	return stage{
		name: name, ours: galgoNodes(nodes), theirs: etcdNodes(nodes), bare: bareNodes(nodes, true),
		warm: operations(metadata, 16, 16, 2_000), warmed: operations(metadata, 64, 8, 2_000),
		rows: []row{
			{id: few, what: "64 clients create and delete streams" + on, beside: "etcd put", must: musts[0], target: targets[0],
				ours: operations(metadata, 64, 64, n), theirs: puts(64, 8, n)},
			{id: few + "o", what: "64 clients on 8 connections store offsets" + on, beside: "etcd put", must: musts[0], target: targets[0],
				ours: operations(offsets, 64, 8, 2*n), theirs: puts(64, 8, n)},
			{id: many, what: "1000 clients create and delete streams" + on, beside: "etcd put", must: musts[1], target: targets[1],
				ours: operations(metadata, 1000, 1000, 2*n), theirs: puts(1000, 32, 2*n)},
			{id: many + "o", what: "1000 clients on 32 connections store offsets" + on, beside: "etcd put", must: musts[1], target: targets[1],
				ours: operations(offsets, 1000, 32, 4*n), theirs: puts(1000, 32, 2*n)},
		},
	}
}

func failoverStage(id, beside string, target float64, theirs starter) stage {
	j := job{kind: failover, clients: 1}
	return stage{
		name: "failover beside " + beside, ours: galgoNodes(3), theirs: theirs,
		rows: []row{{id: id, what: "longest gap of one writer when its leader is killed, three nodes", beside: beside, must: 1, target: target, less: true,
			ours: j, theirs: []job{j}}},
	}
}

func recoveryStage() stage {
	ours := job{kind: recovery, clients: 1, inFlight: 4, batch: 1000, count: 1_000_000}
	theirs := ways(ours, "fast")
	return stage{
		name: "recovery", ours: galgoNodes(1), theirs: natsNodes(1, false),
		rows: []row{{id: "F2", what: "from SIGKILL with 1 M messages to the first right answer, one node", beside: "NATS", must: 1, target: 0.5, less: true,
			ours: ours, theirs: theirs}},
	}
}
