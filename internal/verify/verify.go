package verify

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"

	"galgo/internal/cipher"
	"galgo/internal/disk"
	"galgo/internal/shard"
	"galgo/internal/vsr"
)

// Source is a data directory that nobody writes to.
type Source struct {
	Name string
	Disk disk.Disk    // only read
	Keys *cipher.Ring // nil: what is sealed is refused; a directory in the clear needs none
}

// run is one verification.
type run struct {
	ctx      context.Context
	replicas []*replica
	report   Report
}

// Run looks at the directories of a cluster's replicas, one or several. The error is one
// of ctx, or that there is nothing to look at; what is wrong is in the report.
func Run(ctx context.Context, sources []Source) (*Report, error) {
	if len(sources) == 0 {
		return nil, errors.New("verify: no data directory is named")
	}
	r := &run{ctx: ctx, report: Report{Groups: []Group{}, Problems: []Problem{}}}
	for _, s := range sources {
		r.replicas = append(r.replicas, newReplica(s))
	}
	defer r.close()
	if err := r.examine(); err != nil {
		return nil, err
	}
	r.tell()
	return &r.report, ctx.Err()
}

func (r *run) close() {
	for _, p := range r.replicas {
		p.close()
	}
}

func (r *run) examine() error {
	for _, p := range r.replicas {
		p.examine()
		if err := r.ctx.Err(); err != nil {
			return err
		}
	}
	r.checkTogether()
	r.metadata()
	for _, p := range r.replicas {
		p.openPartitions()
		if err := r.ctx.Err(); err != nil {
			return err
		}
	}
	for _, id := range r.groups() {
		r.partition(id)
		if err := r.ctx.Err(); err != nil {
			return err
		}
	}
	for _, p := range r.replicas {
		if err := p.lookAtLooseSegments(r.ctx); err != nil {
			return err
		}
	}
	return nil
}

// problem notes what is wrong between directories.
func (r *run) problem(group vsr.GroupID, format string, args ...any) {
	id := uint64(group)
	r.report.Problems = append(r.report.Problems, Problem{Group: &id, What: fmt.Sprintf(format, args...)})
}

// checkTogether refuses directories that are not of one cluster, or of one replica twice.
// Such a one is left out of what is compared.
func (r *run) checkTogether() {
	var first *replica
	byID := map[uint8]string{}
	for _, p := range r.replicas {
		switch {
		case !p.identified:
		case first == nil:
			first, byID[p.id.Replica] = p, p.name
		case p.id.Cluster != first.id.Cluster || p.id.ReplicaCount != first.id.ReplicaCount:
			p.give("it is of cluster %x with %d replicas, %s is of cluster %x with %d: name the directories of one cluster",
				p.id.Cluster, p.id.ReplicaCount, first.name, first.id.Cluster, first.id.ReplicaCount)
		case byID[p.id.Replica] != "":
			p.give("it is of replica %d, as is %s: name one directory for each replica", p.id.Replica, byID[p.id.Replica])
		default:
			byID[p.id.Replica] = p.name
		}
	}
}

// metadata opens and compares group 0.
func (r *run) metadata() {
	var all []*member
	for _, p := range r.replicas {
		if m := p.openMetadata(); m != nil {
			all = append(all, m)
		}
	}
	r.compareSnapshots()
	if len(all) == 0 {
		return
	}
	g := r.compare(all)
	r.report.Groups = append(r.report.Groups, g)
}

// groups are the numbers of the partitions' groups that any directory has.
func (r *run) groups() []vsr.GroupID {
	all := map[vsr.GroupID]bool{}
	for _, p := range r.replicas {
		for id := range p.partitions {
			all[id] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

func (r *run) partition(id vsr.GroupID) {
	var all []*member
	for _, p := range r.replicas {
		if a := p.partitions[id]; a != nil {
			all = append(all, &member{p, a})
		}
	}
	before := len(r.report.Problems)
	g := r.compare(all)
	counted := r.compareRecords(all)
	for _, m := range all {
		m.checkSequences()
		m.checkState()
	}
	if len(r.report.Problems) > before {
		g.Verdict = Differs
	}
	spec := r.specOf(id)
	g.Stream, g.Topic, g.Partition = spec.Stream, spec.Topic, spec.Partition
	g.Messages, g.Bytes = counted.messages, counted.bytes
	r.report.Groups = append(r.report.Groups, g)
}

func (r *run) specOf(id vsr.GroupID) shard.GroupSpec {
	for _, p := range r.replicas {
		if s, _, ok := p.spec(id); ok {
			return s
		}
	}
	return shard.GroupSpec{}
}

// tell puts the findings in order.
func (r *run) tell() {
	own := []Problem{}
	for _, p := range r.replicas {
		d := Directory{
			Name: p.name, Cluster: hex.EncodeToString(p.id.Cluster[:]), Replica: p.id.Replica, Replicas: p.id.ReplicaCount,
			Groups: len(p.partitions), Messages: p.counted.messages, Bytes: p.counted.bytes, Problems: len(p.problems),
		}
		if p.audit != nil {
			d.View, d.LogView, d.Op = uint32(p.audit.State.View), uint32(p.audit.State.LogView), uint64(p.audit.Applied.Op)
		}
		r.report.Directories = append(r.report.Directories, d)
		own = append(own, p.problems...)
	}
	slices.SortStableFunc(r.report.Directories, func(a, b Directory) int { return cmp.Compare(a.Replica, b.Replica) })
	r.report.Problems = append(own, r.report.Problems...)
	r.report.Sound = len(r.report.Problems) == 0
}
