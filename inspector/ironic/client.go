package ironic

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/internal/logs"
	"github.com/trivet-ha/trivet/internal/servicecreds"
)

const (
	// maxNode bounds the answer about one node or port, in bytes.
	maxNode = 1 << 20
	// maxPage bounds an answer that is a list, in bytes: a thousand ports with
	// all their fields are 1 MB.
	maxPage = 16 << 20
	// pingTimeout bounds a question whether Ironic is there, also where the configuration
	// grants a call more: an Ironic that does not answer within it is not usable.
	pingTimeout = 3 * time.Second
)

// Client is an Ironic. Its methods may be called concurrently.
type Client struct {
	now    atomic.Pointer[line]
	logger *slog.Logger
}

// line is the way to Ironic by one configuration: it carries calls out, Client says what
// is asked.
type line struct {
	transport *transport
	sessions  *sessions
	ramdisks  *session // of ironic.ramdisk_endpoint, without credentials; nil: sessions has it
	retries   int
	interval  time.Duration
	timeout   time.Duration
	login     string // where the credentials are configured
	log       *slog.Logger
	doubted   atomic.Bool // a call was not judged: ping asks what wants credentials
	random    io.Reader   // of the pauses between tries; nil: crypto/rand
}

// New returns the Ironic of conf. It reads the files that conf names and sends
// nothing: whether Ironic can be reached is for Ping to say. The caller closes
// the client.
func New(conf config.Ironic, logger *slog.Logger) (*Client, error) {
	l, err := newLine(conf, logger)
	if err != nil {
		return nil, err
	}
	return l.client(logger), nil
}

func (l *line) client(logger *slog.Logger) *Client {
	c := &Client{logger: logger}
	c.now.Store(l)
	return c
}

// Prepare reads the files that another configuration names, and sends nothing.
// Calls that begin after take go by it; those under way end as they began.
func (c *Client) Prepare(conf config.Ironic) (take func(), err error) {
	next, err := newLine(conf, c.logger)
	if err != nil {
		return nil, err
	}
	return func() { c.now.Swap(next).transport.close() }, nil
}

func newLine(conf config.Ironic, logger *slog.Logger) (*line, error) {
	secure, err := servicecreds.OpenTLS(servicecreds.Files{
		CA: conf.TLS.CAFile, Cert: conf.TLS.CertFile, Key: conf.TLS.KeyFile, Insecure: conf.TLS.InsecureSkipVerify,
		Section: "ironic",
	}, logger)
	if err != nil {
		return nil, err
	}
	t := newTransport(secure, conf.Timeout)
	s, err := newSessions(conf, t)
	if err != nil {
		return nil, err
	}
	var ramdisks *session // of an endpoint for ramdisks alone, nil if none is configured
	if conf.RamdiskEndpoint != "" {
		anonymous := &gophercloud.ProviderClient{} // without a token
		ramdisks = newSession(&gophercloud.ServiceClient{ProviderClient: anonymous, Endpoint: conf.RamdiskEndpoint})
	}
	return &line{
		transport: t, sessions: s, ramdisks: ramdisks,
		retries: conf.Retries, interval: conf.RetryInterval, timeout: conf.Timeout,
		login: conf.Login(), log: logs.Limit(logger),
	}, nil
}

// Close ends the connections that carry no call.
func (c *Client) Close() { c.now.Load().transport.close() }

// Ping reports whether this peer can speak to Ironic: one try, within three
// seconds, without asking the context's guard. Any answer below 500 will do,
// but 401 and 403, a 404 that is not Ironic's own, as of a proxy without a route
// to it, and a login at Keystone that fails: then every call would
// fail, here and perhaps not on other peers. Ironic shows its first page to
// everybody, so after a call that was not judged, as with a wrong password of
// http_basic, what wants credentials is asked until that is answered.
func (c *Client) Ping(ctx context.Context) error { return c.now.Load().ping(ctx) }

func (l *line) ping(ctx context.Context) error {
	ctx = WithGuard(ctx, func() error { return nil })
	ping := call{method: http.MethodGet}
	if l.doubted.Load() {
		ping.path = firstNode
	}
	ctx, cancel := within(ctx, min(l.timeout, pingTimeout))
	defer cancel()
	if _, err := l.sessions.Get(ctx); err != nil {
		return describe("Ironic", l.login, ping.name(), err)
	}
	_, err := l.try(ctx, ping)
	switch {
	case err == nil:
		if ping.path != "" {
			l.doubted.Store(false)
		}
		return nil
	case err.Status == http.StatusUnauthorized, err.Status == http.StatusForbidden,
		err.Status == http.StatusNotFound && !err.Own:
		return err
	case err.Status >= http.StatusOK && err.Status < http.StatusInternalServerError:
		return nil
	}
	return err
}

// call is one request to Ironic and what its answers mean.
type call struct {
	method   string
	path     string // below v1/, escaped, with its query
	node     string // that path names, "" for none
	body     any    // encoded as JSON; nil for none
	limit    int64  // of the answer, in bytes; 0 if the body is of no use
	bmc      bool   // whether a BMC is behind it: 500 may be that one's failure
	once     bool   // whether it must not be repeated where it may have been carried out
	meanings []meaning
}

// meaning is what an answer tells the caller besides its text: status and a
// part of Ironic's sentence.
type meaning struct {
	status int
	part   string
	err    error
}

func (k call) name() string { return k.method + " v1/" + k.path }

func (l *line) inSession(ctx context.Context, k call) ([]byte, error) {
	sc, err := l.sessions.Get(ctx)
	if err != nil {
		return nil, unsent{err}
	}
	raw, err := l.send(ctx, sc, k)
	if !l.sessions.renewable || !gophercloud.ResponseCodeIs(err, http.StatusUnauthorized) {
		return raw, err
	}
	l.sessions.Drop(sc)
	if sc, err = l.sessions.Get(ctx); err != nil {
		return nil, unsent{err}
	}
	return l.send(ctx, sc, k)
}

// contentJSON is what is sent and taken.
const contentJSON = "application/json"

// send makes one request and reads its answer to the end, so that the
// connection can carry the next.
func (l *line) send(ctx context.Context, s *session, k call) ([]byte, error) {
	req, err := s.request(ctx, k)
	if err != nil {
		return nil, err
	}
	// Past http.Client, which follows redirects: that makes a GET of a PUT, and
	// takes a token along.
	resp, err := l.sessions.transport.RoundTrip(req)
	if err != nil {
		return nil, &url.Error{Op: k.method, URL: req.URL.String(), Err: err}
	}
	defer resp.Body.Close() // read to its end, or of no use
	switch resp.StatusCode {
	case http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusNoContent:
	default:
		body, _ := io.ReadAll(resp.Body) // what broke off tells enough; the transport bounds it
		body = k.withoutSecrets(body, req)
		return nil, gophercloud.ErrUnexpectedResponseCode{Actual: resp.StatusCode, Body: body, ResponseHeader: resp.Header}
	}
	return k.answer(resp)
}

// request builds what is sent for a call.
func (s *session) request(ctx context.Context, k call) (*http.Request, error) {
	var content io.Reader
	if k.body != nil {
		raw, err := json.Marshal(k.body)
		if err != nil {
			return nil, fmt.Errorf("encode the request: %w", err)
		}
		content = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, k.method, s.base+k.path, content)
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, s.header)
	if content != nil {
		req.Header["Content-Type"] = []string{contentJSON}
	}
	return req, nil
}

// answer reads the body of a success.
func (k call) answer(resp *http.Response) ([]byte, error) {
	if k.limit == 0 {
		// The request is done, also if the rest of the answer is lost.
		_, _ = io.CopyN(io.Discard, resp.Body, maxErrorBody)
		return nil, nil
	}
	var raw bytes.Buffer
	if size := resp.ContentLength; size > 0 {
		raw.Grow(int(min(size, k.limit)) + bytes.MinRead)
	}
	_, err := raw.ReadFrom(io.LimitReader(resp.Body, k.limit+1))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large), err == nil && int64(raw.Len()) > k.limit:
		return nil, garbled(k.name(), "Ironic's answer is larger than %d bytes", k.limit)
	case err != nil:
		return nil, fmt.Errorf("the answer broke off: %w", err)
	}
	return raw.Bytes(), nil
}

// decode reads an answer.
func decode(k call, raw []byte, out any) error {
	if err := json.Unmarshal(raw, out); err != nil {
		return unreadable(k, raw, err)
	}
	return nil
}

func unreadable(k call, raw []byte, why error) error {
	excerpt := raw[:min(len(raw), maxExcerpt)]
	return garbled(k.name(), "Ironic said yes, and its answer cannot be read: %v: %q", why, excerpt)
}

// maxVersion bounds Ironic's first page, in bytes.
const maxVersion = 64 << 10

// firstNode is what Ironic answers to those alone whose credentials it takes.
const firstNode = "nodes?limit=1&fields=uuid"

// Version returns the newest version of its API that Ironic offers, "" if it does
// not say, and proves on the way that our credentials are taken: unlike Ping it
// asks something that Ironic does not tell everybody. It asks no guard.
func (c *Client) Version(ctx context.Context) (string, error) {
	ctx = WithGuard(ctx, func() error { return nil })
	if _, err := c.now.Load().do(ctx,
		call{method: http.MethodGet, path: firstNode, limit: maxVersion}); err != nil {
		return "", err
	}
	page, err := c.now.Load().do(ctx, call{method: http.MethodGet, limit: maxVersion})
	if err != nil {
		return "", err
	}
	var first struct {
		Version struct {
			Version string `json:"version"`
		} `json:"version"`
	}
	if json.Unmarshal(page, &first) != nil {
		return "", nil // something between us and Ironic has a first page of its own
	}
	return first.Version.Version, nil
}
