package wire

import (
	"errors"
	"fmt"

	"galgo"
)

// What is wrong, for errors.Is.
var (
	// ErrUndecodable marks a body that does not decode; it carries
	// CodeInvalidCommand.
	ErrUndecodable = errors.New("wire: body does not decode")
	// ErrBatch marks a batch of messages that is not what it says; it carries
	// CodeInvalidFormat.
	ErrBatch = errors.New("wire: batch is damaged")
	// ErrHeader marks 256 bytes that are no header of the kind asked for; it
	// carries CodeInvalidCommand. Whoever sent it has lost the framing.
	ErrHeader = errors.New("wire: header is damaged")
)

var (
	invalidCommand = &galgo.Error{Code: galgo.CodeInvalidCommand}
	invalidFormat  = &galgo.Error{Code: galgo.CodeInvalidFormat}
)

// DecodeError tells where a body stopped making sense.
type DecodeError struct {
	Body   string // the request or reply
	Field  string
	Offset int // in bytes from the start of the body
	Reason string
}

// Error names body, field, offset and reason.
func (e *DecodeError) Error() string {
	return fmt.Sprintf("wire: %s: %s at byte %d: %s", e.Body, e.Field, e.Offset, e.Reason)
}

// Unwrap yields ErrUndecodable and a CodeInvalidCommand Error.
func (e *DecodeError) Unwrap() []error { return []error{ErrUndecodable, invalidCommand} }

// headerError is an ErrHeader with a reason.
type headerError struct{ reason string }

func headerErrorf(format string, args ...any) error {
	return &headerError{fmt.Sprintf(format, args...)}
}

func (e *headerError) Error() string   { return "wire: " + e.reason }
func (e *headerError) Unwrap() []error { return []error{ErrHeader, invalidCommand} }
