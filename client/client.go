package client

import (
	"bytes"
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
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/trivet-ha/trivet/internal/bounds"
	"github.com/trivet-ha/trivet/internal/pace"
)

// Bounds of a question. A peer waits up to 7 s for a leader before it answers
// 503, asks Ironic before it accepts a start, and answers a ramdisk when its
// document has been processed.
const (
	dialLimit     = 3 * time.Second  // a host that is dead refuses nothing: it is silent
	readTry       = 12 * time.Second // one try of a read at one server, body included
	actTry        = 35 * time.Second // the same of what changes something
	continueTry   = 65 * time.Second // the same of a ramdisk's document
	readTimeout   = 40 * time.Second // all tries of a read together
	actTimeout    = 90 * time.Second // the same of what changes something
	deadTimeout   = 3 * time.Second  // while nothing listens on any server
	firstPause    = 250 * time.Millisecond
	lastPause     = 4 * time.Second // pauses between rounds double up to it
	maxRetryAfter = 5 * time.Second // of a server's wish that is heeded
	maxAnswer     = 32 << 20        // bytes: a page of 1,000 introspections, or a document with what hooks added
	maxRefusal    = 64 << 10        // bytes
	idleConns     = 16              // kept open to each server
)

// versionHeader names the version of the API that a request is written for.
const versionHeader = "X-OpenStack-Ironic-Inspector-API-Version"

// logsHeader of a status names the peer and the file that hold the ramdisk's
// logs. Only Trivet sends it.
const logsHeader = "X-Trivet-Ramdisk-Logs"

// Options say whom to ask and how. Servers alone is needed.
type Options struct {
	// Servers are URLs of the API, of the peers of one cluster. They may have a
	// path, for a proxy's sake.
	Servers []string
	// User and Password are sent with every question, unless User is empty.
	User, Password string
	// Token gives a token of Keystone. It is asked when a server wants one, again
	// when that is no longer taken, and by one question at a time; an error of its
	// is the question's. nil: there is none.
	Token func(context.Context) (string, error)
	// TLS is for servers whose URL begins with https; nil trusts the system's CAs.
	TLS *tls.Config
	// Version of the API to ask for, as "1.18" or "latest". A server that does
	// not have it refuses with status 406. Empty: the newest of the server.
	Version string
	// Transport is used in the place of one with TLS; nil: the network.
	Transport http.RoundTripper
	// Random spreads the pauses of clients that failed together; nil: crypto/rand.
	Random io.Reader
	// Once has a question put to each server once, for a caller with a limit of
	// its own.
	Once bool
}

// Client asks the servers of one API. It may be used concurrently.
type Client struct {
	*endpoints
	stale bool
}

// endpoints is what the views of one client share.
type endpoints struct {
	servers []*url.URL
	options Options
	http    *http.Client
	tokens  tokens
	current atomic.Int32 // the server asked first: the one that answered last
	heard   atomic.Int64 // answers and refusals so far
}

// New returns a client. It sends nothing yet; the error is about the options.
func New(o Options) (*Client, error) {
	if o.Transport == nil {
		o.Transport = newTransport(o.TLS)
	}
	c := &endpoints{options: o, tokens: tokens{source: o.Token}, http: &http.Client{
		Transport: o.Transport,
		// a password goes where it was sent
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	for _, text := range o.Servers {
		u, err := url.Parse(strings.TrimSpace(text))
		switch {
		case err != nil, u.Host == "", u.Scheme != "http" && u.Scheme != "https":
			return nil, fmt.Errorf("server %q: write a URL, as http://HOST:5050", text)
		case u.User != nil:
			return nil, fmt.Errorf("server %q: a password in a URL shows in logs and lists of processes: give it apart",
				u.Redacted())
		case u.RawQuery != "", u.Fragment != "":
			return nil, fmt.Errorf("server %q: leave out what follows the path", text)
		}
		c.servers = append(c.servers, u)
	}
	if len(c.servers) == 0 {
		return nil, errors.New("no server is named")
	}
	return &Client{endpoints: c}, nil
}

func newTransport(trust *tls.Config) *http.Transport {
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: dialLimit}).DialContext,
		TLSHandshakeTimeout: dialLimit,
		TLSClientConfig:     trust,
		MaxIdleConnsPerHost: idleConns,
		IdleConnTimeout:     30 * time.Second,
		ForceAttemptHTTP2:   true,
	}
}

// Stale returns a view of c whose reads are answered by one peer from its own
// state, also without a quorum. Only Trivet knows the difference.
func (c *Client) Stale() *Client { return &Client{endpoints: c.endpoints, stale: true} }

// Heard returns how many answers and refusals came so far, from any server: who
// asks for many nodes at once can tell a dead cluster from one that lets a
// single question wait.
func (c *Client) Heard() int64 { return c.heard.Load() }

// request is one question, in any number of tries.
type request struct {
	method string
	path   []string // segments below /v1, not escaped
	query  url.Values
	body   []byte // nil: none
	id     string // X-Request-Id: the tries of one question share it, in every peer's log
	try    time.Duration
	// timeout bounds the tries and pauses together.
	timeout time.Duration
	// once has a question end earlier, with the first try that may have
	// arrived: doing it twice is not doing it once.
	once bool
}

// newID names a question in the form that OpenStack's services use.
func newID() string { return "req-" + uuid.NewString() }

// reading is a question that changes nothing.
func (c *Client) reading(query url.Values, path ...string) request {
	if c.stale {
		query = withParameter(query, "stale", "1")
	}
	return request{method: http.MethodGet, path: path, query: query, id: newID(), try: readTry, timeout: readTimeout}
}

// acting is a question that changes something and must not do so twice.
func acting(method string, path ...string) request {
	return request{method: method, path: path, id: newID(), try: actTry, timeout: actTimeout, once: true}
}

// repeatable is a question with a body that may be asked again: twice is the same as once.
// what names the body in an error.
func repeatable(what string, body any, method string, path ...string) (request, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return request{}, fmt.Errorf("encode %s: %w", what, err)
	}
	r := acting(method, path...)
	r.body, r.once = text, false
	return r, nil
}

// withParameter returns a copy of q in which key has one value.
func withParameter(q url.Values, key, value string) url.Values {
	out := url.Values{key: {value}}
	for k, values := range q {
		if k != key {
			out[k] = values
		}
	}
	return out
}

// about is what the question is about, "" for the API itself.
func (r request) about() string {
	if len(r.path) == 0 {
		return ""
	}
	return r.path[0]
}

// answer is what a server said to a request that it carried out.
type answer struct {
	body   []byte
	header http.Header
}

// decode reads the body into v. ok tells whether it is what was asked for.
func (a answer) decode(v any, ok func() bool) error {
	d := json.NewDecoder(bytes.NewReader(a.body))
	d.UseNumber()
	if err := d.Decode(v); err != nil || !ok() {
		return strange(a.body)
	}
	return nil
}

// asked asks and decodes the answer. ok tells whether it is what was asked for.
func asked[T any](ctx context.Context, c *endpoints, r request, ok func(T) bool) (T, error) {
	var v T
	a, err := c.ask(ctx, r)
	if err == nil {
		err = a.decode(&v, func() bool { return ok(v) })
	}
	return v, err
}

// listed reads the list that an answer has under a key.
func listed[T any](ctx context.Context, c *Client, key string, path ...string) ([]T, error) {
	var all []T
	_, err := asked(ctx, c.endpoints, c.reading(nil, path...), func(a map[string]json.RawMessage) bool {
		return json.Unmarshal(a[key], &all) == nil && all != nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// ask puts the request to one server after another, in rounds with pauses between
// them, until one answers. A refusal is an *Error. When no server answers, the
// error is a *NoAnswerError.
func (c *endpoints) ask(ctx context.Context, r request) (answer, error) {
	var a answer
	var before *NoAnswerError
	began := time.Now()
	err := c.retry(ctx, r.timeout, func(ctx context.Context, _ int) (again bool, err error) {
		a, err = c.round(ctx, r)
		var none *NoAnswerError
		if !errors.As(err, &none) {
			return false, err
		}
		final := r.once && none.Arrived()
		if !final && ctx.Err() != nil && before != nil {
			return true, before // which tells of all servers
		}
		before = none
		return !c.options.Once && !final && !none.Hopeless() && (!none.dead() || time.Since(began) <= deadTimeout), none
	})
	return a, err
}

// retry has try made again within a budget, after pauses that servers may ask for. It
// tells in a *NoAnswerError why there was no time for more.
func (c *endpoints) retry(ctx context.Context, budget time.Duration, try pace.Try) error {
	err := pace.Retry{
		Pause: firstPause, Most: lastPause, Wish: wished, Budget: budget, Random: c.options.Random,
	}.Do(ctx, try)
	var over *pace.EndedError
	var none *NoAnswerError
	if errors.As(err, &over) && errors.As(over.Err, &none) {
		none.Ended = over.Cause
		return none
	}
	return err
}

// Wait waits for about d, of random length, and returns whether ctx let it. It is
// for a program that asks again and again.
func (c *Client) Wait(ctx context.Context, d time.Duration) bool {
	return pace.Wait(ctx, pace.Spread(c.options.Random, d))
}

// round asks each server once, first the one that answered last.
func (c *endpoints) round(ctx context.Context, r request) (answer, error) {
	first, n := int(c.current.Load()), len(c.servers)
	none := NoAnswerError{Changes: r.method != http.MethodGet, About: r.about()}
	for i := range n {
		at := (first + i) % n
		a, err := c.try(ctx, c.servers[at], r)
		var m *Miss
		if !errors.As(err, &m) {
			c.current.Store(int32(at))
			c.heard.Add(1)
			return a, err
		}
		none.Misses = append(none.Misses, m)
		c.current.CompareAndSwap(int32(at), int32((at+1)%n))
		if ctx.Err() != nil || m.Arrived && r.once {
			break
		}
	}
	return answer{}, &none
}

// try asks one server; once more, with another token, if it was refused for want
// of one: then nothing was done. The login has the time of the question, not that
// of a try. An error other than a *Miss is the last word.
func (c *endpoints) try(ctx context.Context, server *url.URL, r request) (answer, error) {
	token := c.tokens.get()
	a, err := c.send(ctx, server, r, token)
	var refused *Error
	if c.options.Token == nil || !errors.As(err, &refused) || !refused.AsksKeystone() {
		return a, err
	}
	if token, err = c.tokens.renew(ctx, token); err != nil {
		return answer{}, err
	}
	return c.send(ctx, server, r, token)
}

// send sends the request to one server, with a token unless that is empty.
func (c *endpoints) send(ctx context.Context, server *url.URL, r request, token string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, r.try)
	defer cancel()
	var sent atomic.Bool // before the request leaves, it has surely not arrived
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	req, err := c.write(ctx, server, r)
	if err != nil {
		return answer{}, fmt.Errorf("make request: %w", err)
	}
	if token != "" {
		req.Header.Set(tokenHeader, token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // the Miss has the server's URL, and the caller knows its call
		}
		return answer{}, &Miss{Server: server.String(), Err: err, Arrived: sent.Load()}
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusMultipleChoices {
		return answer{}, refused(server, r.about(), resp)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return answer{}, &Miss{Server: server.String(), Err: fmt.Errorf("read the answer: %w", err), Arrived: true}
	case len(body) > maxAnswer:
		return answer{}, fmt.Errorf("%s: the answer is longer than %d MiB", server, maxAnswer>>20)
	case len(body) > 0 && bounds.IsPage(resp): // empty answers of the contract are called HTML, too
		return answer{}, fmt.Errorf("%s: %w: it is a page of HTML, of another program in front of it", server, ErrStrange)
	}
	return answer{body: body, header: resp.Header}, nil
}

// write makes the request for one server.
func (c *endpoints) write(ctx context.Context, server *url.URL, r request) (*http.Request, error) {
	path := []string{"v1"}
	for _, segment := range r.path {
		path = append(path, url.PathEscape(segment)) // JoinPath takes them escaped
	}
	target := server.JoinPath(path...)
	target.RawQuery = r.query.Encode()
	req, err := http.NewRequestWithContext(ctx, r.method, target.String(), bytes.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-Request-Id", r.id)
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.options.Version != "" {
		req.Header.Set(versionHeader, c.options.Version)
	}
	if c.options.User != "" {
		req.SetBasicAuth(c.options.User, c.options.Password)
	}
	return req, nil
}

// date is the time of the server's clock; of ours when it did not say.
func (a answer) date() time.Time {
	if t, err := http.ParseTime(a.header.Get("Date")); err == nil {
		return t
	}
	return time.Now()
}
