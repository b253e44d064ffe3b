package cli

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unicode"

	"github.com/trivet-ha/trivet/api"
)

// miss is a try that another server, or the same a little later, may answer.
type miss struct {
	server  *url.URL
	err     error
	arrived bool          // the server may have carried the request out
	after   time.Duration // the server's wish
}

// Error implements error.
func (m *miss) Error() string { return m.server.Redacted() + ": " + m.err.Error() }

// Unwrap gives the cause.
func (m *miss) Unwrap() error { return m.err }

// silence is a round without an answer: what came of asking each server.
type silence struct {
	misses []*miss // at least one
}

// Error implements error.
func (s *silence) Error() string {
	texts := make([]string, len(s.misses))
	for i, m := range s.misses {
		texts[i] = m.Error()
	}
	return strings.Join(texts, "; ")
}

func (s *silence) any(is func(*miss) bool) bool {
	for _, m := range s.misses {
		if is(m) {
			return true
		}
	}
	return false
}

func (s *silence) all(is func(*miss) bool) bool {
	return !s.any(func(m *miss) bool { return !is(m) })
}

// arrived reports whether the request may have been carried out.
func (s *silence) arrived() bool { return s.any(func(m *miss) bool { return m.arrived }) }

// hopeless reports whether no server will ever answer: names that do not
// exist, certificates of strangers.
func (s *silence) hopeless() bool {
	return s.all(func(m *miss) bool {
		var dns *net.DNSError
		return errors.As(m.err, &dns) && dns.IsNotFound || isStranger(m.err)
	})
}

// dead reports whether nothing listens on any server. A peer that restarts is
// back soon; a mistyped address never is.
func (s *silence) dead() bool {
	return s.all(func(m *miss) bool { return errors.Is(m.err, syscall.ECONNREFUSED) })
}

// after is the least of the servers' wishes: one of them may answer then.
func (s *silence) after() time.Duration {
	least := s.misses[0].after
	for _, m := range s.misses {
		least = min(least, m.after)
	}
	return least
}

// failure gives the silence its exit code and remedy. changes says that the
// request was to change something.
func (s *silence) failure(changes bool) error {
	err := fmt.Errorf("no server answered: %w", s)
	switch {
	case s.any(leaderless) && changes:
		return &Failure{ExitNoLeader, err, "see 'trivet status' on each host; it may be done all the same: look with 'trivet introspection status' before you repeat it"}
	case s.any(leaderless):
		return &Failure{ExitNoLeader, err, "see 'trivet status' on each host; --stale asks for what one peer knows"}
	case s.any(func(m *miss) bool { return isStranger(m.err) }):
		return &Failure{ExitFailed, err, "name the CA that signed the server's certificate: --cacert or TRIVET_CACERT"}
	case changes && s.arrived():
		return &Failure{ExitOutcomeUnknown, err, "look before you repeat it: 'trivet introspection status'"}
	case s.any(slow):
		return &Failure{ExitOutcomeUnknown, err, "is a host down? Name several peers, separated by commas: --server or TRIVET_SERVER"}
	default:
		return &Failure{ExitFailed, err, "name peers that run, separated by commas: --server or TRIVET_SERVER; 'trivet members -o wide' shows their API"}
	}
}

// leaderless tells a server that answered 503.
func leaderless(m *miss) bool {
	var e *api.Error
	return errors.As(m.err, &e) && e.Code == api.CodeNoLeader
}

// slow tells a server that did not answer in time.
func slow(m *miss) bool {
	var timeout net.Error
	return errors.Is(m.err, context.DeadlineExceeded) || errors.As(m.err, &timeout) && timeout.Timeout()
}

// Unwrap gives the misses to errors.Is and errors.As.
func (s *silence) Unwrap() []error {
	out := make([]error, len(s.misses))
	for i, m := range s.misses {
		out[i] = m
	}
	return out
}

func isStranger(err error) bool {
	var e *tls.CertificateVerificationError
	return errors.As(err, &e)
}

// refused reads an answer that is no success. Those of a server that cannot
// serve just now, and of a proxy before it, are a *miss.
func refused(server *url.URL, resp *http.Response) error {
	e := &api.Error{Status: resp.StatusCode, Code: refusalCode(resp.StatusCode), Message: fmt.Sprintf("%s answered %s", server.Redacted(), resp.Status)}
	var body api.ErrorBody
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	if err == nil && json.Unmarshal(text, &body) == nil && body.Error != nil && body.Error.Message != "" {
		e.Message = printable(body.Error.Message)
	}
	if e.Code == api.CodeInvalid && aboutState(e.Message) {
		e.Code = api.CodeConflict
	}
	e.Hint = refusalHint(e)
	switch resp.StatusCode {
	case http.StatusServiceUnavailable, http.StatusBadGateway, http.StatusGatewayTimeout:
		// 503 is the contract's word both for "nothing was done" and for "the
		// outcome is unknown", so it counts as arrived.
		return &miss{server: server, err: e, arrived: true, after: retryAfter(resp)}
	}
	return e
}

func retryAfter(resp *http.Response) time.Duration {
	seconds, err := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 16)
	if err != nil {
		return 0 // a date, or nothing: the usual pause will do
	}
	return time.Duration(seconds) * time.Second
}

// refusalCode translates the contract's statuses into the codes that exit
// codes go by.
func refusalCode(status int) string {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return api.CodeNotAuthorised
	case http.StatusNotFound:
		return api.CodeNotFound
	case http.StatusConflict:
		return api.CodeConflict
	case http.StatusServiceUnavailable:
		return api.CodeNoLeader
	case http.StatusGatewayTimeout:
		return api.CodeOutcomeUnknown
	case http.StatusBadRequest, http.StatusNotAcceptable, http.StatusRequestEntityTooLarge:
		return api.CodeInvalid
	default:
		return api.CodeFailed
	}
}

// aboutState recognises the refusals that the contract answers with 400 although
// the request was well-formed and the state of the node forbids it.
func aboutState(message string) bool {
	return strings.HasPrefix(message, "Can not transition from state") || strings.HasPrefix(message, "Invalid provision state")
}

func refusalHint(e *api.Error) string {
	switch {
	case e.Code == api.CodeNotAuthorised:
		return "name a file that holds user:password: --credentials or TRIVET_CREDENTIALS"
	case e.Code == api.CodeNotFound:
		return "see 'trivet introspection list', and whether Ironic knows the node by this name or UUID"
	case e.Code == api.CodeConflict:
		return "nothing was changed; see 'trivet introspection status'"
	case e.Status < http.StatusBadRequest:
		return "this command follows no redirects: name the server it points to with --server"
	case e.Code == api.CodeFailed:
		return "see the log of the peer: 'journalctl -u trivet'"
	default:
		return usualHint(e.Code)
	}
}

// watchSending returns a context that notes when a request leaves: before, it
// has surely not arrived.
func watchSending(ctx context.Context) (context.Context, *atomic.Bool) {
	var sent atomic.Bool
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }}), &sent
}

// printable replaces control and format characters: what a ramdisk or a server wrote must
// neither break a line nor steer a terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
}
