package term

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
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
	code, _ := answerTo(err)
	return code
}

// HintOf returns the remedy of an error, "" for none.
func HintOf(err error) string {
	_, hint := answerTo(err)
	return hint
}

// answerTo tells how a command ends with an error, and its remedy.
func answerTo(err error) (code int, hint string) {
	if err == nil {
		return ExitOK, ""
	}
	if f, ok := errors.AsType[*Failure](err); ok {
		return f.Code, f.Hint
	}
	if e, ok := errors.AsType[*api.Error](err); ok {
		code, hint = usualAnswer(e.Code)
		return code, cmp.Or(e.Hint, hint)
	}
	if none, ok := errors.AsType[*client.NoAnswerError](err); ok {
		return exitOfSilence(none)
	}
	if refused, ok := errors.AsType[*client.Error](err); ok {
		code, _ = usualAnswer(refusalCode(refused))
		return code, refusalHint(refused)
	}
	code = ExitFailed
	if errors.Is(err, context.DeadlineExceeded) {
		code = ExitOutcomeUnknown
	}
	if errors.Is(err, client.ErrStrange) {
		hint = "is --server the address of a peer's API, or of something else?"
	}
	return code, hint
}

// usualAnswer is for refusals of which the peer said no more.
func usualAnswer(code string) (exit int, hint string) {
	switch code {
	case api.CodeInvalid:
		return ExitUsage, "nothing was changed; 'trivet COMMAND --help' says what is accepted"
	case api.CodeOff:
		return ExitUsage, "'trivet config template' lists the options with what they switch on"
	case api.CodeNotFound:
		return ExitNotFound, "see what there is: 'trivet members', 'trivet token list', 'trivet debug setting list'"
	case api.CodeConflict:
		return ExitConflict, "nothing was changed; see 'trivet status' and 'trivet peers'"
	case api.CodeNoLeader:
		return ExitNoLeader, "nothing was changed; see 'trivet status' on each host, then repeat it"
	case api.CodeTableFull: // not 4, which says of a lease that another holder works under it
		return ExitFailed, "nothing was changed; have something removed of what is full, then repeat it"
	case api.CodeOutcomeUnknown:
		return ExitOutcomeUnknown, "look before you repeat it: 'trivet status'"
	case api.CodeNotAuthorised:
		return ExitNotAuthorised, "use the socket of a peer, or an operator's certificate: 'trivet cert issue-operator'"
	default:
		return ExitFailed, "see the log of the peer: 'journalctl -u trivet'"
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
	id := "" // of the request that a peer could not answer
	if e, ok := errors.AsType[*api.Error](err); ok {
		id = e.RequestID
	} else if e, ok := errors.AsType[*client.Error](err); ok && e.Status >= http.StatusInternalServerError {
		id = e.RequestID
	}
	if id != "" {
		hint("the request in the peer's log: journalctl -u trivet --grep " + Printable(id))
	}
}

// ProgramEnded is the end of a program that ran for us: it has written its own
// messages, so none is added.
type ProgramEnded struct{ Code int }

// Error implements error.
func (e *ProgramEnded) Error() string { return fmt.Sprintf("the program ended with code %d", e.Code) }
