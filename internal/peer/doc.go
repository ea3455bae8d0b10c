// Package peer is the links between the nodes of a cluster: TCP connections that carry
// the frames of the consensus core (internal/vsr), and questions of one node to another
// with their answers.
//
// Every node dials every other one, once for each lane, and speaks on the connections
// that it dialed; it listens on those that it accepted. So who owns a connection is
// never in doubt, and nothing has to be arbitrated. The control lane has the short
// messages that elections and acknowledgements are made of; the bulk lane has bodies,
// and cannot delay them.
//
// Frames may be lost: where there is no connection, or its queue is full, a frame is
// dropped, and the core repeats what matters. A question that was not asked for sure is
// told from one whose outcome is open.
//
//	lobby.go      connections that have not introduced themselves
//	hello.go      who speaks: the bytes of the handshake
//	auth.go       proofs that both ends know the secret
//	handshake.go  the handshake
//	record.go     what follows it
//	queue.go      what waits to be written on a lane
//	dial.go       a lane to a peer: dialing again and again, writing
//	accept.go     connections from peers: reading
//	calls.go      questions that wait for their answers
//	links.go      all of it put together
//	tls.go        TLS below the handshake
package peer
