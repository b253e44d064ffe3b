package kubeclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"

	"github.com/trivet-ha/trivet/internal/bounds"
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

// bounded cuts answers that are too long, and takes no page for an answer. Watches have no
// end; client-go bounds each of their events.
type bounded struct{ next http.RoundTripper }

// WrappedRoundTripper lets client-go find the connections below, to close them; it
// complains on standard error where it does not.
func (b bounded) WrappedRoundTripper() http.RoundTripper { return b.next }

// RoundTrip implements http.RoundTripper. client-go takes a page for a write that is done, or for
// an API server that is ready.
func (b bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if bounds.IsPage(resp) {
		err := fmt.Errorf("%s answers %d with a page of HTML, as no API server does: another program stands in front of it",
			req.URL.Host, resp.StatusCode)
		return nil, errors.Join(err, resp.Body.Close())
	}
	if !req.URL.Query().Has("watch") {
		resp.Body = http.MaxBytesReader(nil, resp.Body, MaxAnswer)
	}
	return resp, nil
}

// Quiet keeps client-go from writing to its global log what we return as an error.
func Quiet(ctx context.Context) context.Context { return klog.NewContext(ctx, klog.New(nil)) }
