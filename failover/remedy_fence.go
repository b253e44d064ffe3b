package failover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/fsm/kubestate"
	"github.com/trivet-ha/trivet/internal/pace"
)

const (
	// fenceLimit bounds one power-off command with all retries of its device; agents
	// of some BMCs take a minute each.
	fenceLimit = 5 * time.Minute
	// offWithin is how long a machine may take to be off after its device took the
	// command; a BMC that waits for its power supply takes some seconds.
	offWithin = 30 * time.Second
	// powerFirst and powerEvery are the first and the longest pause between two readings
	// of its power meanwhile; each is one and a half times the one before.
	powerFirst = 100 * time.Millisecond
	powerEvery = 500 * time.Millisecond
	// confirmInterval is kept between the answer of the first reading that counts and the
	// question of the second: one alone may be the dark half of a power cycle.
	confirmInterval = time.Second
)

// contradiction begins the reason of a remediation that is stuck because the
// machine gives signs of life though its device says that it is off. The device is
// then likely mapped to another machine. No command is given to it again, and it is
// not believed, until an operator lets it be fenced, also in a later remediation: silence
// that follows proves nothing about a device that was wrong before.
const contradiction = "contradiction: "

// believeLimit bounds the wait for a Lease that is not renewed after its machine was
// read off. It is reached only if the API server answers and the watch of Leases
// does not keep up with what it answers.
const believeLimit = 5 * time.Minute

const noDevice = "no fence device is configured for it"

// escalation is where the list of devices is at.
type escalation struct {
	announced bool // the command to last is in the log and was not given yet
	off       bool // last was read off twice after its newest command
	inUse     bool // the newest command was not given, because the machine is in use
	// read is when the newest reading of off was answered that the next proof may rest on;
	// zero for none.
	read   time.Time
	last   string   // device that was announced last; "" before the first
	failed []string // what the devices before it said
}

// enter notes that the state is another one, and whether it is the first of this
// leadership.
func (e *escalation) enter(m kubestate.Remediation, first bool) {
	e.failed = nil
	switch {
	case m.State != kubestate.RemFencing:
		e.announced, e.off, e.inUse = false, false, false
	case first:
		e.last = m.Device // go on with the device at which an earlier leader was
	default:
		e.last = ""
	}
}

// cordon is the turn of an intent: it keeps new pods away, if the finding still
// holds.
func (r *remedy) cordon(ctx context.Context, m kubestate.Remediation) error {
	p, err := r.permit(ctx, m)
	if err != nil || !p.given {
		return err
	}
	if _, err := r.target.keepCordon(ctx, m, p.node); err != nil {
		return err
	}
	return r.move(ctx, m, kubestate.RemCordoned, "", "")
}

// mark changes a Node as it was read, under the token of this leadership.
func (s *clusterController) mark(ctx context.Context, as Node, c Change, what string) (now Node, err error) {
	c.Token = uint64(s.a.Token())
	err = s.write(ctx, s.settings().Remedy.Timeout, what, func(ctx context.Context) (err error) {
		now, err = s.cluster.Mark(ctx, as, c)
		return err
	})
	if err == nil && len(c.Add)+len(c.Remove) > 0 {
		s.log.Info("Node tainted", "kube_node", as.Name, "added", c.Add, "removed", c.Remove)
	}
	return now, err
}

// announceFirst is the turn of a cordoned node, and of one that is stuck and tried again: the
// command to its first device goes into the log before it is given, unless a stuck one is
// proven to be off still.
func (r *remedy) announceFirst(ctx context.Context, m kubestate.Remediation, why string) error {
	if p, err := r.permit(ctx, m); err != nil || !p.given {
		return err
	}
	devices := r.target.devices()
	if len(devices) == 0 {
		r.since = time.Now()
		return r.stuck(ctx, m, noDevice)
	}
	if m.State == kubestate.RemStuck && m.WasOff {
		// It goes on where it got stuck, without another command, if the same proof holds that each of its steps
		// asks for.
		p, err := r.prove(ctx, m, nil)
		switch {
		case errors.As(err, new(errContradicted)):
			return r.unproven(ctx, m, err)
		case err == nil && !p.gone: // else what follows takes its power, or finds the Node gone
			err := r.move(ctx, m, kubestate.RemFencing, "", "tried again: it is proven to be off still")
			if err != nil {
				return err
			}
			m.State = kubestate.RemFencing
			return r.move(ctx, m, kubestate.RemOff, "",
				fmt.Sprintf("device %s says off; nothing answers, and its Lease is silent", m.Device))
		}
	}
	return r.announce(ctx, m, devices[0].Name(), why)
}

// announce commits that a device is about to be told to take the power.
func (r *remedy) announce(ctx context.Context, m kubestate.Remediation, device, why string) error {
	err := r.move(ctx, m, kubestate.RemFencing, device, why)
	if err == nil {
		m.State = kubestate.RemFencing
		r.enter(m)
		r.power.announced, r.power.off, r.power.last = true, false, device
	}
	return err
}

// fence is the turn of a node whose power is being taken: one command to one
// device, and the proof that it worked; or the announcement of the next one.
func (r *remedy) fence(ctx context.Context, m kubestate.Remediation) error {
	if r.power.off { // what it showed before says nothing; believe looks at what came after
		answer := r.target.knocking(ctx, knockLimit)
		if _, err := r.target.readNodeAndLease(ctx, m); err != nil {
			return r.lost(ctx, m, err)
		}
		return r.believe(ctx, m, answer())
	}
	p, err := r.permit(ctx, m)
	if err != nil || !p.given {
		return err
	}
	if _, err := r.target.keepCordon(ctx, m, p.node); err != nil {
		return err
	}
	devices := r.target.devices()
	if len(devices) == 0 {
		return r.stuck(ctx, m, noDevice)
	}
	at := max(0, slices.IndexFunc(devices, func(d Device) bool { return d.Name() == r.power.last }))
	d := devices[at]
	if !r.power.announced || d.Name() != r.power.last {
		return r.announce(ctx, m, d.Name(), "again")
	}
	if r.power.announced = false; !r.power.inUse {
		r.log.Warn("powering off machine", "kube_node", m.Node, "device", d.Name())
	}
	seen, err := r.target.takePower(ctx, m, d, p)
	var used InUse
	if errors.As(err, &used) {
		return rejudged{r}.waitInUse(m, used)
	}
	r.power.inUse = false
	var unproven errUnproven
	var withheld errWithheld
	switch {
	case err == nil:
		return r.readOff(ctx, m, seen)
	case errors.As(err, &withheld):
		return r.withhold(m, withheld.why...)
	case ctx.Err() != nil, errors.As(err, &unproven):
		return err // no command was sent, or this leadership is over
	}
	r.power.failed = append(r.power.failed, fmt.Sprintf("device %s: %v", d.Name(), err))
	why := strings.Join(r.power.failed, "; ")
	if at+1 < len(devices) {
		return r.announce(ctx, m, devices[at+1].Name(), why)
	}
	return r.stuck(ctx, m, why)
}

// evidence is what was seen of a machine while its device read it off twice.
type evidence struct {
	at    time.Time // when the second reading was answered
	heard Heard     // what its kubelet said
	node  Node
	err   error // of the look at the storage
}

// takePower gives one command and waits until the machine was read off twice.
func (t *target) takePower(ctx context.Context, m kubestate.Remediation, d Device, p permission) (evidence, error) {
	err := t.write(ctx, fenceLimit, "switch it off", func(ctx context.Context) error {
		if t.restarted(ctx, m) {
			return errWithheld{[]refusal{{signsRail, "it was shut down, and its device does not say off any more"}}}
		}
		// What forbids the command, or shows that the machine is back, ends the tries of its device.
		return whileAllowed(ctx, func() []refusal {
			return append(t.judge.refusals(m.UID, nil, p.asked), t.isBack(m, p)...)
		}, func(ctx context.Context) error { return d.Off(ctx, t.machine) })
	})
	if err != nil {
		return evidence{}, err
	}
	limited, cancel := context.WithTimeout(ctx, offWithin)
	defer cancel()
	for every := powerFirst; ; every = min(every*3/2, powerEvery) {
		p, err := d.Power(limited, t.machine)
		if err == nil && p == PowerOff {
			var s evidence
			if s, p, err = t.confirmOff(ctx, limited, m, d); err == nil && p == PowerOff {
				return s, nil
			}
		}
		if !pace.Wait(limited, every) {
			why := ""
			if err != nil {
				why = " (" + err.Error() + ")"
			}
			return evidence{}, fmt.Errorf("%w: %v after the command its power is read as %v%s", limited.Err(), offWithin, p, why)
		}
	}
}

// confirmOff reads a second time that a machine is off. What depends on neither reading
// overlaps with them: its kubelet is asked between the two, and the storage is read next
// to the second. If that one takes longer than its kubelet may, the silence of the
// kubelet is old by then, and it is asked again. limited bounds the readings.
func (t *target) confirmOff(ctx, limited context.Context, m kubestate.Remediation, d Device) (s evidence, p Power,
	err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	answer := t.knocking(ctx, knockLimit)
	if !pace.Wait(limited, confirmInterval) {
		return s, PowerOff, limited.Err()
	}
	sent, machine := time.Now(), t.machine
	var reading sync.WaitGroup
	reading.Go(func() {
		p, err = d.Power(limited, machine)
		s.at = time.Now()
	})
	s.node, s.err = t.readNodeAndLease(ctx, m)
	reading.Wait()
	if err != nil || p != PowerOff {
		return s, p, err
	}
	if s.heard = answer(); !s.heard.On() && s.at.Sub(sent) > knockLimit {
		s.heard = t.knocking(ctx, knockLimit)()
	}
	return s, p, nil
}

// readOff notes what was seen of a machine that its device has just said off of, twice.
// What the machine does from now on contradicts the device.
func (r *remedy) readOff(ctx context.Context, m kubestate.Remediation, seen evidence) error {
	if seen.err != nil {
		return r.lost(ctx, m, seen.err)
	}
	r.power.off, r.power.read, r.target.boot = true, seen.at, seen.node.BootID
	r.signs.sure, r.signs.hears = time.Now(), time.Time{}
	if !r.signs.silent(m) {
		r.log.Info("machine read off; waiting until its Lease was not renewed for failover.lease_age",
			"kube_node", m.Node, "device", m.Device)
	}
	return r.believe(ctx, m, seen.heard)
}

// believe compares what the device says with what the machine itself says, and
// commits that it is off if nothing speaks against it. A machine that gave signs of
// life until its power was taken has to be silent for lease_age first: a device that
// is mapped to another machine would else be believed between two renewals.
//
// The wait is not in the log. Another leader reads the power again and counts from
// its own first look at the Lease, which can only make the wait longer.
func (r *remedy) believe(ctx context.Context, m kubestate.Remediation, heard Heard) error {
	alive, err := r.signs.life(m, heard, lateRenewal)
	switch {
	case err != nil:
		return err
	case alive != "":
		return r.stuck(ctx, m, fmt.Sprintf("%sdevice %s says off, and %s", contradiction, m.Device, alive))
	}
	switch waited := time.Since(r.signs.sure); {
	case !r.signs.silent(m) && waited > believeLimit:
		return r.stuck(ctx, m, fmt.Sprintf(
			"device %s says off, and for %v the watch of Leases did not show that its Lease is silent", m.Device,
			rounded(waited)))
	case !r.signs.silent(m):
		return wait(lookAgain)
	case time.Since(r.power.read) > batchLife: // it may have been switched on since
		r.signs.sure = time.Now()
		if _, err := r.prove(ctx, m, nil); err != nil {
			var idle wait
			r.power.off = errors.As(err, &idle)
			return r.unproven(ctx, m, err)
		}
	}
	reason := fmt.Sprintf("device %s says off, twice; nothing answers, and its Lease is silent", m.Device)
	if d, configured := r.target.device(m.Device); configured {
		if why := Uncompared(d, r.target.machine); why != "" {
			reason += "; " + why
		}
	}
	return r.move(ctx, m, kubestate.RemOff, "", reason)
}

// back handles a node that is well although its power is to be taken.
func (r *remedy) back(ctx context.Context, m kubestate.Remediation, n Node) error {
	switch {
	case !m.WasOff:
		return r.move(ctx, m, kubestate.RemCancelled, "", "it is back: it is Ready, and its Lease is renewed")
	case n.BootID != r.target.boot:
		return r.comeBack(ctx, m, n)
	}
	return r.stuck(ctx, m, contradiction+"it was off, and is back without having booted")
}
