package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// profile is what the commands remember between runs, of one person on one machine:
// contexts, which are servers with a name, and sessions, which are tokens that `galgo
// login` has made. It is a file that only its owner can read, in GALGO_HOME or ~/.galgo.
type profile struct {
	// Active is the context in use; empty: none.
	Active   string                    `json:"active,omitempty"`
	Contexts map[string]profileContext `json:"contexts,omitempty"`
	// Sessions are by the address of the server.
	Sessions map[string]profileSession `json:"sessions,omitempty"`
}

// profileContext is a server and as whom to sign in there. What is empty is looked for
// elsewhere.
type profileContext struct {
	Address  string `json:"address,omitempty"`
	Username string `json:"username,omitempty"`
	Password string `json:"password,omitempty"`
	Token    string `json:"token,omitempty"`
}

// profileSession is a token of its own, until it expires.
type profileSession struct {
	Token   string    `json:"token"`
	Expires time.Time `json:"expires_at,omitzero"` // zero: never
}

func (s *profileSession) holds(now time.Time) bool {
	return s.Token != "" && (s.Expires.IsZero() || now.Before(s.Expires))
}

const profileName = "profile.json"

// profilePath is where the profile is; empty if there is no place for one.
func (e *env) profilePath() string {
	if home := e.getenv("GALGO_HOME"); home != "" {
		return filepath.Join(home, profileName)
	}
	if home := e.getenv("HOME"); home != "" {
		return filepath.Join(home, ".galgo", profileName)
	}
	return ""
}

// profile reads the file; one that is not there is empty.
func (e *env) profile() (profile, error) {
	var p profile
	path := e.profilePath()
	if path == "" {
		return p, nil
	}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &p)
	}
	if err != nil {
		return p, fmt.Errorf("%s: %w; remove or mend the file", path, err)
	}
	return p, nil
}

// changeProfile reads the file, changes it, and writes it anew under another name first,
// so that it is never half.
func (e *env) changeProfile(change func(*profile) error) error {
	path := e.profilePath()
	if path == "" {
		return errors.New("no place to remember this: set GALGO_HOME or HOME")
	}
	p, err := e.profile()
	if err != nil {
		return err
	}
	if err := change(&p); err != nil {
		return err
	}
	b, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), profileName+".*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// context is the context in use; an empty one if there is none.
func (p *profile) context() profileContext { return p.Contexts[p.Active] }
