package sim

import (
	"fmt"
	"io"
	"reflect"
	"strings"

	"galgo/internal/disk/memdisk"
	"galgo/internal/vsr"
)

// Coverage counts what runs have reached. A part that is never reached is never
// tested.
type Coverage struct {
	Starts, StartsFailed, Kills, PowerLosses, Stops, GaveUp int
	Refused, Replacements, Healed, LogsRotten               int
	FramesCut, FramesLost, FramesRepeated, FramesLate       int

	// Deeds of the nemesis.
	Deeds map[string]int `json:",omitempty"`
	// Frames by kind.
	Frames map[string]int `json:",omitempty"`
	// Deaths behind an ambush, by what had been done before.
	Ambushes map[string]int `json:",omitempty"`

	// Deaths in the middle of a job, by what it was doing.
	DiedInLog, DiedInSegment, DiedAtStart                int
	DiedInSnapshot, DiedInSuperblock, DiedInPrune        int // the metadata's checkpoint: its phases
	DiedInTable, DiedInFreeing                           int // the partitions'
	TornTails                                            int
	Forgotten                                            int // ops of topics with durability memory
	Traps, Dances, Echoes                                int
	ViewChanges, Repairs, Transfers                      int
	Cuts                                                 int // heads that went back
	Truncations                                          int // logs of views that a nack quorum ended, as who decided counts them
	Applied, MetadataApplied                             int
	Sends, SendsAcked, SendsRepeated, SendsAlreadyStored int
	Polls, PolledMessages, PollsOfDisk, PollsStale       int
	PollsDamaged, PollsFailed, Reads, ReadsTimed         int
	Silences                                             int // of backups, that ended
	Offsets, OffsetReads                                 int
	MemberPolls, MemberCommits, MembersFenced, Claims    int
	GroupsChecked, HandOvers, SegmentsDeleted            int
	Changes, ChangesAcked, Recreated, Purges             int
	AnsweredFromTable, Evictions, Fenced, Logins         int
	NotAccepted, NotCommitted, TimeOuts, ConnectionsLost int
	GateReads, StatesCompared, FilesCompared             int
	Linearized                                           int
	Denied, TokensMade, TokensSwept, UsersGone           int
	UsersChanged                                         int
}

// deed counts what the nemesis did.
func (c *Coverage) deed(f fault) { count(&c.Deeds, string(f)) }

// frame counts what nodes say.
func (c *Coverage) frame(k vsr.MessageKind) {
	count(&c.Frames, k.String())
	switch k {
	case vsr.MessageRepairPrepare:
		c.Repairs++
	}
}

func count(m *map[string]int, key string) {
	if *m == nil {
		*m = map[string]int{}
	}
	(*m)[key]++
}

// doomed counts where a node died.
func (c *Coverage) doomed(d *doom) {
	at := d.hit
	if d.ambush != "" {
		count(&c.Ambushes, d.ambush)
	}
	has := func(part string) bool { return strings.Contains(at.Name, part) }
	freeing := at.Op&(memdisk.OpRemove|memdisk.OpRename) != 0
	switch {
	case has("metadata/snapshot") && at.Op == memdisk.OpRemove:
		c.DiedInPrune++
	case has("metadata/snapshot"):
		c.DiedInSnapshot++
	case has("superblock"):
		c.DiedInSuperblock++
	case has("checkpoint"):
		c.DiedInTable++
	case has("wal") && freeing:
		c.DiedInFreeing++
	case has("wal"):
		c.DiedInLog++
	case has("groups/"):
		c.DiedInSegment++
	}
}

// Add sums two.
func (c *Coverage) Add(o *Coverage) {
	into, from := reflect.ValueOf(c).Elem(), reflect.ValueOf(o).Elem()
	for i := range into.NumField() {
		switch f := into.Field(i); f.Kind() {
		case reflect.Int:
			f.SetInt(f.Int() + from.Field(i).Int())
		case reflect.Map:
			for _, key := range from.Field(i).MapKeys() {
				if f.IsNil() {
					f.Set(reflect.MakeMap(f.Type()))
				}
				sum := from.Field(i).MapIndex(key).Int()
				if was := f.MapIndex(key); was.IsValid() {
					sum += was.Int()
				}
				f.SetMapIndex(key, reflect.ValueOf(int(sum)))
			}
		}
	}
}

// Counters returns all of them by name, in a fixed order.
func (c *Coverage) Counters() (all []Counter) {
	v := reflect.ValueOf(c).Elem()
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		switch f := v.Field(i); f.Kind() {
		case reflect.Int:
			all = append(all, Counter{name, int(f.Int())})
		case reflect.Map:
			m := f.Interface().(map[string]int)
			for _, key := range keysOf(name) {
				all = append(all, Counter{name + "/" + key, m[key]})
			}
		}
	}
	return all
}

// Counter is one of a Coverage.
type Counter struct {
	Name  string
	Count int
}

// keysOf lists the keys of a map of the coverage, also those that were not counted.
func keysOf(field string) (keys []string) {
	switch field {
	case "Deeds":
		for _, d := range newNemesis(&world{plan: plan{faults: everyFault()}}).deeds {
			keys = append(keys, string(d.fault))
		}
		return append(keys, string(faultFork), string(faultStray), string(faultAstray), string(faultDecay), string(faultDoubt))
	case "Ambushes":
		return keysOfAmbushes()
	}
	for k := vsr.MessageSuspect; k <= vsr.MessageHeaders; k++ {
		if k.String() != "unknown" {
			keys = append(keys, k.String())
		}
	}
	return keys
}

func everyFault() map[fault]bool {
	all := map[fault]bool{}
	for _, f := range allFaults {
		all[f] = true
	}
	return all
}

// Print writes the counters in columns.
func (c *Coverage) Print(w io.Writer) {
	const columns, width = 4, 32
	for i, counter := range c.Counters() {
		cell := fmt.Sprintf("%-22s %8d", counter.Name, counter.Count)
		if i%columns == columns-1 {
			fmt.Fprintln(w, cell)
		} else {
			fmt.Fprintf(w, "%-*s  ", width, cell)
		}
	}
	fmt.Fprintln(w)
}
