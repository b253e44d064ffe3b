package fence

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/failover"
	"github.com/trivet-ha/trivet/internal/bounds"
	"github.com/trivet-ha/trivet/internal/servicecreds"
)

const (
	maxAnswer  = 1 << 20          // of a BMC, in bytes
	maxHeader  = 64 << 10         // of an answer, in bytes
	idleToBMC  = 30 * time.Second // how long a connection is kept for the next question
	maxMessage = 300              // bytes of a BMC's sentence that are quoted
)

// newClient returns a client for BMCs. Proxies of the environment are not used: no
// other host may see the password.
func newClient(secure *servicecreds.TLS) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialTLSContext:         secure.Dial,
			MaxResponseHeaderBytes: maxHeader,
			MaxIdleConnsPerHost:    1, // BMCs have few sessions
			IdleConnTimeout:        idleToBMC,
		},
		// A redirect would take the password along.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// refusal is an answer that is no success.
type refusal struct {
	call   string
	status int
	ids    []string // of the BMC's messages, as "Base.1.8.NoOperation"
	text   string
}

// Error implements error.
func (r *refusal) Error() string {
	text := fmt.Sprintf("%s: %d %s", r.call, r.status, http.StatusText(r.status))
	if r.text != "" {
		text += fmt.Sprintf(": %q", r.text)
	}
	return text
}

// Is reports that a refusal of the login is failover.ErrLogin.
func (r *refusal) Is(target error) bool {
	return target == failover.ErrLogin && (r.status == http.StatusUnauthorized || r.status == http.StatusForbidden)
}

// already finds the state that a BMC says a machine has, and no command that it already has
// in hand.
var already = regexp.MustCompile(`(?i)\balready (?:(?:powered|turned|switched) )?(on|off)\b`)

// saysAlready reports whether the BMC refused because nothing had to be done.
func (r *refusal) saysAlready(want failover.Power) bool {
	if r.status != http.StatusBadRequest && r.status != http.StatusConflict {
		return false
	}
	for _, id := range r.ids {
		if id == "NoOperation" || strings.HasSuffix(id, ".NoOperation") {
			return true
		}
	}
	found := already.FindStringSubmatch(r.text)
	return found != nil && strings.EqualFold(found[1], want.String())
}

// setback adds what to do to a refusal.
func (r *refusal) setback() error {
	switch {
	case errors.Is(r, failover.ErrLogin):
		return &setback{r, "see username and password_file of the device; the user must be allowed to switch machines", true}
	case r.status == http.StatusNotFound:
		return &setback{r, "see the machine's URL under nodes of the device", true}
	case r.status >= 300 && r.status < 400:
		return &setback{r, "write the URL that the BMC names; redirects are not followed", true}
	case r.status == http.StatusMethodNotAllowed, r.status == http.StatusNotImplemented:
		return &setback{fmt.Errorf("%w by the BMC: %w", ErrUnsupported, r), "use another type of device for this machine",
			true}
	}
	return r
}

// send makes one request and returns the body of a success. Other answers are
// *refusal.
func (r *redfish) send(ctx context.Context, verb, to string, body []byte) ([]byte, error) {
	secret, err := r.password.Read()
	if err != nil {
		return nil, &setback{err, "write the file, readable for trivet", false}
	}
	req, err := http.NewRequestWithContext(ctx, verb, to, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.SetBasicAuth(r.username, secret)
	req.Header.Set("Accept", "application/json")
	req.Header.Set("OData-Version", "4.0")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := r.client.Do(req)
	if op := new(net.OpError); errors.As(err, &op) && op.Op == "remote error" {
		return nil, &setback{err, "the BMC may speak TLS 1.2 with RSA key exchange alone, which is not offered: write a " +
			"device of type agent with fence_redfish", false}
	}
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() // read to its end, or of no use
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return nil, refused(verb+" "+to, resp, raw).setback() // what broke off tells enough
	case err != nil && verb == http.MethodGet:
		return nil, fmt.Errorf("%s %s: the answer broke off: %w", verb, to, err)
	case len(raw) > maxAnswer:
		return nil, fmt.Errorf("%s %s: the answer is larger than %d bytes", verb, to, maxAnswer)
	}
	return raw, nil
}

// refused reads the messages of an error (DSP0266, "Error responses").
func refused(call string, resp *http.Response, raw []byte) *refusal {
	var body struct {
		Error struct {
			Code     string `json:"code"`
			Message  string `json:"message"`
			Extended []struct {
				MessageID string `json:"MessageId"`
				Message   string
			} `json:"@Message.ExtendedInfo"`
		} `json:"error"`
	}
	r := &refusal{call: call, status: resp.StatusCode}
	if json.Unmarshal(raw, &body) != nil {
		r.text = shorten(string(raw))
	} else {
		sentences := []string{cmp.Or(body.Error.Message, body.Error.Code)}
		r.ids = []string{body.Error.Code}
		for _, m := range body.Error.Extended {
			// Some BMCs name the message of the registry and leave the sentence out.
			sentences, r.ids = append(sentences, cmp.Or(m.Message, m.MessageID)), append(r.ids, m.MessageID)
		}
		r.text = shorten(strings.Join(sentences, " "))
	}
	if at := resp.Header.Get("Location"); r.status < 400 && at != "" {
		r.text = shorten("go to " + at)
	}
	return r
}

// shorten makes one line of a foreign text.
func shorten(text string) string {
	return bounds.Excerpt(strings.Join(strings.Fields(text), " "), maxMessage)
}
