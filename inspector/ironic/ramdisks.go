package ironic

import (
	"context"
	"fmt"
	"net/http"
)

// The options that hold the URL of an endpoint.
const (
	mainOption    = "ironic.endpoint"
	ramdiskOption = "ironic.ramdisk_endpoint"
)

// inband is an endpoint of Ironic's API, as one that may take what ramdisks send.
type inband struct {
	option string // that holds its URL
	get    func(context.Context) (*session, error)
	drop   func(*session) // makes the next get log in again; nil: that would change nothing
}

// inbands are the endpoints of a configuration, that which documents go to first. Ironic wants no
// credentials for what ramdisks send, so an endpoint for it alone is shown none: it may be
// another's, or stand in a network of its own.
func (l *line) inbands() []inband {
	all := inband{option: mainOption, get: l.sessions.Get}
	if l.sessions.renewable {
		all.drop = l.sessions.Drop
	}
	if l.ramdisks == nil {
		return []inband{all}
	}
	apart := inband{option: ramdiskOption, get: func(context.Context) (*session, error) { return l.ramdisks, nil }}
	return []inband{apart, all}
}

// reason is why an answer is no success: Ironic's own sentence, if it has one, and what to do
// where the configuration is at fault.
func (to inband) reason(resp *http.Response, said string) string {
	if said == "" {
		said = fmt.Sprintf("Ironic answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	}
	switch {
	case resp.StatusCode/100 == 3:
		return fmt.Sprintf("%s answered %d, a redirect to %q, which is not followed; write the URL that answers itself",
			to.option, resp.StatusCode, cut(resp.Header.Get("Location")))
	case resp.StatusCode == http.StatusForbidden && to.option == mainOption:
		return "ironic.endpoint refuses what ramdisks send: " + said + "; write as ironic.ramdisk_endpoint the URL of an " +
			"API of Ironic that takes it ([api] enable_ramdisk_endpoints = True), and inspect the node again"
	case resp.StatusCode == http.StatusForbidden:
		return "ironic.ramdisk_endpoint refuses what ramdisks send: " + said + "; set [api] enable_ramdisk_endpoints = " +
			"True in that Ironic, or write the URL of another, and inspect the node again"
	case resp.StatusCode == http.StatusUnauthorized && to.option == mainOption:
		return "ironic.endpoint refuses the credentials: " + said + "; check ironic.auth_type, ironic.username and " +
			"ironic.password"
	case resp.StatusCode == http.StatusUnauthorized:
		return "ironic.ramdisk_endpoint wants credentials, and is shown none: " + said + "; write the URL of an API that " +
			"takes what ramdisks send, and inspect the node again"
	}
	return said
}

// Ramdisks are the endpoints of an Ironic that may take what ramdisks send. Its methods may be
// called concurrently.
type Ramdisks struct{ client *Client }

// Ramdisks returns the endpoints by the configuration that is in force when they are asked.
func (c *Client) Ramdisks() Ramdisks { return Ramdisks{c} }

// Apart reports whether ramdisks have an endpoint of their own.
func (r Ramdisks) Apart() bool { return r.client.now.Load().ramdisks != nil }

// Ping reports whether this peer can speak to the endpoint that ramdisks have of their own, as
// Client.Ping does, but any answer below 500 will do: it may serve its few paths alone. Without
// such an endpoint nothing is sent.
func (r Ramdisks) Ping(ctx context.Context) error {
	l := r.client.now.Load()
	if l.ramdisks == nil {
		return nil
	}
	ctx, cancel := within(WithGuard(ctx, func() error { return nil }), min(l.timeout, pingTimeout))
	defer cancel()
	ping := call{method: http.MethodGet}
	_, err := l.send(ctx, l.ramdisks, ping)
	if err == nil {
		return nil
	}
	e := describe("Ironic", ramdiskOption, ping.name(), err)
	if e.Status == 0 || e.Status >= http.StatusInternalServerError {
		return e
	}
	return nil
}

// RamdiskAnswer is what an endpoint says of documents of ramdisks.
type RamdiskAnswer struct {
	Option string // that holds its URL
	URL    string // "" if that is not known
	Used   bool   // documents go there
	// Refusal is why it takes none, "" if it does; Err is why that is not known.
	Refusal string
	Err     error
}

// addressless is a document without an address by which Ironic could find or enrol a machine. An API that takes
// documents answers it with 400, after it has asked its configuration and its policy.
const addressless = `{"inventory":{"interfaces":[{"mac_address":""}]}}`

// Ask asks each endpoint whether it takes what ramdisks send. It changes nothing in
// Ironic, and asks no guard.
func (r Ramdisks) Ask(ctx context.Context) []RamdiskAnswer {
	l := r.client.now.Load()
	ctx = WithGuard(ctx, func() error { return nil })
	var out []RamdiskAnswer
	for i, to := range l.inbands() {
		a := RamdiskAnswer{Option: to.option, Used: i == 0}
		if s, err := to.get(ctx); err == nil { // else post says why
			a.URL = s.base
		}
		bounded, cancel := within(ctx, min(l.timeout, pingTimeout))
		answer, err := to.post(bounded, l.sessions.transport, InbandCall{Body: []byte(addressless)})
		cancel()
		switch {
		case err != nil:
			a.Err = describe("Ironic", l.login, continueCall, err)
		case answer.Status >= http.StatusInternalServerError:
			a.Err = fmt.Errorf("answer of Ironic: %d: %s", answer.Status, answer.Reason)
		case answer.Status != http.StatusBadRequest:
			a.Refusal = fmt.Sprintf("%d: %s", answer.Status, answer.Reason)
		}
		out = append(out, a)
	}
	return out
}
