//go:build !linux

package peer

import "net"

// watch has the system end a connection whose other end is gone.
func watch(conn *net.TCPConn) { conn.SetKeepAliveConfig(keepAlive) }
