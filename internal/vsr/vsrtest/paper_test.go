package vsrtest

import (
	"fmt"
	"strings"
	"testing"

	"galgo/internal/vsr"
)

// The tests of this file are claims of Viewstamped Replication Revisited (Liskov
// and Cowling, 2012), by section, and of recovery with durable state, which galgo
// has instead of §4.3's recovery from memory.

// play runs commands and returns all that was seen.
func playAll(t *testing.T, s *Script, commands string) string {
	t.Helper()
	var seen strings.Builder
	for line := range strings.Lines(commands) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		out, err := s.Run(line)
		if err != nil {
			t.Fatal(err)
		}
		seen.WriteString(out + "\n")
	}
	return seen.String()
}

func wantSeen(t *testing.T, seen string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(seen, part) {
			t.Errorf("%q was not seen in\n%s", part, seen)
		}
	}
}

func wantUnseen(t *testing.T, seen string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if strings.Contains(seen, part) {
			t.Errorf("%q was seen in\n%s", part, seen)
		}
	}
}

// §4: the primary is chosen by the view number, round robin.
func TestPaper4ThePrimaryFollowsFromTheView(t *testing.T) {
	var s Script
	seen := playAll(t, &s, "new n=3\nshow\ncrash 0\nrun 60\nshow")
	wantSeen(t, seen, "0 primary view=0", "1 primary view=1")
}

// §4.1 step 2: only the primary takes requests.
func TestPaper41OnlyThePrimaryTakesRequests(t *testing.T) {
	var s Script
	seen := playAll(t, &s, "new n=3\npropose 1 a")
	wantSeen(t, seen, "a: vsr: this replica is not the primary")
	wantUnseen(t, seen, "appends")
}

// §4.1 step 3: the primary gives the next op-number and sends to all backups.
func TestPaper41ThePrimaryOrdersAndSendsToAll(t *testing.T) {
	var s Script
	seen := playAll(t, &s, "new n=3\npropose 0 a b")
	wantSeen(t, seen, "0>1 prepare v=0 1:a", "0>2 prepare v=0 1:a", "0>1 prepare v=0 2:b", "0>2 prepare v=0 2:b")
}

// §4.1 step 4: backups process in order and answer when they have all before.
func TestPaper41BackupsWaitForEarlierOps(t *testing.T) {
	var s Script
	seen := playAll(t, &s, "new n=3\npropose 0 a b\ndelay op=1 to=1\ndeliver to=1\nnet\nshow 1")
	wantUnseen(t, seen, "1>0 prepare_ok")
	seen = playAll(t, &s, "arrive\ndeliver to=1")
	wantSeen(t, seen, "1>0 prepare_ok v=0 1:a", "1>0 prepare_ok v=0 2:b")
}

// §4.1 step 5: committed with f answers of others, and executed in order.
func TestPaper41CommitNeedsAQuorum(t *testing.T) {
	var s Script
	seen := playAll(t, &s, "new n=5\npropose 0 a\ndeliver kind=prepare\ndeliver from=1\nshow 0")
	wantSeen(t, seen, "0 primary view=0 log_view=0 commit=0/0 head=1")
	seen = playAll(t, &s, "deliver from=2\nshow 0")
	wantSeen(t, seen, "0 applies 1:a", "0 primary view=0 log_view=0 commit=1/1")
}

// §4.1 step 6: the commit point comes with the next prepare, or with a commit
// message when there is none.
func TestPaper41BackupsHearTheCommitPoint(t *testing.T) {
	var s Script
	playAll(t, &s, "new n=3\npropose 0 a\nsettle")
	seen := playAll(t, &s, "propose 0 b\nsettle")
	wantSeen(t, seen, "1 applies 1:a", "2 applies 1:a")
	wantUnseen(t, seen, "1 applies 2:b")
	seen = playAll(t, &s, "tick 5\nsettle")
	wantSeen(t, seen, "0>1 commit", "1 applies 2:b", "2 applies 2:b")
}

// §4.1 step 7: a backup executes what is committed once it has it and all before.
func TestPaper41BackupsExecuteInOrder(t *testing.T) {
	var s Script
	seen := playAll(t, &s, "new n=3\npropose 0 a b\ndeliver to=2\ndelay op=1 to=1\nsettle\ntick 5 0\ndeliver kind=commit to=1\nshow 1")
	wantSeen(t, seen, "1 normal view=0 log_view=0 commit=0/2 head=0")
	seen = playAll(t, &s, "arrive\nsettle\nrun 2\nshow 1")
	if strings.Index(seen, "1 applies 1:a") > strings.Index(seen, "1 applies 2:b") {
		t.Errorf("out of order:\n%s", seen)
	}
	wantSeen(t, seen, "commit=2/2 head=2")
}

// §4.1: an unanswered prepare is sent again.
func TestPaper41PreparesAreRepeated(t *testing.T) {
	var s Script
	seen := playAll(t, &s, "new n=3\npropose 0 a\ndeliver drop\nrun 20\nshow")
	wantSeen(t, seen, "0 applies 1:a", "1 normal view=0 log_view=0 commit=1/1", "2 normal view=0 log_view=0 commit=1/1")
}

// §4.2 step 1: without a word from the primary a replica leaves the view, and one
// that hears of it follows. (galgo: once a view-change quorum hears nothing.)
func TestPaper42SilenceEndsTheView(t *testing.T) {
	var s Script
	seen := playAll(t, &s, "new n=3\ncrash 0\ntick 29\nsettle\nshow")
	wantUnseen(t, seen, "view=1")
	seen = playAll(t, &s, "tick 1\nsettle\nshow")
	wantSeen(t, seen, "1>2 start_view_change v=1", "1 primary view=1")
}

// §4.2 step 2: the vote goes to the new primary, with view, log_view and log.
func TestPaper42TheVoteCarriesTheLog(t *testing.T) {
	var s Script
	seen := playAll(t, &s, "new n=3\npropose 0 a\nsettle\npropose 0 b\nsettle\ncrash 0\ntick 30\nsettle")
	wantSeen(t, seen, "2>1 do_view_change v=1 log_view=0 log=1:a| 2:b")
}

// §4.2 step 3: the new primary needs f+1 votes, its own among them.
func TestPaper42AViewNeedsAQuorumOfVotes(t *testing.T) {
	var s Script
	seen := playAll(t, &s, "new n=5\ncrash 0\ncrash 4\ncut 3>1\ntick 30\nsettle\nshow 1")
	wantSeen(t, seen, "1 view-change view=1")
	seen = playAll(t, &s, "heal\nrun 10\nshow 1")
	wantSeen(t, seen, "1 primary view=1 log_view=1")
}

// §4.2 step 3: the log is the one with the highest log_view, then the longest.
func TestPaper42TheLatestLogWins(t *testing.T) {
	var s Script
	seen := playAll(t, &s, `new n=3
		propose 0 a
		settle
		tick 5
		settle
		cut 0-1 0-2
		propose 0 x y z
		crash 0
		heal
		run 60
		propose 1 b
		settle
		crash 1
		restart 0
		run 120
		show`)
	wantSeen(t, seen, "0 truncates to 1", "log=0| 1:a 2:b\n")
}

// §4.2 step 5 and 6: backups take the log, answer for what is not committed, and
// the ops of earlier views commit in the new one.
func TestPaper42OpsOfEarlierViewsCommit(t *testing.T) {
	var s Script
	seen := playAll(t, &s, "new n=3\npropose 0 a\ndeliver to=1\ncrash 0\ndeliver drop\ntick 30\nsettle\nshow")
	wantSeen(t, seen, "2>1 prepare_ok v=1 1:a", "1 applies 1:a")
}

// §4.2, at the end: a view change that does not come to an end leads to the next.
func TestPaper42AStuckViewChangeLeadsToTheNext(t *testing.T) {
	var s Script
	seen := playAll(t, &s, "new n=5\ncrash 0\ncrash 1\nrun 200\nshow")
	wantSeen(t, seen, "2 primary view=2")
}

// §4.3 and durable state: a replica that restarts takes no part before it knows
// the view, which it learns by a question with a number of its own.
func TestPaper43ARestartedReplicaAsks(t *testing.T) {
	var s Script
	seen := playAll(t, &s, "new n=3\npropose 0 a\nsettle\ncrash 1\nrestart 1\nshow 1\nlink-down 2 0\ndeliver\nshow 1")
	wantSeen(t, seen, "1 recovering")
	wantUnseen(t, seen, "1>0 start_view_change", "1 normal")
	seen = playAll(t, &s, "tick 1\nsettle\nshow 1")
	wantSeen(t, seen, "1>0 request_start_view v=0 boot=2", "echo=2", "1 normal view=0")
}

// §4.3: an answer to a question of an earlier life is none: a log that has grown
// since would shrink.
func TestPaper43OnlyAnAnswerToThisLifeCounts(t *testing.T) {
	var s Script
	playAll(t, &s, `new n=3
		propose 0 a
		settle
		crash 1
		restart 1
		tick 1 1
		deliver kind=request_start_view
		delay kind=start_view
		tick 10 1
		settle
		cut 0-2
		propose 0 b
		settle
		crash 1
		restart 1`)
	seen := playAll(t, &s, "arrive\ndeliver to=1\nshow 1")
	wantSeen(t, seen, "1 recovering", "log=0| 1:a 2:b")
	wantUnseen(t, seen, "truncates")
}

// §4.3: a primary that recovers does not go on where it was.
func TestPaper43ARestartedPrimaryHasCeded(t *testing.T) {
	var s Script
	seen := playAll(t, &s, "new n=3\npropose 0 a\nsettle\ncrash 0\nrestart 0\npropose 0 b\nshow 0")
	wantSeen(t, seen, "b: vsr: this replica is not the primary", "0 recovering")
}

// Durable state: view and log_view come back as they were promised, and with them
// what was acknowledged.
func TestDurablePromisesComeBack(t *testing.T) {
	var s Script
	seen := playAll(t, &s, "new n=3\npropose 0 a\nsettle\ncrash 0\nrun 60\npropose 1 b\nsettle\ncrash 2\nrestart 2\nshow 2")
	wantSeen(t, seen, "2 recovering view=1 log_view=1", "log=0| 1:a 2:b")
}

// Durable state: an acknowledgement waits for the log, so power loss everywhere
// loses nothing that a client was told.
func TestDurablePowerLossEverywhere(t *testing.T) {
	var s Script
	seen := playAll(t, &s, "new n=3\npropose 0 a b c\nsettle\ncrash 0\ncrash 1\ncrash 2\nrestart 1\nrestart 2\nrun 100\nshow")
	wantSeen(t, seen, "1 applies 3:c", "2 applies 3:c")
}

// Durable state: reads wait for what this replica may have acknowledged before.
func TestDurableReadsWaitForTheBarrier(t *testing.T) {
	var s Script
	playAll(t, &s, "new n=3\npropose 0 a b\nsettle\ncrash 0\ncrash 1\ncrash 2\nrestart 0\nrestart 1\nrestart 2")
	core := s.cluster.replicas[1].core
	if core.Barrier() != 2 || core.Serving() || core.Current() {
		t.Fatalf("barrier %d, serving %t, current %t after a restart with ops 1 and 2; want 2, false, false", core.Barrier(), core.Serving(), core.Current())
	}
	playAll(t, &s, "run 60")
	if core.Barrier() != 0 || !core.Serving() || !core.Current() {
		t.Fatalf("barrier %d, serving %t, current %t as the primary of view %d", core.Barrier(), core.Serving(), core.Current(), core.View().View)
	}
}

// Durable state: what a new view does not hold was never acknowledged, and reads do
// not wait for it.
func TestDurableBarrierOfWhatIsCut(t *testing.T) {
	var s Script
	playAll(t, &s, "new n=3\npropose 0 a\nsettle\ntick 5 0\nsettle\npropose 0 x\ndeliver drop\ncrash 0\nrun 60\nrestart 0\nrun 20")
	core := s.cluster.replicas[0].core
	if core.Barrier() != 0 || !core.Current() {
		t.Fatalf("barrier %d, current %t after op 2 was cut", core.Barrier(), core.Current())
	}
}

// Durable state: who takes the log of a view in place of its own waits with reads for all
// that the view begins with, also behind the cut: an earlier primary may have answered it.
func TestDurableBarrierBehindACut(t *testing.T) {
	var s Script
	playAll(t, &s, `new n=3
		propose 0 a
		settle
		tick 5 0
		settle
		cut 0-1 0-2
		propose 0 x
		deliver
		run 60
		propose 1 y
		settle
		crash 1
		heal`)
	core, other := s.cluster.replicas[0].core, s.cluster.replicas[2].core
	if core.Head() != 2 || other.Head() != 2 || core.HeadIdentity() == other.HeadIdentity() || other.CommitMin() != 1 {
		t.Fatalf("heads %d and %d, commit_min %d at 2; want two ops 2, of which the one at 2 is not known to be committed", core.Head(), other.Head(), other.CommitMin())
	}
	for range 400 {
		playAll(t, &s, "tick 1\ndeliver")
		if core.Current() && core.CommitMin() < 2 {
			t.Fatalf("replica 0 in view %d answers reads from op %d; op 2 was committed by the primary before", core.View().View, core.CommitMin())
		}
	}
	if !core.Current() {
		t.Fatalf("replica 0 does not answer reads in view %d, status %v", core.View().View, core.Status())
	}
}

// §5.1 and §5.2: below the checkpoint of the others the log is gone, so a replica
// that was away takes the checkpoint and then the log above it.
func TestPaper52StateTransfer(t *testing.T) {
	var s Script
	seen := playAll(t, &s, `new n=3
		cut 0-2 1-2
		propose 0 a b c d
		settle
		tick 5 0
		settle
		checkpoint 0
		checkpoint 1
		propose 0 e f
		settle
		heal
		run 30
		show`)
	wantSeen(t, seen, "2 installs checkpoint 4", "2 appends 5:e", "2 normal view=0 log_view=0 commit=6/6")
}

// §5.2: a replica that missed ops but not a checkpoint takes them from the log.
func TestPaper52MissingOpsComeFromTheLog(t *testing.T) {
	var s Script
	seen := playAll(t, &s, "new n=3\ncut 0-2 1-2\npropose 0 a b c d\nsettle\nheal\nrun 30\nshow 2")
	wantSeen(t, seen, "2 normal view=0 log_view=0 commit=4/4 head=4")
	wantUnseen(t, seen, "installs")
}

// §6 allows a backup nothing that the primary has not said: an op in the log is
// not shown to anybody before it is committed.
func TestPaper6NothingUncommittedIsApplied(t *testing.T) {
	var s Script
	seen := playAll(t, &s, "new n=3\npropose 0 a\ndeliver kind=prepare\ncut 1>0 2>0\nsettle\nrun 5\nshow")
	wantUnseen(t, seen, "applies")
}

// What is applied is the same on all replicas (§8.1), and so are the bytes in
// their logs, whatever view carried them (PF-consensus-07).
func TestLogsAreEqualByteForByte(t *testing.T) {
	var s Script
	playAll(t, &s, "new n=3\npropose 0 a b\ndeliver to=1\ncrash 0\ndeliver drop\nrun 60\npropose 1 c\nsettle\nrestart 0\nrun 60")
	for op := vsr.Op(1); op <= 3; op++ {
		first := s.cluster.replicas[0].disk.at(op)
		for _, r := range s.cluster.replicas {
			p := r.disk.at(op)
			if p == nil || string(p.AppendHeader(nil)) != string(first.AppendHeader(nil)) || string(p.Body) != string(first.Body) {
				t.Errorf("op %d differs on replica %d", op, r.id)
			}
		}
	}
}

// The deepest pipeline there may be is inherited whole: a vote describes all of it, and
// the new primary has room for nothing else until it commits.
func TestDeepestPipelineIsInherited(t *testing.T) {
	var s Script
	var ops []string
	for i := range vsr.PipelineCeiling {
		ops = append(ops, fmt.Sprint("op", i+1))
	}
	seen := playAll(t, &s, fmt.Sprintf(`new n=3 pipeline=%d
		propose 0 %s
		propose 0 more
		deliver to=1
		crash 0
		deliver drop
		tick 30
		deliver
		deliver
		deliver
		deliver
		settle
		show 1`, vsr.PipelineCeiling, strings.Join(ops, " ")))
	wantSeen(t, seen, "more: vsr: too many operations are waiting", "1 primary view=1 log_view=1 commit=127/127 head=127")
}

// PF-recovery-01: each replica is restarted when its log ends at, below and above what
// the others know to be committed. An empty gap is no reason to ask for anything: soon
// all have all, and nobody asks any more.
func TestRestartAtEachCommitPoint(t *testing.T) {
	for ops := range 4 {
		for _, told := range []string{"", "tick 5 0\nsettle"} {
			for _, missed := range []string{"", "deliver to=1 drop", "deliver to=2 drop", "deliver kind=prepare_ok drop"} {
				for victim := range 3 {
					script := []string{"new n=3"}
					for i := range ops {
						script = append(script, fmt.Sprint("propose 0 op", i+1))
						if i == ops-1 {
							script = append(script, missed)
						}
						script = append(script, "settle")
					}
					script = append(script, told, fmt.Sprint("crash ", victim), fmt.Sprint("restart ", victim), "run 200", "show")
					var s Script
					seen := playAll(t, &s, strings.Join(script, "\n"))
					if n := strings.Count(seen, fmt.Sprintf("commit=%d/%d head=%d", ops, ops, ops)); n < 3 {
						t.Errorf("%q: not all have all:\n%s", script, seen)
					}
					wantUnseen(t, playAll(t, &s, "tick 12\nsettle"), "request_")
				}
			}
		}
	}
}
