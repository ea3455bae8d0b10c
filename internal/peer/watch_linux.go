package peer

import (
	"net"
	"syscall"
)

// userTimeout is TCP_USER_TIMEOUT, which package syscall does not name everywhere.
const userTimeout = 0x12

// watch has the system end a connection whose other end is gone. Probes find that out
// while nothing is on its way; what is on its way is repeated for a quarter of an hour
// unless a limit is set, and ever more seldom, so that a node would stay cut off long
// after the network has healed.
func watch(conn *net.TCPConn) {
	conn.SetKeepAliveConfig(keepAlive) // an error of either shows again at the first use
	if raw, err := conn.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) {
			syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, userTimeout, int(silenceMax.Milliseconds()))
		})
	}
}
