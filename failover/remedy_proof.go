package failover

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// readingLife is for how long a reading of off may be the beginning of another proof:
// from off to the first deletion nothing takes that long but requests that are slow.
const readingLife = time.Second

// proof is what everything after `off` rests on: that the machine was off a
// moment ago, and what the Node looked like after that.
type proof struct {
	at    time.Time // when the device had answered
	heard Heard     // what the kubelet said to this proof's question
	node  Node
	gone  bool // the Node was deleted
}

// errAwake says that a machine which was off is not, or may not be. on says that its
// device reads power.
type errAwake struct {
	why string
	on  bool
}

func (e errAwake) Error() string { return e.why }

// prove begins with readPower, then does what is to be done between, then reads the Node:
// anything that between has read is younger than the power and older than the proof that
// the Node is still the same, has not booted, and gives no sign of life.
// The kubelet's silence takes time, and is waited for before: pods that were listed
// earlier would have changed, as Kubernetes itself ends those of a tainted Node. It waits
// until this leader saw the Lease silent for lease_age: what an earlier one saw may be
// over, and after a silence of the API server it is not known.
func (r *remedy) prove(ctx context.Context, m kubestate.Remediation, between func(context.Context) error) (proof,
	error) {
	p, err := r.readPower(ctx, m)
	if err != nil {
		return proof{}, err
	}
	if between != nil {
		if err := between(ctx); err != nil {
			return proof{}, err
		}
	}
	p.node, err = r.target.readNodeAndLease(ctx, m)
	switch {
	case errors.Is(err, errDeleted):
		p.gone = true
	case err != nil:
		return proof{}, err
	case p.node.BootID != r.target.boot:
		return proof{}, errAwake{why: "it has booted since it was off"}
	}
	alive, err := r.signs.life(m, p.heard, 0)
	switch {
	case err != nil:
		return proof{}, err
	case alive != "":
		return proof{}, errContradicted{alive}
	case !p.gone && !r.signs.silent(m):
		return proof{}, wait(lookAgain)
	}
	r.power.read = p.at
	return p, nil
}

// readPower is the beginning of a proof: its device says off, and its kubelet was asked. The
// reading of the proof right before, or of fencing, is as good for readingLife as a new
// one, which a device may take a second for: nothing that was done meanwhile needed its
// own. The kubelet is asked all the same, though its silence, which that proof waited
// for, is not waited for again; if it answers, the power is read. What fails later leaves no
// reading behind. A device that does not answer is asked again, and when that does not help,
// fencing begins again, with the next device if need be.
func (r *remedy) readPower(ctx context.Context, m kubestate.Remediation) (proof, error) {
	if !r.target.known { // else the device's answer could be compared with nothing but a name
		if _, err := r.target.readNode(ctx, m); err != nil && !errors.Is(err, errDeleted) {
			return proof{}, err
		}
	}
	d, configured := r.target.device(m.Device)
	if !configured {
		return proof{}, errAwake{why: fmt.Sprintf("device %s, which took its power, is not configured any more", m.Device)}
	}
	p := proof{at: r.power.read}
	r.power.read = time.Time{}
	if time.Since(p.at) < readingLife {
		if p.heard = r.target.knocking(ctx, againLimit)(); !p.heard.On() {
			return p, nil
		}
	}
	answer := r.target.knocking(ctx, proofLimit)
	limited, cancel := context.WithTimeout(ctx, fenceLimit)
	power, err := d.Power(limited, r.target.machine)
	cancel()
	if err != nil {
		err = fmt.Errorf("read its power: %w", err)
	}
	switch {
	case ctx.Err() != nil && err != nil:
		return proof{}, err
	case err != nil:
		if r.tries++; r.tries > r.settings().Remedy.Retries {
			return proof{}, errAwake{why: err.Error()}
		}
		r.log.Warn("fence device does not answer", "kube_node", r.target.machine.Node, "tries", r.tries, "err", err)
		return proof{}, wait(r.settings().Remedy.RetryInterval)
	case power != PowerOff:
		return proof{}, errAwake{why: fmt.Sprintf("device %s says %v", m.Device, power), on: power == PowerOn}
	}
	p.at = time.Now()
	p.heard = answer()
	return p, nil
}

// errContradicted says that the machine lives though its device says off.
type errContradicted struct{ alive string }

func (e errContradicted) Error() string { return e.alive }

// unproven decides what follows a proof that failed. Nothing is done without one, and
// the taint of a machine that has power is taken away: Kubernetes itself would go on
// with it while this leader looks.
func (r *remedy) unproven(ctx context.Context, m kubestate.Remediation, err error) error {
	var awake errAwake
	var contradicted errContradicted
	switch {
	case errors.As(err, &contradicted):
		return r.stuck(ctx, m, fmt.Sprintf("%sdevice %s says off, and %s", contradiction, m.Device, contradicted.alive))
	case !errors.As(err, &awake):
		return r.lost(ctx, m, err)
	case awake.on:
		if err := r.untaint(ctx, m); err != nil {
			return err
		}
	}
	switch {
	case r.judge.Well(m.UID):
		n, err := r.target.readNode(ctx, m)
		if err != nil {
			return r.lost(ctx, m, err)
		}
		return r.back(ctx, m, n)
	case !r.signs.looked(m):
		return wait(lookAgain)
	}
	return r.move(ctx, m, kubestate.RemFencing, "", awake.why)
}
