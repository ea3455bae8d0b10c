package cli

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"galgo"
	"galgo/client/clienttest"
	"galgo/internal/config"
	"galgo/internal/wire"
)

var update = flag.Bool("update", false, "write the golden files anew")

// result is what a command left behind.
type result struct {
	status         int
	stdout, stderr string
}

// run runs galgo with args, its environment and what it reads.
func run(args []string, environ []string, stdin string) result {
	var out, errs bytes.Buffer
	status := Run(context.Background(), Program{
		Args: append([]string{"galgo"}, args...), Environ: environ,
		Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &errs,
	})
	return result{status, out.String(), errs.String()}
}

// golden compares what a command line does with its file.
func golden(t *testing.T, args []string, r result) {
	t.Helper()
	got := fmt.Sprintf("$ galgo %s\nexit %d\n--- stdout\n%s--- stderr\n%s", strings.Join(args, " "), r.status, r.stdout, r.stderr)
	name := filepath.Join("testdata", strings.ReplaceAll(t.Name(), "/", "_")+".golden")
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatalf("%v; write it with go test ./internal/cli -update", err)
	}
	if got != string(want) {
		t.Fatalf("%s differs; write it anew with -update and look at the change\n--- got\n%s--- want\n%s", name, got, want)
	}
}

// start runs a scripted server that has one of everything.
func start(t *testing.T) (s *clienttest.Server, environ []string) {
	t.Helper()
	s = clienttest.New()
	t.Cleanup(s.Close)
	addr, err := s.Listen()
	if err != nil {
		t.Fatal(err)
	}
	furnish(s)
	return s, []string{"GALGO_ADDRESS=" + addr}
}

const someTime = 1_700_000_000_000_000 // 2023-11-14T22:13:20Z

func furnish(s *clienttest.Server) {
	script := func(c wire.Command, payload []byte) { s.Script(c, clienttest.OK(payload)) }
	connection := wire.ClientInfo{ClientID: 7, UserID: 0, Transport: wire.TransportTCP, Address: "127.0.0.1:50000", GroupsCount: 1}
	script(wire.CommandGetMe, wire.ClientDetails{ClientInfo: connection, Groups: []wire.GroupMembership{{StreamID: 1, TopicID: 2, GroupID: 3}}}.Append(nil))
	script(wire.CommandGetClient, wire.ClientDetails{ClientInfo: connection, Groups: []wire.GroupMembership{{StreamID: 1}}}.Append(nil))
	script(wire.CommandGetClients, wire.AppendClients(nil, []wire.ClientInfo{connection, {ClientID: 8, UserID: wire.UserIDNone, Transport: wire.TransportTCP, Address: "[::1]:1"}}))
	script(wire.CommandGetStats, wire.Stats{ProcessID: 9, StartTime: someTime, RunTime: 61_000_000, CPUUsage: 1.5, Hostname: "host", OSName: "linux", MessagesCount: 10, ServerVersion: "0.9.0"}.Append(nil))
	script(wire.CommandGetClusterMetadata, wire.ClusterMetadata{Name: "single-node", Nodes: []wire.ClusterNode{{Name: "iggy-node", Address: "127.0.0.1", TCP: 8090, QUIC: 8080, HTTP: 3000, WebSocket: 8092}}}.Append(nil))
	script(wire.CommandDescribeOptions, wire.AppendOptionDescriptions(nil, []wire.OptionDescription{{Key: "segment_size", Default: galgo.Uint64Value(1 << 30), Description: "bytes of a segment"}}))
	stream := wire.StreamInfo{ID: 1, CreatedAt: someTime, Size: 300, MessagesCount: 3, Name: "orders"}
	odd := wire.StreamInfo{ID: 2, CreatedAt: someTime, Name: "a\tb\x1b[31m\xff"[:7]}
	script(wire.CommandCreateStream, stream.Append(nil))
	script(wire.CommandGetStream, stream.Append(nil))
	script(wire.CommandGetStreams, wire.AppendStreams(nil, []wire.StreamInfo{stream, odd}))
	topic := topicDetails()
	script(wire.CommandCreateTopic, topic.Append(nil))
	script(wire.CommandGetTopic, topic.Append(nil))
	script(wire.CommandGetTopics, wire.AppendTopics(nil, []wire.TopicInfo{topic.TopicInfo}))
	script(wire.CommandGetConsumerOffset, wire.ConsumerOffset{PartitionID: 1, CurrentOffset: 9, StoredOffset: 4}.Append(nil))
	for _, c := range []wire.Command{
		wire.CommandUpdateStream, wire.CommandDeleteStream, wire.CommandPurgeStream,
		wire.CommandUpdateTopic, wire.CommandDeleteTopic, wire.CommandPurgeTopic,
		wire.CommandCreatePartitions, wire.CommandDeletePartitions, wire.CommandDeleteSegments,
		wire.CommandStoreConsumerOffset, wire.CommandDeleteConsumerOffset,
		wire.CommandJoinConsumerGroup, wire.CommandLeaveConsumerGroup, wire.CommandDeleteConsumerGroup,
	} {
		script(c, nil)
	}
	group := wire.ConsumerGroupDetails{GroupInfo: wire.GroupInfo{ID: 3, PartitionsCount: 2, MembersCount: 1, Name: "workers"}, Members: []wire.GroupMember{{ID: 0, Partitions: []uint32{0, 1}}}}
	script(wire.CommandGetConsumerGroup, group.Append(nil))
	script(wire.CommandCreateConsumerGroup, wire.ConsumerGroupDetails{GroupInfo: group.GroupInfo}.Append(nil))
	script(wire.CommandGetConsumerGroups, wire.AppendGroups(nil, []wire.GroupInfo{group.GroupInfo, {ID: 4, Name: "idle"}}))
	script(wire.CommandSyncConsumerGroup, wire.GroupAssignment{Generation: 1, Partitions: []uint32{1}}.Append(nil))
	script(wire.CommandPollMessages, polledMessages())
	base := uint64(0)
	s.Handle(wire.CommandSendMessages, func(r *clienttest.Request) clienttest.Answer {
		send, err := wire.DecodeSendMessagesRequest(r.Body)
		if err != nil || send.CheckBatch() != nil {
			return clienttest.Deny(galgo.CodeInvalidFormat)
		}
		base += uint64(send.MessagesCount)
		return clienttest.OK(wire.AppendSendConfirmations(nil, wire.SendConfirmation{
			StreamID: 1, TopicID: 5, PartitionID: send.Partitioning.PartitionID, BaseOffset: base - uint64(send.MessagesCount),
		}))
	})
}

func topicDetails() wire.TopicDetails {
	options := func(key string, v galgo.Value) wire.Options {
		o, err := wire.NewOptions([]galgo.Header{{Key: galgo.StringValue(key), Value: v}})
		if err != nil {
			panic(err)
		}
		return o
	}
	return wire.TopicDetails{
		TopicInfo: wire.TopicInfo{
			ID: 5, CreatedAt: someTime, PartitionsCount: 2, MessageExpiry: 7 * 24 * 3600 * 1_000_000, Compression: galgo.CompressionNone,
			MaxTopicSize: galgo.Never, Size: 300, MessagesCount: 3, Name: "events",
			Options: options("message_expiry", galgo.Uint64Value(604800000000)), DerivedOptions: options("enforce_fsync", galgo.BoolValue(false)),
		},
		Partitions: []wire.PartitionInfo{{ID: 0, CreatedAt: someTime, SegmentsCount: 1, CurrentOffset: 2, Size: 300, MessagesCount: 3}, {ID: 1, CreatedAt: someTime, SegmentsCount: 1}},
	}
}

func polledMessages() []byte {
	headers, err := wire.AppendUserHeaders(nil, []galgo.Header{{Key: galgo.StringValue("n"), Value: galgo.Uint32Value(7)}})
	if err != nil {
		panic(err)
	}
	messages := []galgo.Message{
		{ID: galgo.MessageID{1}, Timestamp: someTime, Payload: []byte("hello"), UserHeaders: headers},
		{ID: galgo.MessageID{2}, Timestamp: someTime + 1, Payload: []byte("\xff\x00")},
	}
	body, err := wire.AppendBatch(wire.PollPrefix{PartitionID: 1, CurrentOffset: 11, Count: 2}.Append(nil), messages)
	if err != nil {
		panic(err)
	}
	wire.Batch(body[wire.PollPrefixSize:]).Stamp(1, 10, someTime+5)
	return body
}

func TestCommands(t *testing.T) {
	lines := []string{
		"me", "me -o json", "stats", "stats --output json", "client list", "client list -o json", "c g 7", "cluster metadata", "cl m -o json",
		"options topic", "options topic -o json",
		"stream create orders", "stream list", "s l -o json", "stream get orders -o json", "stream update orders x", "stream delete 1", "stream purge 1 -q",
		"topic create orders events 2", "topic list orders", "t l orders -o json", "topic get orders events", "topic get orders events -o json",
		"topic update orders events events none 7 days -m 10GiB --set enforce_fsync=true", "topic delete orders events", "topic purge orders events",
		"partition create orders events 2", "partition delete orders events 1", "p l orders events", "partition list orders events -o json", "segment delete orders events 0 1",
		"message send orders events hello world", "message send orders events -p 1 -H n:uint32:7 hello", "m s orders events --message-key k hello -o json",
		"message poll orders events 1 --first -m 10", "message poll orders events 1 --offset 10 -m 10 -s", "message poll orders events 1 -n -a -c worker --output json",
		"message poll orders events --group workers -m 100 -a", "message poll orders events 0 -g 3 -o 4",
		"group create orders events workers", "group list orders events", "g l orders events -o json", "consumer-group get orders events workers",
		"group get orders events 3 -o json", "group delete orders events workers",
		"offset get 1 orders events 1", "consumer-offset get worker orders events 1 -k consumer -o json", "offset set 1 orders events 1 4", "o d 1 orders events 1",
		"version -o json",
	}
	for _, line := range lines {
		t.Run(strings.NewReplacer(" ", "_", "-", "", "/", "", "=", "_", ":", "_").Replace(line), func(t *testing.T) {
			_, environ := start(t)
			args := strings.Fields(line)
			r := run(args, environ, "")
			r.stdout = strings.ReplaceAll(r.stdout, runtimeVersion(), "GOVERSION")
			golden(t, args, r)
		})
	}
}

func TestSendReadsStdin(t *testing.T) {
	s, environ := start(t)
	r := run([]string{"message", "send", "orders", "events", "-p", "0"}, environ, "one\r\n\ntwo\nthree")
	if r.status != 0 {
		t.Fatalf("exit %d: %s", r.status, r.stderr)
	}
	var got []string
	for _, q := range s.Requests(wire.CommandSendMessages) {
		send, _ := wire.DecodeSendMessagesRequest(q.Body)
		for it := send.Batch.Frames(); it.Next(); {
			got = append(got, string(it.Frame().Payload()))
		}
	}
	if strings.Join(got, "|") != "one|two|three" {
		t.Fatalf("sent %q, want one, two and three", got)
	}
	if !strings.Contains(r.stdout, "0            3") {
		t.Fatalf("report %q, want 3 messages from offset 0", r.stdout)
	}
}

func TestSendAFileAndPollIntoOne(t *testing.T) {
	s, environ := start(t)
	in, out := filepath.Join(t.TempDir(), "in"), filepath.Join(t.TempDir(), "out")
	if err := os.WriteFile(in, []byte("a\nb"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := run([]string{"message", "send", "orders", "events", "--input-file", in}, environ, ""); r.status != 0 {
		t.Fatalf("send: exit %d: %s", r.status, r.stderr)
	}
	send, _ := wire.DecodeSendMessagesRequest(s.Requests(wire.CommandSendMessages)[0].Body)
	if it := send.Batch.Frames(); !it.Next() || string(it.Frame().Payload()) != "a\nb" {
		t.Fatalf("sent %q", it.Frame().Payload())
	}
	if r := run([]string{"message", "poll", "orders", "events", "1", "-f", "-m", "9", "--output-file", out}, environ, ""); r.status != 0 {
		t.Fatalf("poll: exit %d: %s", r.status, r.stderr)
	}
	if b, err := os.ReadFile(out); err != nil || string(b) != "hello\xff\x00" {
		t.Fatalf("file holds %q, %v", b, err)
	}
}

func TestPing(t *testing.T) {
	s, environ := start(t)
	r := run([]string{"ping", "-c", "3", "-o", "json"}, environ, "")
	if r.status != 0 || strings.Count(r.stdout, ",") < 4 || len(s.Requests(wire.CommandPing)) != 3 || len(s.Requests(wire.CommandLoginRegister)) != 0 {
		t.Fatalf("exit %d, %q, %d pings, want 3 and no sign-in", r.status, r.stdout, len(s.Requests(wire.CommandPing)))
	}
}

func TestExitStatus(t *testing.T) {
	deny := func(c galgo.Code) clienttest.Answer { return clienttest.Deny(c) }
	cases := []struct {
		name   string
		answer clienttest.Answer
		want   Exit
	}{
		{"done", clienttest.OK(nil), ExitOK},
		{"not found", clienttest.Reject(galgo.CodeStreamIDNotFound), ExitNotFound},
		{"denied", deny(galgo.CodeUnauthorized), ExitDenied},
		{"already", clienttest.Reject(galgo.CodeStreamNameAlreadyExists), ExitExists},
		{"other", clienttest.Reject(galgo.CodeTooManyStreams), ExitError},
		{"outcome unknown", clienttest.Reject(galgo.CodeTransientNotCommitted), ExitUnknown},
		{"never accepted", clienttest.Reject(galgo.CodeTransientNotAccepted), ExitError},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			s, environ := start(t)
			s.Script(wire.CommandUpdateStream, tc.answer)
			if r := run([]string{"stream", "update", "1", "x", "--timeout", "200ms"}, environ, ""); r.status != int(tc.want) {
				t.Fatalf("exit %d, want %d: %s", r.status, tc.want, r.stderr)
			}
		})
	}
}

func TestExitStatusWithoutAServer(t *testing.T) {
	r := run([]string{"me", "-a", "127.0.0.1:1"}, nil, "")
	if r.status != int(ExitUnreachable) || !strings.Contains(r.stderr, "galgo server") || r.stdout != "" {
		t.Fatalf("exit %d, %q, want %d and how to start a server", r.status, r.stderr, ExitUnreachable)
	}
}

func TestExitStatusWhenRefused(t *testing.T) {
	s, environ := start(t)
	s.Script(wire.CommandLoginRegister, clienttest.Evict(wire.EvictionInvalidCredentials))
	if r := run([]string{"me"}, environ, ""); r.status != int(ExitDenied) || !strings.Contains(r.stderr, "--username") {
		t.Fatalf("exit %d, %q, want %d and what to give", r.status, r.stderr, ExitDenied)
	}
}

func TestExitStatusWhenInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var errs bytes.Buffer
	s := clienttest.New()
	defer s.Close()
	addr, err := s.Listen()
	if err != nil {
		t.Fatal(err)
	}
	if status := Run(ctx, Program{Args: []string{"galgo", "me", "-a", addr}, Stdout: io.Discard, Stderr: &errs}); status != int(ExitInterrupted) {
		t.Fatalf("exit %d, want %d: %s", status, ExitInterrupted, errs.String())
	}
}

func TestUsageErrors(t *testing.T) {
	lines := []string{
		"nonsense", "strem list", "stream nonsense", "stream create", "stream create a b", "me --nonsense", "stream get orders -x",
		"me -o xml", "client get x", "options nothing", "message poll orders events 0", "message poll orders events 0 -f -l",
		"message poll orders events x -f", "message poll orders events -f", "message send orders events -p 0 -m k hello", "message send orders events -H nonsense hello",
		"topic create orders events many", "topic create orders events 1 --set nonsense", "offset get 1 orders events 0 -k nothing",
		"ping -c 0", "bench producer --clients 0", "bench both -m 1000000 -b 1000", "me -u somebody -a 127.0.0.1:1", "me -a example.org:1",
		"me -t x -u y -a 127.0.0.1:1", "server --nonsense", "config --set nonsense=1",
	}
	for _, line := range lines {
		t.Run(strings.NewReplacer(" ", "_", "-", "", ":", "_", "=", "_").Replace(line), func(t *testing.T) {
			args := strings.Fields(line)
			golden(t, args, run(args, nil, ""))
		})
	}
}

func TestHelp(t *testing.T) {
	for _, line := range []string{"--help", "stream --help", "message poll --help", "message send --help", "bench producer --help", "server --help", "inspect wal --help"} {
		t.Run(strings.NewReplacer(" ", "_", "-", "").Replace(line), func(t *testing.T) {
			args := strings.Fields(line)
			golden(t, args, run(args, nil, ""))
		})
	}
}

func TestWithoutACommandHelpIsPrinted(t *testing.T) {
	if bare, asked := run(nil, nil, ""), run([]string{"--help"}, nil, ""); bare != asked || bare.status != 0 {
		t.Fatalf("exit %d and %q, want what --help prints", bare.status, bare.stdout)
	}
}

func TestCredentials(t *testing.T) {
	cases := []struct {
		name    string
		args    []string
		environ []string
		user    string
		token   string
	}{
		{"defaults on this machine", nil, nil, "iggy", ""},
		{"own variables", nil, []string{"GALGO_USERNAME=ann", "GALGO_PASSWORD=secret", "IGGY_USERNAME=bob", "IGGY_PASSWORD=other"}, "ann", ""},
		{"reference's variables", nil, []string{"IGGY_USERNAME=bob", "IGGY_PASSWORD=other"}, "bob", ""},
		{"flags win", []string{"-u", "eve", "-p", "secret"}, []string{"GALGO_USERNAME=ann", "GALGO_PASSWORD=secret", "GALGO_TOKEN=t"}, "eve", ""},
		{"flags before the command", nil, nil, "iggy", ""},
		{"token", []string{"--token", "t1"}, nil, "", "t1"},
		{"token variable", nil, []string{"GALGO_TOKEN=t2"}, "", "t2"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			s, environ := start(t)
			if r := run(append([]string{"me"}, tc.args...), append(environ, tc.environ...), ""); r.status != 0 {
				t.Fatalf("exit %d: %s", r.status, r.stderr)
			}
			login, err := wire.DecodeRegisterRequest(s.Requests(wire.CommandLoginRegister)[0].Body)
			switch {
			case err != nil:
				t.Fatal(err)
			case tc.token != "" && (login.Token == nil || login.Token.Token != tc.token):
				t.Fatalf("signed in by %+v, want token %s", login, tc.token)
			case tc.user != "" && (login.Password == nil || login.Password.Username != tc.user):
				t.Fatalf("signed in by %+v, want user %s", login, tc.user)
			}
		})
	}
}

func TestGlobalFlagsBeforeTheCommand(t *testing.T) {
	_, environ := start(t)
	r := run([]string{"-u", "iggy", "-p", "iggy", "-o", "json", "message", "poll", "orders", "events", "1", "-o", "10"}, environ, "")
	if r.status != 0 || !strings.HasPrefix(r.stdout, `{"offset":10`) {
		t.Fatalf("exit %d, %q, %q, want JSON from offset 10", r.status, r.stdout, r.stderr)
	}
}

func TestServerCommand(t *testing.T) {
	cases := []struct {
		args  []string
		check func(config.LoadInput) bool
	}{
		{[]string{"galgo", "server", "--config", "x.toml", "--set", "a=b", "--set", "c=d"}, func(in config.LoadInput) bool {
			return in.File == "x.toml" && strings.Join(in.Set, " ") == "a=b c=d" && len(in.Flags) == 0
		}},
		{[]string{"/usr/bin/iggy-server", "--fresh", "--with-default-root-credentials", "--replica-id", "0"}, func(in config.LoadInput) bool {
			return in.Flags["fresh"] == "true" && in.Flags["with-default-root-credentials"] == "true" && in.Flags["replica-id"] == "0" && in.File == ""
		}},
	}
	for _, tc := range cases {
		var got config.LoadInput
		failed := errors.New("failed")
		var errs bytes.Buffer
		status := Run(context.Background(), Program{
			Args: tc.args, Environ: []string{"GALGO_X=1"}, Stdout: io.Discard, Stderr: &errs,
			Server: func(_ context.Context, in config.LoadInput, _, _ io.Writer) error { got = in; return failed },
		})
		if status != int(ExitError) || !tc.check(got) || got.Env[0] != "GALGO_X=1" || len(got.OtherEnv) == 0 {
			t.Errorf("%v: exit %d with input %+v: %s", tc.args, status, got, errs.String())
		}
	}
}

func TestConfigCommand(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	r := run([]string{"config", "--set", "tcp.address=127.0.0.1:9999", "-o", "json"}, []string{"GALGO_ROOT_USERNAME=rooty", "GALGO_ROOT_PASSWORD=topsecret", "GALGO_USERNAME=not-a-key"}, "")
	if r.status != 0 || !strings.Contains(r.stdout, `{"key":"tcp.address","value":"127.0.0.1:9999","source":"--set"}`) || strings.Contains(r.stdout+r.stderr, "topsecret") {
		t.Fatalf("exit %d, %s, %s", r.status, r.stdout, r.stderr)
	}
	if sample := run([]string{"config", "--sample"}, nil, ""); sample.status != 0 || !strings.HasPrefix(sample.stdout, "#") {
		t.Fatalf("sample: exit %d, %.80q", sample.status, sample.stdout)
	}
}

func TestBenchAgainstAScript(t *testing.T) {
	_, environ := start(t)
	for _, line := range []string{"bench producer -n 25 -b 10 -m 8 -c 2 -q", "bench metadata -n 5 -c 2 -q"} {
		if r := run(strings.Fields(line+" -o json"), environ, ""); r.status != 0 || !strings.Contains(r.stdout, `"p99_ms"`) {
			t.Errorf("%s: exit %d, %s%s", line, r.status, r.stdout, r.stderr)
		}
	}
}
