package test

import (
	"crypto/rand"
	"fmt"
	"io"
	"net"

	"galgo"
	"galgo/internal/wire"
)

// rawClient speaks the protocol as a stock client does: one request at a time,
// and sends that nobody can recognise when they are repeated.
type rawClient struct {
	conn    net.Conn
	id      galgo.ClientID
	session uint64
	request uint64
}

func dialRaw(address string) (*rawClient, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	return loginRaw(conn)
}

// loginRaw signs in on a connection.
func loginRaw(conn net.Conn) (*rawClient, error) {
	c := &rawClient{conn: conn, request: 1}
	rand.Read(c.id[:])
	body := wire.RegisterRequest{
		Client:   wire.ClientVersion{Protocol: wire.VersionCurrent, SDKName: "test", SDKVersion: "1"},
		Password: &wire.PasswordLogin{Username: "iggy", Password: "iggy"},
	}.Append(nil)
	reply, err := c.call(wire.OperationRegister, 0, body)
	if err != nil {
		conn.Close()
		return nil, err
	}
	_, reply, err = wire.SplitResult(reply)
	if err != nil {
		conn.Close()
		return nil, err
	}
	registered, err := wire.DecodeRegisterReply(reply)
	if err != nil {
		conn.Close()
		return nil, err
	}
	c.session = registered.Session
	return c, nil
}

// call sends a frame and returns the body of the reply to it.
func (c *rawClient) call(op wire.Operation, request uint64, body []byte) ([]byte, error) {
	return c.exchange(op, c.frame(op, request, body))
}

func (c *rawClient) frame(op wire.Operation, request uint64, body []byte) []byte {
	h := wire.RequestHeader{Client: c.id, Operation: op, Session: c.session, Request: request}
	return h.AppendFrame(nil, body)
}

// exchange sends a frame of an operation and returns the body of the reply.
func (c *rawClient) exchange(op wire.Operation, frame []byte) ([]byte, error) {
	if _, err := c.conn.Write(frame); err != nil {
		return nil, err
	}
	head := make([]byte, wire.HeaderSize)
	if _, err := io.ReadFull(c.conn, head); err != nil {
		return nil, err
	}
	reply, err := wire.DecodeReplyHeader(head)
	if err != nil {
		return nil, err
	}
	answer := make([]byte, reply.Size-wire.HeaderSize)
	if _, err := io.ReadFull(c.conn, answer); err != nil {
		return nil, err
	}
	if reply.Status != 0 {
		return nil, fmt.Errorf("operation %v: %w", op, &galgo.Error{Code: galgo.Code(reply.Status)})
	}
	return answer, nil
}

// send stores one message and returns its offset.
func (c *rawClient) send(stream, topic string, partition uint32, payload string) (uint64, error) {
	message := galgo.Message{Payload: []byte(payload), Timestamp: 1}
	rand.Read(message.ID[:])
	batch, err := wire.AppendBatch(nil, []galgo.Message{message})
	if err != nil {
		return 0, err
	}
	body := wire.SendMessagesRequest{
		Stream: galgo.NamedID(stream), Topic: galgo.NamedID(topic), Partitioning: galgo.ToPartition(partition), MessagesCount: 1, Batch: batch,
	}.Append(nil)
	reply, err := c.call(wire.OperationSendMessages, c.request, body)
	if err != nil {
		return 0, err
	}
	placed, err := wire.DecodeSendConfirmations(reply)
	if err != nil {
		return 0, err
	}
	return placed[0].BaseOffset, nil
}
