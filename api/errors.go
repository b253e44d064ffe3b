package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
	"github.com/trivet-ha/trivet/raftstore/logerr"
)

// Codes of refusals, shared by the API's bodies and the command line's exit
// codes (docs/design.md#exit-codes).
const (
	CodeFailed         = "failed"
	CodeInvalid        = "invalid"
	CodeNotFound       = "not_found"
	CodeConflict       = "conflict"
	CodeNoLeader       = "no_leader"
	CodeTableFull      = "table_full"
	CodeOutcomeUnknown = "outcome_unknown"
	CodeNotAuthorised  = "not_authorised"
	CodeOff            = "off" // the configuration has the feature off
)

// retryAfterSeconds goes with every 503: an election takes about that long.
const retryAfterSeconds = 1

// Error is a refusal: the upstream body's message and what Trivet adds to it.
type Error struct {
	Status  int    `json:"-"`
	Message string `json:"message"`
	Code    string `json:"code"`
	Hint    string `json:"hint,omitempty"`
	// RequestID names, for a caller, the request that failed within the peer.
	RequestID string `json:"-"`
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// ErrorBody is the body of every refusal (docs/contract.md#errors).
type ErrorBody struct {
	Error *Error `json:"error"`
}

// translate is the one place where errors become statuses.
func translate(err error) *Error {
	var e *Error
	var he *echo.HTTPError
	var fe *fsm.Error
	var said *inspector.Refusal
	switch {
	case errors.As(err, &e):
		return e
	case errors.As(err, &said):
		return &Error{Status: said.Status, Message: said.Message, Code: codeOf(said.Status)}
	case errors.Is(err, admission.ErrBusy):
		return &Error{Status: http.StatusServiceUnavailable, Code: CodeFailed,
			Message: "too many requests at once; try again",
			Hint:    "each source has its share of this peer; ask less often, or another peer"}
	case errors.As(err, &he):
		return &Error{Status: he.Code, Message: message(he), Code: codeOf(he.Code)}
	case errors.As(err, &fe):
		return refusal(fe)
	case errors.Is(err, logerr.ErrOutcomeUnknown):
		return &Error{Status: http.StatusServiceUnavailable, Message: err.Error(), Code: CodeOutcomeUnknown,
			Hint: "read before you repeat it, or repeat it with the same request ID"}
	case errors.Is(err, logerr.ErrNoLeader), errors.Is(err, logerr.ErrNotLeader), errors.Is(err, logerr.ErrBusy),
		errors.Is(err, logerr.ErrClosed), errors.Is(err, logerr.ErrMuted), errors.Is(err, cluster.ErrNoSession),
		errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &Error{Status: http.StatusServiceUnavailable, Message: err.Error(), Code: CodeNoLeader,
			Hint: "see 'trivet status' on each host; nothing was changed"}
	default:
		return &Error{Status: http.StatusInternalServerError, Message: err.Error(), Code: CodeFailed}
	}
}

func message(he *echo.HTTPError) string {
	if s, ok := he.Message.(string); ok {
		return s
	}
	return http.StatusText(he.Code)
}

func codeOf(status int) string {
	switch status {
	case http.StatusNotFound:
		return CodeNotFound
	case http.StatusConflict:
		return CodeConflict
	case http.StatusUnauthorized, http.StatusForbidden:
		return CodeNotAuthorised
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusMethodNotAllowed:
		return CodeInvalid
	case http.StatusServiceUnavailable:
		return CodeNoLeader
	case http.StatusInsufficientStorage:
		return CodeTableFull
	default:
		return CodeFailed
	}
}

// refusal translates what the state machine said.
func refusal(e *fsm.Error) *Error {
	out := &Error{Status: http.StatusConflict, Message: e.Message, Code: CodeConflict}
	switch e.Code {
	case fsm.NotFound:
		out.Status, out.Code = http.StatusNotFound, CodeNotFound
	case fsm.Invalid:
		out.Status, out.Code = http.StatusBadRequest, CodeInvalid
	case fsm.IllegalTransition:
		out.Status = http.StatusBadRequest // the contract's
	case fsm.TableFull:
		out.Status, out.Code = http.StatusInsufficientStorage, CodeTableFull
		out.Hint = "nothing was changed; have something removed of what is full, then repeat it"
	case fsm.QueueFull, fsm.SessionEnded, fsm.UnknownEntry:
		out.Status, out.Code = http.StatusServiceUnavailable, CodeNoLeader
	case fsm.OutcomeUnknown:
		out.Status, out.Code = http.StatusServiceUnavailable, CodeOutcomeUnknown
	}
	return out
}

// render is echo's error handler.
func render(err error, c echo.Context) {
	if c.Response().Committed {
		return
	}
	e := translate(err)
	if e.Status == http.StatusServiceUnavailable {
		c.Response().Header().Set("Retry-After", strconv.Itoa(retryAfterSeconds))
	}
	if err := c.JSON(e.Status, ErrorBody{Error: e}); err != nil {
		c.Logger().Error(err)
	}
}

// Refusal is what err is answered with: its status, words, code and hint.
func Refusal(err error) *Error {
	e := *translate(err)
	return &e
}

// TimeText shows a time to people, "" for the zero time.
func TimeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// ErrorText is the message of an error, "" for nil.
func ErrorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
