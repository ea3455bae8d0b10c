package metadata

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"galgo"
	"galgo/internal/wire"
)

// goldenRig has one of each thing, and each thing that has more than one shape in
// more than one.
func goldenRig(t testing.TB) *rig {
	r := &rig{t: t, m: New(), sessions: map[galgo.ClientID]*testSession{}}
	r.bootstrap(4)
	r.login(clientID(1), RootUser)
	at := r.password(RootUser)
	at.Home = Home{2, 0x99}
	r.loginBy(clientID(2), RootUser, at)
	r.createStream("s")
	r.createTopic(0, "t", 2, option(galgo.OptionMessageExpiry, galgo.Uint64Value(60_000_000)))
	r.createGroup(0, 0, "g")
	r.must(wire.OperationPurgeTopic, deleteTopicBody(id(0), id(0)))
	r.must(wire.OperationCreatePartitions, partitionsBody(id(0), id(0), 1))
	r.root(wire.OperationCreateStream, createStreamBody("s")) // a rejection is kept too
	r.must(wire.OperationDeletePartitions, partitionsBody(id(0), id(0), 1))
	r.createTopic(0, "u", 3)
	r.apply(Input{Operation: OperationDetach, Client: clientID(2), Session: r.sessions[clientID(2)].epoch})
	r.addUser(3, &galgo.Permissions{
		Global: galgo.GlobalPermissions{PollMessages: true},
		Streams: []galgo.StreamPermissions{
			{StreamID: 1, ReadStream: true},
			{StreamID: 7, Topics: []galgo.TopicPermissions{{TopicID: 2, ManageTopic: true}, {TopicID: 3}}},
		},
	})
	r.addToken(RootUser, "ci", TokenHash{1, 2, 3}, 5, 0)
	r.addToken(RootUser, "tmp", TokenHash{31: 9}, 6, 1_800_000_000_000_000)
	return r
}

// golden reads a file of hexadecimal digits with comments behind #.
func golden(t testing.TB, file string) []byte {
	t.Helper()
	text, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var digits strings.Builder
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		digits.WriteString(strings.TrimSpace(line))
	}
	b, err := hex.DecodeString(digits.String())
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return b
}

func TestGoldenSnapshot(t *testing.T) {
	state, clients := golden(t, "state.v1.hex"), golden(t, "clients.v1.hex")
	v := goldenRig(t).m.View()
	if got := v.EncodeState(); !bytes.Equal(got, state) {
		t.Errorf("state encodes to\n%x, want\n%x", got, state)
	}
	if got := v.EncodeClients(); !bytes.Equal(got, clients) {
		t.Errorf("client table encodes to\n%x, want\n%x", got, clients)
	}
	m, err := Decode(state, clients)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := dumpView(m.View()), dumpView(v); got != want {
		t.Errorf("decoded\n%swant\n%s", got, want)
	}
	if got := m.View().EncodeState(); !bytes.Equal(got, state) {
		t.Errorf("decoded, it encodes to\n%x, want\n%x", got, state)
	}
	if got := m.View().EncodeClients(); !bytes.Equal(got, clients) {
		t.Errorf("decoded, the client table encodes to\n%x, want\n%x", got, clients)
	}
}

func TestGoldenBodies(t *testing.T) {
	bootstrap, err := Bootstrap{Username: "iggy", PasswordHash: "$h", Settings: Settings{ClientsMax: 8192}}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	configure, err := Configure{Settings{ClientsMax: 8192, TokensMax: 100}}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	join := wire.GroupRequest{Stream: name("s"), Topic: name("t"), Group: id(5)}.Append(nil)
	topic := newTopic{Stream: name("s"), Partitions: 3, Name: "t", Options: wire.DefaultTopicOptions()}.encode()
	for _, tt := range []struct{ name, want, got string }{
		{"bootstrap", "01" + "00200000" + "00000000" + "0469676779" + "02002468", hex.EncodeToString(bootstrap)},
		{"configure", "01" + "00200000" + "64000000", hex.EncodeToString(configure)},
		{"register", "01" + "02" + "0700000000000000" + "02" + "0900000000000000", hex.EncodeToString(Credential{CredentialToken, 7, Home{2, 9}}.Append(nil))},
		{"depart", "01" + "02" + "0900000000000000" + "0700000000000000", hex.EncodeToString(Departure{Home{2, 9}, 7}.Encode())},
		{"create user", "01" + "00000000" + "03616e6e" + "02002468" + "01" + "01" + "0b000000" + "0000000000010000000000",
			hex.EncodeToString(NewUser{Username: "ann", PasswordHash: "$h", Active: true,
				Permissions: &galgo.Permissions{Global: galgo.GlobalPermissions{ReadStreams: true}}}.Append(nil))},
		{"create user, refused", "01" + "29000000" + "03616e6e" + "0000" + "00" + "00",
			hex.EncodeToString(NewUser{Refusal: galgo.CodeUnauthorized, Username: "ann"}.Append(nil))},
		{"change password", "01" + "00000000" + "0900000000000000" + "0203616e6e" + "02002468",
			hex.EncodeToString(NewPassword{Verified: 9, User: name("ann"), PasswordHash: "$h"}.Append(nil))},
		{"update permissions", "01" + "00000000" + "0203616e6e" + "01" + "0b000000" + "0000000000010000000000",
			hex.EncodeToString(NewPermissions{User: name("ann"),
				Permissions: &galgo.Permissions{Global: galgo.GlobalPermissions{ReadStreams: true}}}.Append(nil))},
		{"update permissions, refused", "01" + "14000000" + "010407000000" + "00",
			hex.EncodeToString(NewPermissions{Refusal: galgo.CodeResourceNotFound, User: id(7)}.Append(nil))},
		{"create token", "01" + "026369" + "0500000000000000" + "ff" + strings.Repeat("00", 31),
			hex.EncodeToString(NewToken{Name: "ci", Expiry: 5, Hash: TokenHash{0xff}}.Append(nil))},
		{"create topic", "01" + "03000000" + "0174" + "020173" + // version, partitions, name, stream
			"01010000" + "00040000" + "ffffffffffffffff" + "ffffffffffffffff" + "0000004000000000" + "0000100000000000" + "00000000",
			hex.EncodeToString(topic)},
		{"join", "020173" + "020174" + "0104" + "05000000" + // stream, topic, group
			"01000000" + "02000000" + "05000000" + "0900000000000000" + "02000000" + "00000000" + "07000000", // the group, its generation, busy partitions
			hex.EncodeToString(appendBusy(join, Busy{1, 2, 5, 9, []uint32{0, 7}}))},
		{"complete revocation", "01" + "01000000" + "02000000" + "05000000" + "01000000" + // version, stream, topic, group, count
			"01000000000000000000000000000000" + "07000000" + "e803000000000000", // client, partition, since
			hex.EncodeToString(Completion{1, 2, 5, []HandOver{{clientID(1), 7, 1000}}}.Encode())},
		{"truncate partition", "020173" + "020174" + "03000000" + "02000000" + // the request
			"0900000000000000" + "0100000000000000" + "6400000000000000" + "e803000000000000", // group, generation, below, until
			hex.EncodeToString(Truncation{wire.DeleteSegmentsRequest{Stream: name("s"), Topic: name("t"), PartitionID: 3, Segments: 2}, 9, 1, 100, 1000}.Append(nil))},
		{"member", "01000000" + "02000000000000000000000000000000" + // id, client
			"02000000" + "03000000" + "00000000" + // partitions
			"01000000" + "00000000" + "04000000" + "e803000000000000", // on their way: partition, to, since
			hex.EncodeToString(appendMember(nil, &Member{1, clientID(2), []uint32{3, 0}, []Revocation{{0, 4, 1000}}}))},
	} {
		if tt.got != tt.want {
			t.Errorf("%s encodes to\n%s, want\n%s", tt.name, tt.got, tt.want)
		}
	}
}

func TestSnapshotCutShort(t *testing.T) {
	state, clients := golden(t, "state.v1.hex"), golden(t, "clients.v1.hex")
	for n := range state {
		if _, err := Decode(state[:n], clients); err == nil {
			t.Fatalf("%d of %d bytes of the state decode", n, len(state))
		}
	}
	for n := range clients {
		if _, err := Decode(state, clients[:n]); !errors.Is(err, ErrTruncated) {
			t.Fatalf("%d of %d bytes of the client table: %v, want %v", n, len(clients), err, ErrTruncated)
		}
	}
	if _, err := Decode(append(slices.Clone(state), 0), clients); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a byte behind the state: %v", err)
	}
	if _, err := Decode(state, append(slices.Clone(clients), 0)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a byte behind the client table: %v", err)
	}
}

func TestSnapshotOfAnotherVersion(t *testing.T) {
	state, clients := golden(t, "state.v1.hex"), golden(t, "clients.v1.hex")
	if _, err := Decode([]byte{2}, clients); !errors.Is(err, ErrVersion) {
		t.Errorf("state of version 2: %v, want %v before anything else is looked at", err, ErrVersion)
	}
	if _, err := Decode(state, []byte{0, 1, 2}); !errors.Is(err, ErrVersion) {
		t.Errorf("client table of version 0: %v, want %v", err, ErrVersion)
	}
}

// changedClient encodes the golden table with the first client changed.
func changedClient(t *testing.T, f func(*Client)) (stateBytes, clients []byte) {
	r := goldenRig(t)
	r.change(func(s *state) {
		old, _ := s.clients.get(0)
		c := *old
		c.Replies = slices.Clone(old.Replies)
		f(&c)
		s.clients.set(0, &c)
	})
	return r.m.View().EncodeState(), r.m.View().EncodeClients()
}

func TestClientTableRefusals(t *testing.T) { // T-07, T-25
	for _, tt := range []struct {
		name   string
		change func(*Client)
		want   error
	}{
		{"slot past the largest table", func(c *Client) { c.Slot = ClientsMax }, ErrSlotRange},
		{"slot taken", func(c *Client) { c.Slot = 1 }, ErrDuplicateSlot},
		{"slots not sorted", func(c *Client) { c.Slot = 9 }, ErrCorrupt},
		{"client id taken", func(c *Client) { c.ID = clientID(2) }, ErrDuplicateClient},
		{"client id zero", func(c *Client) { c.ID = clientID(0) }, ErrCorrupt},
		{"epoch zero", func(c *Client) { c.Epoch = 0 }, ErrCorrupt},
		{"epoch above the last commit", func(c *Client) { c.Epoch = 99 }, ErrCorrupt},
		{"commit above the state", func(c *Client) { c.LatestCommit = 99; c.Replies[4].Op = 99 }, ErrCorrupt},
		{"user who is not there", func(c *Client) { c.User = 9 }, ErrCorrupt},
		{"user who is younger", func(c *Client) { c.User = 3 }, ErrCorrupt},
		{"no reply", func(c *Client) { c.Replies = nil }, ErrReply},
		{"six replies", func(c *Client) { c.Replies = append(c.Replies, c.Replies[0]) }, ErrReply},
		{"ops not sorted", func(c *Client) { c.Replies[0].Op = 50 }, ErrReply},
		{"requests not sorted", func(c *Client) { c.Replies[0].Request = 50 }, ErrReply},
		{"last op is not the last commit", func(c *Client) { c.LatestCommit-- }, ErrReply},
		{"last request is not the watermark", func(c *Client) { c.Watermark++ }, ErrReply},
		{"number 0 of a request", func(c *Client) { c.Replies[0].Request = 0 }, ErrReply},
		{"register with a number", func(c *Client) { c.Replies[0].Operation = wire.OperationRegister }, ErrReply},
		{"register of another epoch", func(c *Client) {
			c.Replies[0].Operation, c.Replies[0].Request, c.Replies[0].body = wire.OperationRegister, 0, nil
		}, ErrReply},
		{"body too long", func(c *Client) { c.Replies[0].body = make([]byte, ReplyMax+1) }, ErrReply},
		{"too many partitions", func(c *Client) { c.Replies[4].partitions = 1001 }, ErrReply},
		{"partitions of another operation", func(c *Client) { c.Replies[0].partitions = 1 }, ErrReply},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Decode(changedClient(t, tt.change)); !errors.Is(err, tt.want) {
				t.Errorf("decodes with %v, want %v", err, tt.want)
			}
		})
	}
}

func TestTableLargerThanTheSetting(t *testing.T) {
	r := goldenRig(t)
	r.change(func(s *state) { s.settings.ClientsMax = 2 })
	restored(t, r.m)
	clients := r.m.View().EncodeClients()
	b := golden(t, "state.v1.hex")
	le.PutUint32(b[34:], 1) // below the least
	if _, err := Decode(b, clients); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a setting out of its bounds: %v", err)
	}
	le.PutUint32(clients[1:], 5)
	if _, err := Decode(golden(t, "state.v1.hex"), clients); !errors.Is(err, ErrCorrupt) {
		t.Errorf("five sessions in a table of four: %v", err)
	}
}

func TestStateRefusals(t *testing.T) {
	stream := func(s *state, id uint32) *Stream { e, _ := s.streams.get(id); return e }
	topic := func(s *state, id uint32) *Topic { e, _ := s.topics.get(keyOfTopic(0, id)); return e }
	partition := func(s *state) *Partition { e, _ := s.partitions.get(0); return e }
	group := func(s *state) *ConsumerGroup { e, _ := s.groups.get(0); return e }
	user := func(s *state, id uint32) *User { e, _ := s.users.get(id); return e }
	token := func(s *state, name string) *Token { e, _ := s.tokens.get(keyOfToken(RootUser, name)); return e }
	for _, tt := range []struct {
		name   string
		change func(*state)
	}{
		{"no root", func(s *state) { s.users.delete(RootUser) }},
		{"root before bootstrap", func(s *state) { s.rooted = false; s.settings = Settings{} }},
		{"settings before bootstrap", func(s *state) { s.rooted = false; s.users.delete(0); s.users.delete(3) }},
		{"users not sorted", func(s *state) { user(s, 0).ID = 9 }},
		{"user name taken", func(s *state) { user(s, 3).Name = "iggy" }},
		{"user name short", func(s *state) { user(s, 3).Name = "ab" }},
		{"user id high", func(s *state) { user(s, 3).ID = UsersMax }},
		{"user of no op", func(s *state) { user(s, 3).Born = 0 }},
		{"password older than its user", func(s *state) { user(s, 3).PasswordOp-- }},
		{"password of the future", func(s *state) { user(s, 3).PasswordOp = s.applied + 1 }},
		{"user before bootstrap", func(s *state) {
			s.rooted = false
			s.settings = Settings{}
			s.users.delete(0)
			s.clients.delete(0)
			s.clients.delete(1)
		}},
		{"root inactive", func(s *state) { user(s, 0).Active = false }},
		{"sessions of the future", func(s *state) { user(s, 3).SessionsFrom = s.applied + 1 }},
		{"session kept that is none of before", func(s *state) { user(s, 3).SessionsFrom, user(s, 3).Kept = 2, 3 }},
		{"session that was ended", func(s *state) { user(s, 0).SessionsFrom = 3 }},
		{"tokens not sorted", func(s *state) { token(s, "tmp").Name = "a" }},
		{"token name taken", func(s *state) { token(s, "tmp").Name = "ci" }},
		{"token name empty", func(s *state) { token(s, "ci").Name = "" }},
		{"token hash taken", func(s *state) { token(s, "tmp").Hash = token(s, "ci").Hash }},
		{"token older than its user", func(s *state) { token(s, "ci").Op = 1 }},
		{"token of the future", func(s *state) { token(s, "ci").Op = s.applied + 1 }},
		{"too few tokens", func(s *state) { user(s, 0).Tokens-- }},
		{"no password", func(s *state) { user(s, 3).PasswordHash = "" }},
		{"permissions not sorted", func(s *state) { slices.Reverse(user(s, 3).Permissions.Streams) }},
		{"permissions twice", func(s *state) { user(s, 3).Permissions.Streams[0].StreamID = 7 }},
		{"streams not sorted", func(s *state) { stream(s, 1).ID = 0 }},
		{"stream id high", func(s *state) { stream(s, 1).ID = StreamsMax }},
		{"stream name taken", func(s *state) { stream(s, 1).Name = "s" }},
		{"stream name empty", func(s *state) { stream(s, 1).Name = "" }},
		{"stream name not UTF-8", func(s *state) { stream(s, 1).Name = "\xff" }},
		{"topics not sorted", func(s *state) { topic(s, 1).ID = 0 }},
		{"topic id high", func(s *state) { topic(s, 1).ID = TopicsMax }},
		{"topic name taken", func(s *state) { topic(s, 1).Name = "t" }},
		{"too few topics", func(s *state) { stream(s, 0).Topics = 1 }},
		{"group zero", func(s *state) { partition(s).Group = 0 }},
		{"group not given out", func(s *state) { partition(s).Group = s.nextGroup }},
		{"group taken", func(s *state) { partition(s).Group = 2 }},
		{"revision of the future", func(s *state) { partition(s).CreatedRevision = s.revision + 1 }},
		{"consumer group not given out", func(s *state) { group(s).ID = 1 }},
		{"consumer group ids above 32 bits", func(s *state) { topic(s, 0).NextConsumerGroup = ConsumerGroupsMax + 1 }},
		{"too few partitions", func(s *state) { topic(s, 0).Partitions = 1 }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := goldenRig(t)
			r.createStream("z")
			r.change(tt.change)
			m, err := Decode(r.m.View().EncodeState(), r.m.View().EncodeClients())
			if err == nil {
				t.Errorf("decodes to\n%s", dumpView(m.View()))
			}
		})
	}
}

// A count is no promise: nothing is allocated for records that cannot be there.
func TestHugeCountsAreRefused(t *testing.T) {
	state := golden(t, "state.v1.hex")
	le.PutUint32(state[42:], UsersMax)
	if _, err := Decode(state, nil); !errors.Is(err, ErrTruncated) {
		t.Errorf("2^20 users in %d bytes: %v", len(state), err)
	}
	clients := golden(t, "clients.v1.hex")
	le.PutUint32(clients[1:], 1<<31)
	if _, err := Decode(golden(t, "state.v1.hex"), clients); !errors.Is(err, ErrCorrupt) {
		t.Errorf("2^31 clients in %d bytes: %v", len(clients), err)
	}
}

func FuzzDecodeState(f *testing.F) {
	f.Add(golden(f, "state.v1.hex"))
	f.Add(New().View().EncodeState())
	f.Fuzz(func(t *testing.T, state []byte) {
		m := New()
		if err := m.s.decodeState(state); err != nil {
			return
		}
		if got := m.View().EncodeState(); !bytes.Equal(got, state) {
			t.Fatalf("the state encodes to\n%x after decoding\n%x", got, state)
		}
		for s := range m.View().Streams() {
			m.View().StreamDetails(s, noStats{}).Append(nil)
		}
	})
}

func FuzzDecodeClients(f *testing.F) {
	state := golden(f, "state.v1.hex")
	f.Add(golden(f, "clients.v1.hex"))
	f.Add(New().View().EncodeClients())
	f.Fuzz(func(t *testing.T, clients []byte) {
		m, err := Decode(state, clients)
		if err != nil {
			return
		}
		if got := m.View().EncodeClients(); !bytes.Equal(got, clients) {
			t.Fatalf("the client table encodes to\n%x after decoding\n%x", got, clients)
		}
	})
}

func FuzzDecodeBodies(f *testing.F) {
	f.Add(newTopic{Stream: name("s"), Partitions: 3, Name: "t", Options: wire.DefaultTopicOptions()}.encode())
	bootstrap, _ := Bootstrap{Username: "iggy", PasswordHash: "$h", Settings: Settings{ClientsMax: 8192}}.Encode()
	f.Add(bootstrap)
	configure, _ := Configure{Settings{ClientsMax: 2}}.Encode()
	f.Add(configure)
	f.Add(Credential{CredentialToken, 7, Home{2, 9}}.Append(nil))
	f.Add(Departure{Home{2, 9}, 7}.Encode())
	f.Add(NewUser{Username: "ann", PasswordHash: "$h", Permissions: scoped()}.Append(nil))
	f.Add(NewUser{Refusal: galgo.CodeUnauthorized, Username: "ann"}.Append(nil))
	f.Add(NewPassword{Verified: 9, User: name("ann"), PasswordHash: "$h"}.Append(nil))
	f.Add(NewPassword{Refusal: galgo.CodeInvalidCredentials, User: id(3)}.Append(nil))
	f.Add(NewPermissions{User: name("ann"), Permissions: scoped()}.Append(nil))
	f.Add(NewPermissions{Refusal: galgo.CodeUnauthorized, User: id(3)}.Append(nil))
	f.Add(NewToken{Name: "ci", Expiry: 5, Hash: TokenHash{0xff}}.Append(nil))
	f.Fuzz(func(t *testing.T, body []byte) {
		encodesBack(t, body, DecodeCredential)
		encodesBack(t, body, DecodeNewUser)
		encodesBack(t, body, DecodeNewPassword)
		encodesBack(t, body, DecodeNewPermissions)
		encodesBack(t, body, DecodeNewToken)
		if n, err := decodeNewTopic(body); err == nil && !bytes.Equal(n.encode(), body) {
			t.Fatalf("%+v encodes to %x after decoding %x", n, n.encode(), body)
		}
		if o, err := DecodeBootstrap(body); err == nil {
			if got, err := o.Encode(); err != nil || !bytes.Equal(got, body) {
				t.Fatalf("%+v encodes to %x, %v after decoding %x", o, got, err, body)
			}
		}
		if o, err := DecodeConfigure(body); err == nil {
			if got, err := o.Encode(); err != nil || !bytes.Equal(got, body) {
				t.Fatalf("%+v encodes to %x, %v after decoding %x", o, got, err, body)
			}
		}
	})
}

// encodesBack wants what a decoder accepts to encode to what it accepted.
func encodesBack[T wire.Body](t *testing.T, body []byte, decode func([]byte) (T, error)) {
	t.Helper()
	if v, err := decode(body); err == nil && !bytes.Equal(v.Append(nil), body) {
		t.Fatalf("%+v encodes to %x after decoding %x", v, v.Append(nil), body)
	}
}

// Any one byte changed is refused, or is another snapshot that some machine could
// have written: then it encodes to itself.
func TestEachByteChanged(t *testing.T) {
	state, clients := golden(t, "state.v1.hex"), golden(t, "clients.v1.hex")
	try := func(what string, state, clients []byte) {
		m, err := Decode(state, clients)
		if err != nil {
			return
		}
		if !bytes.Equal(m.View().EncodeState(), state) || !bytes.Equal(m.View().EncodeClients(), clients) {
			t.Fatalf("%s: accepted, and encodes to other bytes", what)
		}
	}
	for _, change := range []byte{1, 2, 4, 0x10, 0x80, 0xff} {
		for n := range state {
			state[n] ^= change
			try(fmt.Sprintf("byte %d of the state ^ %#x", n, change), state, clients)
			state[n] ^= change
		}
		for n := range clients {
			clients[n] ^= change
			try(fmt.Sprintf("byte %d of the clients ^ %#x", n, change), state, clients)
			clients[n] ^= change
		}
	}
}
