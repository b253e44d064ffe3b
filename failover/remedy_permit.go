package failover

import (
	"context"
	"fmt"
	"sync"

	"github.com/trivet-ha/trivet/fsm/kubestate"
	"github.com/trivet-ha/trivet/internal/pace"
)

// permission allows one power-off command, as of the moment in which it was given.
type permission struct {
	given bool
	node  Node   // as it was read for it
	asked []rail // that may still take it back while the device is tried
}

// errWithheld says that a command was not given, or is not tried again, because guard
// rails forbid it by now.
type errWithheld struct{ why []refusal }

func (e errWithheld) Error() string { return fmt.Sprintf("withheld: %v", sentences(e.why)) }

// permit judges a kube node again before anything leads to a power-off: what was found
// when its remediation began may be minutes or days old, and another leader's. A machine
// that has booted or lives ends the remediation, and what forbids the command holds it. An
// error, or none without a permission, is the outcome of the turn.
func (r *remedy) permit(ctx context.Context, m kubestate.Remediation) (permission, error) {
	asked := beforePower()
	if m.WasOff {
		asked = whileOff()
	}
	if why := r.judge.refusals(m.UID, nil, asked); len(why) > 0 && !(rejudged{r}).news(m) {
		return permission{}, r.withhold(m, why...) // without a request
	}
	if _, rests := budgetHolds(r.clusterController, m.UID); rests && !m.WasOff && !(rejudged{r}).news(m) {
		return permission{}, wait(lookAgain)
	}
	n, err := r.target.readNodeAndLease(ctx, m)
	if err != nil {
		return permission{}, r.lost(ctx, m, err)
	}
	p := permission{node: n, asked: asked}
	if m.WasOff {
		err = rejudged{r}.permitAgain(ctx, m, &p)
	} else {
		err = rejudged{r}.permitFirst(ctx, m, &p)
	}
	if p.given {
		r.refuse(m.UID)
	}
	return p, err
}

// rejudged is a remedy that judges its kube node again.
type rejudged struct{ *remedy }

// news reports whether the watch shows what ends a remediation, however long its command
// is withheld; the storage has to confirm it.
func (r rejudged) news(m kubestate.Remediation) bool {
	w := r.tracker.Look()
	n, there := w.node(m.UID)
	return !there && w.Synced || there && n.BootID != r.target.boot || r.judge.Well(m.UID)
}

// permitFirst is permit for a machine that was not off yet.
func (r rejudged) permitFirst(ctx context.Context, m kubestate.Remediation, p *permission) error {
	if p.node.BootID != m.BootID {
		return r.move(ctx, m, kubestate.RemCancelled, "", "it has booted again")
	}
	if w := r.tracker.Look(); !w.Synced || !w.API.Answers {
		return r.withhold(m, r.judge.refusals(m.UID, &p.node, p.asked)...)
	}
	suspect, why := r.judge.Still(m.UID)
	begun := m.State != kubestate.RemIntent && m.State != kubestate.RemCordoned
	switch {
	case suspect:
	case r.judge.Well(m.UID):
		return r.back(ctx, m, p.node)
	case begun && !r.judge.renews(m.UID):
		// A peer that has no opinion just now does not make it alive.
		return r.withhold(m, refusal{signsRail, why})
	default:
		return r.move(ctx, m, kubestate.RemCancelled, "", why)
	}
	if why := r.judge.refusals(m.UID, &p.node, p.asked); len(why) > 0 {
		return r.withhold(m, why...)
	}
	if err := r.bearable(ctx, m.Node, m.UID, &m); err != nil {
		return r.withhold(m, refusal{budgetRail, err.Error()})
	}
	p.given = true
	return nil
}

// permitAgain is permit for a machine that was off. While it is off the command only proves
// that again, and what guard rails protect is lost already. One that has power may be
// needed by others again; one that has booted is another case, and judged as such.
func (r rejudged) permitAgain(ctx context.Context, m kubestate.Remediation, p *permission) error {
	if why := r.judge.refusals(m.UID, &p.node, whileOff()); len(why) > 0 && !r.judge.Well(m.UID) {
		return r.withhold(m, why...)
	}
	suspect, why := r.judge.Still(m.UID)
	against := r.judge.refusals(m.UID, &p.node, beforePower())
	booted := p.node.BootID != r.target.boot
	switch {
	case r.judge.Well(m.UID):
		return r.back(ctx, m, p.node)
	case r.judge.renews(m.UID) && !suspect:
		return r.withhold(m, refusal{"returns", "its Lease is renewed: it is waited for until it is Ready"})
	case !booted && len(against) == 0:
		p.given, p.asked = true, beforePower()
	case r.stillOff(ctx, m):
		p.given = true
	case !booted:
		r.refuse(m.UID, against...)
		return wait(proveEvery) // its devices were asked
	case !suspect:
		return r.withhold(m, refusal{"returns", "it has booted since it was off: " + why})
	default:
		if err := r.untaint(ctx, m); err != nil {
			return err
		}
		return r.move(ctx, m, kubestate.RemRecovered, "", "it has booted since it was off, and is judged again")
	}
	return nil
}

// stillOff reports whether a machine that was off is off as far as its devices say when
// they are only asked, and gave no sign of life under this leader.
func (r rejudged) stillOff(ctx context.Context, m kubestate.Remediation) (off bool) {
	if !r.signs.silent(m) {
		return false
	}
	power, _ := follower{clusterController: r.clusterController}.readPower(ctx, r.target.machine)
	return power == PowerOff
}

// restarted reports whether a machine that was shut down and read off is not off any more.
func (t *target) restarted(ctx context.Context, m kubestate.Remediation) bool {
	if n, _ := t.tracker.Look().node(m.UID); !n.Shutdown.Off {
		return false
	}
	power, sure := follower{clusterController: t.clusterController}.readPower(ctx, t.machine)
	return power != PowerOff || !sure
}

// isBack says what shows, since a permission was given, that its machine has booted or
// lives. permit decides then what becomes of the remediation.
func (t *target) isBack(m kubestate.Remediation, p permission) []refusal {
	if n, there := t.tracker.Look().node(m.UID); there && n.BootID != p.node.BootID {
		return []refusal{{signsRail, "it has booted again"}}
	}
	suspect, alive := t.judge.Still(m.UID)
	if suspect || m.WasOff && !t.judge.renews(m.UID) { // what was off is off still, as far as that is known
		return nil
	}
	return []refusal{{signsRail, alive}}
}

// whileAllowed gives one command to a device, which tries it for minutes: what forbids it
// is asked right before it, and as long as it lasts. A refusal ends the tries.
func whileAllowed(ctx context.Context, ask func() []refusal, command func(context.Context) error) error {
	allowed, forbid := context.WithCancelCause(ctx)
	forbidden := func() bool {
		why := ask()
		if len(why) > 0 {
			forbid(errWithheld{why})
		}
		return len(why) > 0
	}
	if forbidden() {
		return context.Cause(allowed)
	}
	var asking sync.WaitGroup
	asking.Go(func() {
		for pace.Wait(allowed, roundEvery) && !forbidden() {
		}
	})
	err := command(allowed)
	withheld := context.Cause(allowed)
	forbid(nil)
	asking.Wait()
	if err != nil && withheld != nil && ctx.Err() == nil {
		return withheld
	}
	return err
}
