package kubeclient

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// TestDialer sees that the kernel gives up a connection that nobody acknowledges.
func TestDialer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := dialer().DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for name, option := range map[string]struct{ option, most int }{
		"TCP_USER_TIMEOUT": {unix.TCP_USER_TIMEOUT, int(silentTimeout.Milliseconds())},
		"TCP_KEEPIDLE":     {unix.TCP_KEEPIDLE, 4}, "TCP_KEEPCNT": {unix.TCP_KEEPCNT, 3},
	} {
		err := raw.Control(func(fd uintptr) {
			got, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, option.option)
			if err != nil || got != option.most {
				t.Errorf("%s is %d (%v), want %d", name, got, err, option.most)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
