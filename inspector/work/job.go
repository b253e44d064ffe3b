package work

import (
	"errors"
	"log/slog"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/document"
	"github.com/trivet-ha/trivet/inspector/identify"
	"github.com/trivet-ha/trivet/inspector/ironic"
)

// job is one claimed request while a worker carries it out. It belongs to one
// goroutine.
type job struct {
	assignment
	out   *outcome
	node  *effects
	hooks hookWork
	task  *inspector.Task // set if the callback was taken, which saved it
	// turned is set once a start has had its turn in the reboot throttle.
	turned bool
}

func (p *resources) job(claimed introspection.ClaimedRequest) *job {
	a := assignment{pool: p, by: p.o.Live.Now(), claim: claimed.Claim, request: claimed.Request,
		log: p.o.Logger.With("node", claimed.Claim.Node, "event", claimed.Request.Event.String(), "claim",
			claimed.Claim.Token)}
	out := &outcome{assignment: a}
	node := &effects{assignment: a, out: out, began: time.Now()}
	runner := inspector.HookRunner{Hooks: a.by.Hooks, Limit: p.o.HookLimit, Log: a.log}
	return &job{assignment: a, out: out, node: node, hooks: hookWork{a, out, node, runner}}
}

func newTask(data *document.Document) *inspector.Task {
	return inspector.NewTask(data, ironic.Node{}, nil)
}

// own has a task reach Ironic, and log, under the claim of the job.
func (j *job) own(t *inspector.Task) *inspector.Task {
	t.Ironic, t.Log = insistent{j.pool.o.Ironic, j.node, t}, j.log
	return t
}

// document reads a stored document.
func (j *job) document(v fsm.View, hash blobs.Hash) (*document.Document, error) {
	raw, err := inspector.Load(j.pool.o.Packer, v, hash)
	if err != nil {
		return nil, err
	}
	return document.Parse(raw)
}

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
