package kubeclient

import (
	"context"
	"net"
	"net/http"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"
)

const (
	// MaxAnswer bounds an answer that is not a watch, in bytes. A page of a list has at
	// most 250 objects; etcd takes none above 1.5 MB, and usual ones have 5 to 20 kB.
	MaxAnswer = 32 << 20
	// dialTimeout bounds the way to a connection, without TLS.
	dialTimeout = 5 * time.Second
	// silentTimeout ends a connection whose other end acknowledges nothing. While
	// one lasts, we may take a cut wire for kube nodes that are silent; it stays
	// below every Lease age that leads to action.
	silentTimeout = 10 * time.Second
)

// dialer makes connections that notice when the other end is gone, within
// silentTimeout. HTTP/2's own pings, 45 s after the last word, would be too late,
// and are for servers that stand still with their connections open.
func dialer() *net.Dialer {
	return &net.Dialer{
		Timeout:         dialTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 4 * time.Second, Interval: 2 * time.Second, Count: 3},
		Control: func(_, _ string, raw syscall.RawConn) error {
			var set error
			err := raw.Control(func(fd uintptr) {
				set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(silentTimeout.Milliseconds()))
			})
			if err != nil {
				return err
			}
			return set
		},
	}
}

// bounded cuts answers that are too long. Watches have no end; client-go bounds
// each of their events.
type bounded struct{ next http.RoundTripper }

// WrappedRoundTripper lets client-go find the connections below, to close them; it
// complains on standard error where it does not.
func (b bounded) WrappedRoundTripper() http.RoundTripper { return b.next }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(req)
	if err == nil && !req.URL.Query().Has("watch") {
		resp.Body = http.MaxBytesReader(nil, resp.Body, MaxAnswer)
	}
	return resp, err
}

// Quiet keeps client-go from writing to its global log what we return as an error.
func Quiet(ctx context.Context) context.Context { return klog.NewContext(ctx, klog.New(nil)) }
