package ironic

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
)

// inbandVersion is the version of Ironic's API that a ramdisk's callback is
// sent in. Its endpoint answers the oldest, and those from 1.84 on, which tell
// the agent's token: that is for the ramdisk to ask for.
const inbandVersion = "1.1"

// Continue implements relay.Ironic. A call that failed before a byte of it left is ErrNotSent.
func (c *Client) Continue(ctx context.Context, call InbandCall) (InbandAnswer, error) {
	l := c.now.Load()
	ctx, cancel := within(ctx, l.timeout)
	defer cancel()
	to := l.inbands()[0]
	answer, err := to.post(ctx, l.sessions.transport, call)
	if err == nil && answer.Status == http.StatusUnauthorized && to.drop != nil { // it took nothing
		answer, err = to.post(ctx, l.sessions.transport, call)
	}
	if err != nil {
		return answer, describe("Ironic", l.login, continueCall, err)
	}
	return answer, nil
}

// continueCall is the call, for errors.
const continueCall = "POST v1/continue_inspection"

// post sends a document once.
func (to inband) post(ctx context.Context, t http.RoundTripper, call InbandCall) (answer InbandAnswer, err error) {
	s, err := to.get(ctx)
	if err != nil {
		return answer, unsent{err}
	}
	req, err := s.continueRequest(ctx, call)
	if err != nil {
		return answer, unsent{err}
	}
	resp, err := t.RoundTrip(req)
	if err != nil {
		return answer, &url.Error{Op: req.Method, URL: req.URL.String(), Err: err}
	}
	defer resp.Body.Close() // read to its end, or of no use
	if resp.StatusCode == http.StatusUnauthorized && to.drop != nil {
		to.drop(s)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxNode))
	if err != nil && resp.StatusCode/100 == 2 {
		return answer, fmt.Errorf("the answer broke off: %w", err)
	}
	answer = InbandAnswer{Status: resp.StatusCode, Body: body, Anonymous: to.drop == nil}
	if resp.StatusCode/100 != 2 {
		answer.Reason = cut(to.reason(resp, sentence(body)))
	}
	said := sentence(body)
	answer.Own = own(body)
	answer.Absent = resp.StatusCode == http.StatusNotFound && answer.Own && !strings.HasPrefix(said, "API version ") &&
		!answer.Later()
	return answer, nil
}

// continueRequest builds what is sent: the bytes that came, and for whom.
func (s *session) continueRequest(ctx context.Context, call InbandCall) (*http.Request, error) {
	target := s.base + "continue_inspection"
	if call.Node != "" {
		target += "?" + url.Values{"node_uuid": {call.Node}}.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(call.Body))
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, s.header)
	version := cmp.Or(call.Version, inbandVersion)
	req.Header.Set("Content-Type", contentJSON)
	req.Header.Set("X-OpenStack-Ironic-API-Version", version)
	req.Header.Set("OpenStack-API-Version", "baremetal "+version)
	return req, nil
}

// unsent is why not a byte of a request went out.
type unsent struct{ error }

// Unwrap returns what it was.
func (e unsent) Unwrap() error { return e.error }

// Is implements the interface of errors.Is.
func (e unsent) Is(target error) bool { return target == ErrNotSent }
