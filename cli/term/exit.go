package term

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/client"
)

// Exit codes (docs/design.md#exit-codes). They are part of the interface.
const (
	ExitOK             = 0
	ExitFailed         = 1
	ExitUsage          = 2
	ExitDegraded       = 2 // of 'trivet status', whose words are not wrong then
	ExitNotFound       = 3
	ExitConflict       = 4
	ExitNoLeader       = 5
	ExitOutcomeUnknown = 6
	ExitNotAuthorised  = 7
	ExitUnknownEntry   = 8
	ExitLostLeadership = 75
)

// ExitCodes tells people the same.
const ExitCodes = `Exit codes:
   0  done, or nothing to do
   1  failed
   2  wrong usage or configuration; 'trivet status': the cluster is degraded
   3  not found
   4  conflict: the state of things does not allow it
   5  no leader or quorum
   6  timed out, outcome unknown: look before you repeat it
   7  not authorised
   8  the log holds what this binary does not know: upgrade it
  75  leadership, or the lease of a program, was lost while acting; restart it`

// Failure is an error with an exit code and a remedy.
type Failure struct {
	Code int
	Err  error
	Hint string
}

// Error implements error.
func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap gives the cause to errors.Is and errors.As.
func (f *Failure) Unwrap() error { return f.Err }

// Fail is an error with an exit code and a remedy.
func Fail(code int, hint string, format string, args ...any) error {
	return &Failure{Code: code, Err: fmt.Errorf(format, args...), Hint: hint}
}

// GeneralHint is replaced by how the command is written, once it is known which
// command it was.
const GeneralHint = "see 'trivet help'"

// Usage is a mistake in the words of the command.
func Usage(format string, args ...any) error {
	return Fail(ExitUsage, GeneralHint, format, args...)
}

// ExitOf returns the exit code of an error that a command returned.
func ExitOf(err error) int {
	var f *Failure
	var e *api.Error
	var refused *client.Error
	var none *client.NoAnswerError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &f):
		return f.Code
	case errors.As(err, &e):
		return exitOfCode(e.Code)
	case errors.As(err, &none):
		code, _ := exitOfSilence(none)
		return code
	case errors.As(err, &refused):
		return exitOfCode(refusalCode(refused))
	case errors.Is(err, context.DeadlineExceeded):
		return ExitOutcomeUnknown
	default:
		return ExitFailed
	}
}

func exitOfCode(code string) int {
	switch code {
	case api.CodeInvalid, api.CodeOff:
		return ExitUsage
	case api.CodeNotFound:
		return ExitNotFound
	case api.CodeConflict:
		return ExitConflict
	case api.CodeNoLeader:
		return ExitNoLeader
	case api.CodeTableFull:
		return ExitFailed // not 4, which says of a lease that another holder works under it
	case api.CodeOutcomeUnknown:
		return ExitOutcomeUnknown
	case api.CodeNotAuthorised:
		return ExitNotAuthorised
	default:
		return ExitFailed
	}
}

// Complain prints an error the way every command does.
func (t *Terminal) Complain(err error) {
	w, mark, program := t.Err, t.StyleOf(t.Err), t.program()
	for line := range strings.Lines(err.Error()) { // the problems of a configuration are several
		fmt.Fprintf(w, "%s: %s %s\n", program, mark.Bad("error:"), Printable(strings.TrimSuffix(line, "\n")))
	}
	hint := func(text string) { fmt.Fprintf(w, "%s: %s %s\n", program, mark.Bold("hint:"), text) }
	if text := HintOf(err); text != "" {
		hint(text)
	}
	if id := failedRequest(err); id != "" {
		hint("the request in the peer's log: journalctl -u trivet --grep " + Printable(id))
	}
}

// failedRequest names the request that a peer could not answer, "" if none did.
func failedRequest(err error) string {
	var e *api.Error
	var refused *client.Error
	switch {
	case errors.As(err, &e):
		return e.RequestID
	case errors.As(err, &refused) && refused.Status >= http.StatusInternalServerError:
		return refused.RequestID
	}
	return ""
}

// HintOf returns the remedy of an error, "" for none.
func HintOf(err error) string {
	var f *Failure
	var e *api.Error
	var refused *client.Error
	var none *client.NoAnswerError
	switch {
	case errors.As(err, &f):
		return f.Hint
	case errors.As(err, &e) && e.Hint != "":
		return e.Hint
	case errors.As(err, &e):
		return usualHint(e.Code)
	case errors.As(err, &none):
		_, hint := exitOfSilence(none)
		return hint
	case errors.As(err, &refused):
		return refusalHint(refused)
	case errors.Is(err, client.ErrStrange):
		return "is --server the address of a peer's API, or of something else?"
	default:
		return ""
	}
}

// usualHint is for refusals of which the peer said no more.
func usualHint(code string) string {
	switch code {
	case api.CodeInvalid:
		return "nothing was changed; 'trivet COMMAND --help' says what is accepted"
	case api.CodeOff:
		return "'trivet config template' lists the options with what they switch on"
	case api.CodeNotFound:
		return "see what there is: 'trivet members', 'trivet token list', 'trivet debug setting list'"
	case api.CodeConflict:
		return "nothing was changed; see 'trivet status' and 'trivet peers'"
	case api.CodeNoLeader:
		return "nothing was changed; see 'trivet status' on each host, then repeat it"
	case api.CodeTableFull:
		return "nothing was changed; have something removed of what is full, then repeat it"
	case api.CodeOutcomeUnknown:
		return "look before you repeat it: 'trivet status'"
	case api.CodeNotAuthorised:
		return "use the socket of a peer, or an operator's certificate: 'trivet cert issue-operator'"
	default:
		return "see the log of the peer: 'journalctl -u trivet'"
	}
}

// shownErrors is how many of those that failed are named.
const shownErrors = 10

// Failures makes one error of those of several things: each in a line, up to
// shownErrors, with the exit code and hint of the first.
func Failures(errs []error) error {
	errs = slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })
	if len(errs) == 0 {
		return nil
	}
	shown := errs[:min(len(errs), shownErrors)]
	if more := len(errs) - len(shown); more > 0 {
		shown = append(slices.Clone(shown), fmt.Errorf("and %d more", more))
	}
	return &Failure{Code: ExitOf(errs[0]), Err: errors.Join(shown...), Hint: HintOf(errs[0])}
}

// ProgramEnded is the end of a program that ran for us: it has written its own
// messages, so none is added.
type ProgramEnded struct{ Code int }

// Error implements error.
func (e *ProgramEnded) Error() string { return fmt.Sprintf("the program ended with code %d", e.Code) }
