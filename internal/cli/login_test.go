package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"galgo"
	"galgo/client/clienttest"
	"galgo/internal/wire"
)

// home starts a scripted server and gives commands a place to remember things.
func home(t *testing.T) (s *clienttest.Server, address string, environ []string) {
	s, environ = start(t)
	furnishUsers(s)
	return s, strings.TrimPrefix(environ[0], "GALGO_ADDRESS="), []string{"GALGO_HOME=" + t.TempDir()}
}

func must(t *testing.T, environ []string, line string) result {
	t.Helper()
	r := run(strings.Fields(line), environ, "")
	if r.status != 0 {
		t.Fatalf("galgo %s: exit %d: %s", line, r.status, r.stderr)
	}
	return r
}

// lastLogin is as whom the server was last signed in at.
func lastLogin(t *testing.T, s *clienttest.Server) string {
	t.Helper()
	all := s.Requests(wire.CommandLoginRegister)
	_, rest, err := wire.DecodeClientVersion(all[len(all)-1].Body)
	if err != nil {
		t.Fatal(err)
	}
	password, token := wire.DecodeLogin(rest)
	if password != nil && password.Username != "" {
		return password.Username + ":" + password.Password
	}
	return "token " + token.Token
}

func TestLoginIsRemembered(t *testing.T) {
	s, address, environ := home(t)
	at := " -a " + address
	must(t, environ, "login 8h -u ann -p secret"+at)
	if got := lastLogin(t, s); got != "ann:secret" {
		t.Errorf("login by %s", got)
	}
	must(t, environ, "me"+at)
	if got := lastLogin(t, s); got != "token dG9rZW4=" {
		t.Errorf("after the login by %s, want its token", got)
	}
	must(t, environ, "me -u bob -p hidden"+at)
	if got := lastLogin(t, s); got != "bob:hidden" {
		t.Errorf("flags, and by %s", got)
	}
	if r := must(t, environ, "session status -o json"+at); !strings.Contains(r.stdout, `"active":true`) || strings.Contains(r.stdout, "dG9rZW4=") {
		t.Errorf("status %q", r.stdout)
	}
	if r := must(t, environ, "session status -a other:1 -o json"); !strings.Contains(r.stdout, `"active":false`) {
		t.Errorf("status elsewhere %q", r.stdout)
	}
	path := filepath.Join(strings.TrimPrefix(environ[0], "GALGO_HOME="), "profile.json")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info, err)
	}
	must(t, environ, "logout"+at)
	if deleted := s.Requests(wire.CommandDeleteToken); len(deleted) != 1 || lastLogin(t, s) != "token dG9rZW4=" {
		t.Errorf("%d tokens deleted, by %s", len(deleted), lastLogin(t, s))
	}
	must(t, environ, "me"+at)
	if got := lastLogin(t, s); got != "iggy:iggy" {
		t.Errorf("after the logout by %s", got)
	}
	if b, err := os.ReadFile(path); err != nil || strings.Contains(string(b), "dG9rZW4=") {
		t.Errorf("the file still has the token: %s, %v", b, err)
	}
}

// A login over one that was left behind replaces its token; a logout from one that is
// gone is done.
func TestLoginOverAnother(t *testing.T) {
	s, address, environ := home(t)
	s.Script(wire.CommandCreateToken, clienttest.Reject(galgo.CodePersonalAccessTokenAlreadyExists), clienttest.OK(wire.CreatedToken{Token: "second"}.Append(nil)))
	must(t, environ, "login -a "+address)
	if n := len(s.Requests(wire.CommandDeleteToken)); n != 1 {
		t.Errorf("%d tokens deleted, want the one of before", n)
	}
	s.Script(wire.CommandLoginRegister, clienttest.Evict(wire.EvictionInvalidToken))
	must(t, environ, "logout -a "+address)
	if r := must(t, environ, "session status -a "+address); !strings.Contains(r.stdout, "none") {
		t.Errorf("status %q", r.stdout)
	}
}

func TestContexts(t *testing.T) {
	s, address, environ := home(t)
	must(t, environ, "context create prod -u ann -p secret -a "+address)
	must(t, environ, "context create other -a other.example.org:1 -t raw-token")
	if r := must(t, environ, "ctx list -o json"); strings.Contains(r.stdout, "secret") || strings.Contains(r.stdout, "raw-token") || strings.Count(r.stdout, `"name"`) != 2 {
		t.Errorf("list %s", r.stdout)
	}
	must(t, environ, "context use prod")
	must(t, environ, "me")
	if got := lastLogin(t, s); got != "ann:secret" {
		t.Errorf("in the context by %s", got)
	}
	must(t, append(environ, "GALGO_PASSWORD=mine"), "me -u bob")
	if got := lastLogin(t, s); got != "bob:mine" {
		t.Errorf("with a flag by %s, want nothing of the context with it", got)
	}
	second, elsewhere, _ := home(t)
	must(t, environ, "me -a "+elsewhere)
	if got := lastLogin(t, second); got != "iggy:iggy" {
		t.Errorf("at another server by %s, want nothing of the context there", got)
	}
	if r := must(t, environ, "context show prod"); !strings.Contains(r.stdout, "ann") || strings.Contains(r.stdout, "secret") {
		t.Errorf("show %s", r.stdout)
	}
	must(t, environ, "context delete prod")
	must(t, append(environ, "GALGO_ADDRESS="+address), "me")
	if got := lastLogin(t, s); got != "iggy:iggy" {
		t.Errorf("without a context by %s", got)
	}
	must(t, environ, "context use default")
	for _, line := range []string{"context use prod", "context show prod", "context delete prod", "context create default", "context create a.b", "context create other"} {
		if r := run(strings.Fields(line), environ, ""); r.status == 0 {
			t.Errorf("%s is done", line)
		}
	}
}

func TestDamagedProfileIsNamed(t *testing.T) {
	_, address, environ := home(t)
	path := filepath.Join(strings.TrimPrefix(environ[0], "GALGO_HOME="), "profile.json")
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"me -a " + address, "login -a " + address, "context list"} {
		if r := run(strings.Fields(line), environ, ""); r.status != int(ExitError) || !strings.Contains(r.stderr, path) {
			t.Errorf("%s: exit %d: %s", line, r.status, r.stderr)
		}
	}
}
