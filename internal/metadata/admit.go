package metadata

import (
	"errors"

	"galgo"
	"galgo/internal/wire"
)

// Admit turns a client's metadata request into what enters the log, or refuses it
// with a *galgo.Error whose code is the status of the reply. It is run by the
// primary, before the request costs an op: whatever does not decode, is out of
// static bounds or has an unknown option goes no further, so that Apply never
// meets it. What is checked here depends on the request alone, with one exception:
// the size limit of an updated topic is compared with its segment size.
//
// CreateTopic and CreatePartitions become the operations 64 and 65. Bytes behind
// the last field of a request, which clients may send, stay out of the log.
//
// Requests with a secret come here without it, as the edge has rewritten them: Register as
// a Credential, and those that make a password or a token as NewUser, NewPassword and
// NewToken. A change of permissions comes as NewPermissions. A DeleteSegments comes with what the primary found that it means: see
// Truncation. What a join lacks is put in by JoinWithBusy.
//
// Logout enters the log without a body. The operations that galgo makes itself do not come
// this way: a client that names one is refused.
func Admit(v *View, op wire.Operation, body []byte) (logOp wire.Operation, logBody []byte, err error) {
	switch op {
	case wire.OperationLogout:
		return op, nil, nil
	case wire.OperationRegister:
		return admitted(op, body, DecodeCredential, canonical[Credential])
	case wire.OperationCreateUser:
		return admitted(op, body, DecodeNewUser, canonical[NewUser])
	case wire.OperationUpdateUser:
		return admitted(op, body, wire.DecodeUpdateUserRequest, admitUpdateUser)
	case wire.OperationDeleteUser:
		return admitted(op, body, wire.DecodeUserRequest, canonical[wire.UserRequest])
	case wire.OperationChangePassword:
		return admitted(op, body, DecodeNewPassword, canonical[NewPassword])
	case wire.OperationUpdatePermissions:
		return admitted(op, body, DecodeNewPermissions, canonical[NewPermissions])
	case wire.OperationCreateToken:
		return admitted(op, body, DecodeNewToken, canonical[NewToken])
	case wire.OperationDeleteToken:
		return admitted(op, body, wire.DecodeDeleteTokenRequest, canonical[wire.DeleteTokenRequest])
	case wire.OperationCreateStream:
		return admitted(op, body, wire.DecodeCreateStreamRequest, admitCreateStream)
	case wire.OperationUpdateStream:
		return admitted(op, body, wire.DecodeUpdateStreamRequest, admitUpdateStream)
	case wire.OperationDeleteStream, wire.OperationPurgeStream:
		return admitted(op, body, wire.DecodeStreamRequest, canonical[wire.StreamRequest])
	case wire.OperationCreateTopic:
		return admitted(wire.OperationInReply(op), body, wire.DecodeCreateTopicRequest, admitCreateTopic)
	case wire.OperationUpdateTopic:
		return admitted(op, body, wire.DecodeUpdateTopicRequest, v.admitUpdateTopic)
	case wire.OperationDeleteTopic, wire.OperationPurgeTopic:
		return admitted(op, body, wire.DecodeTopicRequest, canonical[wire.TopicRequest])
	case wire.OperationCreatePartitions, wire.OperationDeletePartitions:
		return admitted(wire.OperationInReply(op), body, wire.DecodePartitionsRequest, admitPartitions)
	case wire.OperationCreateConsumerGroup:
		return admitted(op, body, wire.DecodeCreateGroupRequest, canonical[wire.CreateGroupRequest])
	case wire.OperationDeleteConsumerGroup, wire.OperationLeaveConsumerGroup:
		return admitted(op, body, wire.DecodeGroupRequest, canonical[wire.GroupRequest])
	case wire.OperationJoinConsumerGroup:
		return admitted(op, body, wire.DecodeGroupRequest, admitJoin)
	case wire.OperationDeleteSegments:
		return admitted(wire.OperationInReply(op), body, decodeTruncation, canonical[Truncation])
	}
	if op.IsMetadata() {
		return 0, nil, galgo.Errorf(galgo.CodeFeatureUnavailable, "%v is not available in this release", op)
	}
	return 0, nil, galgo.Errorf(galgo.CodeInvalidCommand, "operation %d is none of the metadata group", op)
}

// admitted decodes a body, lets check judge it, and returns the body for the log.
func admitted[T any](
	op wire.Operation, body []byte, decode func([]byte) (T, error), check func(T) ([]byte, error),
) (wire.Operation, []byte, error) {
	req, err := decode(body)
	if err != nil {
		return 0, nil, galgo.Errorf(galgo.CodeInvalidCommand, "%v: %v", op, err)
	}
	logBody, err := check(req)
	if err != nil {
		return 0, nil, err
	}
	return op, logBody, nil
}

// canonical is a request's own encoding, without what the client wrote behind it.
func canonical[T wire.Body](req T) ([]byte, error) { return req.Append(nil), nil }

func admitUpdateUser(req wire.UpdateUserRequest) ([]byte, error) {
	return canonicalWithoutOptions(req, req.Options)
}

func admitCreateStream(req wire.CreateStreamRequest) ([]byte, error) {
	return canonicalWithoutOptions(req, req.Options)
}

func admitUpdateStream(req wire.UpdateStreamRequest) ([]byte, error) {
	return canonicalWithoutOptions(req, req.Options)
}

// canonicalWithoutOptions refuses any option: streams and users have none.
func canonicalWithoutOptions[T wire.Body](req T, options wire.Options) ([]byte, error) {
	if len(options) != 0 {
		return nil, galgo.Errorf(galgo.CodeUnsupportedOptionKey, "streams and users have no options")
	}
	return canonical(req)
}

func admitPartitions(req wire.PartitionsRequest) ([]byte, error) {
	if req.Count < 1 || req.Count > PartitionsPerRequestMax {
		return nil, galgo.Errorf(galgo.CodeTooManyPartitions, "%d partitions, want 1..%d", req.Count, PartitionsPerRequestMax)
	}
	return canonical(req)
}

// admitCreateTopic resolves the options, so that the log says what holds whatever
// the defaults of the replica that reads it.
func admitCreateTopic(req wire.CreateTopicRequest) ([]byte, error) {
	if req.Partitions > PartitionsPerRequestMax {
		return nil, galgo.Errorf(galgo.CodeTooManyPartitions, "%d partitions, at most %d", req.Partitions, PartitionsPerRequestMax)
	}
	options, err := wire.ParseTopicOptions(req.Options, req.Partitions)
	if err != nil {
		return nil, withCode(err)
	}
	return newTopic{Stream: req.Stream, Partitions: req.Partitions, Name: req.Name, Options: options}.encode(), nil
}

// admitUpdateTopic compares with the topic as it is in the view; one that is not
// there, or not any more when the request is applied, is looked up again by Apply.
func (v *View) admitUpdateTopic(req wire.UpdateTopicRequest) ([]byte, error) {
	if err := wire.CheckTopicUpdate(req.Options); err != nil {
		return nil, withCode(err)
	}
	if t, code := v.s.topic(req.Stream, req.Topic); code == galgo.CodeOK {
		if _, err := t.Options.Update(req.Options); err != nil {
			return nil, withCode(err)
		}
	}
	return canonical(req)
}

// codeOf is the code of an error about a request; one without a code is about a
// body that does not decode.
func codeOf(err error) galgo.Code {
	if code, ok := galgo.CodeOf(err); ok {
		return code
	}
	return galgo.CodeInvalidCommand
}

// withCode is the error as the *galgo.Error that Admit promises.
func withCode(err error) error {
	if e, ok := errors.AsType[*galgo.Error](err); ok {
		return e
	}
	return galgo.Errorf(codeOf(err), "%v", err)
}
