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
	"time"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// Content types, made once and never changed.
var (
	jsonType = []string{"application/json"}
	htmlType = []string{"text/html; charset=utf-8"} // of an empty body
)

// statusSize is room for a status object whose text of an error is short.
const statusSize = 384

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
		i.Logger.ErrorContext(c.Request().Context(), "request failed", "method", c.Request().Method, "path", bounded(c.Request().URL.Path), "err", err)
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
	if segments := strings.Split(path, "/"); i.Lending == nil && len(segments) > 2 && segments[1] == "v1" && slices.Contains([]string{"leases", "kv", "groups"}, segments[2]) {
		return LeasesOff + " to true in the configuration of every peer, and restart it"
	}
	if segment := strings.TrimPrefix(path, "/"); !strings.Contains(segment, "/") {
		return "Version " + segment + " not found."
	}
	return "404 Not Found: The requested URL was not found on the server. If you entered the URL manually please check your spelling and try again."
}

// appendList writes the answer to a list.
func appendList(records []introspection.Record, root string) []byte {
	b := make([]byte, 0, 64+statusSize*len(records))
	b = append(b, `{"introspection":[`...)
	for n, rec := range records {
		if n > 0 {
			b = append(b, ',')
		}
		b = appendStatus(b, rec, root)
	}
	return append(b, "]}"...)
}

// appendStatus writes a status object: always these seven keys, in order. By
// hand, because this is what every client polls.
func appendStatus(b []byte, rec introspection.Record, root string) []byte {
	b = append(b, `{"error":`...)
	if rec.Error == "" {
		b = append(b, "null"...)
	} else {
		b = appendText(b, rec.Error)
	}
	b = append(b, `,"finished":`...)
	b = strconv.AppendBool(b, rec.FinishedMillis != 0)
	b = append(b, `,"finished_at":`...)
	b = appendTime(b, rec.FinishedMillis, rec.FinishedBeyond)
	b = append(b, `,"links":[{"href":"`...)
	b = append(b, root...)
	b = append(b, "/v1/introspection/"...)
	b = append(b, rec.Node...)
	b = append(b, `","rel":"self"}],"started_at":`...)
	b = appendTime(b, rec.StartedMillis, rec.StartedBeyond)
	b = append(b, `,"state":"`...)
	b = append(b, rec.State.String()...)
	b = append(b, `","uuid":"`...)
	b = append(b, rec.Node...)
	return append(b, `"}`...)
}

// appendTime writes Unix ms, and the microseconds beyond them, as the contract
// has times: UTC without a zone, microseconds, which are left out where they are
// 0. 0 is no time.
func appendTime(b []byte, millis int64, beyond uint16) []byte {
	if millis == 0 {
		return append(b, "null"...)
	}
	layout := `"2006-01-02T15:04:05.000000"`
	if millis%1000 == 0 && beyond == 0 {
		layout = `"2006-01-02T15:04:05"`
	}
	return time.UnixMilli(millis).Add(time.Duration(beyond)*time.Microsecond).UTC().AppendFormat(b, layout)
}

// appendText writes a JSON string. Nearly all texts need no escape.
func appendText(b []byte, s string) []byte {
	if consistsOf(s, isPlain) {
		b = append(b, '"')
		b = append(b, s...)
		return append(b, '"')
	}
	text, err := encode(s)
	if err != nil {
		return strconv.AppendQuoteToASCII(b, "unprintable") // a string always encodes
	}
	return append(b, bytes.TrimRight(text, "\n")...)
}

func isPlain(b byte) bool { return ' ' <= b && b <= '~' && b != '"' && b != '\\' }
