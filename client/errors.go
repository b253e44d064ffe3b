package client

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Error is a server's refusal: its last word on the request.
type Error struct {
	Status     int    // of HTTP
	Message    string // the server's, as it sent it: control characters and all
	RetryAfter time.Duration
	Challenge  string // WWW-Authenticate of a 401: how to do better
	RequestID  string // in the server's log; "" if it names none
	About      string // the first part of the path below /v1, as "leases"
	Login      bool   // the request carried credentials
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// AsksKeystone reports whether the server wants a token of Keystone.
func (e *Error) AsksKeystone() bool {
	scheme, _, _ := strings.Cut(e.Challenge, " ")
	return e.Status == http.StatusUnauthorized && strings.EqualFold(scheme, "Keystone")
}

// HasStatus reports whether err is a refusal with this status of HTTP.
func HasStatus(err error, status int) bool {
	var e *Error
	return errors.As(err, &e) && e.Status == status
}

// ErrStrange is part of the error about an answer that no introspection API
// gives: the server's URL is that of something else.
var ErrStrange = errors.New("the server's answer is not that of an introspection API")

// strange is for a server that answers 200 with something else.
func strange(body []byte) error {
	const shown = 40 // bytes
	return fmt.Errorf("%w: %q", ErrStrange, body[:min(len(body), shown)])
}

// Miss is a try that another server, or the same a little later, may answer.
type Miss struct {
	Server  string // its URL
	Err     error
	Arrived bool // the server may have carried the request out
}

// Error implements error.
func (m *Miss) Error() string { return m.Server + ": " + m.Err.Error() }

// Unwrap gives the cause.
func (m *Miss) Unwrap() error { return m.Err }

// NoAnswerError tells of the last round in which every server was asked and
// none answered.
type NoAnswerError struct {
	Misses  []*Miss // at least one
	Changes bool    // the request was to change something
	About   string  // the first part of the path below /v1, as "leases"
	Ended   error   // why no further round was begun, if there was no time for one
}

// Error implements error.
func (e *NoAnswerError) Error() string {
	texts := make([]string, len(e.Misses))
	for i, m := range e.Misses {
		texts[i] = m.Error()
	}
	text := "no server answered: " + strings.Join(texts, "; ")
	if e.Ended != nil && !errors.Is(e, e.Ended) {
		text += fmt.Sprintf("; then the call was ended: %v", e.Ended)
	}
	return text
}

// Unwrap gives the misses to errors.Is and errors.As.
func (e *NoAnswerError) Unwrap() []error {
	out := make([]error, len(e.Misses))
	for i, m := range e.Misses {
		out[i] = m
	}
	return out
}

func (e *NoAnswerError) any(is func(*Miss) bool) bool { return slices.ContainsFunc(e.Misses, is) }

func (e *NoAnswerError) all(is func(*Miss) bool) bool {
	return !e.any(func(m *Miss) bool { return !is(m) })
}

// Arrived reports whether the request may have been carried out.
func (e *NoAnswerError) Arrived() bool { return e.any(func(m *Miss) bool { return m.Arrived }) }

// Leaderless reports whether a server said that it cannot serve just now: 503.
func (e *NoAnswerError) Leaderless() bool {
	return e.any(func(m *Miss) bool { return HasStatus(m.Err, http.StatusServiceUnavailable) })
}

// Late reports whether a server did not answer in time.
func (e *NoAnswerError) Late() bool {
	return e.any(func(m *Miss) bool {
		var timeout net.Error
		return errors.Is(m.Err, context.DeadlineExceeded) || errors.As(m.Err, &timeout) && timeout.Timeout()
	})
}

// Untrusted reports whether the certificate of a server is none that is trusted.
func (e *NoAnswerError) Untrusted() bool { return e.any(isStranger) }

func isStranger(m *Miss) bool {
	var e *tls.CertificateVerificationError
	return errors.As(m.Err, &e)
}

// Hopeless reports whether no server will ever answer: names that do not
// exist, certificates of strangers.
func (e *NoAnswerError) Hopeless() bool {
	return e.all(func(m *Miss) bool {
		var dns *net.DNSError
		return errors.As(m.Err, &dns) && dns.IsNotFound || isStranger(m)
	})
}

// dead reports whether nothing listens on any server. A peer that restarts is
// back soon; a mistyped address never is.
func (e *NoAnswerError) dead() bool {
	return e.all(func(m *Miss) bool { return errors.Is(m.Err, syscall.ECONNREFUSED) })
}

// wished is the least of the servers' wishes for a pause: one of them may answer then.
func wished(err error) time.Duration {
	var e *NoAnswerError
	if !errors.As(err, &e) {
		return 0
	}
	least := maxRetryAfter
	for _, m := range e.Misses {
		var said *Error
		if !errors.As(m.Err, &said) {
			return 0
		}
		least = min(least, said.RetryAfter)
	}
	return least
}

// refused reads an answer that is no success. Those of a server that cannot
// serve just now, and of a proxy before it, are a *Miss.
func refused(server *url.URL, about string, resp *http.Response) error {
	e := &Error{Status: resp.StatusCode, Message: fmt.Sprintf("%s answered %s", server, resp.Status),
		Challenge: resp.Header.Get("WWW-Authenticate"), RequestID: resp.Header.Get("X-Request-Id"), About: about}
	// Where it is a date, or nothing, the usual pause will do.
	if seconds, err := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 16); err == nil {
		e.RetryAfter = time.Duration(seconds) * time.Second
	}
	if sent := resp.Request; sent != nil {
		e.Login = sent.Header.Get("Authorization") != "" || sent.Header.Get(tokenHeader) != ""
	}
	var body struct {
		Error *struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	if err == nil && json.Unmarshal(text, &body) == nil && body.Error != nil && body.Error.Message != "" {
		e.Message = body.Error.Message
	}
	switch resp.StatusCode {
	case http.StatusServiceUnavailable, http.StatusBadGateway, http.StatusGatewayTimeout:
		// 503 is the contract's word both for "nothing was done" and for "the
		// outcome is unknown", so it counts as arrived.
		return &Miss{Server: server.String(), Err: e, Arrived: true}
	}
	return e
}
