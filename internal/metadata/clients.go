package metadata

import (
	"cmp"
	"fmt"
	"slices"

	"galgo"
	"galgo/internal/wire"
)

// Client is an entry of the client table: a session and what is needed to run
// each of its requests at most once (consensus.md §7). The entry outlives the
// connection, so that a client that comes back under its id still gets its
// answers; it ends by an explicit logout or by eviction from a full table.
type Client struct {
	ID galgo.ClientID
	// Slot is its place in the table; a tie between two victims of eviction goes
	// to the lower one.
	Slot uint32
	// Epoch is the op of its newest Register: the session on the wire.
	Epoch uint64
	User  uint32
	// Watermark is the highest request number that was committed, 0 after the
	// first Register, and WatermarkSum the checksum that request had.
	Watermark    uint64
	WatermarkSum [16]byte
	// Born is the op of the Register that made the entry. It tells a client that
	// comes back whether this is still the entry that knows its requests.
	Born uint64
	// LatestCommit is the op of its newest committed request or Register.
	LatestCommit uint64
	// Detached says that its connection was lost: it is evicted before any
	// entry that is still in use.
	Detached bool
	// Home is where its connection is, or was.
	Home Home
	// Replies are the newest, oldest first: at most RepliesMax.
	Replies []Reply
}

// Reply is a committed answer, kept to be given again.
type Reply struct {
	// Request is the number of the request it answers; 0 for a Register.
	Request    uint64
	RequestSum [16]byte
	Op         uint64
	Timestamp  uint64 // µs, of the prepare
	// Operation is what the reply header names: 64 where the request said 132.
	Operation wire.Operation

	body []byte
	// partitions is how many partition records follow body: those of a new topic
	// differ in their number only, and a thousand of them would take 40 kB here.
	partitions uint32
}

// Body returns the body that was sent, result section included. The caller must
// not change it.
func (r *Reply) Body() []byte {
	if r.partitions == 0 {
		return r.body
	}
	b := append([]byte(nil), r.body...)
	for id := range r.partitions {
		b = appendNewPartition(b, id, r.Timestamp)
	}
	return b
}

// VerdictKind is the outcome of looking a request up in the client table.
type VerdictKind uint8

// The outcomes, in the order of the checks (consensus.md §7.2).
const (
	// VerdictNew: the request is to be run.
	VerdictNew VerdictKind = iota
	// VerdictNoSession: the client id has no entry, or lost it (eviction 1).
	VerdictNoSession
	// VerdictFenced: the client has logged in again since (eviction 7).
	VerdictFenced
	// VerdictEpochAhead: a session that was never given out; a fault of the client.
	VerdictEpochAhead
	// VerdictChecksumMismatch: another request had this number.
	VerdictChecksumMismatch
	// VerdictDuplicate: it was run; Verdict.Reply is its answer.
	VerdictDuplicate
	// VerdictAlreadyApplied: it was run, and its answer is forgotten (code 59).
	VerdictAlreadyApplied
)

var verdictNames = [...]string{
	"new", "no session", "fenced", "epoch ahead", "checksum mismatch", "duplicate", "already applied",
}

// String names the outcome.
func (k VerdictKind) String() string {
	if int(k) < len(verdictNames) {
		return verdictNames[k]
	}
	return fmt.Sprintf("verdict %d", uint8(k))
}

// Verdict is what the client table says about a request.
type Verdict struct {
	Kind VerdictKind
	// Reply is the first answer, if Kind is VerdictDuplicate.
	Reply *Reply
	// User is the owner of the session; set unless Kind is VerdictNoSession.
	User uint32
}

// check classifies a request of a client (consensus.md §7.2). A checksum of zero
// on either side means that there is nothing to compare.
func (s *state) check(id galgo.ClientID, session, request uint64, sum [16]byte) Verdict {
	c, ok := s.client(id)
	switch {
	case !ok:
		return Verdict{Kind: VerdictNoSession}
	case session < c.Epoch:
		return Verdict{Kind: VerdictFenced, User: c.User}
	case session > c.Epoch:
		return Verdict{Kind: VerdictEpochAhead, User: c.User}
	case request > c.Watermark:
		return Verdict{Kind: VerdictNew, User: c.User}
	}
	return c.checkRepeated(request, sum)
}

func (c *Client) checkRepeated(request uint64, sum [16]byte) Verdict {
	reply := c.reply(request)
	known := [16]byte{}
	switch {
	case request == c.Watermark:
		known = c.WatermarkSum
	case reply != nil:
		known = reply.RequestSum
	}
	if known != sum && known != [16]byte{} && sum != [16]byte{} {
		return Verdict{Kind: VerdictChecksumMismatch, User: c.User}
	}
	if reply == nil {
		return Verdict{Kind: VerdictAlreadyApplied, User: c.User}
	}
	return Verdict{Kind: VerdictDuplicate, Reply: reply, User: c.User}
}

// reply finds the kept answer to a numbered request. A Register has number 0 and
// is never answered from here: repeating it is a new login.
func (c *Client) reply(request uint64) *Reply {
	if request == 0 {
		return nil
	}
	for i := range c.Replies {
		if c.Replies[i].Request == request {
			return &c.Replies[i]
		}
	}
	return nil
}

// withReply returns the newest RepliesMax of the replies and r, in a new slice.
func withReply(replies []Reply, r Reply) []Reply {
	if drop := len(replies) + 1 - RepliesMax; drop > 0 {
		replies = replies[drop:]
	}
	kept := make([]Reply, 0, len(replies)+1)
	return append(append(kept, replies...), r)
}

// withoutRegister returns the replies without that to a former Register.
func withoutRegister(replies []Reply) []Reply {
	kept := make([]Reply, 0, RepliesMax)
	for _, r := range replies {
		if r.Request != 0 {
			kept = append(kept, r)
		}
	}
	return kept
}

// commitReply records the answer to a request that was just run. The request was
// New a moment ago, so its session exists and its number is above the watermark.
func (s *state) commitReply(id galgo.ClientID, r Reply) {
	old, ok := s.client(id)
	if !ok || r.Request <= old.Watermark {
		panic(fmt.Sprintf("metadata: op %d records request %d of client %x, which it should not have run", r.Op, r.Request, id))
	}
	if len(r.body) > ReplyMax {
		panic(fmt.Sprintf("metadata: op %d keeps a reply of %d bytes, limit %d", r.Op, len(r.body), ReplyMax))
	}
	c := *old
	c.Watermark = r.Request
	c.WatermarkSum = r.RequestSum
	c.LatestCommit = r.Op
	c.Replies = withReply(old.Replies, r)
	s.putClient(&c)
}

func (s *state) putClient(c *Client) {
	if old, ok := s.clients.get(c.Slot); ok {
		s.attached.delete(old.attachedKey())
	}
	s.clients.set(c.Slot, c)
	s.clientIDs.set(string(c.ID[:]), c.Slot)
	if !c.Detached {
		s.attached.set(c.attachedKey(), c.Slot)
	}
}

func (s *state) removeClient(c *Client) {
	s.clients.delete(c.Slot)
	s.clientIDs.delete(string(c.ID[:]))
	s.attached.delete(c.attachedKey())
	s.leaveAll(c.ID)
}

// evictDownTo removes entries until at most limit are left, and returns whom. It
// depends on the table alone, never on what one node knows of its connections, or
// replicas would choose different victims.
func (s *state) evictDownTo(limit int) []galgo.ClientID {
	excess := s.clients.len() - limit
	if excess <= 0 {
		return nil
	}
	evicted := make([]galgo.ClientID, 0, excess)
	for _, c := range s.victims(excess) {
		s.removeClient(c)
		evicted = append(evicted, c.ID)
	}
	return evicted
}

// victims are the n entries that go next.
func (s *state) victims(n int) []*Client {
	if n == 1 {
		return []*Client{s.victim()}
	}
	table := make([]*Client, 0, s.clients.len())
	s.clients.all(func(_ uint32, c *Client) bool { table = append(table, c); return true })
	slices.SortFunc(table, evictionOrder)
	return table[:n]
}

// victim is the first of victims, without sorting: a full table needs one for
// each new session.
func (s *state) victim() *Client {
	var v *Client
	s.clients.all(func(_ uint32, c *Client) bool {
		if v == nil || evictionOrder(c, v) < 0 {
			v = c
		}
		return true
	})
	return v
}

// evictionOrder puts detached entries first, then those whose last commit is
// older, then lower slots.
func evictionOrder(a, b *Client) int {
	switch {
	case a.Detached != b.Detached && a.Detached:
		return -1
	case a.Detached != b.Detached:
		return 1
	}
	return cmp.Or(cmp.Compare(a.LatestCommit, b.LatestCommit), cmp.Compare(a.Slot, b.Slot))
}
