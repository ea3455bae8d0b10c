package cli

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"time"

	"galgo/client"
	"galgo/internal/wire"
)

func clusterStatusCommand() *command {
	return &command{
		use: "status", aliases: []string{"s"}, short: "Ask every node how it sees the cluster", args: exactly(0), connects: true,
		long: `Ask every node of the roster how it sees the cluster. The exit status is 1 unless all
answer and agree about who leads.`,
		run: clusterStatus,
	}
}

// nodeAnswer is what a node says of its cluster.
type nodeAnswer struct {
	Name    string  `json:"name"`
	Address string  `json:"address"`
	Answers bool    `json:"answers"`
	Millis  float64 `json:"answered_in_ms"`
	Leader  string  `json:"sees_as_leader"`
	Reaches int     `json:"nodes_it_reaches"`
	Error   string  `json:"error,omitempty"`
}

var errUnwell = errors.New("the cluster is not well: not all nodes answer, or they do not agree about who leads")

func clusterStatus(ctx context.Context, e *env, _ []string) error {
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
		t := table{{"Name", "Address", "Answers", "Sees as leader", "Nodes it reaches", "Error"}}
		well := true
		for i := range answers {
			a := &answers[i]
			took := "no"
			if a.Answers {
				took = strconv.FormatFloat(a.Millis, 'f', 1, 64) + " ms"
			}
			t.add(a.Name, a.Address, took, a.Leader, a.Reaches, a.Error)
			well = well && a.Answers && a.Leader != "" && a.Leader == answers[0].Leader && a.Reaches == len(answers)
		}
		err = e.print(answers, t)
		if !well {
			err = errors.Join(err, errUnwell)
		}
		return err
	})
}

// askTimeout is how long a node may take to sign a client in and answer.
const askTimeout = 5 * time.Second

func askNodes(ctx context.Context, m client.ClusterMetadata, login client.Option) []nodeAnswer {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answers := make([]nodeAnswer, len(m.Nodes))
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
	return answers
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
	return nil
}
