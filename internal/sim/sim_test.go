package sim

import (
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// ciSeeds are played at every run of the tests: some for each size of cluster.
const ciSeeds = 100

// ciSeedsMax is how many are played at most, while a counter is still zero.
const ciSeedsMax = 250

// extraSeeds are drawn anew for each commit, so that every change tries what no other
// has tried.
const extraSeeds = 6

// commitSeed is the first of the extra seeds: it follows from the commit, and is the
// same every time for one commit. GALGO_SIM_SEED overrides it.
func commitSeed() uint64 {
	name := os.Getenv("GALGO_SIM_SEED")
	if name == "" {
		out, err := exec.Command("git", "rev-parse", "HEAD").Output()
		if err != nil {
			return 1_000_000
		}
		name = string(out)
	}
	return 1_000_000 + uint64(crc32.ChecksumIEEE([]byte(strings.TrimSpace(name))))
}

func run(t *testing.T, o Options) Result {
	t.Helper()
	r, err := Run(o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Failure != nil {
		t.Fatalf("seed %d: %s\n%s\n%v\nreplay: galgo sim --seed %d --trace%s", r.Seed, r.Plan, strings.Join(r.Events, "\n"), r.Failure, r.Seed, flagsOf(o))
	}
	return r
}

func flagsOf(o Options) (flags string) {
	if o.Replicas > 0 {
		flags += fmt.Sprintf(" --replicas %d", o.Replicas)
	}
	if o.Steps > 0 {
		flags += fmt.Sprintf(" --steps %d", o.Steps)
	}
	if len(o.Faults) > 0 {
		flags += " --faults " + strings.Join(o.Faults, ",")
	}
	return flags
}

// pending are counters that no run reaches yet, each with the reason.
var pending = map[string]string{}

// TestSeeds plays the seeds of the tests, and wants every counter of the coverage to
// have counted: what no seed reaches is not tested.
func TestSeeds(t *testing.T) {
	if testing.Short() {
		t.Skip("plays many runs")
	}
	var sum Coverage
	for seed := range uint64(ciSeedsMax) {
		if seed >= ciSeeds && len(missed(&sum)) == 0 {
			break // what is rare may need some more
		}
		r := run(t, Options{Seed: seed})
		sum.Add(&r.Coverage)
	}
	first := commitSeed()
	for seed := first; seed < first+extraSeeds; seed++ {
		run(t, Options{Seed: seed})
	}
	for _, name := range missed(&sum) {
		t.Errorf("no seed reaches %s", name)
	}
	if testing.Verbose() {
		sum.Print(os.Stdout)
	}
}

// missed lists the counters that should not be zero and are.
func missed(c *Coverage) (names []string) {
	for _, counter := range c.Counters() {
		if _, known := pending[counter.Name]; !known && counter.Count == 0 {
			names = append(names, counter.Name)
		}
	}
	return names
}

// TestPendingAreCounters: a name that is none would hide nothing and say something.
func TestPendingAreCounters(t *testing.T) {
	for name := range pending {
		if !slices.ContainsFunc(new(Coverage).Counters(), func(c Counter) bool { return c.Name == name }) {
			t.Errorf("%s is no counter", name)
		}
	}
}

// TestSameSeedSameRun: a run follows from its seed and nothing else.
func TestSameSeedSameRun(t *testing.T) {
	for seed := range uint64(12) {
		o := Options{Seed: seed, Steps: 6000}
		a, b := run(t, o), run(t, o)
		if a.Hash != b.Hash || a.Steps != b.Steps || a.Time != b.Time {
			t.Errorf("seed %d: hash %x after %d steps, then %x after %d", seed, a.Hash, a.Steps, b.Hash, b.Steps)
		}
	}
}

// TestOneFaultAtATime: each fault alone, on one node and on three.
func TestOneFaultAtATime(t *testing.T) {
	for i, f := range allFaults {
		for _, replicas := range []int{1, 3} {
			if replicas == 1 && slices.Contains(betweenNodes, f) {
				continue
			}
			run(t, Options{Seed: uint64(100 + i), Replicas: replicas, Steps: 8000, Faults: []string{string(f)}})
		}
	}
}

func TestOptionsThatAreRefused(t *testing.T) {
	if _, err := Run(Options{Seed: 1, Faults: []string{"gremlins"}}); err == nil || !strings.Contains(err.Error(), "gremlins") {
		t.Errorf("unknown fault: %v", err)
	}
}
