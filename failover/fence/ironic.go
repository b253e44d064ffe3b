package fence

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/failover"
	"github.com/trivet-ha/trivet/internal/pace"
)

// What Ironic calls power. Only the hard way off is ever asked for: what it calls
// soft is a request to the operating system.
const (
	ironicOn  = "power on"
	ironicOff = "power off"
)

// lookAtIronic is the time between two looks at what Ironic is doing.
const lookAtIronic = 200 * time.Millisecond

// Ironic is what a device of the type ironic needs of it. Its methods may be called
// concurrently.
type Ironic interface {
	// FindNode returns the UUID of the node that ref means: its UUID, its name, or
	// the MAC of one of its ports.
	FindNode(ctx context.Context, ref string) (uuid string, found bool, err error)
	// PowerState returns what Ironic remembers of a node's power, what it is doing
	// about the node ("" for nothing), and its last trouble with it.
	PowerState(ctx context.Context, uuid string) (state, doing, trouble string, err error)
	// SetPower tells Ironic to bring about a state; it returns before that is done.
	SetPower(ctx context.Context, uuid, state string) error
}

func ironicKind() kind {
	return kind{
		name: "ironic",
		check: func(r *reader, s *spec) {
			if r.o.Ironic == nil {
				r.problem(s.lineOf("type"), s.key("type"), "there is no Ironic in the configuration",
					"set ironic.endpoint in trivet.yaml, or use another type")
			}
		},
		open: func(_ *spec, _ *List, o Options) (method, []mishap) {
			method := newThroughIronic(o.Ironic)
			method.inUse = o.InUse
			return method, nil
		},
		meant: func(_ *spec, n node) meant { return meant{machines: []string{strings.ToLower(n.text)}} },
	}
}

// throughIronic is the method of devices of the type ironic.
//
// Ironic answers questions about power from its memory, which is a minute old or,
// in maintenance, of any age. Told to switch a machine, however, it asks the
// machine first, and does nothing if that is as it should be. So where it remembers
// "off", it gets the command to switch off, and is believed afterwards. That costs
// nothing in a remediation, which has announced the same command; a question that
// must have no effect says so (failover.Machine.AskOnly).
type throughIronic struct {
	ironic Ironic
	inUse  func(ctx context.Context, uuid string) (string, error) // as in Options

	mu    sync.Mutex
	found map[string]foundNode // by cluster/kube node: at the newest look
}

// foundNode is a node in Ironic and how it was found.
type foundNode struct {
	uuid   string
	ref    string // as the file names it; "" without a list
	byUUID bool   // it has the UUID of the machine
}

func newThroughIronic(i Ironic) *throughIronic {
	return &throughIronic{ironic: i, found: make(map[string]foundNode)}
}

func (i *throughIronic) advice(address) string {
	return "look at the node in Ironic: openstack baremetal node show"
}

func (i *throughIronic) power(ctx context.Context, m failover.Machine, to address) (failover.Power, error) {
	uuid, err := i.find(ctx, m, to)
	if err != nil {
		return failover.PowerUnknown, err
	}
	before, err := i.remembered(ctx, uuid)
	switch {
	case err != nil:
		return failover.PowerUnknown, err
	case before.power() == failover.PowerUnknown:
		return failover.PowerUnknown, before.whyDoubted()
	case before.power() == failover.PowerOn, m.AskOnly:
		return before.power(), nil
	}
	if err := i.ironic.SetPower(ctx, uuid, ironicOff); err != nil {
		return failover.PowerUnknown, fmt.Errorf("have Ironic ask the machine: %w", err)
	}
	after, err := i.settled(ctx, uuid)
	if err != nil {
		return failover.PowerUnknown, err
	}
	return after.power(), after.whyDoubted()
}

// set sends the command, also where Ironic remembers that state. Work that goes on
// when ctx ends is no failure: the command was taken, and told again it would find
// the node locked.
func (i *throughIronic) set(ctx context.Context, m failover.Machine, to address, want failover.Power) error {
	state := ironicOff
	if want == failover.PowerOn {
		state = ironicOn
	}
	uuid, err := i.find(ctx, m, to)
	if err != nil {
		return err
	}
	if want == failover.PowerOff && i.inUse != nil {
		// Where it cannot be told what Ironic or an introspection does with the machine, the command is given.
		if why, err := i.inUse(ctx, uuid); err == nil && why != "" {
			return hopeless("", "%w", failover.InUse{Why: why})
		}
	}
	if err := i.ironic.SetPower(ctx, uuid, state); err != nil {
		return err
	}
	after, err := i.settled(ctx, uuid)
	switch {
	case err != nil:
		return err
	case after.doing == "" && after.state != state:
		return fmt.Errorf("Ironic took the command for node %s, which is %q now: %s", uuid, after.state, after.trouble)
	}
	return after.whyDoubted()
}

// memory is what Ironic says of a node.
type memory struct{ state, doing, trouble string }

// power is unknown while Ironic is doing something.
func (m memory) power() failover.Power {
	switch {
	case m.doing != "":
		return failover.PowerUnknown
	case m.state == ironicOn:
		return failover.PowerOn
	case m.state == ironicOff:
		return failover.PowerOff
	}
	return failover.PowerUnknown
}

// whyDoubted is why the end of a command is not to be believed: a command clears the
// trouble that was, so that any is its own.
func (m memory) whyDoubted() error {
	switch {
	case m.doing != "":
		return nil
	case m.trouble != "" && m.state != ironicOn:
		return fmt.Errorf("Ironic says %q, and of its last trouble: %s", m.state, m.trouble)
	case m.power() == failover.PowerUnknown:
		return fmt.Errorf("Ironic knows no power state but %q", m.state)
	}
	return nil
}

func (i *throughIronic) remembered(ctx context.Context, uuid string) (m memory, err error) {
	m.state, m.doing, m.trouble, err = i.ironic.PowerState(ctx, uuid)
	return m, err
}

// settled waits until Ironic does nothing about the node. If ctx ends first, it
// says what was still being done.
func (i *throughIronic) settled(ctx context.Context, uuid string) (memory, error) {
	var last memory
	for {
		m, err := i.remembered(ctx, uuid)
		switch {
		case err != nil && ctx.Err() != nil && last.doing != "":
			return last, nil
		case err != nil, m.doing == "":
			return m, err
		case !pace.Wait(ctx, lookAtIronic):
			return m, nil
		}
		last = m
	}
}

// uncompared implements comparer.
func (i *throughIronic) uncompared(m failover.Machine, to address) string {
	if to.text != "" {
		return "the file names the node in Ironic"
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.found[m.Cluster+"/"+m.Node].byUUID {
		return ""
	}
	return "Ironic's node was found by the kube node's name alone"
}

// keepNode keeps what the newest look found.
func (i *throughIronic) keepNode(machine string, n foundNode) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.found) >= maxNodes { // kube nodes that are gone are among them; the next look finds again
		clear(i.found)
	}
	i.found[machine] = n
}

// sameNode returns another machine for which the file names the same node in Ironic.
func (i *throughIronic) sameNode(machine, uuid string) (other, ref string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for name, n := range i.found { // order-free: any will do
		if name != machine && n.ref != "" && n.uuid == uuid {
			return name, n.ref
		}
	}
	return "", ""
}

// listed returns the node that the file names. Two names for one node show when both
// were looked for: neither is believed then, while that is so.
func (i *throughIronic) listed(ctx context.Context, m failover.Machine, ref string) (string, error) {
	machine := m.Cluster + "/" + m.Node
	uuid, ok, err := i.ironic.FindNode(ctx, ref)
	if err == nil && !ok {
		err = hopeless("write its UUID, name or MAC in Ironic under nodes of the device", "Ironic has no node %s", ref)
	}
	if err != nil {
		return "", err
	}
	i.keepNode(machine, foundNode{uuid: uuid, ref: ref})
	for other, theirs := i.sameNode(machine, uuid); other != ""; other, theirs = i.sameNode(machine, uuid) {
		now, ok, err := i.ironic.FindNode(ctx, theirs)
		switch {
		case err != nil:
			return "", err
		case ok && now == uuid:
			return "", hopeless("write its own node under nodes of the device", "Ironic's node %s is that of kube node %s, too",
				uuid, other)
		}
		i.keepNode(other, foundNode{uuid: now, ref: theirs}) // it means another one by now
	}
	return uuid, nil
}

// find returns the UUID of the machine's node. Without a list, that is the one with
// the machine's UUID or the kube node's name; where the two disagree, neither is
// believed. With several clusters the UUID alone counts: the name may be that of a
// kube node, and of a living machine, of another one.
func (i *throughIronic) find(ctx context.Context, m failover.Machine, to address) (uuid string, err error) {
	if to.text != "" {
		return i.listed(ctx, m, to.text)
	}
	byUUID, err := i.ofUUID(ctx, m)
	if err != nil {
		return "", err
	}
	i.keepNode(m.Cluster+"/"+m.Node, foundNode{uuid: byUUID, byUUID: byUUID != ""})
	if to.nameless {
		if byUUID == "" {
			err = hopeless("write "+m.Cluster+"/"+m.Node+" and its node in Ironic under nodes of the device",
				"Ironic has no node with the machine's UUID (%s), and the name of the kube node alone does not say which machine it is: several clusters are configured, and each may have a %s",
				uuidText(m), m.Node)
		}
		return byUUID, err
	}
	byName, ok, err := i.ironic.FindNode(ctx, m.Node)
	switch {
	case err != nil:
		return "", err
	case ok && byUUID != "" && byName != byUUID:
		return "", hopeless("write which one it is under nodes of the device",
			"Ironic has node %s with its UUID and node %s with its name", byUUID, byName)
	case !ok && byUUID == "":
		return "", hopeless("write its UUID, name or MAC in Ironic under nodes of the device",
			"Ironic has no node with its UUID (%s), nor with its name %s", uuidText(m), m.Node)
	}
	return cmp.Or(byUUID, byName), nil
}

// ofUUID returns the node that has the machine's UUID, in either byte order; "" if there
// is none, or if the UUID identifies no machine.
func (i *throughIronic) ofUUID(ctx context.Context, m failover.Machine) (uuid string, err error) {
	if m.NoUUID() != "" {
		return "", nil
	}
	for _, spelled := range failover.UUIDSpellings(m.SystemUUID) {
		if found, ok, err := i.ironic.FindNode(ctx, spelled); err != nil || ok {
			return found, err
		}
	}
	return "", nil
}

// uuidText is the machine's UUID, or why it has none.
func uuidText(m failover.Machine) string {
	return cmp.Or(m.NoUUID(), strings.ToLower(m.SystemUUID))
}
