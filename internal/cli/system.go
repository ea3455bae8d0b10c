package cli

import (
	"context"
	"fmt"
	"time"

	"galgo"
	"galgo/client"
)

func pingCommand() *command {
	count := 1
	return &command{
		use: "ping", short: "Ask a server for a sign of life", args: exactly(0), connects: true,
		long:  "Ask a server for a sign of life and print how long each answer took. It needs no sign-in.",
		flags: func(fs *flagSet) { fs.IntVarP(&count, "count", "c", count, "how many times") },
		run: func(ctx context.Context, e *env, _ []string) error {
			if count < 1 {
				return usagef("--count %d: want at least 1", count)
			}
			return ping(ctx, e, count)
		},
	}
}

type pingReport struct {
	Server     string    `json:"server"`
	Millis     []float64 `json:"answers_ms"`
	MinMillis  float64   `json:"min_ms"`
	MeanMillis float64   `json:"mean_ms"`
	MaxMillis  float64   `json:"max_ms"`
}

func ping(ctx context.Context, e *env, count int) error {
	c, err := e.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	r := pingReport{Server: e.serverAddress()}
	t := table{{"Ping", "Answer"}}
	for i := range count {
		took, err := pingOnce(ctx, e, c)
		if err != nil {
			return err
		}
		r.add(took)
		t.add(i+1, took.Round(time.Microsecond))
	}
	if count > 1 {
		r.MeanMillis /= float64(count)
		e.say("min %.3f ms, mean %.3f ms, max %.3f ms", r.MinMillis, r.MeanMillis, r.MaxMillis)
	}
	return e.print(r, t)
}

// add keeps the sum where the mean will be.
func (r *pingReport) add(took time.Duration) {
	ms := float64(took.Microseconds()) / 1000
	if len(r.Millis) == 0 {
		r.MinMillis, r.MaxMillis = ms, ms
	}
	r.Millis = append(r.Millis, ms)
	r.MinMillis, r.MaxMillis = min(r.MinMillis, ms), max(r.MaxMillis, ms)
	r.MeanMillis += ms
}

func pingOnce(ctx context.Context, e *env, c *client.Client) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, e.globals.timeout)
	defer cancel()
	start := time.Now()
	err := c.Ping(ctx)
	return time.Since(start), err
}

// connection is a client of the server as it prints.
type connection struct {
	ID        uint32       `json:"client_id"`
	UserID    *uint32      `json:"user_id"` // null before the sign-in
	Address   string       `json:"address"`
	Transport string       `json:"transport"`
	Groups    uint32       `json:"consumer_groups"`
	Members   []membership `json:"memberships,omitempty"`
}

type membership struct {
	Stream uint32 `json:"stream_id"`
	Topic  uint32 `json:"topic_id"`
	Group  uint32 `json:"group_id"`
}

func connectionOf(i client.ClientInfo) connection {
	c := connection{ID: i.ClientID, Address: i.Address, Transport: i.Transport.String(), Groups: i.GroupsCount}
	if i.UserID != client.UserIDNone {
		c.UserID = &i.UserID
	}
	return c
}

func (c *connection) user() string {
	if c.UserID == nil {
		return "-"
	}
	return fmt.Sprint(*c.UserID)
}

func printConnection(e *env, d client.ClientDetails) error {
	c := connectionOf(d.ClientInfo)
	t := table{{"Property", "Value"}}
	t.add("Client ID", c.ID)
	t.add("User ID", c.user())
	t.add("Address", c.Address)
	t.add("Transport", c.Transport)
	t.add("Consumer groups", c.Groups)
	for _, g := range d.Groups {
		c.Members = append(c.Members, membership{g.StreamID, g.TopicID, g.GroupID})
		t.add("Member of", fmt.Sprintf("stream %d, topic %d, group %d", g.StreamID, g.TopicID, g.GroupID))
	}
	return e.print(c, t)
}

func meCommand() *command {
	return &command{
		use: "me", short: "Show how the server sees this connection", args: exactly(0), connects: true,
		run: func(ctx context.Context, e *env, _ []string) error {
			return e.with(ctx, func(ctx context.Context, c *client.Client) error {
				d, err := c.Me(ctx)
				if err != nil {
					return err
				}
				return printConnection(e, d)
			})
		},
	}
}

func clientCommand() *command {
	return &command{
		use: "client", aliases: []string{"c"}, short: "Connections of the server", connects: true,
		subs: []*command{
			{
				use: "list", aliases: []string{"l"}, short: "List the connections", args: exactly(0), connects: true,
				run: clientList,
			},
			{
				use: "get CLIENT_ID", aliases: []string{"g"}, short: "Show a connection", args: exactly(1), connects: true,
				run: clientGet,
			},
		},
	}
}

func clientList(ctx context.Context, e *env, _ []string) error {
	return e.with(ctx, func(ctx context.Context, c *client.Client) error {
		infos, err := c.Clients(ctx)
		if err != nil {
			return err
		}
		all, t := []connection{}, table{{"Client ID", "User ID", "Address", "Transport", "Consumer Groups"}}
		for _, i := range infos {
			c := connectionOf(i)
			all = append(all, c)
			t.add(c.ID, c.user(), c.Address, c.Transport, c.Groups)
		}
		return e.print(all, t)
	})
}

func clientGet(ctx context.Context, e *env, args []string) error {
	id, err := parseUint32("CLIENT_ID", args[0])
	if err != nil {
		return err
	}
	return e.with(ctx, func(ctx context.Context, c *client.Client) error {
		d, err := c.ClientByID(ctx, id)
		if err != nil {
			return err
		}
		return printConnection(e, d)
	})
}

func clusterCommand() *command {
	return &command{
		use: "cluster", aliases: []string{"cl"}, short: "The cluster", connects: true,
		subs: []*command{{
			use: "metadata", aliases: []string{"m"}, short: "Show the nodes and their roles", args: exactly(0), connects: true,
			run: clusterMetadata,
		}, clusterStatusCommand(), stepDownCommand()},
	}
}

type nodeView struct {
	Name      string `json:"name"`
	Address   string `json:"address"`
	TCP       uint16 `json:"tcp_port"`
	QUIC      uint16 `json:"quic_port"`
	HTTP      uint16 `json:"http_port"`
	WebSocket uint16 `json:"websocket_port"`
	Role      string `json:"role"`
	Status    string `json:"status"`
}

func clusterMetadata(ctx context.Context, e *env, _ []string) error {
	return e.with(ctx, func(ctx context.Context, c *client.Client) error {
		m, err := c.ClusterMetadata(ctx)
		if err != nil {
			return err
		}
		v := struct {
			Name  string     `json:"name"`
			Nodes []nodeView `json:"nodes"`
		}{m.Name, []nodeView{}}
		t := table{{"Name", "IP", "TCP", "QUIC", "HTTP", "WebSocket", "Role", "Status"}}
		for _, n := range m.Nodes {
			v.Nodes = append(v.Nodes, nodeView{n.Name, n.Address, n.TCP, n.QUIC, n.HTTP, n.WebSocket, n.Role.String(), n.Status.String()})
			t.add(n.Name, n.Address, n.TCP, n.QUIC, n.HTTP, n.WebSocket, n.Role, n.Status)
		}
		e.say("Cluster %s:", m.Name)
		return e.print(v, t)
	})
}

func optionsCommand() *command {
	return &command{
		use: "options SCOPE", short: "Describe the options of topics, streams or users", args: exactly(1), connects: true,
		long: "Describe the options that things of a scope can have: topic, stream or user.",
		run:  describeOptions,
	}
}

type optionDescription struct {
	Key         string `json:"key"`
	Kind        string `json:"kind"`
	Default     string `json:"default"`
	Description string `json:"description"`
}

func describeOptions(ctx context.Context, e *env, args []string) error {
	scopes := map[string]galgo.OptionScope{"topic": galgo.ScopeTopic, "stream": galgo.ScopeStream, "user": galgo.ScopeUser}
	scope, ok := scopes[args[0]]
	if !ok {
		return usagef("scope %q: want topic, stream or user", args[0])
	}
	return e.with(ctx, func(ctx context.Context, c *client.Client) error {
		options, err := c.DescribeOptions(ctx, scope)
		if err != nil {
			return err
		}
		all, t := []optionDescription{}, table{{"Key", "Kind", "Default", "Description"}}
		for _, o := range options {
			all = append(all, optionDescription{o.Key, o.Default.Kind.String(), o.Default.String(), o.Description})
			t.add(o.Key, o.Default.Kind, o.Default, o.Description)
		}
		return e.print(all, t)
	})
}
