package ironic

import (
	"bytes"
	"cmp"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/trivet-ha/trivet/internal/bounds"
)

// maxMessage bounds a foreign sentence in an error, in bytes; text without a
// sentence is cut shorter.
const (
	maxMessage = 4 << 10
	maxExcerpt = 120
)

// describe makes of what gophercloud or this package returned the one kind of
// error that callers meet. service is who was asked, login is where the
// credentials are configured.
func describe(service, login, call string, err error) *Error {
	if known, ok := errors.AsType[*Error](err); ok {
		if errors.Is(err, ErrNotSent) && !errors.Is(known, ErrNotSent) {
			kept := *known // others may have met the same login
			kept.Err = unsent{cmp.Or(known.Err, ErrNotSent)}
			return &kept
		}
		return known
	}
	if answer, ok := errors.AsType[gophercloud.ErrUnexpectedResponseCode](err); ok {
		return &Error{Call: call, Status: answer.Actual, Message: reason(service, login, answer), Own: own(answer.Body)}
	}
	e := &Error{Call: call, Err: err}
	var sent *url.Error
	switch {
	case errors.Is(err, ErrNotAllowed):
		e.Message = ErrNotAllowed.Error()
	case errors.As(err, &sent):
		e.Message = cut("no answer from " + service + ": " + sent.Err.Error())
	default:
		e.Message = cut(err.Error())
	}
	var signer x509.UnknownAuthorityError
	if errors.As(err, &signer) {
		e.Message += "; write the file of the CA that signed it as ironic.ca_file"
	}
	return e
}

// garbled is an answer that says yes and cannot be read.
func garbled(call, format string, args ...any) *Error {
	return &Error{Call: call, Status: http.StatusOK, Message: cut(fmt.Sprintf(format, args...))}
}

// reason finds why an answer is no success.
func reason(service, login string, answer gophercloud.ErrUnexpectedResponseCode) string {
	text := sentence(answer.Body)
	switch {
	case answer.Actual/100 == 3:
		return cut(
			fmt.Sprintf("%s answered with a redirect to %s, which is not followed; write the address that answers itself",
				service, answer.ResponseHeader.Get("Location")))
	case answer.Actual == http.StatusUnauthorized:
		return cut(strings.TrimSpace(service + " refused the credentials: check ironic.auth_type, " + login + ". " + text))
	case answer.Actual == http.StatusNotAcceptable && text != "":
		return cut(text + " Trivet speaks " + microversion + ".")
	case text != "":
		return cut(text)
	}
	said := fmt.Sprintf("%s answered %d %s", service, answer.Actual, http.StatusText(answer.Actual))
	if excerpt := strings.TrimSpace(string(answer.Body[:min(len(answer.Body), maxExcerpt)])); excerpt != "" {
		said += fmt.Sprintf(", and no reason that can be read: %q", excerpt)
	}
	return said
}

// sentence finds the words for people in the body of an error: those of Ironic,
// in JSON text inside the JSON or in the JSON itself, or Keystone's message. ""
// when there are none.
func sentence(body []byte) string {
	var outer struct {
		ErrorMessage json.RawMessage `json:"error_message"`
		Error        struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal(body, &outer); err != nil {
		return ""
	}
	inner := []byte(outer.ErrorMessage)
	var text string
	if err := json.Unmarshal(inner, &text); err == nil {
		inner = []byte(text)
	}
	var fault struct {
		Text        string `json:"faultstring"` // of what Ironic refuses itself
		Description string `json:"description"` // of what its web framework refuses
	}
	if err := json.Unmarshal(inner, &fault); err == nil {
		return cmp.Or(fault.Text, fault.Description)
	}
	if text = strings.TrimSpace(text); text != "" && !strings.HasPrefix(text, "{") {
		return text
	}
	return outer.Error.Message
}

// own reports whether the body of an error is Ironic's fault: no proxy in front of it, and not the
// web framework below its API, has that word.
func own(body []byte) bool {
	return bytes.Contains(body, []byte("faultstring")) && sentence(body) != ""
}

// cut bounds a message and makes it text.
func cut(text string) string { return bounds.Excerpt(strings.TrimSpace(text), maxMessage) }

// ended is a call whose caller's context ended. It keeps what the last try met,
// which may be why the caller gave up.
func ended(cause error, call string, last *Error) *Error {
	e := &Error{Call: call, Message: "the call was ended: " + cut(cause.Error()), Err: cause}
	if last != nil && !errors.Is(last, cause) {
		e.Status, e.Own, e.NoBMC = last.Status, last.Own, last.NoBMC
		e.Message = cut(last.Error() + "; then the call was ended: " + cause.Error())
	}
	return e
}
