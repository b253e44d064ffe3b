package fence

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/trivet-ha/trivet/failover"
	"github.com/trivet-ha/trivet/internal/pace"
)

// ErrUnsupported says that the device can never do what was asked.
var ErrUnsupported = errors.New("not supported")

// Limits bound the tries of one call.
type Limits struct {
	Retries  int           // after the first try
	Interval time.Duration // between the end of a try and the next
	Timeout  time.Duration // of each try
}

// Error is a call that failed for good: what was tried on which machine, and what
// a person can do about it.
type Error struct {
	Device, Kind string // as the file has them: "bmc", "redfish"
	Machine      string // "cluster/kube node"
	Act          string // "switch it off"
	Tries        int
	Do           string
	Err          error // of the last try
}

// Error implements error.
func (e *Error) Error() string {
	tries := ""
	if e.Tries > 1 {
		tries = fmt.Sprintf(" (%d tries)", e.Tries)
	}
	return fmt.Sprintf("fence device %s (%s): kube node %s: %s: %v%s; %s", e.Device, e.Kind, e.Machine, e.Act, e.Err,
		tries, e.Do)
}

// Unwrap returns why the last try failed.
func (e *Error) Unwrap() error { return e.Err }

// setback is a failed try with advice.
type setback struct {
	error
	do    string // "" for the general advice of the method
	final bool   // another try would fail the same way, or do harm: BMCs lock users out
}

// Unwrap returns what failed.
func (s *setback) Unwrap() error { return s.error }

// hopeless is a failure that no further try would mend.
func hopeless(do, format string, args ...any) error {
	return &setback{fmt.Errorf(format, args...), do, true}
}

// method makes one try to ask or switch one machine; ctx bounds it. to says how
// the machine is reached. It may be used concurrently.
type method interface {
	power(ctx context.Context, m failover.Machine, to address) (failover.Power, error)
	// set switches a machine: PowerOff or PowerOn.
	set(ctx context.Context, m failover.Machine, to address, want failover.Power) error
	// advice is what to do about a failure that says nothing better itself.
	advice(to address) string
}

// address is how a method reaches a machine: a word, or options of an agent.
type address struct {
	text    string
	options []option
	// nameless says that the kube node's name means no machine: no list names one, and
	// several clusters may have a kube node of that name.
	nameless bool
}

// device is one entry of the file.
type device struct {
	name, kind string
	group      string // "" for none
	limits     Limits
	nodes      map[string]address // by kube node, or cluster/kube node
	everyone   bool               // no list was written: the method finds machines itself
	clusters   int                // that are configured
	method     method
	log        *slog.Logger
	random     io.Reader // of the pauses between tries; nil: crypto/rand
}

var (
	_ failover.Device   = (*device)(nil)
	_ failover.Comparer = (*device)(nil)
	_ failover.Asker    = (*device)(nil)
)

// Name implements failover.Device.
func (d *device) Name() string { return d.name }

// Power implements failover.Device.
func (d *device) Power(ctx context.Context, m failover.Machine) (power failover.Power, err error) {
	err = d.call(ctx, m, "ask whether it is on", func(ctx context.Context, to address) (err error) {
		power, err = d.method.power(ctx, m, to)
		return err
	})
	if err != nil {
		return failover.PowerUnknown, err
	}
	return power, nil
}

// Off implements failover.Device.
func (d *device) Off(ctx context.Context, m failover.Machine) error {
	return d.set(ctx, m, failover.PowerOff)
}

// On implements failover.Device.
func (d *device) On(ctx context.Context, m failover.Machine) error {
	return d.set(ctx, m, failover.PowerOn)
}

func (d *device) set(ctx context.Context, m failover.Machine, want failover.Power) error {
	return d.call(ctx, m, fmt.Sprintf("switch it %v", want), func(ctx context.Context, to address) error {
		return d.method.set(ctx, m, to, want)
	})
}

// comparer is a method that compares the UUID of a machine, if it can.
type comparer interface {
	// uncompared says why it did not at the newest reading, "" if it did.
	uncompared(m failover.Machine, to address) string
}

// Uncompared implements failover.Comparer.
func (d *device) Uncompared(m failover.Machine) string {
	c, compares := d.method.(comparer)
	if to, ok := d.reaches(m); compares && ok {
		return c.uncompared(m, to)
	}
	return fmt.Sprintf("a device of type %s knows none", d.kind)
}

// asker is a method that never answers from memory.
type asker interface{ asks() }

// Asks implements failover.Asker.
func (d *device) Asks() bool {
	_, does := d.method.(asker)
	return does
}

// reaches finds how to reach a machine. The name with the cluster goes first.
func (d *device) reaches(m failover.Machine) (to address, ok bool) {
	if to, ok = d.nodes[m.Cluster+"/"+m.Node]; ok {
		return to, true
	}
	if to, ok = d.nodes[m.Node]; ok {
		return to, true
	}
	return address{nameless: d.clusters > 1}, d.everyone
}

// call tries until something succeeds or nothing helps. The error is an *Error.
func (d *device) call(ctx context.Context, m failover.Machine, act string,
	try func(context.Context, address) error) error {
	fail := func(tries int, do string, err error) error {
		return &Error{Device: d.name, Kind: d.kind, Machine: m.Cluster + "/" + m.Node, Act: act, Tries: tries, Do: do,
			Err: err}
	}
	to, ok := d.reaches(m)
	if !ok {
		return fail(0, "add it to the nodes of the device", errors.New("the device has no such machine"))
	}
	tries := 0
	var s *setback
	err := pace.Retry{
		Pause: d.limits.Interval, Tries: d.limits.Retries + 1, Random: d.random,
		Log: d.log, Call: fmt.Sprintf("fence device %s: kube node %s/%s: %s", d.name, m.Cluster, m.Node, act),
	}.Do(ctx, func(ctx context.Context, n int) (again bool, err error) {
		tries = n
		err = d.try(ctx, to, try)
		return !errors.As(err, &s) || !s.final, err
	})
	switch {
	case err == nil:
		return nil
	case errors.As(err, &s) && s.do != "":
		return fail(tries, s.do, err)
	}
	return fail(tries, d.method.advice(to), err)
}

func (d *device) try(ctx context.Context, to address, try func(context.Context, address) error) error {
	late := fmt.Errorf("no answer within %v", d.limits.Timeout)
	bounded, cancel := context.WithTimeoutCause(ctx, d.limits.Timeout, late)
	defer cancel()
	err := try(bounded, to)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return late // the caller's context has not ended, and must not seem to
	}
	return err
}
