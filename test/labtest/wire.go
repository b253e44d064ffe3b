//go:build e2e

package labtest

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/labtest/httpapi"
	"github.com/trivet-ha/trivet/test/labtest/openstack"
	"github.com/trivet-ha/trivet/test/testwait"
)

// Ask sends one request to the peer's public API.
func (p *Peer) Ask(method, path string, body []byte) (httpapi.Reply, error) {
	return httpapi.Ask(p.wire, p.API, method, path, nil, body)
}

// web asks it for how a request is answered, and how soon.
func (p *Peer) web(t *testing.T, path string) (status int, took time.Duration) {
	t.Helper()
	began := time.Now()
	reply, err := p.Ask("GET", path, nil)
	if err != nil {
		t.Errorf("%s: %v", path, err)
	}
	return reply.Status, time.Since(began)
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
func (p *Peer) Report(node string) (r openstack.Report, err error) {
	return r, p.accepted("GET", "/v1/introspection/"+node, nil, &r)
}

// Reports lists all that are kept, newest first.
func (p *Peer) Reports() ([]openstack.Report, error) {
	var all []openstack.Report
	for path := "/v1/introspection?limit=1000"; ; {
		var page struct{ Introspection []openstack.Report }
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

// settled is Ask; an answer that says to come back is a *Refusal.
func (p *Peer) settled(method, path string, body []byte) (httpapi.Reply, error) {
	reply, err := p.Ask(method, path, body)
	if err == nil && reply.Status == http.StatusServiceUnavailable {
		err = reply.Err()
	}
	return reply, err
}

func (p *Peer) accepted(method, path string, body []byte, out any) error {
	reply, err := p.Ask(method, path, body)
	if err != nil {
		return err
	}
	return reply.Decode(out)
}

// retryable reports whether a client shall ask again, and somewhere else: no
// answer came, or one that says to come back.
func retryable(err error) bool {
	var refusal *httpapi.Refusal
	return err != nil && (!errors.As(err, &refusal) || refusal.Status == http.StatusServiceUnavailable)
}

// again asks until the answer is another than none or to come back.
func again(ask func() error) error {
	var final error // an answer that asking again does not change
	return errors.Join(testwait.Poll(context.Background(), electLimit, "an answer other than none or to come back",
		func() error {
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
