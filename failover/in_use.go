package failover

import (
	"time"

	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// InUse is the error of a Device that did not take the power, because its machine is used on purpose for
// what would break by that, such as an introspection. Another device would break it just as well.
type InUse struct{ Why string }

// Error implements error.
func (e InUse) Error() string { return e.Why }

const (
	inUseRail = "in-use"
	// inUseEvery is kept between two commands to a machine that is in use: each asks what it is used for.
	inUseEvery = 10 * time.Second
)

// waitInUse leaves a machine on that is in use, and its announced command with it. It ends with the use, or when
// the machine is back.
func (r rejudged) waitInUse(m kubestate.Remediation, used InUse) error {
	if !r.power.inUse {
		r.log.Info("machine is in use, its power is not taken", "kube_node", m.Node, "reason", used.Why)
	}
	r.power.inUse, r.power.announced = true, true
	r.refuse(m.UID, refusal{inUseRail, used.Why})
	return wait(inUseEvery)
}
