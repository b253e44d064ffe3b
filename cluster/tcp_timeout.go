package cluster

import (
	"cmp"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// silentLimit is after which time the kernel ends an HTTP/2 connection between
// peers whose other end acknowledges nothing. TCP repeats what a broken network has
// swallowed at ever longer intervals: once the network is back, a connection would
// carry nothing for as long as the cut lasted, and a session, whose renewals it
// carries, would end. After silentLimit each attempt dials again.
//
// Connections that raft dials have no such limit: a peer whose disk hangs takes no
// data, which counts as silence, and raft has limits of its own; see Port.Redial.
const silentLimit = 3 * time.Second

// endWhenSilent sets silentLimit on a socket, and on those that it accepts.
func endWhenSilent(_, _ string, raw syscall.RawConn) error {
	var set error
	err := raw.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(silentLimit.Milliseconds()))
	})
	return cmp.Or(err, set)
}
