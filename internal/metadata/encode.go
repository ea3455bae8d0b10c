package metadata

import (
	"galgo"
	"galgo/internal/wire"
)

// Versions of the two parts of a snapshot. A part with another version is refused
// before anything else of it is looked at.
const (
	stateVersion   = 1
	clientsVersion = 1
)

// EncodeState returns the state but for the client table. It is sorted by id and
// holds nothing that differs between nodes, so replicas that applied the same ops
// encode equal bytes. It carries no checksum: the snapshot file that holds it does.
//
//	size  field
//	   1  version        1
//	   8  applied        op of the last input
//	   8  timestamp      µs, of the last input
//	   8  revision
//	   8  next_group     id of the next partition's group
//	   1  rooted         1 once there is a root user
//	   4  clients_max    0 before Bootstrap
//	   4  tokens_max     0 before Bootstrap
//	   4  users          count; each, ascending by id:
//	   4    id
//	 1+n    name
//	   8    created_at   µs
//	   8    born         op that made the user
//	 2+n    password     encoded hash
//	   8    password_op  op that set the password
//	   1    active       0 or 1
//	   8    sessions     op from which on its sessions hold; 0: all
//	   8    kept         session before that which holds too; 0: none
//	   1    permitted    1 if permissions follow
//	 4+n    permissions  as on the wire, streams and topics ascending by id
//	   4    tokens       count; each, ascending by name:
//	 1+n      name
//	  32      hash       SHA-256 of the token
//	   8      op         op that made it
//	   8      expires_at µs; 0: never
//	   4  streams        count; each, ascending by id:
//	   4    id
//	 1+n    name
//	   8    created_at   µs
//	   4    topics       count; each, ascending by id, as appendTopic says
func (v *View) EncodeState() []byte {
	s := &v.s
	b := []byte{stateVersion}
	b = le.AppendUint64(b, s.applied)
	b = le.AppendUint64(b, s.timestamp)
	b = le.AppendUint64(b, s.revision)
	b = le.AppendUint64(b, s.nextGroup)
	b = appendBool(b, s.rooted)
	b = s.settings.append(b)
	b = le.AppendUint32(b, uint32(s.users.len()))
	s.users.all(func(_ uint32, u *User) bool { b = s.appendTokens(appendUser(b, u), u); return true })
	b = le.AppendUint32(b, uint32(s.streams.len()))
	s.streams.all(func(_ uint32, stream *Stream) bool { b = s.appendStream(b, stream); return true })
	return b
}

func appendUser(b []byte, u *User) []byte {
	b = le.AppendUint32(b, u.ID)
	b = appendName(b, u.Name)
	b = le.AppendUint64(b, u.CreatedAt)
	b = le.AppendUint64(b, u.Born)
	b = appendHash(b, u.PasswordHash)
	b = le.AppendUint64(b, u.PasswordOp)
	b = appendBool(b, u.Active)
	b = le.AppendUint64(b, u.SessionsFrom)
	b = le.AppendUint64(b, u.Kept)
	return appendPermissions(b, u.Permissions)
}

// appendPermissions appends whether there are any, and if so their length and encoding.
func appendPermissions(b []byte, p *galgo.Permissions) []byte {
	b = appendBool(b, p != nil)
	if p == nil {
		return b
	}
	at := len(b)
	b = wire.AppendPermissions(le.AppendUint32(b, 0), *p)
	le.PutUint32(b[at:], uint32(len(b)-at-4))
	return b
}

func (s *state) appendTokens(b []byte, u *User) []byte {
	b = le.AppendUint32(b, u.Tokens)
	s.tokensOf(u.ID, func(t *Token) bool {
		b = appendName(b, t.Name)
		b = append(b, t.Hash[:]...)
		b = le.AppendUint64(b, t.Op)
		b = le.AppendUint64(b, t.ExpiresAt)
		return true
	})
	return b
}

func (s *state) appendStream(b []byte, stream *Stream) []byte {
	b = le.AppendUint32(b, stream.ID)
	b = appendName(b, stream.Name)
	b = le.AppendUint64(b, stream.CreatedAt)
	b = le.AppendUint32(b, stream.Topics)
	from, to := topicsOf(stream.ID)
	s.topics.between(from, to, func(_ topicKey, t *Topic) bool { b = s.appendTopic(b, t); return true })
	return b
}

// appendTopic appends
//
//	size  field
//	   4  id
//	 1+n  name
//	   8  created_at
//	44+n  options         wire.TopicOptions.AppendState
//	   4  partitions      count; each, ids from 0 up:
//	   8    group
//	   8    created_at    µs
//	   8    created_revision
//	   8    purge_generation
//	   8    deleted_below
//	   8    deleted_until  µs
//	   8  next_consumer_group
//	   4  groups          count; each, ascending by id:
//	   4    id
//	 1+n    name
//	   8    generation
//	   4    members       count; each, ascending by id, as appendMember says
func (s *state) appendTopic(b []byte, t *Topic) []byte {
	b = le.AppendUint32(b, t.ID)
	b = appendName(b, t.Name)
	b = le.AppendUint64(b, t.CreatedAt)
	b = t.Options.AppendState(b)
	b = le.AppendUint32(b, t.Partitions)
	s.partitionsOf(t, func(p *Partition) bool {
		b = le.AppendUint64(b, p.Group)
		b = le.AppendUint64(b, p.CreatedAt)
		b = le.AppendUint64(b, p.CreatedRevision)
		b = le.AppendUint64(b, p.PurgeGeneration)
		b = le.AppendUint64(b, p.DeletedBelow)
		b = le.AppendUint64(b, p.DeletedUntil)
		return true
	})
	b = le.AppendUint64(b, t.NextConsumerGroup)
	b = le.AppendUint32(b, t.ConsumerGroups)
	s.consumerGroupsOf(t, func(g *ConsumerGroup) bool {
		b = le.AppendUint32(b, g.ID)
		b = appendName(b, g.Name)
		b = le.AppendUint64(b, g.Generation)
		b = le.AppendUint32(b, uint32(len(g.Members)))
		for i := range g.Members {
			b = appendMember(b, &g.Members[i])
		}
		return true
	})
	return b
}

// EncodeClients returns the client table, by slot, under the same rules as
// EncodeState. All kept replies are part of it: a retry after a restart gets the
// answer that it would have had before.
//
//	size  field
//	   1  version        1
//	   4  clients        count; each, ascending by slot:
//	   4    slot
//	  16    client
//	   8    epoch
//	   4    user
//	   8    watermark
//	  16    watermark_sum
//	   8    latest_commit
//	   8    born         op of the Register that made the entry
//	   1    detached     0 or 1
//	   1    replica      where its connection is, or was
//	   8    life         of that replica; 0: of a node alone
//	   1    replies      count, at most 5; each, oldest first:
//	   8      request    0 for a Register
//	  16      request_sum
//	   8      op
//	   8      timestamp  µs
//	   1      operation
//	   4      partitions  how many partition records follow the body when it is sent
//	 4+n      body
func (v *View) EncodeClients() []byte {
	b := []byte{clientsVersion}
	b = le.AppendUint32(b, uint32(v.s.clients.len()))
	v.s.clients.all(func(_ uint32, c *Client) bool { b = c.append(b); return true })
	return b
}

func (c *Client) append(b []byte) []byte {
	b = le.AppendUint32(b, c.Slot)
	b = append(b, c.ID[:]...)
	b = le.AppendUint64(b, c.Epoch)
	b = le.AppendUint32(b, c.User)
	b = le.AppendUint64(b, c.Watermark)
	b = append(b, c.WatermarkSum[:]...)
	b = le.AppendUint64(b, c.LatestCommit)
	b = le.AppendUint64(b, c.Born)
	b = appendBool(b, c.Detached)
	b = c.Home.append(b)
	b = append(b, uint8(len(c.Replies)))
	for i := range c.Replies {
		b = c.Replies[i].append(b)
	}
	return b
}

func (r *Reply) append(b []byte) []byte {
	b = le.AppendUint64(b, r.Request)
	b = append(b, r.RequestSum[:]...)
	b = le.AppendUint64(b, r.Op)
	b = le.AppendUint64(b, r.Timestamp)
	b = append(b, uint8(r.Operation))
	b = le.AppendUint32(b, r.partitions)
	b = le.AppendUint32(b, uint32(len(r.body)))
	return append(b, r.body...)
}
