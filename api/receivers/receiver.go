package receivers

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/api/events"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/internal/bounds"
	"github.com/trivet-ha/trivet/internal/servicecreds"
)

// Bounds of one request.
const (
	answerLimit = 10 * time.Second // connection, request and answer together
	dialLimit   = 5 * time.Second
	maxHeader   = 16 << 10 // bytes of an answer's head
	maxAnswer   = 4 << 10  // bytes of its body that are read; it says nothing to us
	maxWish     = time.Minute

	secretPrefix = "whsec_"
	leastSecret  = 24 // bytes
	mostSecret   = 64
)

// Receiver is one receiver of events. It may be used concurrently.
type Receiver struct {
	name, url string
	filter    events.Filter
	secret    servicecreds.Password
	client    *http.Client
	wall      func() time.Time
}

// Options are what receivers are made with, besides their configuration.
type Options struct {
	Wall   func() time.Time
	Logger *slog.Logger
	// Network carries requests of a simulated host; nil: that of this host.
	Network http.RoundTripper
}

// Open makes the receivers of a configuration. It reads their files and opens no
// connection; the error names option and file.
func Open(conf config.Events, o Options) ([]*Receiver, error) {
	var out []*Receiver
	for _, c := range conf.List() { // values before files, which may be missing yet
		var filter events.Filter
		for _, kind := range c.Kinds {
			topic, known := eventring.ParseTopic(kind)
			if !known {
				return nil, fmt.Errorf("events.kinds: %q of receiver %s is no kind of event; one of %s", kind, c.Name,
					strings.Join(eventring.TopicNames(), ", "))
			}
			filter.Topics, filter.Admin = append(filter.Topics, topic), true
		}
		out = append(out, &Receiver{name: c.Name, url: c.URL, filter: filter, wall: o.Wall,
			secret: servicecreds.Password{File: c.SecretFile, Option: "events.secrets", Reads: new(bounds.Calls)}})
	}
	secure, err := servicecreds.OpenTLS(servicecreds.Files{CA: conf.CAFile, Section: "events"}, o.Logger)
	if err != nil {
		return nil, err
	}
	for _, r := range out {
		r.client = newClient(secure)
		if o.Network != nil {
			r.client.Transport = o.Network
		}
		if _, err := r.key(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// newClient asks one receiver, which is asked for one thing at a time. A redirect is no
// answer: what is signed for one server is shown to no other.
func newClient(secure *servicecreds.TLS) *http.Client {
	return &http.Client{
		Timeout: answerLimit,
		Transport: &http.Transport{
			DialContext: (&net.Dialer{Timeout: dialLimit}).DialContext, DialTLSContext: secure.Dial,
			MaxConnsPerHost: 1, IdleConnTimeout: 30 * time.Second, MaxResponseHeaderBytes: maxHeader,
			DisableCompression: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// key reads the secret. The error quotes nothing of it.
func (r *Receiver) key() ([]byte, error) {
	text, err := r.secret.Read()
	if err != nil {
		return nil, err
	}
	encoded, marked := strings.CutPrefix(text, secretPrefix)
	key, err := base64.StdEncoding.DecodeString(encoded)
	if !marked || err != nil || len(key) < leastSecret || len(key) > mostSecret {
		return nil, fmt.Errorf(
			"events.secrets: %s holds no secret of the form whsec_ and %d to %d bytes in base64; write one: echo whsec_$(openssl rand -base64 32)",
			r.secret.File, leastSecret, mostSecret)
	}
	return key, nil
}

// answerError is an answer of a receiver that does not take a delivery.
type answerError struct {
	status string
	after  time.Duration // that it asks to wait
}

// Error implements error.
func (e *answerError) Error() string { return "it answered " + e.status }

// wish is the pause that a failure asks for.
func wish(err error) time.Duration {
	if answer, ok := errors.AsType[*answerError](err); ok {
		return answer.after
	}
	return 0
}

// post sends one delivery and returns nil once the receiver has taken it, which is an answer
// of 200 to 299 and no other.
func (r *Receiver) post(ctx context.Context, id string, body []byte) error {
	key, err := r.key()
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	stamp := strconv.FormatInt(r.wall().Unix(), 10)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "trivet")
	req.Header.Set("webhook-id", id)
	req.Header.Set("webhook-timestamp", stamp)
	req.Header.Set("webhook-signature", "v1,"+sign(key, id, stamp, body))
	resp, err := r.client.Do(req)
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return failed.Err // readers are told the error, and the path of a URL may be its secret
	}
	if err != nil {
		return err
	}
	if _, err := io.CopyN(io.Discard, resp.Body, maxAnswer); err != nil && !errors.Is(err, io.EOF) {
		_ = resp.Body.Close() // it was cut off
		return fmt.Errorf("read its answer %s: %w", resp.Status, err)
	}
	if err := resp.Body.Close(); err != nil {
		return err
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		seconds, _ := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 16) // another form is no wish
		return &answerError{resp.Status, min(time.Duration(seconds)*time.Second, maxWish)}
	}
	return nil
}

// sign is the signature of Standard Webhooks: HMAC-SHA256 of ID, time and body.
func sign(key []byte, id, stamp string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + stamp + "."))
	mac.Write(body)
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// Name returns what the configuration calls the receiver.
func (r *Receiver) Name() string { return r.name }

// Ping sends a delivery without events, of the type ping, as doctor does on each host.
func (r *Receiver) Ping(ctx context.Context, cluster string) error {
	body := encode(message{Type: typePing, Timestamp: r.wall().UTC().Format(time.RFC3339Nano),
		Data: Data{Cluster: cluster, Receiver: r.name, Events: noEvents()}})
	return r.post(ctx, idOf(body), body)
}

// close ends the connection that carries nothing.
func (r *Receiver) close() { r.client.CloseIdleConnections() }
