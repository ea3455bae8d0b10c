// Package client is the Go client of galgo: it signs in, produces, polls, keeps
// offsets and administers streams, topics, partitions, users and access tokens.
//
//	c, err := client.Dial(ctx, "127.0.0.1:8090", client.WithPassword("iggy", "iggy"))
//	...
//	defer c.Close()
//	placed, err := c.SendMessages(ctx, stream, topic, galgo.Balanced(), messages)
//
// A Client is one connection for any number of goroutines. Calls are pipelined:
// many are in flight, and answers are matched by operation and number.
//
// # What happens when things break
//
// A lost connection is dialled again and signed in under the same client id, and
// what was in flight is sent again with the same bytes and number, oldest first:
//
//   - reads are repeated freely;
//   - sends are numbered and carry a checksum, so a galgo server stores each of
//     them once however often it arrives;
//   - operations on streams, topics and partitions are repeated with their number
//     if the server still knows the session; if it forgot it, the call ends with
//     [ErrSessionLost] instead of maybe running twice;
//   - a poll that commits is never repeated, since messages would be skipped.
//
// Refusals that ask for it (codes 57 and 58) are repeated likewise. All of this is
// bounded by the context of the call and by [WithRetryBudget].
//
// # Errors
//
// A call that did not succeed returns an [*Error], which tells whether the call
// took effect. What the server said is inside as a [*galgo.Error]:
//
//	errors.Is(err, &galgo.Error{Code: galgo.CodeTopicIDNotFound})
//	code, ok := galgo.CodeOf(err)
package client
