package work

import (
	"errors"
	"log/slog"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/identify"
)

// resources are what all jobs of a pool share.
type resources struct {
	slots
	o      Options
	search identify.Search // for the machine of a node that is enrolled
	stop   *stopContexts   // of the present Run
	again  spacing         // of resets that are tried again
}

// textTimeout is the contract's error of an introspection whose time is over.
const textTimeout = "Introspection timeout"

// How a job may end other than well.
var (
	// errGiveBack: nothing was left half done; any worker may do it.
	errGiveBack = errors.New("given back")
	// errClaimLost: what this job did is no longer its business.
	errClaimLost = errors.New("the claim is lost")
)

// assignment is what a worker was given to do, and by which settings from beginning
// to end.
type assignment struct {
	pool    *resources
	by      inspector.Settings
	claim   introspection.Claim
	request introspection.QueuedRequest
	log     *slog.Logger
}

func overdue(v fsm.View, rec introspection.Record) bool {
	return rec.State.Active() && !rec.Deadline.After(v.Now())
}
