package cli

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
	"syscall"
	"time"

	"github.com/trivet-ha/trivet/api"
)

// Bounds of a call. A peer waits up to 7 s for a leader; changing the cluster's
// shape may take it 30 s; a snapshot is as long as the state is large.
const (
	answerLimit   = 15 * time.Second
	shapeLimit    = 35 * time.Second
	snapshotLimit = 10 * time.Minute
)

// control talks to the control interface of a peer: through the socket of this
// host, or through the peers' port of another.
type control struct {
	where string // socket, or host:port
	base  string // of URLs
	http  *http.Client
	limit time.Duration
}

// onSocket is the base of URLs where the address is a socket's.
const onSocket = "http://trivet"

func newControl(socket string) *control {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}
	return &control{where: socket, base: onSocket, http: &http.Client{Transport: &http.Transport{DialContext: dial}}, limit: answerLimit}
}

// within returns a control whose calls may take as long as limit.
func (c *control) within(limit time.Duration) *control {
	return &control{where: c.where, base: c.base, http: c.http, limit: limit}
}

// call sends in as JSON, unless it is nil, and decodes the answer into out,
// unless that is nil.
func (c *control) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("encode request: %w", err)
		}
		body = bytes.NewReader(data)
	}
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	resp, err := c.do(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		if cutOff(err) {
			return c.stoppedMeanwhile()
		}
		return fmt.Errorf("decode the peer's answer: %w", err)
	}
	return nil
}

// do sends one request; an answer of 400 or above is an *api.Error. The caller
// closes the body.
func (c *control) do(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("X-Request-Id", api.NewRequestID())
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachable(err)
	}
	if resp.StatusCode < http.StatusBadRequest {
		return resp, nil
	}
	defer resp.Body.Close()
	if c.base != onSocket && resp.StatusCode == http.StatusUnauthorized {
		return nil, notAdmitted(resp)
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

// errCutOff says that the peer ended while it answered.
var errCutOff = errors.New("the peer stopped before it had answered")

// cutOff reports whether a connection ended in the middle of an answer.
func cutOff(err error) bool {
	for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, end) {
			return true
		}
	}
	return false
}

func (c *control) stoppedMeanwhile() error {
	return fail(ExitOutcomeUnknown, "look before you repeat it: 'trivet status'; the log of the peer says why: 'journalctl -u trivet'", "%w (%s)", errCutOff, c.where)
}

// errNoPeerHere is what most commands end with where no peer runs.
var errNoPeerHere = errors.New("no peer is running here")

func (c *control) unreachable(err error) error {
	switch {
	case cutOff(err):
		return c.stoppedMeanwhile()
	case c.base != onSocket:
		return c.unreachableRemote(err)
	case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return fail(ExitFailed, "start it: 'trivet serve', or 'systemctl start trivet'; on another socket: --socket",
			"%w: nothing listens on %s", errNoPeerHere, c.where)
	case errors.Is(err, os.ErrPermission):
		return fail(ExitNotAuthorised, "run it as root or as the user of the service", "no permission for %s", c.where)
	case errors.Is(err, context.DeadlineExceeded):
		return fail(ExitOutcomeUnknown, "look before you repeat it: 'trivet status'", "the peer did not answer within %v", c.limit)
	default:
		return fmt.Errorf("ask the peer: %w", err)
	}
}
