package cli

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	"galgo/internal/cipher"
	"galgo/internal/config"
	"galgo/internal/disk"
	"galgo/internal/node"
	"galgo/internal/superblock"
)

// Where things are in a data directory.
const (
	dataDirDefault = "local_data"
	metadataDir    = "metadata"
	shardsDir      = "shards"
	groupsDir      = "groups"
)

func inspectCommand() *command {
	return &command{
		use: "inspect", short: "Read a data directory and say what is wrong with it",
		long: `Read a data directory and say what is wrong with it. Nothing is changed and
no lock is taken. What a server that runs is just writing may look torn; stop it for a
verdict. The exit status is 1 if there is anything that a start would refuse.

What is sealed is verified without a key, and opened as well with those of the
server: --key-file, or GALGO_SYSTEM_ENCRYPTION_KEY and _OLDER_KEYS.`,
		subs: []*command{
			inspectSubcommand("superblock", "Show what the node is and has promised", nil, inspectSuperblock),
			inspectWALCommand(),
			inspectSubcommand("snapshot", "Verify the checkpoints", nil, inspectSnapshots),
			inspectSegmentCommand(),
		},
	}
}

// inspection is a data directory and what was found wrong in it.
type inspection struct {
	e        *env
	disk     *readOnly
	problems []error
	keyFile  string
	vault    *cipher.Vault // nil: what is sealed stays closed
	sealed   map[cipher.ID]uint64
}

// unlock takes the keys, if there are any and the directory is sealed.
func (in *inspection) unlock() error {
	ring, err := in.e.keys(in.keyFile)
	if err != nil {
		return err
	}
	id, err := superblock.ReadIdentity(in.disk)
	if err != nil || cipher.ID(id.Key) == (cipher.ID{}) {
		return nil // of what is wrong the command itself tells
	}
	in.vault = ring.Vault(id.Node)
	return nil
}

// keys are those of a file, or else those that a server with this environment would have;
// nil if it would have none.
func (e *env) keys(file string) (*cipher.Ring, error) {
	c := config.Encryption{
		KeyFile: orElse(file, e.getenv("GALGO_SYSTEM_ENCRYPTION_KEY_FILE")),
		Key:     e.getenv("GALGO_SYSTEM_ENCRYPTION_KEY"), OlderKeys: e.getenv("GALGO_SYSTEM_ENCRYPTION_OLDER_KEYS"),
	}
	c.Enabled = c.Key != "" || c.KeyFile != ""
	if file != "" {
		c.Key = ""
	}
	return node.Keys(c)
}

// keyFileFlag is how commands that read data directories are given the keys.
func keyFileFlag(fs *flagSet, file *string) {
	fs.StringVar(file, "key-file", "", "file of the keys that the data are sealed under, one in a line")
}

// note counts a piece by its key.
func (in *inspection) note(key cipher.ID, n uint64) {
	if key == (cipher.ID{}) {
		return
	}
	if in.sealed == nil {
		in.sealed = map[cipher.ID]uint64{}
	}
	in.sealed[key] += n
}

// saySealed tells which keys are still needed.
func (in *inspection) saySealed() {
	for _, id := range slices.SortedFunc(maps.Keys(in.sealed), func(a, b cipher.ID) int { return slices.Compare(a[:], b[:]) }) {
		in.e.say("%d pieces are sealed under key %v.", in.sealed[id], id)
	}
	if len(in.sealed) > 0 && in.vault == nil {
		in.e.say("They are verified and were not opened; --key-file opens them.")
	}
}

// problem notes what is wrong and returns it as text for a cell.
func (in *inspection) problem(err error) string {
	if err == nil {
		return ""
	}
	in.problems = append(in.problems, err)
	return err.Error()
}

func inspectSubcommand(name, short string, flags func(*flagSet), look func(context.Context, *inspection) error) *command {
	keyFile := ""
	return &command{
		use: name + " [DIRECTORY]", short: short, args: between(0, 1),
		flags: func(fs *flagSet) {
			keyFileFlag(fs, &keyFile)
			if flags != nil {
				flags(fs)
			}
		},
		run: func(ctx context.Context, e *env, args []string) (err error) {
			dir := dataDirDefault
			if len(args) > 0 {
				dir = args[0]
			}
			in := &inspection{e: e, keyFile: keyFile}
			if in.disk, err = openReadOnly(dir); err != nil {
				return err
			}
			defer in.disk.Close()
			if err := in.unlock(); err != nil {
				return err
			}
			if err := look(ctx, in); err != nil {
				return err
			}
			return in.verdict(dir)
		},
	}
}

func (in *inspection) verdict(dir string) error {
	in.saySealed()
	if len(in.problems) == 0 {
		in.e.say("Nothing is wrong in %s.", dir)
		return nil
	}
	for _, p := range in.problems {
		in.e.say("%v", p)
	}
	return fmt.Errorf("%d problems in %s", len(in.problems), dir)
}

// dirs lists the directories below dir, as shards; none if there is no dir.
func (in *inspection) dirs(dir string) ([]string, error) {
	entries, err := in.disk.List(dir)
	if errors.Is(err, disk.ErrNotExist) {
		return nil, nil
	}
	var all []string
	for _, e := range entries {
		if e.Dir {
			all = append(all, path.Join(dir, e.Name))
		}
	}
	return all, err
}

type superblockReport struct {
	Format   string        `json:"format"`
	Outcome  string        `json:"outcome"`
	Sequence uint64        `json:"sequence"`
	Slots    [2]string     `json:"slots"`
	Identity *identityView `json:"identity,omitempty"`
	State    *stateView    `json:"state,omitempty"`
}

type identityView struct {
	Cluster     string `json:"cluster"`
	Node        string `json:"node"`
	Replica     uint8  `json:"replica"`
	Replicas    uint8  `json:"replica_count"`
	CreatedAt   string `json:"created_at"`
	MemberSince uint64 `json:"member_since_op"`
	Key         string `json:"key,omitempty"`
}

type stateView struct {
	View          uint32 `json:"view"`
	LogView       uint32 `json:"log_view"`
	CommitMax     uint64 `json:"commit_max"`
	CheckpointOp  uint64 `json:"checkpoint_op"`
	CheckpointSum string `json:"checkpoint_sum"`
}

func inspectSuperblock(_ context.Context, in *inspection) error {
	r := superblockReport{Format: "present"}
	t := table{{"Property", "Value"}}
	id, idErr := superblock.ReadIdentity(in.disk)
	if idErr != nil {
		r.Format = in.problem(idErr)
	}
	t.add(superblock.IdentityName, r.Format)
	if idErr == nil {
		r.Identity = identityOf(id)
		t.add("Cluster", r.Identity.Cluster)
		t.add("Node", r.Identity.Node)
		t.add("Replica", fmt.Sprintf("%d of %d", id.Replica, id.ReplicaCount))
		t.add("Created", r.Identity.CreatedAt)
		if r.Identity.Key != "" {
			t.add("Sealed under key", r.Identity.Key)
		}
	}
	state, err := in.readState(&r, &t)
	if err != nil {
		return err
	}
	if state != nil && idErr == nil {
		in.problem(state.CheckNode(metadataDir, id.Cluster, id.Replica, id.ReplicaCount))
	}
	if state == nil && r.Outcome == superblock.Empty.String() && idErr == nil {
		in.problem(fmt.Errorf("superblock: %s is empty beside a %s file, which is written after it: it was lost", metadataDir, superblock.IdentityName))
	}
	return in.e.print(r, t)
}

func identityOf(id superblock.Identity) *identityView {
	key := ""
	if cipher.ID(id.Key) != (cipher.ID{}) {
		key = cipher.ID(id.Key).String()
	}
	return &identityView{
		Key: key, Cluster: hex.EncodeToString(id.Cluster[:]), Node: hex.EncodeToString(id.Node[:]),
		Replica: id.Replica, Replicas: id.ReplicaCount, CreatedAt: timeOf(id.CreatedAt), MemberSince: id.MemberSince,
	}
}

// readState reads the two slots. The state is nil unless there is one.
func (in *inspection) readState(r *superblockReport, t *table) (*superblock.State, error) {
	store, err := superblock.Open(in.disk, metadataDir)
	if err != nil {
		return nil, err
	}
	o := store.Latest()
	r.Outcome, r.Sequence = o.Kind.String(), o.Sequence
	t.add("Superblock", o.Kind)
	for i, slot := range o.Slots {
		r.Slots[i] = slot.String()
		t.add(fmt.Sprintf("superblock.%c", 'a'+i), slot)
	}
	in.problem(o.Err(metadataDir))
	if o.Kind != superblock.Present {
		return nil, nil
	}
	s, err := superblock.DecodeState(o.Payload)
	if err != nil {
		in.problem(err)
		return nil, nil
	}
	r.State = &stateView{s.View, s.LogView, s.CommitMax, s.CheckpointOp, hex.EncodeToString(s.CheckpointSum[:])}
	t.add("View", s.View)
	t.add("Log view", s.LogView)
	t.add("Commit max", s.CommitMax)
	t.add("Checkpoint op", s.CheckpointOp)
	t.add("Checkpoint sum", r.State.CheckpointSum)
	return &s, nil
}
