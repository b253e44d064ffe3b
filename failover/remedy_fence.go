package failover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/fsm"
)

const (
	// fenceLimit bounds one power-off command with all retries of its device; agents
	// of some BMCs take a minute each.
	fenceLimit = 5 * time.Minute
	// offWithin is how long a machine may take to be off after its device took the
	// command; a BMC that waits for its power supply takes some seconds.
	offWithin = 30 * time.Second
	// powerEvery is how often its power is read meanwhile.
	powerEvery = 500 * time.Millisecond
	// confirmInterval is kept between the two readings that count: one alone may be
	// the dark half of a power cycle.
	confirmInterval = time.Second
)

// contradiction begins the reason of a remediation that is stuck because the
// machine gives signs of life though its device says that it is off. The device is
// then likely mapped to another machine. No command is given to it again, and it is
// not believed, until an operator releases the remediation: silence that follows
// proves nothing about a device that was wrong before.
const contradiction = "contradiction: "

// believeLimit bounds the wait for a Lease that is not renewed after its machine was
// read off. It is reached only if the API server answers and the watch of Leases
// does not keep up with what it answers.
const believeLimit = 5 * time.Minute

const noDevice = "no fence device is configured for it"

// escalation is where the list of devices is at.
type escalation struct {
	announced bool     // the command to last is in the log and was not given yet
	off       bool     // last was read off twice after its newest command
	last      string   // device that was announced last; "" before the first
	failed    []string // what the devices before it said
}

// cordon is the turn of an intent: it keeps new pods away, if the finding still
// holds.
func (r *remedy) cordon(ctx context.Context, m fsm.Remediation) error {
	n, done, err := r.recheck(ctx, m)
	if done || err != nil {
		return err
	}
	if _, err := r.keepCordon(ctx, m, n); err != nil {
		return err
	}
	return r.move(ctx, m, fsm.RemCordoned, "", "")
}

// recheck looks again before anything is done. done says that the remediation was
// cancelled, or could not be.
func (r *remedy) recheck(ctx context.Context, m fsm.Remediation) (n Node, done bool, err error) {
	n, err = r.node(ctx, m)
	if err != nil {
		return Node{}, true, r.lost(ctx, m, err)
	}
	if n.BootID != m.BootID {
		return n, true, r.move(ctx, m, fsm.RemCancelled, "", "it has booted again")
	}
	if w := r.tracker.Look(); !w.Synced || !w.API.Answers {
		return n, true, wait(lookAgain)
	}
	if suspect, why := r.judge.Still(m.UID); !suspect && !r.stands(m, n) {
		return n, true, r.move(ctx, m, fsm.RemCancelled, "", why)
	}
	return n, false, nil
}

// stands reports whether a kube node has not been Ready for long, as the log has
// it: a new leader may have counted for a moment only.
func (r *remedy) stands(m fsm.Remediation, n Node) bool {
	v, _ := r.o.Log.Changed()
	k, known := v.KubeNode(m.Cluster, m.UID)
	after := r.settings().Detection.NotReadyAfter
	return known && after > 0 && n.Ready != fsm.KubeTrue && k.Ready != fsm.KubeTrue && v.Now().Sub(k.Changed) >= after
}

func cordonOf(m fsm.Remediation) Taint {
	return Taint{Key: TaintCordon, Value: m.Intent.String(), Effect: "NoSchedule"}
}

// keepCordon makes sure that our cordon is there. One of an earlier remediation
// gives way: taints are one per key and effect.
func (r *remedy) keepCordon(ctx context.Context, m fsm.Remediation, n Node) (Node, error) {
	want := cordonOf(m)
	if slices.Contains(n.Taints, want) {
		return n, nil
	}
	var old []Taint
	for _, t := range n.Taints {
		if t.Key == TaintCordon {
			old = append(old, t)
		}
	}
	return r.mark(ctx, n, Change{Add: []Taint{want}, Remove: old}, "cordon the Node")
}

// mark changes a Node as it was read, under the token of this leadership.
func (s *clusterController) mark(ctx context.Context, as Node, c Change, what string) (now Node, err error) {
	c.Token = uint64(s.a.Token())
	err = s.write(ctx, s.settings().Remedy.Timeout, what, func(ctx context.Context) (err error) {
		now, err = s.cluster.Mark(ctx, as, c)
		return err
	})
	if err == nil {
		s.log.Info("Node tainted", "kube_node", as.Name, "added", c.Add, "removed", c.Remove)
	}
	return now, err
}

// announceFirst is the turn of a cordoned node: the command to its first device
// goes into the log before it is given.
func (r *remedy) announceFirst(ctx context.Context, m fsm.Remediation) error {
	if _, done, err := r.recheck(ctx, m); done || err != nil {
		return err
	}
	devices := r.o.Fences.For(r.machine)
	if len(devices) == 0 {
		return r.stuck(ctx, m, noDevice)
	}
	return r.announce(ctx, m, devices[0].Name(), "")
}

// announce commits that a device is about to be told to take the power.
func (r *remedy) announce(ctx context.Context, m fsm.Remediation, device, why string) error {
	err := r.move(ctx, m, fsm.RemFencing, device, why)
	if err == nil {
		r.enter(withState(m, fsm.RemFencing))
		r.power.announced, r.power.off, r.power.last = true, false, device
	}
	return err
}

func withState(m fsm.Remediation, s fsm.RemediationState) fsm.Remediation {
	m.State = s
	return m
}

// fence is the turn of a node whose power is being taken: one command to one
// device, and the proof that it worked; or the announcement of the next one.
func (r *remedy) fence(ctx context.Context, m fsm.Remediation) error {
	n, err := r.node(ctx, m)
	if err != nil {
		return r.lost(ctx, m, err)
	}
	if err := r.heartbeat(ctx, m.Node); err != nil {
		return err
	}
	// Once it was read off, what it showed before says nothing; believe looks at what
	// came after.
	if !r.power.off && r.judge.Well(m.UID) {
		return r.back(ctx, m, n)
	}
	if _, err := r.keepCordon(ctx, m, n); err != nil {
		return err
	}
	devices := r.o.Fences.For(r.machine)
	if len(devices) == 0 {
		return r.stuck(ctx, m, noDevice)
	}
	if r.power.off {
		return r.believe(ctx, m)
	}
	at := max(0, slices.IndexFunc(devices, func(d Device) bool { return d.Name() == r.power.last }))
	d := devices[at]
	if !r.power.announced || d.Name() != r.power.last {
		return r.announce(ctx, m, d.Name(), "again")
	}
	r.power.announced = false
	err = r.takePower(ctx, d)
	var unproven errUnproven
	switch {
	case err == nil:
		return r.readOff(ctx, m)
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

// takePower gives one command and waits until the machine was read off twice.
func (r *remedy) takePower(ctx context.Context, d Device) error {
	r.log.Warn("powering off machine", "kube_node", r.machine.Node, "device", d.Name())
	err := r.write(ctx, fenceLimit, "switch it off", func(ctx context.Context) error { return d.Off(ctx, r.machine) })
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, offWithin)
	defer cancel()
	var first time.Time // of the readings that said off without a break
	for {
		p, err := d.Power(ctx, r.machine)
		switch {
		case err != nil || p != PowerOff:
			first = time.Time{}
		case first.IsZero():
			first = time.Now()
		case time.Since(first) >= confirmInterval:
			return nil
		}
		if !pause(ctx, powerEvery) {
			return fmt.Errorf("%w: %v after the command its power is read as %v%s", ctx.Err(), offWithin, p, andWhy(err))
		}
	}
}

func andWhy(err error) string {
	if err == nil {
		return ""
	}
	return " (" + err.Error() + ")"
}

// readOff notes what the cluster shows of a machine that its device has just said
// off of, twice. What the machine does from now on contradicts the device.
func (r *remedy) readOff(ctx context.Context, m fsm.Remediation) error {
	if err := r.heartbeat(ctx, m.Node); err != nil {
		return err
	}
	n, err := r.node(ctx, m)
	if err != nil {
		return r.lost(ctx, m, err)
	}
	r.power.off, r.boot, r.sure, r.hears = true, n.BootID, time.Now(), time.Time{}
	if !r.silent(m) {
		r.log.Info("machine read off; waiting until its Lease was not renewed for failover.lease_age",
			"kube_node", m.Node, "device", m.Device)
	}
	return r.believe(ctx, m)
}

// believe compares what the device says with what the machine itself says, and
// commits that it is off if nothing speaks against it. A machine that gave signs of
// life until its power was taken has to be silent for lease_age first: a device that
// is mapped to another machine would else be believed between two renewals.
//
// The wait is not in the log. Another leader reads the power again and counts from
// its own first look at the Lease, which can only make the wait longer.
func (r *remedy) believe(ctx context.Context, m fsm.Remediation) error {
	if err := r.heartbeat(ctx, m.Node); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, knockLimit)
	heard := r.knock(limited)
	cancel()
	alive, err := r.life(m, heard, lateRenewal)
	switch {
	case err != nil:
		return err
	case alive != "":
		return r.stuck(ctx, m, fmt.Sprintf("%sdevice %s says off, and %s", contradiction, m.Device, alive))
	}
	switch waited := time.Since(r.sure); {
	case !r.silent(m) && waited > believeLimit:
		return r.stuck(ctx, m, fmt.Sprintf("device %s says off, and for %v the watch of Leases did not show that its Lease is silent", m.Device, rounded(waited)))
	case !r.silent(m):
		return wait(lookAgain)
	case waited > batchLife: // the readings are old; it may have been switched on since
		r.sure = time.Now()
		if _, err := r.prove(ctx, m, nil); err != nil {
			var idle wait
			r.power.off = errors.As(err, &idle)
			return r.unproven(ctx, m, err)
		}
	}
	reason := fmt.Sprintf("device %s says off, twice; nothing answers, and its Lease is silent", m.Device)
	for _, d := range r.o.Fences.For(r.machine) {
		if why := Uncompared(d, r.machine); d.Name() == m.Device && why != "" {
			reason += "; " + why
		}
	}
	return r.move(ctx, m, fsm.RemOff, "", reason)
}

// back handles a node that is well although its power is to be taken.
func (r *remedy) back(ctx context.Context, m fsm.Remediation, n Node) error {
	switch {
	case !m.WasOff:
		return r.move(ctx, m, fsm.RemCancelled, "", "it is back: it is Ready, and its Lease is renewed")
	case n.BootID != r.boot:
		return r.comeBack(ctx, m, n)
	}
	return r.stuck(ctx, m, contradiction+"it was off, and is back without having booted")
}
