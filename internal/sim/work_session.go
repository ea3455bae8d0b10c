package sim

import (
	"galgo"
	"galgo/internal/edge"
	"galgo/internal/engine"
	"galgo/internal/metadata"
	"galgo/internal/wire"
)

// session is what a client knows of its entry in the client table.
type session struct {
	epoch   uint64 // 0: it has none
	born    uint64 // the op that made the entry: another one knows nothing of its requests
	request uint64 // number of the newest metadata operation
}

// bootstrap has the root user made, as a node does when it is first started.
func (c *client) bootstrap() {
	if c.index != 0 {
		return
	}
	c.begun()
	c.tryBootstrap()
}

func (c *client) tryBootstrap() {
	if c.w.model.metadata.View().Bootstrapped() {
		c.done()
		return
	}
	body, err := metadata.Bootstrap{
		Username: rootName, PasswordHash: "x", Settings: metadata.Settings{ClientsMax: uint32(c.w.plan.config.Metadata.ClientsTableMax), TokensMax: metadata.TokensDefault},
	}.Encode()
	if err != nil {
		panic(err)
	}
	try(c, "bootstrap", func(e *engine.Engine, done func(edge.MetadataReply)) {
		e.Metadata(edge.MetadataRequest{Operation: metadata.OperationBootstrap, Body: body}, done)
	}, func(edge.MetadataReply, fate) {
		c.move()
		c.w.after(c.backoff(), c.tryBootstrap)
	})
}

// login makes a session, or renews the one there is.
func (c *client) login() {
	if c.changes > 0 || !c.w.model.metadata.View().Bootstrapped() {
		return
	}
	c.changes++
	c.begun()
	c.register(func() {
		c.changes--
		c.done()
	})
}

// register tries to sign in until it succeeds.
func (c *client) register(then func()) {
	c.w.cover.Logins++
	if c.session.epoch > 0 && oneIn(c.rng, 2) {
		c.detach()
	}
	n, rooted := c.node, false
	who, by, ok := c.identity()
	if !ok {
		c.session = session{request: c.session.request}
		then()
		return
	}
	try(c, "register", func(e *engine.Engine, done func(edge.MetadataReply)) {
		e.Metadata(edge.MetadataRequest{Operation: wire.OperationRegister, Client: c.id, User: who.User, Body: by.Append(nil)}, func(r edge.MetadataReply) {
			rooted = e.View().Bootstrapped()
			done(r)
		})
	}, func(r edge.MetadataReply, f fate) {
		c.w.say("%v signs in at n%d: fate %d, outcome %d, %v", c, n.id, f, r.Outcome, r.Code)
		if f == answered && r.Outcome == edge.OutcomeReply {
			c.actor = who
			c.registered(r)
			then()
			return
		}
		// A primary whose own disk is behind has not applied yet what others have.
		// A guest's user may be gone, or another by now; and a password may be a former one.
		holds := by.Op == c.w.model.users.password[who.User]
		if f == answered && r.Outcome != edge.OutcomeResult && rooted && holds && !c.guest {
			c.w.fail("sessions", "%v may not sign in at node %d: %+v", c, n.id, r)
			return
		}
		c.hesitate(r.Code)
		c.w.after(c.backoff(), func() { c.register(then) })
	})
}

// twin signs in a second program under the id of this one, at any node, now and then and
// while a request of this one is under way: the session that it has then is over.
func (c *client) twin() {
	w := c.w
	if w.calm || c.guest || !oneIn(w.crowd.twins, w.plan.work.twins) {
		return
	}
	root, ok := w.model.metadata.View().User(galgo.NumericID(metadata.RootUser))
	n := w.nodes[w.crowd.twins.IntN(len(w.nodes))]
	if !ok || n.engine == nil {
		return
	}
	w.say("a second %v signs in at n%d", c, n.id)
	n.engine.Metadata(edge.MetadataRequest{
		Operation: wire.OperationRegister, Client: c.id, User: root.ID, Body: metadata.PasswordOf(root).Append(nil),
	}, func(edge.MetadataReply) {})
}

// hesitate counts a transient refusal and goes elsewhere if that may help.
func (c *client) hesitate(code galgo.Code) {
	switch code {
	case galgo.CodeTransientNotAccepted:
		c.w.cover.NotAccepted++
	case galgo.CodeTransientNotCommitted:
		c.w.cover.NotCommitted++
		return
	}
	c.move()
}

func (c *client) registered(r edge.MetadataReply) {
	w := c.w
	if r.Op == 0 || r.Op > uint64(len(w.model.results)) {
		w.fail("acknowledged", "%v signs in at op %d, of %d", c, r.Op, len(w.model.results))
		return
	}
	if at := &w.model.results[r.Op-1]; at.client != c.id || at.output.Session != r.Op || at.output.Born != r.Born {
		w.fail("acknowledged", "%v signs in at op %d, entry of op %d; the log has client %v, %+v", c, r.Op, r.Born, at.client, at.output)
		return
	}
	c.session.epoch, c.session.born = r.Op, r.Born
}

// detach marks the session as one whose connection was lost, as a node does when it
// sees that. Nobody waits for it.
func (c *client) detach() {
	epoch := c.session.epoch
	try(c, "detach", func(e *engine.Engine, done func(edge.MetadataReply)) {
		e.Metadata(edge.MetadataRequest{Operation: metadata.OperationDetach, Client: c.id, Session: epoch}, done)
	}, func(edge.MetadataReply, fate) {})
}

// logout ends the session. Whether it did or not, the client has none from then on.
func (c *client) logout() {
	if c.changes > 0 || c.session.epoch == 0 {
		return
	}
	c.changes++
	c.begun()
	epoch := c.session.epoch
	c.session.epoch = 0
	c.session.request++
	try(c, "logout", func(e *engine.Engine, done func(edge.MetadataReply)) {
		e.Metadata(edge.MetadataRequest{Operation: wire.OperationLogout, Client: c.id, Session: epoch, Request: c.session.request}, done)
	}, func(_ edge.MetadataReply, f fate) {
		c.changes--
		c.done()
		if f != answered {
			c.move()
		}
	})
}

// evicted looks at the news that the session is gone. The client table says so in
// the log, or it is not true.
func (c *client) evicted(reason wire.EvictionReason) {
	entry, ok := c.w.model.metadata.View().Client(c.id)
	switch {
	case reason == wire.EvictionSessionTooLow:
		c.w.cover.Fenced++
		if ok && entry.Epoch == c.session.epoch {
			c.w.fail("sessions", "%v is told that it has signed in again since op %d; the table has that session", c, c.session.epoch)
		}
	case reason == wire.EvictionNoSession:
		c.w.cover.Evictions++
		if ok && entry.Born == c.session.born {
			c.w.fail("sessions", "%v is told that its session of op %d, made by op %d, is gone; the table has it", c, c.session.epoch, c.session.born)
		}
	default:
		c.w.fail("sessions", "%v is evicted for reason %v", c, reason)
	}
}
