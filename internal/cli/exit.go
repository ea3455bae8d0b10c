package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"

	"galgo"
	"galgo/client"
)

// Exit is the exit status of galgo.
type Exit int

// The exit statuses. A number keeps its meaning.
const (
	ExitOK          Exit = 0
	ExitError       Exit = 1 // anything that has no status of its own; inspect: damage
	ExitUsage       Exit = 2 // the command line or the configuration is wrong
	ExitNotFound    Exit = 3 // a stream, topic, partition, offset or client does not exist
	ExitDenied      Exit = 4 // not signed in, or not allowed
	ExitUnreachable Exit = 5 // no connection to a server
	ExitUnknown     Exit = 6 // it may have been done or not: look before doing it again
	ExitExists      Exit = 7 // the name is taken
	ExitInterrupted Exit = 130
)

// errUsage marks what the user can put right on the command line.
var errUsage = errors.New("usage")

type usageError struct{ text string }

func (e *usageError) Error() string        { return e.text }
func (e *usageError) Is(target error) bool { return target == errUsage }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// exitCodes has the statuses of codes that are not just ExitError.
var exitCodes = map[galgo.Code]Exit{
	galgo.CodeResourceNotFound:               ExitNotFound,
	galgo.CodeClientNotFound:                 ExitNotFound,
	galgo.CodeStreamIDNotFound:               ExitNotFound,
	galgo.CodeTopicIDNotFound:                ExitNotFound,
	galgo.CodePartitionNotFound:              ExitNotFound,
	galgo.CodeConsumerOffsetNotFound:         ExitNotFound,
	galgo.CodeConsumerGroupIDNotFound:        ExitNotFound,
	galgo.CodeUnauthenticated:                ExitDenied,
	galgo.CodeUnauthorized:                   ExitDenied,
	galgo.CodeInvalidCredentials:             ExitDenied,
	galgo.CodeInvalidPersonalAccessToken:     ExitDenied,
	galgo.CodeStreamNameAlreadyExists:        ExitExists,
	galgo.CodeTopicNameAlreadyExists:         ExitExists,
	galgo.CodeConsumerGroupNameAlreadyExists: ExitExists,
	galgo.CodeInvalidConfiguration:           ExitUsage,
	galgo.CodeInvalidIdentifier:              ExitUsage,

	galgo.CodeUserInactive:                     ExitDenied,
	galgo.CodeUserAlreadyExists:                ExitExists,
	galgo.CodePersonalAccessTokenAlreadyExists: ExitExists,
	galgo.CodeInvalidUsername:                  ExitUsage,
	galgo.CodeInvalidPassword:                  ExitUsage,
}

func exitOf(err error) Exit {
	if err == nil {
		return ExitOK
	}
	code, coded := galgo.CodeOf(err)
	status, special := exitCodes[code]
	switch {
	case errors.Is(err, errUsage):
		return ExitUsage
	case isNodeFailure(err):
		return ExitFailed
	case errors.Is(err, context.Canceled):
		return ExitInterrupted
	case isCall(err) && client.OutcomeOf(err) == client.Unknown:
		return ExitUnknown
	case coded && special:
		return status
	case errors.Is(err, client.ErrDisconnected):
		return ExitUnreachable
	}
	return ExitError
}

func isCall(err error) bool {
	_, ok := errors.AsType[*client.Error](err)
	return ok
}

func isCertificate(err error) bool {
	_, ok := errors.AsType[*tls.CertificateVerificationError](err)
	return ok
}

// complain tells what went wrong, and what to do next where that is known.
func (e *env) complain(err error) {
	fmt.Fprintf(e.program.Stderr, "galgo: %v\n", err)
	if hint := hintFor(err); hint != "" {
		fmt.Fprintln(e.program.Stderr, hint)
	}
}

func hintFor(err error) string {
	code, _ := galgo.CodeOf(err)
	switch {
	case errors.Is(err, errUsage):
		return "Try the command with --help."
	case code == galgo.CodeInvalidCredentials:
		return "Give --username and --password, or set GALGO_USERNAME and GALGO_PASSWORD."
	case isCall(err) && client.OutcomeOf(err) == client.Unknown:
		return "It may have been done or not: look at the state before doing it again."
	case isCertificate(err):
		return "The server's certificate is not accepted: give --tls-ca-file with who vouches for it, or --tls-domain with its name. Of a server for development on this machine any is good: --tls-insecure."
	case errors.Is(err, client.ErrDisconnected):
		return "Is a server running there? Start one with: galgo server"
	}
	return ""
}
