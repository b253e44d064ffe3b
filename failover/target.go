package failover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// target is the kube node of one remediation and its machine, under one leadership: it
// reads, marks and switches them, and keeps what it read last. It belongs to one
// goroutine.
type target struct {
	*clusterController
	machine Machine // as it was read last
	known   bool    // the Node was read under this leadership
	kubelet string  // of the Node as it was read last
	boot    string  // boot ID as of the newest proof that the machine was off
	asked   string  // resourceVersion of the Node that the newest request for the taint was about
	ons     powerOns
}

// powerOns is how often a leadership tried to switch a machine on.
type powerOns struct {
	tries int
	next  time.Time // not before
	done  bool      // it is on, as far as its devices say
	over  bool      // it was tried often enough, or long done
	// failed says that the newest try failed, maybe at one member of the device alone.
	failed bool
	seen   []string // devices that said on, each by all of its members
	// earlier says that an earlier leadership came as far, and may have done so: no step of the
	// log tells whether it has.
	earlier bool
}

// Errors of read.
var (
	errDeleted  = errors.New("the Node was deleted")
	errReplaced = errors.New("the Node was deleted, and another one has its name")
)

// readNode reads the Node of the remediation again. It fails with errDeleted or
// errReplaced when that one does not exist any more.
func (t *target) readNode(ctx context.Context, m kubestate.Remediation) (Node, error) {
	ctx, cancel := context.WithTimeout(ctx, t.settings().Remedy.Timeout)
	defer cancel()
	n, err := t.cluster.Node(ctx, m.Node)
	switch {
	case errors.Is(err, ErrGone):
		return Node{}, errDeleted
	case err != nil:
		return Node{}, fmt.Errorf("read the Node: %w", err)
	case n.UID != m.UID:
		return Node{}, errReplaced
	}
	t.tracker.Read(n)
	died := n
	if m.SystemUUID != "" {
		died.SystemUUID = m.SystemUUID // of the machine that died
	}
	t.machine, t.kubelet, t.known = t.judge.machine(died), n.Kubelet, true
	return n, nil
}

// readNodeAndLease reads the Node, and next to it the Lease for the tracker.
func (t *target) readNodeAndLease(ctx context.Context, m kubestate.Remediation) (Node, error) {
	var lease error
	var reading sync.WaitGroup
	reading.Go(func() { lease = t.heartbeat(ctx, m.Node) })
	n, err := t.readNode(ctx, m)
	reading.Wait()
	if err == nil {
		err = lease
	}
	return n, err
}

// present reports whether the watch still shows the Node of a remediation.
func (t *target) present(m kubestate.Remediation) bool { return t.watched(m).UID != "" }

// watched is the Node of a remediation as the watch shows it; without a UID if it does not.
func (t *target) watched(m kubestate.Remediation) Node {
	n, _ := t.tracker.Look().node(m.UID)
	return n.Node
}

// devices are those that can switch the machine, in their order.
func (t *target) devices() []Device { return t.o.Fences.For(t.machine) }

// device returns the one of a name.
func (t *target) device(name string) (Device, bool) {
	all := t.devices()
	i := slices.IndexFunc(all, func(d Device) bool { return d.Name() == name })
	if i < 0 {
		return nil, false
	}
	return all[i], true
}

// knocking asks the kubelet of the Node as it was read last, in parallel with other work,
// and returns what waits for its answer.
func (t *target) knocking(ctx context.Context, limit time.Duration) (answer func() Heard) {
	kubelet := t.kubelet
	if kubelet == "" {
		return func() Heard { return HeardNothing }
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	heard := make(chan Heard, 1) // never closed; the goroutine sends once
	t.workers.Go(func() {
		defer cancel()
		heard <- t.o.KubeletProber.Knock(limited, kubelet)
	})
	return func() Heard { return <-heard }
}

// keepCordon makes sure that our cordon is there. One of an earlier remediation
// gives way: taints are one per key and effect.
func (t *target) keepCordon(ctx context.Context, m kubestate.Remediation, n Node) (Node, error) {
	want := Taint{Key: TaintCordon, Value: m.Intent.String(), Effect: "NoSchedule"}
	if slices.Contains(n.Taints, want) {
		return n, nil
	}
	var old []Taint
	for _, have := range n.Taints {
		if have.Key == TaintCordon {
			old = append(old, have)
		}
	}
	return t.mark(ctx, n, Change{Add: []Taint{want}, Remove: old}, "cordon the Node")
}

// outOfService is our taint; taken reports whether a Node has it, from us or from
// another program, to which it then belongs.
func outOfService() Taint {
	return Taint{Key: TaintOutOfService, Value: OutOfServiceValue, Effect: "NoExecute"}
}

func taken(n Node) bool {
	want := outOfService()
	return slices.ContainsFunc(n.Taints, func(t Taint) bool { return t.Key == want.Key && t.Effect == want.Effect })
}

// keepTaint makes sure that both taints are there; another program's write may have
// lost them.
func (t *target) keepTaint(ctx context.Context, m kubestate.Remediation, n Node) error {
	n, err := t.keepCordon(ctx, m, n)
	if err != nil || taken(n) {
		return err
	}
	t.asked = n.ResourceVersion
	_, err = t.mark(ctx, n, Change{Add: []Taint{outOfService()}}, "taint the Node out of service")
	return err
}

// attachments names the volumes that are attached to the Node.
func (t *target) attachments(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, t.settings().Remedy.Timeout)
	defer cancel()
	names, err := t.cluster.Attachments(ctx, t.machine.Node)
	if err != nil {
		return nil, fmt.Errorf("list the volume attachments: %w", err)
	}
	return names, nil
}
