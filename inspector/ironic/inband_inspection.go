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
)

// inbandVersion is the version of Ironic's API that a ramdisk's callback is
// sent in. Its endpoint answers the oldest, and those from 1.84 on, which tell
// the agent's token: that is for the ramdisk to ask for.
const inbandVersion = "1.1"

// Continue implements relay.Ironic.
func (c *Client) Continue(ctx context.Context, call InbandCall) (InbandAnswer, error) {
	l := c.now.Load()
	ctx, cancel := within(ctx, l.timeout)
	defer cancel()
	answer, err := l.continueInspection(ctx, call)
	if err == nil && answer.Status == http.StatusUnauthorized && l.sessions.renewable { // it took nothing
		answer, err = l.continueInspection(ctx, call)
	}
	if err != nil {
		return answer, describe("Ironic", l.login, "POST v1/continue_inspection", err)
	}
	return answer, nil
}

// continueInspection sends a document once.
func (l *line) continueInspection(ctx context.Context, call InbandCall) (answer InbandAnswer, err error) {
	s, err := l.sessions.Get(ctx)
	if err != nil {
		return answer, unsent{err}
	}
	req, err := s.continueRequest(ctx, call)
	if err != nil {
		return answer, unsent{err}
	}
	resp, err := l.sessions.transport.RoundTrip(req)
	if err != nil {
		return answer, &url.Error{Op: req.Method, URL: req.URL.String(), Err: err}
	}
	defer resp.Body.Close() // read to its end, or of no use
	if resp.StatusCode == http.StatusUnauthorized && l.sessions.renewable {
		l.sessions.Drop(s)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxNode))
	if err != nil && resp.StatusCode/100 == 2 {
		return answer, fmt.Errorf("the answer broke off: %w", err)
	}
	answer = InbandAnswer{Status: resp.StatusCode, Body: body}
	if resp.StatusCode/100 != 2 {
		answer.Reason = fmt.Sprintf("Ironic answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
		if text := sentence(body); text != "" {
			answer.Reason = cut(text)
		}
	}
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
