package keystone

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
)

// maxReason bounds what is quoted of Keystone's answer, in bytes.
const maxReason = 400

// Error is what Keystone, or the way to it, had against a request. Err is as
// gophercloud or the HTTP client gave it.
type Error struct {
	Call string // method and URL
	Err  error

	mute bool // the words of the answer are not quoted
}

// Error implements error. It says in words for people what went wrong.
func (e *Error) Error() string {
	var answer gophercloud.ErrUnexpectedResponseCode
	var sent *url.Error
	switch {
	case errors.As(e.Err, &answer) && answer.Actual/100 == 3:
		return fmt.Sprintf(
			"Keystone answered with a redirect to %.200s, which is not followed; write the address that answers itself",
			answer.ResponseHeader.Get("Location"))
	case errors.As(e.Err, &answer) && e.mute:
		return fmt.Sprintf("Keystone answered %d %s", answer.Actual, http.StatusText(answer.Actual))
	case errors.As(e.Err, &answer):
		return strings.TrimSpace(
			fmt.Sprintf("Keystone answered %d %s. %s", answer.Actual, http.StatusText(answer.Actual), e.reason()))
	case errors.As(e.Err, &sent):
		return "no answer from Keystone: " + sent.Err.Error()
	}
	return e.Err.Error()
}

// Unwrap gives the cause, which may hold Keystone's answer word for word.
func (e *Error) Unwrap() error { return e.Err }

// Status is that of Keystone's answer, 0 if there was none.
func (e *Error) Status() int {
	answer, _ := errors.AsType[gophercloud.ErrUnexpectedResponseCode](e.Err)
	return answer.Actual
}

// Refused reports whether a login failed because of the credentials.
func Refused(err error) bool {
	var e *Error
	return errors.As(err, &e) && (e.Status() == http.StatusUnauthorized || e.Status() == http.StatusForbidden)
}

// reason finds Keystone's own words in its answer, "" if there are none.
func (e *Error) reason() string {
	var answer gophercloud.ErrUnexpectedResponseCode
	var said struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if !errors.As(e.Err, &answer) || json.Unmarshal(answer.Body, &said) != nil {
		return "" // a proxy's page
	}
	text := strings.Join(strings.Fields(strings.ToValidUTF8(said.Error.Message, "?")), " ")
	return strings.ToValidUTF8(text[:min(len(text), maxReason)], "")
}
