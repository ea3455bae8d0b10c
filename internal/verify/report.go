package verify

import "fmt"

// Report is what was found.
type Report struct {
	Sound       bool        `json:"sound"`
	Directories []Directory `json:"directories"`
	Groups      []Group     `json:"groups"`
	Problems    []Problem   `json:"problems"`
}

// Directory is one of the data directories.
type Directory struct {
	Name     string `json:"directory"`
	Cluster  string `json:"cluster"`
	Replica  uint8  `json:"replica"`
	Replicas uint8  `json:"replica_count"`
	View     uint32 `json:"view"`
	LogView  uint32 `json:"log_view"`
	Op       uint64 `json:"metadata_op"`
	Groups   int    `json:"groups"`
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
	Problems int    `json:"problems"`
}

// Verdicts on a group.
const (
	Equal   = "equal"   // in all directories, at the same op
	Behind  = "behind"  // what is there is equal; a directory does not reach the last op
	Alone   = "alone"   // one directory has it: nothing to compare with
	Differs = "differs" // see the problems
)

// Group is a consensus group: the metadata, number 0, or a partition.
type Group struct {
	Group     uint64 `json:"group"`
	Stream    uint32 `json:"stream_id"`
	Topic     uint32 `json:"topic_id"`
	Partition uint32 `json:"partition_id"`
	Op        uint64 `json:"op"`   // the last that any directory knows to be committed
	Held      int    `json:"held"` // directories that hold that op
	Of        int    `json:"of"`   // directories that have the group
	Messages  uint64 `json:"messages"`
	Bytes     uint64 `json:"bytes"`
	Verdict   string `json:"verdict"`
}

// Problem is something that must not be, and where it is.
type Problem struct {
	Directory string  `json:"directory,omitempty"` // "" where several differ
	Group     *uint64 `json:"group,omitempty"`
	What      string  `json:"problem"`
}

// String is the problem in one line.
func (p Problem) String() string {
	text := p.What
	if p.Group != nil {
		text = fmt.Sprintf("group %d: %s", *p.Group, text)
	}
	if p.Directory != "" {
		text = p.Directory + ": " + text
	}
	return text
}
