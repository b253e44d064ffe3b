package term

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/trivet-ha/trivet/api"
)

// Bounds of a call. A peer waits up to 7 s for a leader; changing the cluster's
// shape may take it 30 s; a snapshot is as long as the state is large.
const (
	AnswerLimit   = 15 * time.Second
	ShapeLimit    = 35 * time.Second
	SnapshotLimit = 10 * time.Minute
)

// Peer is the control interface of a peer: through the socket of this host, or
// through the peers' port of another.
type Peer struct {
	Limit time.Duration // of a call
	open  func() way
}

// way is how a peer is reached.
type way struct {
	where string // socket, or host:port
	base  string // of URLs
	http  *http.Client
}

// onSocket is the base of URLs where the address is a socket's.
const onSocket = "http://trivet"

// OnSocket is the peer that listens on a socket of this host.
func OnSocket(socket string) Peer {
	w := way{where: socket, base: onSocket, http: &http.Client{Transport: SocketTransport(socket)}}
	return Peer{AnswerLimit, func() way { return w }}
}

// SocketTransport reaches the peer that listens on a socket of this host, by any URL.
func SocketTransport(socket string) *http.Transport {
	return &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}}
}

// Chosen is the peer that choose returns. It is asked once, by the first call: when
// commands are made, the flags that name a peer are not parsed yet.
func Chosen(choose func() Peer) Peer {
	return Peer{AnswerLimit, sync.OnceValue(func() way { return choose().open() })}
}

// Within returns the peer with calls that may take as long as limit.
func (p Peer) Within(limit time.Duration) Peer { return Peer{limit, p.open} }

// Call sends in as JSON, unless it is nil, and decodes the answer into out,
// unless that is nil.
func (p Peer) Call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("encode request: %w", err)
		}
		body = bytes.NewReader(data)
	}
	ctx, cancel := context.WithTimeout(ctx, p.Limit)
	defer cancel()
	resp, err := p.Do(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		if cutOff(err) {
			return p.open().stoppedMeanwhile()
		}
		return fmt.Errorf("decode the peer's answer: %w", err)
	}
	return nil
}

// Do sends one request; an answer of 400 or above is an *api.Error. The caller
// closes the body.
func (p Peer) Do(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	w := p.open()
	req, err := http.NewRequestWithContext(ctx, method, w.base+path, body)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("X-Request-Id", api.NewRequestID())
	resp, err := w.http.Do(req)
	if err != nil {
		return nil, w.unreachable(err, p.Limit)
	}
	if resp.StatusCode < http.StatusBadRequest {
		return resp, nil
	}
	defer resp.Body.Close()
	if w.base != onSocket && resp.StatusCode == http.StatusUnauthorized { // a peer's port let no operator in
		const most = 1 << 10
		text, err := io.ReadAll(io.LimitReader(resp.Body, most))
		if err != nil || len(text) == 0 {
			text = []byte(resp.Status)
		}
		return nil, Fail(ExitNotAuthorised, "on a peer's host: 'trivet cert issue-operator NAME'", "the peer refuses: %s",
			Printable(strings.TrimRight(string(text), "\n")))
	}
	var refused api.ErrorBody
	if err := json.NewDecoder(resp.Body).Decode(&refused); err != nil || refused.Error == nil {
		return nil, fmt.Errorf("the peer answered %s", resp.Status)
	}
	if resp.StatusCode >= http.StatusInternalServerError {
		refused.Error.RequestID = resp.Header.Get("X-Request-Id")
	}
	return nil, refused.Error
}

// ErrCutOff says that the peer ended while it answered.
var ErrCutOff = errors.New("the peer stopped before it had answered")

// cutOff reports whether a connection ended in the middle of an answer.
func cutOff(err error) bool {
	return slices.ContainsFunc([]error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE},
		func(end error) bool { return errors.Is(err, end) })
}

func (w way) stoppedMeanwhile() error {
	return Fail(ExitOutcomeUnknown,
		"look before you repeat it: 'trivet status'; the log of the peer says why: 'journalctl -u trivet'", "%w (%s)",
		ErrCutOff, w.where)
}

// ErrNoPeerHere is what most commands end with where no peer runs.
var ErrNoPeerHere = errors.New("no peer is running here")

func (w way) unreachable(err error, limit time.Duration) error {
	switch {
	case cutOff(err):
		return w.stoppedMeanwhile()
	case w.base != onSocket:
		return w.unreachableRemote(err)
	case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return Fail(ExitFailed, "start it: 'trivet serve', or 'systemctl start trivet'; on another socket: --socket",
			"%w: nothing listens on %s", ErrNoPeerHere, w.where)
	case errors.Is(err, os.ErrPermission):
		return Fail(ExitNotAuthorised, "run it as root or as the user of the service", "no permission for %s", w.where)
	case errors.Is(err, context.DeadlineExceeded):
		return Fail(ExitOutcomeUnknown, "look before you repeat it: 'trivet status'", "the peer did not answer within %v",
			limit)
	default:
		return fmt.Errorf("ask the peer: %w", err)
	}
}
