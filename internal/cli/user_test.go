package cli

import (
	"strings"
	"testing"

	"galgo"
	"galgo/client/clienttest"
	"galgo/internal/wire"
)

// furnishUsers gives a scripted server users and tokens.
func furnishUsers(s *clienttest.Server) {
	script := func(c wire.Command, payload []byte) { s.Script(c, clienttest.OK(payload)) }
	ann := wire.UserInfo{ID: 1, CreatedAt: someTime, Status: galgo.UserActive, Username: "ann"}
	rights := &galgo.Permissions{
		Global: galgo.GlobalPermissions{ReadStreams: true, PollMessages: true},
		Streams: []galgo.StreamPermissions{
			{StreamID: 1, ManageStream: true, Topics: []galgo.TopicPermissions{{TopicID: 2, SendMessages: true}, {TopicID: 3}}},
		},
	}
	details := wire.UserDetails{UserInfo: ann, Permissions: rights}.Append(nil)
	script(wire.CommandCreateUser, details)
	script(wire.CommandGetUser, details)
	script(wire.CommandGetUsers, wire.AppendUsers(nil, []wire.UserInfo{{CreatedAt: 1, Status: galgo.UserActive, Username: "iggy"}, ann}))
	script(wire.CommandCreateToken, wire.CreatedToken{Token: "dG9rZW4="}.Append(nil))
	script(wire.CommandGetTokens, wire.AppendTokens(nil, []wire.TokenInfo{{Name: "ci"}, {Name: "tmp", ExpiresAt: someTime}}))
	for _, c := range []wire.Command{
		wire.CommandUpdateUser, wire.CommandDeleteUser, wire.CommandChangePassword, wire.CommandUpdatePermissions, wire.CommandDeleteToken,
	} {
		script(c, nil)
	}
}

func TestUserCommands(t *testing.T) {
	for _, line := range []string{
		"user create ann secret -g r_str,p_msg -s 1:m_str#2:s_msg#3", "user list", "u l -o json", "user get ann", "user get 1 -o json",
		"user delete ann", "user name ann eve", "user status 1 inactive", "user password ann secret better", "user permissions ann -g manage_users",
		"pat create ci 30 days", "pat create ci -o json", "pat list", "pat l -o json", "pat delete ci tmp",
	} {
		t.Run(strings.NewReplacer(" ", "_", "-", "", ":", "_", "#", "_", ",", "_").Replace(line), func(t *testing.T) {
			s, environ := start(t)
			furnishUsers(s)
			args := strings.Fields(line)
			golden(t, args, run(args, environ, ""))
		})
	}
}

func TestUserUsageErrors(t *testing.T) {
	for _, line := range []string{
		"user create ann secret -g nonsense", "user create ann secret -s orders:m_str", "user create ann secret -s 1:r_usr", "user create ann secret -s 1#x",
		"user create ann secret -s 1 -s 1", "user create ann secret -s 1#2#2", "user create ann", "user create ann secret -u asleep", "user status ann asleep",
		"user password ann", "pat create", "pat create ci tomorrow",
	} {
		t.Run(strings.NewReplacer(" ", "_", "-", "", ":", "_", "#", "_").Replace(line), func(t *testing.T) {
			args := strings.Fields(line)
			golden(t, args, run(args, nil, ""))
		})
	}
}

func TestUserHelp(t *testing.T) {
	for _, line := range []string{"user --help", "user create --help", "pat create --help"} {
		t.Run(strings.NewReplacer(" ", "_", "-", "").Replace(line), func(t *testing.T) {
			args := strings.Fields(line)
			golden(t, args, run(args, nil, ""))
		})
	}
}

// What is typed is what is sent.
func TestRightsOfACommandLine(t *testing.T) {
	s, environ := start(t)
	furnishUsers(s)
	r := run(strings.Fields("user create ann secret -u inactive -g m_srv -g r_usr,send_messages -s 7:r_str,manage_topics -s 1#2:m_top,r_top#9:p_msg,s_msg"), environ, "")
	if r.status != 0 {
		t.Fatalf("exit %d: %s", r.status, r.stderr)
	}
	got, err := wire.DecodeCreateUserRequest(s.Requests(wire.CommandCreateUser)[0].Body)
	want := galgo.Permissions{
		Global: galgo.GlobalPermissions{ManageServers: true, ReadUsers: true, SendMessages: true},
		Streams: []galgo.StreamPermissions{
			{StreamID: 7, ReadStream: true, ManageTopics: true},
			{StreamID: 1, Topics: []galgo.TopicPermissions{{TopicID: 2, ManageTopic: true, ReadTopic: true}, {TopicID: 9, PollMessages: true, SendMessages: true}}},
		},
	}
	if err != nil || got.Username != "ann" || got.Password != "secret" || got.Status != galgo.UserInactive ||
		string(wire.AppendPermissions(nil, *got.Permissions)) != string(wire.AppendPermissions(nil, want)) {
		t.Errorf("sent %+v, %v, want %+v", got, err, want)
	}
	run(strings.Fields("user permissions ann"), environ, "")
	none, err := wire.DecodeUpdatePermissionsRequest(s.Requests(wire.CommandUpdatePermissions)[0].Body)
	if err != nil || none.Permissions != nil {
		t.Errorf("without flags it sends %+v, %v", none, err)
	}
	run(strings.Fields("pat create ci 1h 30m"), environ, "")
	token, err := wire.DecodeCreateTokenRequest(s.Requests(wire.CommandCreateToken)[0].Body)
	if err != nil || token.Name != "ci" || token.Expiry != 5_400_000_000 {
		t.Errorf("sent %+v, %v", token, err)
	}
}
