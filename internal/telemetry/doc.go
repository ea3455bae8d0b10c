// Package telemetry makes what a server says of itself: its log.
//
// Every record goes to standard error as a line of text. If the configuration
// wants log files, the same records go to <system.path>/<system.logging.path>/
// galgo-server.log too, as lines of JSON with the keys time (RFC 3339, UTC),
// level (TRACE, DEBUG, INFO, WARN, ERROR), msg and the attributes of the record.
//
// The file is bounded in size. A full one becomes galgo-server.log.1, what was .1
// becomes .2 and so on: a higher number is older. Rotated files go when they are
// too many, too old, or too large together. The log is for people and their tools,
// and no state: it is not synced, and no error of it stops the server.
//
// The duties of whoever makes a log:
//
//  1. [New] before anything may be logged. Records wait in memory from here on.
//  2. [Logs.Open] when the data directory is this process's: locked, and emptied
//     if that was asked for. Before, the files may be another server's. If the
//     server is refused the directory, Open is not called and nothing is touched.
//  3. [Logs.Run] on a goroutine of the caller's: it looks after age and size.
//  4. [Logs.Close] last, and before the lock is given up.
//
// The package starts no goroutine. Values of attributes whose names say that they
// are secret, and a server's credentials, are replaced by asterisks; what a
// message or an error text says is up to who writes it.
package telemetry
