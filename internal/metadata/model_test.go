package metadata

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"galgo"
	"galgo/internal/wire"
)

// pair feeds two machines and the oracle the same inputs. The second machine is
// restarted from a snapshot now and then; the first never is.
type pair struct {
	t    *rapid.T
	m    [2]*Machine
	o    *oracle
	op   uint64
	sent []Input // the requests that entered the log, to be repeated
	past []HandOver
	// groups are those that exist by the changes asked for.
	groups map[uint64]bool
}

func newPair(t *rapid.T) *pair {
	p := &pair{t: t, m: [2]*Machine{New(), New()}, o: &oracle{nextGroup: 1, clientsMax: 3}, groups: map[uint64]bool{}}
	body, err := Bootstrap{Username: "iggy", PasswordHash: "x", Settings: Settings{ClientsMax: 3, TokensMax: oTokensMax}}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	p.apply(Input{Operation: OperationBootstrap, Body: body})
	all := galgo.AllPermissions()
	p.o.users = []*oUser{{name: "iggy", created: 1, born: 1, password: 1, hash: "x", active: true, rights: &all}}
	p.enter(t, clientID(1), 0, Credential{Kind: CredentialPassword, Op: 1})
	p.seed(t, wire.OperationCreateUser, NewUser{Username: "guest", PasswordHash: "x", Active: true})
	p.seed(t, wire.OperationCreateUser, NewUser{Username: "topics", PasswordHash: "x", Active: true,
		Permissions: &galgo.Permissions{Global: galgo.GlobalPermissions{ManageTopics: true}}})
	for n := range uint32(2) {
		p.enter(t, clientID(uint64(n)+2), n+1, Credential{Kind: CredentialPassword, Op: p.o.users[n+1].password})
	}
	for i, name := range []string{"a", "b"} {
		p.seed(t, wire.OperationCreateStream, wire.CreateStreamRequest{Name: name})
		for range 2 {
			topic := wire.CreateTopicRequest{Stream: galgo.NumericID(uint32(i)), Partitions: 2, Name: name}
			p.seed(t, wire.OperationCreateTopic, topic)
			name += "0"
		}
		p.seed(t, wire.OperationCreateConsumerGroup, wire.CreateGroupRequest{Stream: galgo.NumericID(0), Topic: galgo.NumericID(0), Name: name})
	}
	return p
}

// seed runs a request of root, so that there is something to work on.
func (p *pair) seed(t *rapid.T, op wire.Operation, req wire.Body) {
	logOp, logBody, err := Admit(p.m[0].View(), op, req.Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	c := p.o.client(clientID(1))
	p.run(t, Input{Operation: logOp, Client: c.id, Session: c.epoch, Request: c.watermark() + 1, Body: logBody}, op, req)
}

// apply gives both machines the input and wants the same output.
func (p *pair) apply(in Input) Output {
	p.op++
	p.o.op = p.op
	in.Op, in.Timestamp = p.op, startTime+p.op
	a, b := p.m[0].Apply(in), p.m[1].Apply(in)
	if a.Verdict.Kind != b.Verdict.Kind || a.Login != b.Login || !bytes.Equal(a.Body, b.Body) ||
		!slices.Equal(a.Ended, b.Ended) || !slices.Equal(a.Changes, b.Changes) {
		p.t.Fatalf("op %d: one machine answers\n%+v, the other\n%+v", p.op, a, b)
	}
	for _, c := range a.Changes {
		switch c.Kind {
		case GroupCreated:
			p.groups[c.Group] = true
		case GroupRemoved:
			delete(p.groups, c.Group)
		}
	}
	return a
}

func (p *pair) login(t *rapid.T) {
	client, user := drawClient(t), rapid.Uint32Range(0, 4).Draw(t, "user")
	p.enter(t, client, user, p.drawCredential(t, user))
}

func (p *pair) enter(t *rapid.T, client galgo.ClientID, user uint32, by Credential) {
	out := p.apply(Input{Operation: wire.OperationRegister, Client: client, User: user, Body: by.Append(nil)})
	login, ended := p.o.login(client, user, by, startTime+p.op)
	if out.Login != login || !slices.Equal(out.Ended, ended) {
		t.Fatalf("login ends as %v, evicts %v, want %v, %v", out.Login, out.Ended, login, ended)
	}
}

func (p *pair) logout(t *rapid.T) {
	client := drawClient(t)
	session := p.drawSession(t, client)
	out := p.apply(Input{Operation: wire.OperationLogout, Client: client, Session: session, Request: 1})
	c := p.o.client(client)
	if c == nil || c.epoch != session {
		if len(out.Ended) != 0 {
			t.Fatalf("a logout of no session ends %v", out.Ended)
		}
		return
	}
	p.o.clients = without(p.o.clients, c)
	p.o.gone(client)
}

func (p *pair) detach(t *rapid.T) {
	client := drawClient(t)
	session := p.drawSession(t, client)
	p.apply(Input{Operation: OperationDetach, Client: client, Session: session})
	if c := p.o.client(client); c != nil && c.epoch == session {
		c.detached = true
		p.o.gone(client)
	}
}

func drawHome(t *rapid.T) Home {
	return Home{rapid.Uint8Range(0, 1).Draw(t, "replica"), rapid.Uint64Range(0, 2).Draw(t, "life")}
}

// depart has a node be gone, as it was seen now or a while ago.
func (p *pair) depart(t *rapid.T) {
	d := Departure{drawHome(t), p.op - min(p.op, rapid.Uint64Range(0, 9).Draw(t, "ago"))}
	p.apply(Input{Operation: OperationDepart, Body: d.Encode()})
	var gone []galgo.ClientID
	for _, c := range p.o.clients {
		if !c.detached && c.home.Replica == d.Replica && c.home.Life >= min(d.Life, 1) && c.home.Life <= d.Life && c.epoch <= d.Seen {
			c.detached = true
			gone = append(gone, c.id)
		}
	}
	p.o.gone(gone...)
}

func (p *pair) configure(t *rapid.T) {
	n := rapid.IntRange(2, 5).Draw(t, "clients max")
	body, err := Configure{Settings{ClientsMax: uint32(n), TokensMax: oTokensMax}}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	out := p.apply(Input{Operation: OperationConfigure, Body: body})
	p.o.clientsMax = n
	if ended := p.o.shrink(n); !slices.Equal(out.Ended, ended) {
		t.Fatalf("shrinking to %d evicts %v, want %v", n, out.Ended, ended)
	}
}

// complete hands over partitions that are on their way, or were once.
func (p *pair) complete(t *rapid.T) {
	c := Completion{Stream: rapid.Uint32Range(0, 1).Draw(t, "stream"), Topic: rapid.Uint32Range(0, 1).Draw(t, "topic"), Group: rapid.Uint32Range(0, 2).Draw(t, "group")}
	if _, g := p.o.at(c.Stream, c.Topic, c.Group); g != nil {
		for _, m := range g.members {
			for _, a := range m.away {
				if h := (HandOver{m.client, a.partition, a.since}); rapid.IntRange(0, 3).Draw(t, "completes") > 0 {
					c.HandOvers = append(c.HandOvers, h)
					p.past = append(p.past, h)
				}
			}
		}
	}
	if len(p.past) > 0 && rapid.Bool().Draw(t, "again") {
		c.HandOvers = append(c.HandOvers, rapid.SampledFrom(p.past).Draw(t, "past"))
	}
	p.apply(Input{Operation: wire.OperationCompleteGroupRevocation, Body: c.Encode()})
	p.o.complete(c, startTime+p.op)
}

func (p *pair) drawTruncation(t *rapid.T, req wire.DeleteSegmentsRequest) Truncation {
	tr := Truncation{DeleteSegmentsRequest: req, Below: rapid.Uint64Range(0, 5).Draw(t, "below"), Until: rapid.Uint64Range(0, 5).Draw(t, "until")}
	if _, topic, code := p.o.find(req.Stream, req.Topic); code == galgo.CodeOK && req.PartitionID < uint32(len(topic.partitions)) {
		part := topic.partitions[req.PartitionID]
		tr.Group, tr.Generation = part.group, part.purges+rapid.SampledFrom([]uint64{0, 0, 0, 1}).Draw(t, "generation")
	}
	return tr
}

func drawBusy(t *rapid.T) []uint32 {
	return rapid.SliceOfNDistinct(rapid.Uint32Range(0, 7), 0, 8, func(p uint32) uint32 { return p }).Draw(t, "busy")
}

// restart replaces the second machine by what its snapshot holds.
func (p *pair) restart(t *rapid.T) {
	state, clients := p.m[1].View().EncodeState(), p.m[1].View().EncodeClients()
	m, err := Decode(state, clients)
	if err != nil {
		t.Fatalf("decoding what was just encoded: %v", err)
	}
	v := p.m[0].View()
	for _, e := range []struct {
		name           string
		first, restart []byte
	}{{"state", v.EncodeState(), m.View().EncodeState()}, {"client table", v.EncodeClients(), m.View().EncodeClients()}} {
		if !bytes.Equal(e.first, e.restart) {
			t.Fatalf("the %s encodes to\n%x without a restart\n%x", e.name, e.restart, e.first)
		}
	}
	p.m[1] = m
}

// requests runs a few.
func (p *pair) requests(t *rapid.T) {
	for range rapid.IntRange(1, 8).Draw(t, "requests") {
		p.request(t)
		p.check(t)
	}
}

// request admits and runs a request under a number that is new, old or from
// nowhere, in a session that is or was.
func (p *pair) request(t *rapid.T) {
	op, req := p.drawRequest(t)
	if segments, ok := req.(wire.DeleteSegmentsRequest); ok {
		req = p.drawTruncation(t, segments)
	}
	body := req.Append(nil)
	logOp, logBody, err := Admit(p.m[0].View(), op, append(body, drawTail(t, op)...))
	got, _ := galgo.CodeOf(err)
	if want := p.o.admit(req); got != want {
		t.Fatalf("%v %+v is admitted with %v, want %v", op, req, err, want)
	}
	if err != nil {
		return
	}
	client := drawClient(t)
	var oracleReq any = req
	if join, ok := req.(wire.GroupRequest); ok && op == wire.OperationJoinConsumerGroup {
		busy := drawBusy(t)
		logBody = JoinWithBusy(p.m[0].View(), client, logBody, func(*ConsumerGroup) []uint32 { return busy })
		oracleReq = oJoin{join, busy}
	}
	in := Input{Operation: logOp, Client: client, Body: logBody, Session: p.drawSession(t, client)}
	in.Request = rapid.Uint64Range(1, 3).Draw(t, "number")
	if c := p.o.client(client); c != nil {
		in.Request += c.watermark()
	}
	in.RequestSum = wire.RequestChecksum(body)
	p.run(t, in, op, oracleReq)
	p.sent = append(p.sent, in)
}

// again runs a request that was sent before, as a retry would.
func (p *pair) again(t *rapid.T) {
	if len(p.sent) == 0 {
		t.Skip("nothing was sent")
	}
	in := rapid.SampledFrom(p.sent).Draw(t, "again")
	want, body := p.o.check(in.Client, in.Session, in.Request, in.RequestSum)
	if want == VerdictNew {
		t.Skip("not run yet")
	}
	out := p.apply(in)
	if out.Verdict.Kind != want || want == VerdictDuplicate && string(out.Body) != body {
		t.Fatalf("a retry is answered with %v and %x, want %v and %x", out.Verdict.Kind, out.Body, want, body)
	}
}

func (p *pair) run(t *rapid.T, in Input, op wire.Operation, req any) {
	want, _ := p.o.check(in.Client, in.Session, in.Request, in.RequestSum)
	out := p.apply(in)
	if out.Verdict.Kind != want {
		t.Fatalf("verdict %v, want %v", out.Verdict.Kind, want)
	}
	if want != VerdictNew {
		return
	}
	c := p.o.client(in.Client)
	p.o.caller = c
	code, payload := p.o.run(op, req, c.id, c.user, startTime+p.op)
	body := wire.AppendResultError(nil, code)
	if code == galgo.CodeOK {
		body = wire.AppendResultOK(nil)
		if payload != nil {
			body = payload.Append(body)
		}
	}
	if !bytes.Equal(out.Body, body) {
		t.Fatalf("%v %+v is answered with\n%x, want\n%x", op, req, out.Body, body)
	}
	if code == galgo.CodeTransientNotAccepted {
		return // not run, so not recorded
	}
	if op == wire.OperationCreateToken && code == galgo.CodeOK { // the token is not known to whoever answers again
		body = wire.AppendResultError(nil, galgo.CodePersonalAccessTokenAlreadyExists)
	}
	c.told = append(c.told, oTold{in.Request, in.RequestSum, string(body)})
	c.latestCommit = p.op
}

func (p *pair) check(t *rapid.T) {
	v := p.m[0].View()
	if got, want := v.s.size(), len(v.EncodeState()); got != want {
		t.Fatalf("the state takes %d bytes, and counts %d", want, got)
	}
	if got, want := 5+v.s.clients.bytes, len(v.EncodeClients()); got != want {
		t.Fatalf("the client table takes %d bytes, and counts %d", want, got)
	}
	if got, want := dumpView(v), p.o.dump(); got != want {
		t.Fatalf("the state is\n%swant\n%s", got, want)
	}
	if got, want := dumpIndexes(v), p.o.dumpIndexes(); got != want {
		t.Fatalf("the indexes say\n%swant\n%s", got, want)
	}
	n := 0
	for part := range v.AllPartitions() {
		n++
		if at, ok := v.PartitionOf(part.Group); !p.groups[part.Group] || !ok || at != part {
			t.Fatalf("group %d: asked for is %t, found %t", part.Group, p.groups[part.Group], ok)
		}
	}
	if n != len(p.groups) {
		t.Fatalf("%d partitions, and %d groups by the changes asked for", n, len(p.groups))
	}
}

func drawClient(t *rapid.T) galgo.ClientID {
	return clientID(rapid.SampledFrom([]uint64{1, 1, 1, 1, 2, 3, 4, 5}).Draw(t, "client"))
}

func (p *pair) drawSession(t *rapid.T, client galgo.ClientID) uint64 {
	epoch := uint64(0)
	if c := p.o.client(client); c != nil {
		epoch = c.epoch
	}
	if d := rapid.Uint64Range(0, 29).Draw(t, "session"); d == 28 {
		return epoch + 1
	} else if d == 29 && epoch > 0 {
		return epoch - 1
	}
	return epoch
}

func drawTail(t *rapid.T, op wire.Operation) []byte {
	switch op { // the others end with options, which take the rest of the body
	case wire.OperationDeleteTopic, wire.OperationDeleteStream, wire.OperationCreatePartitions,
		wire.OperationDeleteUser, wire.OperationDeleteToken:
		return rapid.SliceOfN(rapid.Byte(), 0, 4).Draw(t, "tail")
	}
	return nil
}

func drawName(t *rapid.T) string {
	return rapid.SampledFrom([]string{"a", "b", "c", "0", "1"}).Draw(t, "name")
}

func drawID(t *rapid.T, what string) galgo.Identifier {
	if rapid.Bool().Draw(t, what+" by name") {
		return galgo.NamedID(drawName(t))
	}
	return galgo.NumericID(rapid.Uint32Range(0, 3).Draw(t, what))
}

func drawOptions(t *rapid.T) wire.Options {
	var list []galgo.Header
	for _, h := range []galgo.Header{
		option(galgo.OptionMessageExpiry, galgo.StringValue("7 days")),
		option(galgo.OptionMaxTopicSize, rapid.SampledFrom([]galgo.Value{
			galgo.Uint64Value(0), galgo.Uint64Value(4096), galgo.StringValue("2 GiB"), galgo.StringValue("2 MiB"),
		}).Draw(t, "size")),
		option(galgo.OptionCompressionAlgorithm, galgo.StringValue("GZIP")),
		option(galgo.OptionSegmentSize, galgo.Uint64Value(1<<20)),
		option("nonsense", galgo.StringValue("x")),
		option(galgo.OptionEnforceFsync, galgo.Uint8Value(1)),
	} {
		if rapid.IntRange(0, 5).Draw(t, "has") == 0 {
			list = append(list, h)
		}
	}
	return block(list)
}

type namedRequest struct {
	op   wire.Operation
	draw func(*rapid.T) wire.Body
}

var requests = []namedRequest{
	{wire.OperationCreateStream, func(t *rapid.T) wire.Body { return wire.CreateStreamRequest{Name: drawName(t)} }},
	{wire.OperationUpdateStream, func(t *rapid.T) wire.Body {
		return wire.UpdateStreamRequest{Stream: drawID(t, "stream"), Name: drawName(t)}
	}},
	{wire.OperationDeleteStream, drawStream},
	{wire.OperationPurgeStream, drawStream},
	{wire.OperationCreateTopic, func(t *rapid.T) wire.Body {
		return wire.CreateTopicRequest{
			Stream: drawID(t, "stream"), Name: drawName(t), Options: drawOptions(t),
			Partitions: rapid.SampledFrom([]uint32{0, 1, 2, 5, 30, 1001}).Draw(t, "partitions"),
		}
	}},
	{wire.OperationUpdateTopic, func(t *rapid.T) wire.Body {
		return wire.UpdateTopicRequest{Stream: drawID(t, "stream"), Topic: drawID(t, "topic"), Name: drawName(t), Options: drawOptions(t)}
	}},
	{wire.OperationDeleteTopic, drawTopic},
	{wire.OperationPurgeTopic, drawTopic},
	{wire.OperationCreatePartitions, drawPartitions},
	{wire.OperationDeletePartitions, drawPartitions},
	{wire.OperationCreateConsumerGroup, func(t *rapid.T) wire.Body {
		return wire.CreateGroupRequest{Stream: drawID(t, "stream"), Topic: drawID(t, "topic"), Name: drawName(t)}
	}},
	{wire.OperationDeleteConsumerGroup, func(t *rapid.T) wire.Body {
		return wire.GroupRequest{Stream: drawID(t, "stream"), Topic: drawID(t, "topic"), Group: drawID(t, "group")}
	}},
	{wire.OperationJoinConsumerGroup, drawGroup},
	{wire.OperationLeaveConsumerGroup, drawGroup},
	{wire.OperationDeleteSegments, func(t *rapid.T) wire.Body {
		return wire.DeleteSegmentsRequest{Stream: drawID(t, "stream"), Topic: drawID(t, "topic"), PartitionID: rapid.Uint32Range(0, 3).Draw(t, "partition")}
	}},
}

// drawGroup draws a consumer group that may well be there.
func drawGroup(t *rapid.T) wire.Body {
	return wire.GroupRequest{
		Stream: galgo.NumericID(rapid.Uint32Range(0, 1).Draw(t, "stream")),
		Topic:  galgo.NumericID(rapid.Uint32Range(0, 1).Draw(t, "topic")),
		Group:  galgo.NumericID(rapid.Uint32Range(0, 2).Draw(t, "group")),
	}
}

func drawStream(t *rapid.T) wire.Body { return wire.StreamRequest{Stream: drawID(t, "stream")} }

func drawTopic(t *rapid.T) wire.Body {
	return wire.TopicRequest{Stream: drawID(t, "stream"), Topic: drawID(t, "topic")}
}

func drawPartitions(t *rapid.T) wire.Body {
	return wire.PartitionsRequest{
		Stream: drawID(t, "stream"), Topic: drawID(t, "topic"),
		Count: rapid.SampledFrom([]uint32{0, 1, 2, 3, 1001}).Draw(t, "count"),
	}
}

// Creates come more often, or there would be little to work on.
var requestWeights = []int{0, 0, 0, 0, 1, 2, 3, 4, 4, 4, 4, 4, 5, 5, 6, 7, 8, 8, 9, 9, 10, 10, 10, 11, 12, 12, 12, 12, 12, 12, 13, 14}

func (p *pair) drawRequest(t *rapid.T) (wire.Operation, wire.Body) {
	if rapid.IntRange(0, 2).Draw(t, "of users") == 0 {
		return p.drawUserRequest(t)
	}
	r := requests[rapid.SampledFrom(requestWeights).Draw(t, "request")]
	return r.op, r.draw(t)
}

// Whatever is applied in whatever order: machine and oracle agree on each answer
// and on the whole state, with and without restarts.
func TestMachineAgreesWithTheOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPair(t)
		actions := map[string]func(*rapid.T){
			"":         p.check,
			"login":    p.login,
			"logout":   p.logout,
			"detach":   p.detach,
			"depart":   p.depart,
			"setting":  p.configure,
			"sweep":    p.sweep,
			"complete": p.complete,
			"restart":  p.restart,
			"retry":    p.again,
			"requests": p.requests,
			"more":     p.requests,
		}
		t.Repeat(actions)
	})
}
