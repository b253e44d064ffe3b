package failover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// lingering is how long a kube node that is back keeps its marks because volumes
// are still attached to it. Its own kubelet looks after them then.
const lingering = 10 * time.Minute

// recover is the turn of a Node that has lost everything: it waits until the
// machine is back, for as long as that takes.
func (r *remedy) recover(ctx context.Context, m kubestate.Remediation) error {
	if !r.target.present(m) {
		if _, err := r.target.readNode(ctx, m); err != nil {
			return r.lost(ctx, m, err)
		}
		return wait(lookAgain) // the watch is behind
	}
	well, doubt := r.judge.returns(m.UID)
	switch {
	case r.signs.renewed(m, 0) == "" || !well:
		r.healthy = time.Time{}
		if (rejudged{r}).diedAgain(m, r.target.watched(m)) {
			return rejudged{r}.judgeAgain(ctx, m)
		}
		if err := r.target.powerOn(ctx, m); err != nil {
			return r.lost(ctx, m, err)
		}
		return wait(lookAgain)
	case doubt != "":
		r.healthy = time.Time{}
		return r.withhold(m, refusal{unheardRail, doubt + ", its taints stay"})
	}
	r.refuse(m.UID)
	n, err := r.target.readNode(ctx, m)
	if err != nil {
		return r.lost(ctx, m, err)
	}
	return r.back(ctx, m, n)
}

// diedAgain reports whether a machine has booted since it was off, works without our cordon, as after an
// operator took it away, and is held for dead: what runs there since came after its pods were deleted.
func (r rejudged) diedAgain(m kubestate.Remediation, n Node) bool {
	suspect, _ := r.judge.Still(m.UID)
	cordoned := slices.ContainsFunc(n.Taints, func(t Taint) bool { return t.Key == TaintCordon })
	return suspect && r.signs.silent(m) && n.UID == m.UID && n.BootID != r.target.boot && !cordoned
}

// judgeAgain ends the remediation of a machine that died again, if the storage shows the same: the next one
// begins if the guard rails let it, and proves everything by itself.
func (r rejudged) judgeAgain(ctx context.Context, m kubestate.Remediation) error {
	n, err := r.target.readNodeAndLease(ctx, m)
	switch {
	case err != nil:
		return r.lost(ctx, m, err)
	case !r.diedAgain(m, n):
		return wait(lookAgain)
	}
	if err := r.untaint(ctx, m); err != nil {
		return err
	}
	return r.move(ctx, m, kubestate.RemRecovered, "", "it has booted since it was off, and is judged again")
}

// Tries of a leadership to switch a machine on, and the time between two of them, within
// which it does as it is told. One that is on, and not Ready powerOnBoots later, is left to an operator.
const (
	powerOnTries = 5
	powerOnEvery = time.Minute
	powerOnBoots = 10 * time.Minute
)

// powerOn switches the machine on again, until its devices say that it is on, if the
// operator wants that. One that cannot be switched on stays off; an error is that of read.
func (t *target) powerOn(ctx context.Context, m kubestate.Remediation) error {
	if !t.settings().Remedy.PowerOn || t.ons.over || time.Now().Before(t.ons.next) {
		return nil
	}
	if why := t.judge.refusals(m.UID, nil, beforePowerOn()); len(why) > 0 { // for days, without a request
		t.refuse(m.UID, why...)
		return nil
	}
	n, err := t.readNode(ctx, m)
	if err != nil {
		return err
	}
	if why := t.judge.refusals(m.UID, &n, beforePowerOn()); len(why) > 0 {
		t.refuse(m.UID, why...)
		return nil
	}
	switch {
	case strings.Contains(m.Steps[0].Reason, shutDown):
		t.leaveOff(ctx, m, n, "its kubelet reported a shutdown, and nothing showed that the machine stayed on: "+
			"failover.power_on leaves it off, switch it on by hand")
		return nil
	case t.ons.earlier: // a person may have switched it off since, and opened it
		t.leaveOff(ctx, m, n, "failover.power_on was an earlier leader's: if the machine is off, switch it on by hand")
		return nil
	case t.ons.done:
		t.leaveOff(ctx, m, n, fmt.Sprintf("failover.power_on has switched the machine on, and it is not Ready %v later: "+
			"if it is off, switch it on by hand", powerOnBoots))
		return nil
	}
	t.refuse(m.UID)
	power, err := t.switchOn(ctx, m)
	t.ons.failed = err != nil
	var unproven errUnproven
	var withheld errWithheld
	switch {
	case errors.As(err, &withheld) && ctx.Err() == nil:
		t.refuse(m.UID, withheld.why...)
		return nil
	case ctx.Err() != nil, errors.As(err, &unproven):
		return err
	case err == nil && power == PowerOn:
		t.ons.done, t.ons.next = true, time.Now().Add(powerOnBoots)
		return nil
	}
	t.ons.tries++
	t.ons.next = time.Now().Add(powerOnEvery)
	if err == nil {
		err = errors.New("its device took the command, and did not say yet that it is on")
	} else {
		t.log.Warn("power on machine failed", "kube_node", m.Node, "device", m.Device, "tries", t.ons.tries, "err", err)
	}
	said := fmt.Sprintf("failover.power_on, try %d of %d by device %s: %v", t.ons.tries, powerOnTries, m.Device, err)
	switch {
	case t.ons.tries < powerOnTries:
		t.refuse(m.UID, refusal{powerOnRail, said})
	case power == PowerUnknown && slices.Contains(t.ons.seen, m.Device): // another device is silent: it may be on
		t.ons.done, t.ons.next = true, time.Now().Add(powerOnBoots)
	default:
		t.leaveOff(ctx, m, n, said+"; switch the machine on by hand")
	}
	return nil
}

// leaveOff leaves it to an operator to switch the machine on.
func (t *target) leaveOff(ctx context.Context, m kubestate.Remediation, n Node, why string) {
	t.ons.over = true
	t.writeEvent(ctx, n, "Warning", "FailoverPowerOn", why)
	t.refuse(m.UID, refusal{powerOnRail, why})
}

// switchOn has the device that took the machine's power switch it on, and then each other one that may
// have taken one of its supplies. Once they say on, each device that asks the machine has to: one with its
// supplies back may stay off. It returns what they said before: on if all did.
func (t *target) switchOn(ctx context.Context, m kubestate.Remediation) (power Power, err error) {
	power = PowerOn
	by := func(limit time.Duration, names ...string) {
		for _, name := range names {
			if slices.Contains(t.ons.seen, name) { // who switched it off since has opened it
				continue
			}
			one, failed := t.switchOnBy(ctx, m, name, limit)
			if failed != nil && name != m.Device {
				failed = fmt.Errorf("device %s: %w", name, failed)
			}
			power, err = min(power, one), errors.Join(err, failed)
		}
	}
	by(fenceLimit, append([]string{m.Device}, t.halfOff(m)...)...)
	for _, d := range t.devices() {
		if slices.Contains(t.ons.seen, m.Device) && len(t.halfOff(m)) == 0 && len(Members(d)) == 1 && asks(d) {
			by(t.settings().Remedy.Timeout, d.Name())
		}
	}
	return power, err
}

// switchOnBy gives one device one command to switch the machine on, unless it is on: an operator may
// have just switched it on. It returns what the device said before, within a limit.
func (t *target) switchOnBy(ctx context.Context, m kubestate.Remediation, name string, limit time.Duration) (Power,
	error) {
	d, configured := t.device(name)
	if !configured {
		return PowerUnknown, errors.New("it is not configured any more")
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	asked := t.machine
	asked.AskOnly = true
	power, err := everySupply(limited, d, asked)
	switch {
	case err != nil:
		return power, err
	case power == PowerUnknown:
		return power, errors.New("it does not say whether the machine is on")
	case power == PowerOn:
		t.ons.seen = append(t.ons.seen, name)
	case power == PowerOff:
		err = t.write(ctx, fenceLimit, "switch it on", func(ctx context.Context) error {
			// Its device may have taken minutes to say that it is off, and may take as long to switch it on:
			// an operator may keep the command from it by now.
			n, err := t.readNode(ctx, m)
			if err != nil {
				return err
			}
			if why := t.judge.refusals(m.UID, &n, beforePowerOn()); len(why) > 0 {
				return errWithheld{why}
			}
			return whileAllowed(ctx, func() []refusal { return t.judge.refusals(m.UID, nil, beforePowerOn()) },
				func(ctx context.Context) error { return d.On(ctx, t.machine) })
		})
	}
	t.log.Info("machine powered on", "kube_node", m.Node, "device", d.Name(), "power", power, "err", err)
	return power, err
}

// comeBack is what remains for a node that is Ready under a new boot ID: when it
// has been for long enough, and nothing of before is left, our marks go.
func (r *remedy) comeBack(ctx context.Context, m kubestate.Remediation, n Node) error {
	if r.healthy.IsZero() {
		r.healthy = time.Now()
	}
	back := time.Since(r.healthy)
	if back < r.settings().Guard.HealthyDelay {
		return wait(min(lookAgain, r.settings().Guard.HealthyDelay-back))
	}
	// Until the taint has Kubernetes let go of what the machine has, all that is attached
	// to it is its own.
	tainted := slices.ContainsFunc(m.Steps, func(s kubestate.Step) bool { return s.State == kubestate.RemTainted })
	if m.State != kubestate.RemDetached && tainted && back < lingering {
		names, err := r.target.attachments(ctx)
		if err != nil {
			return err
		}
		if len(names) > 0 {
			return wait(lookAgain)
		}
	}
	if err := r.unmark(ctx, n); err != nil {
		return err
	}
	return r.move(ctx, m, kubestate.RemRecovered, "", "it has booted and is well")
}

// unmark takes our taints away: first the one that keeps everything away, then the
// cordon, so that nothing is scheduled to a Node that would lose it again.
func (s *clusterController) unmark(ctx context.Context, n Node) error {
	for _, key := range []string{TaintOutOfService, TaintCordon} {
		var ours []Taint
		for _, t := range n.Taints {
			if t.Key == key && isOurs(t) {
				ours = append(ours, t)
			}
		}
		if len(ours) == 0 {
			continue
		}
		var err error
		if n, err = s.mark(ctx, n, Change{Remove: ours}, "take our taint from the Node"); err != nil {
			return err
		}
	}
	return nil
}

// isOurs reports whether we put a taint there. Out of service is also for others
// to say.
func isOurs(t Taint) bool { return t.Key == TaintCordon || t == outOfService() }

// unstick is the turn of one that could not go on: it ends if that is not needed
// any more, and is tried again after a while. One that contradicted its device, or
// that a founding found open, is left to an operator, however long that takes.
func (r *remedy) unstick(ctx context.Context, m kubestate.Remediation) error {
	due := time.Since(r.since) >= stuckRetry
	if !due {
		r.refuse(m.UID) // its own reason is in the log
	}
	if !due && r.target.present(m) && !r.judge.Returned(m.UID) {
		r.healthy = time.Time{}
		return wait(lookAgain)
	}
	n, err := r.target.readNode(ctx, m)
	if err != nil {
		return r.lost(ctx, m, err)
	}
	if r.judge.Returned(m.UID) {
		return r.back(ctx, m, n)
	}
	if !r.judge.Well(m.UID) {
		r.healthy = time.Time{}
	}
	switch {
	case forOperator(m):
		r.since = time.Now()
		return wait(lookAgain)
	case !due:
		return wait(lookAgain)
	}
	return r.announceFirst(ctx, m, "tried again")
}

// tidy takes the marks of a remediation away that was cancelled. What fails is left
// to the sweep.
func (t *target) tidy(ctx context.Context, m kubestate.Remediation) {
	if m.State != kubestate.RemCancelled {
		return
	}
	if err := t.clearMarks(ctx, m.Node); err != nil && ctx.Err() == nil {
		t.log.Info("remove taints of cancelled remediation failed; the next sweep retries", "kube_node", m.Node, "err", err)
	}
}

// halfOff names the devices of several members by which the power of a machine was switched in its
// remediation, and not seen to be all off or all on since. An off was read from the device that was
// announced last before it, and says nothing of others.
func (t *target) halfOff(m kubestate.Remediation) (names []string) {
	last := ""
	drop := func(name string) {
		names = slices.DeleteFunc(names, func(have string) bool { return have == name })
	}
	for _, s := range m.Steps {
		switch {
		case s.State == kubestate.RemOff:
			drop(last)
		case s.Device != "":
			last = s.Device
			drop(last)
			if d, known := t.device(last); known && len(Members(d)) > 1 {
				names = append(names, last)
			}
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(t.ons.seen, name) })
}

// tellHalfOff says of a remediation that has ended without which of its supplies the machine may run.
func (t *target) tellHalfOff(ctx context.Context, m kubestate.Remediation) {
	names := t.halfOff(m)
	d, known := t.device(m.Device)
	if t.ons.failed && !t.ons.over && known && len(Members(d)) > 1 && // what is over was seen to be on, or told
		!slices.Contains(t.ons.seen, m.Device) && !slices.Contains(names, m.Device) {
		names = append(names, m.Device)
	}
	if len(names) == 0 {
		return
	}
	why := fmt.Sprintf("its power was switched by fence device %s, and it may run without one of its supplies: look with "+
		"'trivet failover test-fence %s/%s', and switch it on with --on", strings.Join(names, ", "), m.Cluster, m.Node)
	t.log.Warn("remediation ended, and a supply of its machine may be off", "kube_node", m.Node, "intent", m.Intent,
		"reason", why)
	t.writeEvent(ctx, Node{Name: m.Node, UID: m.UID}, "Warning", "FailoverHalfOff", why)
}
