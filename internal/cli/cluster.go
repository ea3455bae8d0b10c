package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"galgo/client"
	"galgo/internal/wire"
)

// statusFilter says which groups are shown, and whether instead of the nodes.
type statusFilter struct {
	groups bool
	unwell bool
	only   []uint
	node   string
}

func clusterStatusCommand() *command {
	var f statusFilter
	return &command{
		use: "status", aliases: []string{"s"}, short: "Ask every node how it sees the cluster and stands in its groups", args: exactly(0), connects: true,
		long: `Ask every node of the roster how it sees the cluster, and how it stands in each consensus
group: role, view, log view, commit point, lag behind the others. Group 0 is the metadata, every
partition has one. The exit status is 1 unless all nodes answer, agree about who leads, and are well
in all groups. JSON has nodes and groups.`,
		example: "  galgo cluster status\n  galgo cluster status --groups --unwell\n  galgo cluster status --group 0 --output json",
		flags: func(fs *flagSet) {
			fs.BoolVar(&f.groups, "groups", false, "show a line for each group and node")
			fs.UintSliceVar(&f.only, "group", nil, "show only groups of these numbers (with --groups)")
			fs.BoolVar(&f.unwell, "unwell", false, "show only what is not well (with --groups)")
			fs.StringVar(&f.node, "node", "", "show only what this node says")
		},
		run: func(ctx context.Context, e *env, _ []string) error { return clusterStatus(ctx, e, &f) },
	}
}

// nodeAnswer is what a node says of its cluster.
type nodeAnswer struct {
	Name    string        `json:"name"`
	Address string        `json:"address"`
	Answers bool          `json:"answers"`
	Millis  float64       `json:"answered_in_ms"`
	Leader  string        `json:"sees_as_leader"`
	Reaches int           `json:"nodes_it_reaches"`
	Leads   int           `json:"groups_it_leads"`
	Unwell  int           `json:"groups_not_well"`
	Groups  []groupAnswer `json:"groups"`
	Error   string        `json:"error,omitempty"`
}

// groupAnswer is how a node stands in a group.
type groupAnswer struct {
	Group     uint64 `json:"group"`
	Stream    uint32 `json:"stream_id"`
	Topic     uint32 `json:"topic_id"`
	Partition uint32 `json:"partition_id"`
	Role      string `json:"role"`
	Health    string `json:"health"`
	View      uint32 `json:"view"`
	LogView   uint32 `json:"log_view"`
	Head      uint64 `json:"head"`
	Commit    uint64 `json:"commit"`
	Lag       uint64 `json:"lag"` // ops that another node knows to be committed and this one has not applied
	known     uint64
}

var errUnwell = errors.New("the cluster is not well: not all nodes answer, they do not agree about who leads, or a node is not well in a group")

func clusterStatus(ctx context.Context, e *env, f *statusFilter) error {
	return e.with(ctx, func(ctx context.Context, c *client.Client) error {
		m, err := c.ClusterMetadata(ctx)
		if err != nil {
			return err
		}
		login, err := e.login()
		if err != nil {
			return err
		}
		answers := askNodes(ctx, m, login)
		well := true
		for i := range answers {
			a := &answers[i]
			well = well && a.Answers && a.Leader != "" && a.Leader == answers[0].Leader && a.Reaches == len(answers) && a.Unwell == 0
		}
		for i := range answers {
			answers[i].Groups = f.choose(answers[i].Groups)
		}
		shown := slices.DeleteFunc(answers, func(a nodeAnswer) bool { return f.node != "" && a.Name != f.node })
		err = e.print(shown, f.table(shown))
		if !well {
			err = errors.Join(err, errUnwell)
		}
		return err
	})
}

func (f *statusFilter) choose(groups []groupAnswer) []groupAnswer {
	return slices.DeleteFunc(groups, func(g groupAnswer) bool {
		return f.unwell && g.Health == healthWell || len(f.only) > 0 && !slices.Contains(f.only, uint(g.Group))
	})
}

func (f *statusFilter) table(answers []nodeAnswer) table {
	if !f.groups {
		return nodeTable(answers)
	}
	t := table{{"Group", "Stream", "Topic", "Partition", "Node", "Role", "Health", "View", "Log view", "Commit", "Lag", "Head"}}
	for _, a := range answers {
		for _, g := range a.Groups {
			t.add(g.Group, g.Stream, g.Topic, g.Partition, a.Name, g.Role, g.Health, g.View, g.LogView, g.Commit, g.Lag, g.Head)
		}
	}
	return t
}

func nodeTable(answers []nodeAnswer) table {
	t := table{{"Name", "Address", "Answers", "Sees as leader", "Nodes it reaches", "View", "Log view", "Commit", "Lag", "Leads", "Not well", "Error"}}
	for i := range answers {
		a := &answers[i]
		took := "no"
		if a.Answers {
			took = strconv.FormatFloat(a.Millis, 'f', 1, 64) + " ms"
		}
		var meta groupAnswer
		if len(a.Groups) > 0 && a.Groups[0].Group == 0 {
			meta = a.Groups[0]
		}
		t.add(a.Name, a.Address, took, a.Leader, a.Reaches, meta.View, meta.LogView, meta.Commit, meta.Lag, a.Leads, a.Unwell, a.Error)
	}
	return t
}

// askTimeout is how long a node may take to sign a client in and answer.
const askTimeout = 5 * time.Second

func askNodes(ctx context.Context, m client.ClusterMetadata, login client.Option) []nodeAnswer {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answers := make([]nodeAnswer, len(m.Nodes))
	for i := range answers {
		answers[i].Groups = []groupAnswer{}
	}
	var all sync.WaitGroup
	for i, n := range m.Nodes {
		a := &answers[i]
		a.Name, a.Address = n.Name, net.JoinHostPort(n.Address, strconv.Itoa(int(n.TCP)))
		all.Go(func() {
			if err := askNode(ctx, a, login); err != nil {
				a.Error = err.Error()
			}
		})
	}
	all.Wait()
	compareGroups(answers)
	return answers
}

// Health of a node in a group.
const (
	healthWell         = "well"
	healthTransferring = "takes a checkpoint"
	healthLeaderless   = "hears no primary"
	healthBehind       = "behind"
)

// compareGroups finds out how far each node lies behind what any of them knows.
func compareGroups(answers []nodeAnswer) {
	known := map[uint64]uint64{}
	for i := range answers {
		for _, g := range answers[i].Groups {
			known[g.Group] = max(known[g.Group], g.known)
		}
	}
	for i := range answers {
		a := &answers[i]
		for j := range a.Groups {
			g := &a.Groups[j]
			g.Lag = known[g.Group] - g.Commit
			if g.Health != healthWell {
				a.Unwell++
			}
			if g.Role == rolePrimary {
				a.Leads++
			}
		}
	}
}

const (
	rolePrimary = "primary"
	roleBackup  = "backup"
)

func groupAnswerOf(s client.GroupStatus) groupAnswer {
	g := groupAnswer{
		Group: s.Group, Stream: s.Stream, Topic: s.Topic, Partition: s.Partition, Role: roleBackup, Health: healthWell,
		View: s.View, LogView: s.LogView, Head: s.Head, Commit: s.CommitMin, known: s.CommitMax,
	}
	if s.Flags&client.GroupPrimary != 0 {
		g.Role = rolePrimary
	} else if s.State != 0 {
		g.Role = s.State.String()
	}
	switch {
	case s.Flags&client.GroupTransferring != 0:
		g.Health = healthTransferring
	case s.Flags&client.GroupLed == 0:
		g.Health = healthLeaderless
	case s.Flags&client.GroupReadable == 0:
		g.Health = healthBehind
	}
	return g
}

func askNode(ctx context.Context, a *nodeAnswer, login client.Option) error {
	c, err := client.Dial(ctx, a.Address, login, client.WithRetryBudget(askTimeout))
	if err != nil {
		return err
	}
	defer c.Close()
	start := time.Now()
	m, err := c.ClusterMetadata(ctx)
	if err != nil {
		return err
	}
	a.Answers, a.Millis = true, float64(time.Since(start).Microseconds())/1000
	for _, n := range m.Nodes {
		if n.Role == wire.RoleLeader {
			a.Leader = n.Name
		}
		if n.Status == wire.NodeHealthy {
			a.Reaches++
		}
	}
	groups, err := c.Groups(ctx)
	if err != nil {
		return fmt.Errorf("its groups: %w", err)
	}
	for _, g := range groups.Groups {
		a.Groups = append(a.Groups, groupAnswerOf(g))
	}
	return nil
}
