package wire

import "galgo"

// GroupRequest names a consumer group: get, delete, join, leave and sync.
// [ident stream][ident topic][ident group]
type GroupRequest struct {
	Stream galgo.Identifier
	Topic  galgo.Identifier
	Group  galgo.Identifier
}

// Append appends the body of the request.
func (r GroupRequest) Append(b []byte) []byte {
	b = appendIdentifier(appendIdentifier(b, r.Stream), r.Topic)
	return appendIdentifier(b, r.Group)
}

// DecodeGroupRequest reads the body.
func DecodeGroupRequest(body []byte) (GroupRequest, error) {
	c := read("consumer group", body)
	r := GroupRequest{Stream: c.identifier("stream"), Topic: c.identifier("topic"), Group: c.identifier("group")}
	if c.err != nil {
		return GroupRequest{}, c.err
	}
	return r, nil
}

// CreateGroupRequest makes a consumer group: [ident stream][ident topic][name].
type CreateGroupRequest struct {
	Stream galgo.Identifier
	Topic  galgo.Identifier
	Name   string
}

// Append appends the body of the request.
func (r CreateGroupRequest) Append(b []byte) []byte {
	return appendBytes8(appendIdentifier(appendIdentifier(b, r.Stream), r.Topic), r.Name)
}

// DecodeCreateGroupRequest reads the body.
func DecodeCreateGroupRequest(body []byte) (CreateGroupRequest, error) {
	c := read("create consumer group", body)
	r := CreateGroupRequest{Stream: c.identifier("stream"), Topic: c.identifier("topic"), Name: c.name("name")}
	if c.err != nil {
		return CreateGroupRequest{}, c.err
	}
	return r, nil
}
