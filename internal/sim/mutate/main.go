// Command mutate checks the simulator: it takes one rule after the other out of galgo
// and expects the simulator to fail within a bounded number of seeds. It builds with
// changed files laid over the sources, which stay as they are. `make mutations` runs it.
package main

import (
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"
)

//go:embed mutations.txt
var mutations string

func main() {
	var o options
	only := flag.String("only", "", "run the mutations whose name matches this regular expression")
	flag.IntVar(&o.seeds, "seeds", 400, "seeds that may be used up for each mutation")
	flag.IntVar(&o.jobs, "jobs", runtime.NumCPU(), "processes that play seeds")
	out := flag.String("out", "", "write the table to this file, row by row")
	build := flag.Bool("build", false, "only see whether each builds")
	seedsToPlay := flag.String("play", "", "A..B: play these seeds in this process, and end at the first that fails")
	flag.Parse()
	if *seedsToPlay != "" {
		if err := play(os.Stdout, *seedsToPlay); err != nil {
			fmt.Fprintln(os.Stderr, "mutate:", err)
			os.Exit(1)
		}
		return
	}
	if *build {
		o.seeds = 0
	}
	if err := run(*only, o, *out); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// options bound how much is tried for each mutation.
type options struct {
	seeds int
	jobs  int
}

// result is what the simulator made of a mutation.
type result struct {
	mutation
	seed  int // that found it; -1 if none did
	check string
	took  time.Duration
}

func run(only string, o options, out string) error {
	list, err := parseList(mutations)
	if err != nil {
		return fmt.Errorf("mutations.txt: %w", err)
	}
	wanted, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	tmp, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	survivors := 0
	table := "| rule taken out | what holds it | seeds | seconds | found as |\n| --- | --- | --- | --- | --- |\n"
	for _, m := range list {
		if !wanted.MatchString(m.name) {
			continue
		}
		r, err := try(m, tmp, o)
		if err != nil {
			return err
		}
		row := r.row()
		fmt.Print(row)
		table += row
		if r.seed < 0 {
			survivors++
		}
		if out == "" {
			continue
		}
		if err := os.WriteFile(out, []byte(table), 0o644); err != nil {
			return err
		}
	}
	if survivors > 0 {
		return fmt.Errorf("%d mutations were not found", survivors)
	}
	return nil
}

func (r *result) row() string {
	seeds, found := "none", "**not found**"
	if r.seed >= 0 {
		seeds, found = strconv.Itoa(r.seed+1), r.check
	}
	return fmt.Sprintf("| %s | %s | %s | %.1f | %s |\n", r.name, r.rule, seeds, r.took.Seconds(), found)
}

// failedSeed finds what a process says of a seed: its number, and the check.
var failedSeed = regexp.MustCompile(`(?m)^seed (\d+): (?:step \d+ at [0-9.]+: )?(.*)$`)

// try builds the simulator without the rule and lets it look for the difference.
func try(m mutation, tmp string, o options) (result, error) {
	r := result{mutation: m, seed: -1}
	binary, err := build(m, tmp)
	if err != nil {
		return r, err
	}
	start := time.Now()
	if err = search(&r, binary, o); err == nil && r.seed < 0 {
		err = schedules(&r, tmp, o)
	}
	r.took = time.Since(start)
	return r, err
}

// coreFactor is how many schedules of the core alone are played for a seed of the
// simulator: they are that much shorter.
const coreFactor = 20

var (
	failedSchedule = regexp.MustCompile(`seed (\d+): (.*)`)
	panicked       = regexp.MustCompile(`panic: (.*)`)
)

// schedules lets the random schedules of the core look for what the simulator has not
// found: a rule of the protocol alone shows there more often.
func schedules(r *result, tmp string, o options) error {
	for _, e := range r.edits {
		if !strings.HasPrefix(e.file, "internal/vsr/") {
			return nil
		}
	}
	text, err := exec.Command("go", "test", "-overlay", filepath.Join(tmp, "overlay.json"), "./internal/vsr/vsrtest",
		"-run", "^TestRandomSchedules$", "-seeds", strconv.Itoa(coreFactor*o.seeds)).CombinedOutput()
	if _, failed := errors.AsType[*exec.ExitError](err); !failed {
		return err
	}
	if found := failedSchedule.FindSubmatch(text); found != nil {
		r.seed, _ = strconv.Atoi(string(found[1]))
		r.check = string(found[2])
	} else if found := panicked.FindSubmatch(text); found != nil {
		r.seed, r.check = 0, string(found[1])
	} else {
		return fmt.Errorf("mutation %s: the schedules of the core fail without a seed:\n%s", r.name, text)
	}
	r.check = "core schedules: " + shorten(r.check)
	return nil
}

// shorten makes the text of a failure fit a row.
func shorten(text string) string {
	text = strings.ReplaceAll(text, "|", "/")
	if len(text) > checkMax {
		text = text[:checkMax] + " …"
	}
	return text
}

// checkMax bounds what a row tells of a failure, in bytes.
const checkMax = 120

// build makes this program of the tree with the changed files laid over it.
func build(m mutation, tmp string) (string, error) {
	root, err := filepath.Abs(".")
	if err != nil {
		return "", err
	}
	changed, err := m.apply(root)
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for file, text := range changed {
		there := filepath.Join(tmp, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(there, text, 0o644); err != nil {
			return "", err
		}
		replace[filepath.Join(root, file)] = there
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	name := filepath.Join(tmp, "overlay.json")
	if err := os.WriteFile(name, overlay, 0o644); err != nil {
		return "", err
	}
	binary := filepath.Join(tmp, "play")
	if text, err := exec.Command("go", "build", "-overlay", name, "-o", binary, "-ldflags=-s -w", "./internal/sim/mutate").CombinedOutput(); err != nil {
		return "", fmt.Errorf("mutation %s does not build: %w\n%s", m.name, err, text)
	}
	return binary, nil
}
