package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"galgo/client"
)

func stepDownCommand() *command {
	var groups []uint
	return &command{
		use: "step-down NODE", short: "Have a node give up what it leads, before it is stopped", args: exactly(1), connects: true,
		long: `Have a node, named as in the roster, give up the primaryship of its groups, each to another
node that is caught up. Nothing that is acknowledged or on its way is lost, and clients go on; it
takes some milliseconds. Any node may be asked. The node stays what else it was: it goes on as a
backup, and after cluster.rebalance.settled it may get back what belongs to it. It takes the right
manage_servers. The exit status is 1 if a group stays with the node.`,
		example: "  galgo cluster step-down n1\n  galgo cluster step-down n1 --group 0 --group 7",
		flags: func(fs *flagSet) {
			fs.UintSliceVar(&groups, "group", nil, "numbers of the only groups to give up; 0 is the metadata (default: all)")
		},
		run: func(ctx context.Context, e *env, args []string) error { return stepDown(ctx, e, args[0], groups) },
	}
}

type steppedDownView struct {
	Group     uint64 `json:"group"`
	Outcome   string `json:"outcome"`
	Successor *uint8 `json:"successor_replica,omitempty"`
}

var errKept = errors.New("not all of it was given up")

func stepDown(ctx context.Context, e *env, name string, groups []uint) error {
	return e.with(ctx, func(ctx context.Context, c *client.Client) error {
		m, err := c.ClusterMetadata(ctx)
		if err != nil {
			return err
		}
		address, err := addressOf(m, name)
		if err != nil {
			return err
		}
		login, err := e.login()
		if err != nil {
			return err
		}
		node, err := client.Dial(ctx, address, login, client.WithRetryBudget(askTimeout))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		defer node.Close()
		var ids []uint64
		for _, g := range groups {
			ids = append(ids, uint64(g))
		}
		stepped, err := node.StepDown(ctx, ids...)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return e.tellStepDown(name, stepped)
	})
}

func addressOf(m client.ClusterMetadata, name string) (string, error) {
	var names []string
	for _, n := range m.Nodes {
		if n.Name == name {
			return net.JoinHostPort(n.Address, strconv.Itoa(int(n.TCP))), nil
		}
		names = append(names, n.Name)
	}
	return "", usagef("%s is no node of the cluster: it has %v", name, names)
}

// tellStepDown prints what became of each group.
func (e *env) tellStepDown(name string, stepped []client.SteppedDown) error {
	all, t := []steppedDownView{}, table{{"Group", "Outcome", "Successor"}}
	kept := 0
	for _, s := range stepped {
		v, to := steppedDownView{Group: s.Group, Outcome: s.Outcome.String()}, "-"
		if s.Outcome == client.StepDownBegun {
			v.Successor, to = &s.Successor, fmt.Sprint("replica ", s.Successor)
		} else {
			kept++
		}
		all = append(all, v)
		t.add(v.Group, v.Outcome, to)
	}
	if err := e.print(all, t); err != nil {
		return err
	}
	e.say("%s has given up %d groups.", name, len(stepped)-kept)
	if kept > 0 {
		return fmt.Errorf("%w: %d of %d groups stay with %s; see galgo cluster status --groups", errKept, kept, len(stepped), name)
	}
	return nil
}
