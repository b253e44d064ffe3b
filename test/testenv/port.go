package testenv

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// Tests and harnesses take their ports from this range. It ends far below those that the
// kernel gives to listeners of port 0 and to the near ends of connections: a server that
// is down for a while must find its port free.
const (
	firstPort = 10000
	lastPort  = 19999
)

// portTries bounds the search. Most ports of the range are free.
const portTries = 200

// FreePort returns a loopback address, 127.0.0.1 with a port on which nothing listens,
// neither over TCP nor over UDP. No other call returns it before the test ends, in any
// process of this network namespace.
func FreePort(t testing.TB) string {
	t.Helper()
	addr, release, err := ReservePort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return addr
}

// ReservePort is FreePort for what is no test: no other call returns the address before
// release is called, or the process ends.
func ReservePort() (addr string, release func(), err error) {
	for range portTries {
		addr := fmt.Sprintf("127.0.0.1:%d", firstPort+rand.IntN(lastPort-firstPort+1))
		// The process that gets the port may be stopped while other tests look for
		// one: a name that ends with this process reserves it.
		reserved, err := net.Listen("unix", reservation(addr))
		if err != nil {
			continue
		}
		if !Free(addr) {
			reserved.Close()
			continue
		}
		return addr, func() { reserved.Close() }, nil
	}
	return "", nil, fmt.Errorf("%d ports from %d to %d of 127.0.0.1 were tried, and none is free", portTries, firstPort,
		lastPort)
}

// reservation is the name of the abstract socket that reserves an address.
func reservation(addr string) string { return "@trivet-test-" + addr }

// Free reports whether nothing listens at an address, neither over TCP nor over UDP.
// It is not hermetic: the answer may be out of date, but for a port that is reserved.
func Free(addr string) bool {
	tcp, err := net.Listen("tcp", addr)
	if err != nil {
		return false
	}
	defer tcp.Close()
	udp, err := net.ListenPacket("udp", addr)
	if err != nil {
		return false
	}
	udp.Close()
	return true
}
