package inspector

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/internal/bounds"
)

// Refusal is an answer that the contract gives to a request it does not carry
// out: an HTTP status and the text of the body's error.message.
type Refusal struct {
	Status  int
	Message string
}

// Error implements error.
func (r *Refusal) Error() string { return r.Message }

// Refuse makes a *Refusal.
func Refuse(status int, format string, args ...any) error {
	return &Refusal{Status: status, Message: fmt.Sprintf(format, args...)}
}

// FailuresHead is what the contract says above the lines of a callback's failures.
const FailuresHead = "The following failures happened during running pre-processing hooks:\n"

// NotFoundLine says why an unknown machine did not become a node.
func NotFoundLine(why string) string { return "Node not found hook failed: " + why }

// TooLarge makes an answer of a document that does not fit into the log.
func TooLarge(err error) error {
	if refused, ok := errors.AsType[*fsm.Error](err); ok && refused.Code == fsm.Invalid {
		return Refuse(http.StatusRequestEntityTooLarge, "%s", refused.Message)
	}
	return err
}

// errorMaximum bounds a foreign error text that is kept, in bytes.
const errorMaximum = 4 << 10

// Clip shortens a foreign text for the log.
func Clip(text string) string {
	return bounds.Excerpt(cmp.Or(text, "failed without a reason"), errorMaximum)
}
