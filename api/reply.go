package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// Content types, made once and never changed.
var (
	jsonType = []string{"application/json"}
	htmlType = []string{"text/html; charset=utf-8"} // of an empty body
	// plainType is the type of no body at all, as the original has it.
	plainType = []string{"text/plain; charset=utf-8"}
)

// reply sends a whole body.
func reply(c echo.Context, status int, contentType []string, body []byte) error {
	if err := Deliver(c.Request().Context(), len(body)); err != nil {
		return err
	}
	h := c.Response().Header()
	h[echo.HeaderContentType] = contentType
	h[echo.HeaderContentLength] = []string{strconv.Itoa(len(body))}
	c.Response().WriteHeader(status)
	_, err := c.Response().Write(body)
	return err
}

// replyJSON sends a JSON value and the newline that ends it on the wire.
func replyJSON(c echo.Context, status int, value []byte) error {
	return reply(c, status, jsonType, append(value, '\n'))
}

// replyValue sends what encodes to JSON. Maps are sent with their keys in order.
func replyValue(c echo.Context, status int, value any) error {
	body, err := encode(value)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	return reply(c, status, jsonType, body)
}

// encode writes a JSON value and the newline that ends it on the wire. Like the original
// it escapes nothing for HTML.
func encode(value any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(value)
	return out.Bytes(), err
}

// refuse is a refusal in the contract's words.
func refuse(status int, format string, args ...any) error {
	return &inspector.Refusal{Status: status, Message: fmt.Sprintf(format, args...)}
}

// render answers with an error in the contract's shape, which has a message and
// nothing else.
func (i *Inspector) render(err error, c echo.Context) {
	if c.Response().Committed { // the caller went away while the answer was written
		i.Logger.DebugContext(c.Request().Context(), "send answer failed", "path", bounded(c.Request().URL.Path), "err", err)
		return
	}
	e := i.refusal(c, err)
	var want *challenged
	if errors.As(err, &want) {
		c.Response().Header().Set(echo.HeaderWWWAuthenticate, want.challenge)
	}
	if errors.Is(err, admission.ErrBusy) {
		_, waiting := i.Admission.Taken(admission.Callback)
		again(c, waiting)
	}
	if e.Status == http.StatusServiceUnavailable && c.Response().Header().Get(echo.HeaderRetryAfter) == "" {
		c.Response().Header().Set(echo.HeaderRetryAfter, strconv.Itoa(retryAfterSeconds))
	}
	body := append(appendText([]byte(`{"error":{"message":`), e.Message), "}}"...)
	if c.Path() == pathInbandInspection { // its callers expect the shape of Ironic's errors
		if theirs, err := ironicError(e.Status, e.Message); err == nil {
			body = theirs
		}
	}
	if err := replyJSON(c, e.Status, body); err != nil {
		i.Logger.DebugContext(c.Request().Context(), "send answer failed", "path", bounded(c.Request().URL.Path), "err", err)
	}
}

// refusal gives an error its status and the contract's text. An error that is no
// refusal goes to the log alone.
func (i *Inspector) refusal(c echo.Context, err error) Error {
	var said *inspector.Refusal
	var routing *echo.HTTPError
	e := *translate(err)
	switch {
	case errors.As(err, &said):
	case errors.As(err, &routing) && routing.Code == http.StatusNotFound:
		e.Message = i.lost(c.Request().URL.Path)
	case errors.As(err, &routing) && routing.Code == http.StatusMethodNotAllowed:
		e.Message = "405 Method Not Allowed: The method is not allowed for the requested URL."
	case e.Status == http.StatusInternalServerError:
		i.Logger.ErrorContext(c.Request().Context(), "request failed", "method", c.Request().Method, "path",
			bounded(c.Request().URL.Path), "err", err)
		e.Message = "Internal server error"
	}
	return e
}

// LeasesOff is how the refusal begins of a peer that lends no leases.
const LeasesOff = "leases are off: set lease.enabled"

// lost answers a path that leads nowhere, in the original's words. A single
// segment is taken for a version. A path of leases, which the original does not
// have, names the option that switches them on.
func (i *Inspector) lost(path string) string {
	if segments := strings.Split(path, "/"); i.Lending == nil && len(segments) > 2 && segments[1] == "v1" &&
		slices.Contains([]string{"leases", "kv", "groups"}, segments[2]) {
		return LeasesOff + " to true in the configuration of every peer, and restart it"
	}
	if segment := strings.TrimPrefix(path, "/"); !strings.Contains(segment, "/") {
		return "Version " + segment + " not found."
	}
	return "404 Not Found: The requested URL was not found on the server. If you entered the URL manually please check your spelling and try again."
}
