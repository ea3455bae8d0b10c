package metadata

import (
	"fmt"

	"galgo"
	"galgo/internal/wire"
)

// The operations that galgo proposes itself. A client that sends one of these
// bytes is refused at the edge, as the byte is not one of the protocol's.
const (
	// OperationBootstrap makes the root user and the settings of an empty state. It is the
	// first operation of a new cluster.
	OperationBootstrap wire.Operation = 96
	// OperationConfigure replaces the settings.
	OperationConfigure wire.Operation = 97
	// OperationDetach marks the session (Input.Client, Input.Session) as one whose
	// connection is lost. Its body is empty. A newer session is left alone.
	OperationDetach wire.Operation = 98
	// OperationSweepTokens removes personal access tokens that have expired by its
	// timestamp, the oldest first and TokensPerSweep at most. Its body is empty.
	OperationSweepTokens wire.Operation = 99
	// OperationDepart marks the sessions of a node that is gone, as OperationDetach does
	// of one session.
	OperationDepart wire.Operation = 100
)

// internalVersion opens the body of each operation that galgo makes itself.
const internalVersion = 1

// Bootstrap is the body of OperationBootstrap.
//
//	off  size   field
//	  0     1   version       1
//	  1     4   clients_max   2..65536
//	  5     4   tokens_max    0..65536
//	  9     1   username      length, 3..50
//	 10     n   username      UTF-8
//	10+n    2   password      length of the hash, 1..512
//	12+n    m   password      encoded argon2id hash
type Bootstrap struct {
	Username     string
	PasswordHash string // encoded; made by the proposer, since it needs a random salt
	Settings     Settings
}

// Encode returns the body. It returns an error that names the field if a value is
// out of its bounds.
func (o Bootstrap) Encode() ([]byte, error) {
	if n := len(o.Username); n < UsernameMin || n > UsernameMax {
		return nil, fmt.Errorf("metadata: name of the root user has %d bytes, want %d..%d", n, UsernameMin, UsernameMax)
	}
	if err := galgo.ValidateName(o.Username); err != nil {
		return nil, fmt.Errorf("metadata: name of the root user: %w", err)
	}
	if n := len(o.PasswordHash); n < 1 || n > PasswordHashMax {
		return nil, fmt.Errorf("metadata: password hash of the root user has %d bytes, want 1..%d", n, PasswordHashMax)
	}
	if err := o.Settings.Validate(); err != nil {
		return nil, err
	}
	b := o.Settings.append([]byte{internalVersion})
	b = appendName(b, o.Username)
	return appendHash(b, o.PasswordHash), nil
}

// DecodeBootstrap reads the body of OperationBootstrap.
func DecodeBootstrap(body []byte) (Bootstrap, error) {
	r := reader{part: "bootstrap body", b: body}
	r.version(internalVersion)
	o := Bootstrap{Settings: r.settings()}
	o.Username = r.name(UsernameMin, UsernameMax)
	o.PasswordHash = r.passwordHash()
	return o, r.end()
}

// Configure is the body of OperationConfigure.
//
//	off  size   field
//	  0     1   version       1
//	  1     4   clients_max   2..65536
//	  5     4   tokens_max    0..65536
type Configure struct {
	Settings Settings
}

// Encode returns the body, or an error that names the setting out of its bounds.
func (o Configure) Encode() ([]byte, error) {
	if err := o.Settings.Validate(); err != nil {
		return nil, err
	}
	return o.Settings.append([]byte{internalVersion}), nil
}

// DecodeConfigure reads the body of OperationConfigure.
func DecodeConfigure(body []byte) (Configure, error) {
	r := reader{part: "configure body", b: body}
	r.version(internalVersion)
	o := Configure{Settings: r.settings()}
	return o, r.end()
}

// Validate returns an error that names the setting out of its bounds.
func (s Settings) Validate() error {
	if s.ClientsMax < ClientsMin || s.ClientsMax > ClientsMax {
		return fmt.Errorf("metadata: clients_table_max is %d, want %d..%d", s.ClientsMax, ClientsMin, ClientsMax)
	}
	if s.TokensMax > TokensMax {
		return fmt.Errorf("metadata: max_tokens_per_user is %d, want 0..%d", s.TokensMax, TokensMax)
	}
	return nil
}

func (s Settings) append(b []byte) []byte {
	return le.AppendUint32(le.AppendUint32(b, s.ClientsMax), s.TokensMax)
}

func (r *reader) settings() Settings {
	s := Settings{ClientsMax: r.u32(), TokensMax: r.u32()}
	if err := s.Validate(); r.err == nil && err != nil {
		r.fail(ErrCorrupt, "%v", err)
	}
	return s
}

// appendHash appends an encoded password hash, 1..PasswordHashMax bytes.
func appendHash(b []byte, hash string) []byte {
	return append(le.AppendUint16(b, uint16(len(hash))), hash...)
}

func (r *reader) passwordHash() string {
	n := r.u16()
	if r.err == nil && (n < 1 || n > PasswordHashMax) {
		r.fail(ErrCorrupt, "password hash has %d bytes, want 1..%d", n, PasswordHashMax)
	}
	return string(r.bytes(uint64(n)))
}
