// Package wire is the client protocol: frames, request and reply bodies, batches
// of messages and topic options, in both directions. It is pure: bytes in, values
// out, and back.
//
// A frame is a header of 256 bytes and a body; the header holds the length of
// both. Every integer is little-endian.
//
//	request   ReadFrame -> DecodeRequestHeader -> Decode…Request(body)
//	reply     ReplyHeader.AppendFrame(body), where a body whose operation is
//	          result framed starts with AppendResultOK or is AppendResultError
//	client    request Append, RequestHeader.AppendFrame; ParseReply
//
// Decoders keep to three rules. Byte slices they return alias their input, strings
// are copies. Nothing is allocated by a length that was not compared with the
// bytes that are there. An error wraps ErrUndecodable (a body), ErrBatch (a batch)
// or ErrHeader (a header), names the field, and carries the galgo.Code that a
// client would be told.
//
// Encoders take what is valid: a name, key or password of more than 255 bytes is a
// bug of the caller and panics. Whoever takes values from people checks them first
// (galgo.Identifier.Validate, galgo.ValidateName, ValidateUsername,
// ValidatePassword, NewOptions, AppendUserHeaders).
//
// A request body may have bytes behind its last field, which are ignored, unless
// it ends in options or in a batch. A reply body has none.
package wire
