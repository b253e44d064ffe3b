//go:build e2e

package labtest

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/testenv"
)

// TestServiceManagerIsTold plays systemd: it must hear that the peer is ready,
// how it stands, signs of life, and that it stops.
func TestServiceManagerIsTold(t *testing.T) {
	t.Parallel()
	l := New(t)
	p := l.Add("a")
	path := filepath.Join(l.dir, "notify.sock")
	sock, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	testenv.Must(t, err)
	defer sock.Close()
	p.Env = []string{"NOTIFY_SOCKET=" + path, "WATCHDOG_USEC=1500000"}
	p.Must("init", p.Flags())
	p.Start()
	l.WaitLeader()
	hear(t, sock, "READY=1")
	hear(t, sock, "STATUS=leader; leader a; 1 of 1 voters live")
	for range 3 { // a leader that commits goes on giving them
		hear(t, sock, "WATCHDOG=1")
	}
	p.Stop()
	hear(t, sock, "STOPPING=1")
	if entries, err := filepath.Glob(p.Socket); err != nil || len(entries) > 0 {
		t.Errorf("the socket was left behind (%v)", err)
	}
}

// hear reads messages until one begins with want.
func hear(t *testing.T, sock *net.UnixConn, want string) {
	t.Helper()
	testenv.Must(t, sock.SetReadDeadline(time.Now().Add(electLimit)))
	buf := make([]byte, 4096)
	for {
		n, err := sock.Read(buf)
		if err != nil {
			t.Fatalf("%q was not heard: %v", want, err)
		}
		if strings.HasPrefix(string(buf[:n]), want) {
			return
		}
	}
}
