package node

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"galgo"
	"galgo/internal/edge"
	"galgo/internal/metadata"
	"galgo/internal/peer"
	"galgo/internal/superblock"
)

// undecided answers that the outcome is open.
type undecided struct {
	edge.Backend
	bodies [][]byte
}

func (u *undecided) Metadata(req edge.MetadataRequest, done func(edge.MetadataReply)) {
	u.bodies = append(u.bodies, req.Body)
	done(edge.MetadataReply{Outcome: edge.OutcomeResult, Code: galgo.CodeTransientNotCommitted})
}

// The root user is the same at each attempt: one before may have made it, and its
// password is told once.
func TestRootUserIsTheSameAtEachAttempt(t *testing.T) {
	c := runConfig()
	c.Root.Username, c.Root.Password, c.TCP.Address = "", "", "0.0.0.0:8090"
	var told bytes.Buffer
	asked := &undecided{}
	n := &Node{cfg: c, log: slog.New(slog.NewTextHandler(&told, nil)), backend: asked}
	for range 3 {
		if err := n.makeRoot(context.Background(), metadata.Settings{ClientsMax: 64, TokensMax: 10}); !retriable(err) {
			t.Fatal(err)
		}
	}
	if len(asked.bodies) != 3 || !bytes.Equal(asked.bodies[0], asked.bodies[1]) || !bytes.Equal(asked.bodies[0], asked.bodies[2]) {
		t.Errorf("%d attempts, not all of them the same", len(asked.bodies))
	}
	if got := strings.Count(told.String(), generatedMark); got != 1 {
		t.Errorf("a password is told %d times:\n%s", got, told.String())
	}
}

// Peers tell of later lives all at once: the latest is kept, and what is of the past
// stays so.
func TestLivesThatAreToldAtOnce(t *testing.T) {
	d := empty()
	n := &Node{log: slog.New(slog.DiscardHandler), fatal: func(error) {}}
	c := &cluster{node: n, disk: d, life: 1000, news: make(chan struct{}, 1)}
	var all sync.WaitGroup
	for i := range uint64(50) {
		all.Go(func() { c.Outlived(1001+i, nil) })
		if i == 20 {
			all.Go(func() { c.Outlived(1000, peer.ErrPast) })
		}
	}
	all.Wait()
	if l, ok, err := superblock.ReadLife(d); err != nil || !ok || l != (superblock.Life{Number: 1050, Past: true}) {
		t.Errorf("the disk knows %+v, %v, %v", l, ok, err)
	}
}

// A later life that is heard of while this one is numbered ends it.
func TestLifeThatIsOutlivedBeforeItBegins(t *testing.T) {
	d := empty()
	n := &Node{log: slog.New(slog.DiscardHandler), fatal: func(error) {}}
	c := &cluster{node: n, disk: d, news: make(chan struct{}, 1)}
	c.Outlived(500, nil)
	if err := c.takePart(400, 300); !errors.Is(err, ErrOutlived) || c.life != 0 {
		t.Errorf("takes part as %d: %v", c.life, err)
	}
	if l, _, err := superblock.ReadLife(d); err != nil || l.Number != 500 {
		t.Errorf("the disk knows %+v, %v: the next start is not above what was heard", l, err)
	}
}
