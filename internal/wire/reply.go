package wire

import (
	"galgo"
)

// ParseReply reads a frame that a server sent, header and body, and returns the
// header and the payload: the body without its result section, aliased. A denial,
// a rejection and an eviction come back as a *galgo.Error with the server's code;
// the header is valid with the first two. A code that is not known is CodeError.
// All else that is wrong carries CodeInvalidCommand or CodeEmptyResponse.
func ParseReply(frame []byte) (ReplyHeader, []byte, error) {
	if len(frame) < HeaderSize {
		return ReplyHeader{}, nil, galgo.Errorf(galgo.CodeEmptyResponse, "frame of %d bytes", len(frame))
	}
	if FrameCommandOf(frame) == FrameEviction {
		e, err := DecodeEvictionHeader(frame)
		if err != nil {
			return ReplyHeader{}, nil, err
		}
		return ReplyHeader{}, nil, e.Err()
	}
	h, err := DecodeReplyHeader(frame)
	if err != nil {
		return ReplyHeader{}, nil, err
	}
	if uint64(h.Size) > uint64(len(frame)) {
		return ReplyHeader{}, nil, headerErrorf("frame size %d, %d bytes are there", h.Size, len(frame))
	}
	if h.Status != galgo.CodeOK {
		return h, nil, serverError(h.Status, "denied")
	}
	if !h.Operation.Known() {
		return ReplyHeader{}, nil, headerErrorf("reply of unknown operation %d", h.Operation)
	}
	return parseBody(h, frame[HeaderSize:h.Size:h.Size])
}

func parseBody(h ReplyHeader, body []byte) (ReplyHeader, []byte, error) {
	if !h.Operation.ResultFramed() || h.Operation == OperationRegister && len(body) == 0 {
		return h, body, nil
	}
	code, payload, err := SplitResult(body)
	if err != nil {
		return ReplyHeader{}, nil, err
	}
	if code != galgo.CodeOK {
		return h, nil, serverError(code, "rejected")
	}
	return h, payload, nil
}

func serverError(code galgo.Code, verb string) *galgo.Error {
	if !code.Known() {
		return galgo.Errorf(galgo.CodeError, "%s by the server with unknown code %d", verb, uint32(code))
	}
	return galgo.Errorf(code, "%s by the server: %s", verb, code.Text())
}
