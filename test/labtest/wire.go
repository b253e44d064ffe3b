//go:build e2e

package labtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/trivet-ha/trivet/test/testwait"
)

// wireLimit bounds one request of the public API: a peer waits up to 25 s for
// the end of what it was asked.
const wireLimit = 40 * time.Second

// Reply is an answer of the public API.
type Reply struct {
	Status int
	Header http.Header
	Body   []byte
}

// Report is the status object of the wire contract.
type Report struct {
	UUID       string  `json:"uuid"`
	State      string  `json:"state"`
	Finished   bool    `json:"finished"`
	Error      *string `json:"error"`
	StartedAt  string  `json:"started_at"`
	FinishedAt *string `json:"finished_at"`
}

// Reason returns the error, "" when there is none.
func (r Report) Reason() string {
	if r.Error == nil {
		return ""
	}
	return *r.Error
}

// wireClient returns a client of the public API. It follows no redirect,
// because answers are compared as they come.
func wireClient() *http.Client {
	return &http.Client{
		Timeout:       wireLimit,
		Transport:     &http.Transport{MaxIdleConnsPerHost: 64},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// ask sends one request to the public API at addr, host:port.
func ask(client *http.Client, addr, method, path string, header map[string]string, body []byte) (Reply, error) {
	var in io.Reader
	if body != nil {
		in = bytes.NewReader(body)
	}
	req, err := http.NewRequest(method, "http://"+addr+path, in)
	if err != nil {
		return Reply{}, err
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	resp, err := client.Do(req)
	if err != nil {
		return Reply{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return Reply{Status: resp.StatusCode, Header: resp.Header, Body: text}, err
}

// Ask sends one request to the peer's public API.
func (p *Peer) Ask(method, path string, body []byte) (Reply, error) {
	return ask(p.wire, p.API, method, path, nil, body)
}

// Introspect starts the introspection of a node. A refusal is a *Refusal.
func (p *Peer) Introspect(node string) error {
	return p.accepted("POST", "/v1/introspection/"+node, nil, nil)
}

// Abort ends the introspection of a node.
func (p *Peer) Abort(node string) error {
	return p.accepted("POST", "/v1/introspection/"+node+"/abort", nil, nil)
}

// Report reads how the introspection of a node stands.
func (p *Peer) Report(node string) (r Report, err error) {
	return r, p.accepted("GET", "/v1/introspection/"+node, nil, &r)
}

// Reports lists all that are kept, newest first.
func (p *Peer) Reports() ([]Report, error) {
	var all []Report
	for path := "/v1/introspection?limit=1000"; ; {
		var page struct{ Introspection []Report }
		if err := p.accepted("GET", path, nil, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Introspection...)
		if len(page.Introspection) < 1000 {
			return all, nil
		}
		path = "/v1/introspection?limit=1000&marker=" + all[len(all)-1].UUID
	}
}

// Continue posts a ramdisk's data and returns the node it was found to be.
func (p *Peer) Continue(document []byte) (node string, err error) {
	var out struct{ UUID string }
	return out.UUID, p.accepted("POST", "/v1/continue", document, &out)
}

// settled is Ask; an answer that says to come back is a *Refusal.
func (p *Peer) settled(method, path string, body []byte) (Reply, error) {
	reply, err := p.Ask(method, path, body)
	if err == nil && reply.Status == http.StatusServiceUnavailable {
		err = &Refusal{Status: reply.Status, RetryAfter: reply.Header.Get("Retry-After"), Body: string(reply.Body)}
	}
	return reply, err
}

func (p *Peer) accepted(method, path string, body []byte, out any) error {
	reply, err := p.Ask(method, path, body)
	if err != nil {
		return err
	}
	if reply.Status >= http.StatusBadRequest {
		return &Refusal{Status: reply.Status, RetryAfter: reply.Header.Get("Retry-After"), Body: string(reply.Body)}
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(reply.Body, out)
}

// retryable reports whether a client shall ask again, and somewhere else: no
// answer came, or one that says to come back.
func retryable(err error) bool {
	var refusal *Refusal
	return err != nil && (!errors.As(err, &refusal) || refusal.Status == http.StatusServiceUnavailable)
}

// again asks until the answer is another than none or to come back.
func again(ask func() error) error {
	var final error // an answer that asking again does not change
	return errors.Join(testwait.Poll(context.Background(), electLimit, "an answer other than none or to come back", func() error {
		err := ask()
		if retryable(err) {
			return err
		}
		final = err
		return nil
	}), final)
}

// Anywhere asks the running peers in turn, beginning with any, until one gives
// an answer that is not a request to come back.
func (l *Lab) Anywhere(limit time.Duration, what string, ask func(*Peer) error) error {
	var final error // an answer that asking again does not change
	turn := 0
	return errors.Join(testwait.Poll(context.Background(), limit, what, func() error {
		peers := l.Running()
		if len(peers) == 0 {
			return errors.New("no peer runs")
		}
		err := ask(peers[turn%len(peers)])
		turn++
		if retryable(err) {
			return err
		}
		final = err
		return nil
	}), final)
}
