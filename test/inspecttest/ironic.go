package inspecttest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/inspector/ironic"
)

// IronicModel is an Ironic with a few nodes, which keeps a diary of its calls.
type IronicModel struct {
	Mu      sync.Mutex
	Nodes   map[string]ironic.Node
	PortsOf map[string][]ironic.Port
	calls   []string
	times   []time.Time // of calls
	Made    func(ironic.NewNode)
	// meets is asked before a call is answered: "power off 1111…"; "ping".
	meets func(ctx context.Context, call string) error
}

// NewIronicModel is an Ironic with NodeA and NodeB.
func NewIronicModel() *IronicModel {
	r := &IronicModel{Nodes: make(map[string]ironic.Node), PortsOf: make(map[string][]ironic.Port),
		meets: func(context.Context, string) error { return nil }}
	for node, mac := range map[string]string{NodeA: MacA, NodeB: MacB} {
		r.Nodes[node] = ironic.Node{UUID: node, Name: "name-" + node[:1], Provision: "manageable", Power: ironic.PowerOff}
		r.PortsOf[node] = []ironic.Port{{UUID: node, Node: node, Address: mac}}
	}
	return r
}

// call is one call on its way. The guard is asked first, as by the real client.
func (r *IronicModel) call(ctx context.Context, format string, args ...any) error {
	if err := ironic.Allowed(ctx); err != nil {
		return &ironic.Error{Err: err}
	}
	what := fmt.Sprintf(format, args...)
	r.Mu.Lock()
	meets := r.meets
	r.Mu.Unlock()
	if err := meets(ctx, what); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return &ironic.Error{Err: err}
	}
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.calls, r.times = append(r.calls, what), append(r.times, time.Now())
	return nil
}

// On decides what calls meet from now on.
func (r *IronicModel) On(meets func(ctx context.Context, call string) error) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.meets = meets
}

// Met makes calls fail that begin with a prefix.
func (r *IronicModel) Met(prefix string, err error) {
	r.On(func(_ context.Context, call string) error {
		if strings.HasPrefix(call, prefix) {
			return err
		}
		return nil
	})
}

// Answers lets all calls succeed again.
func (r *IronicModel) Answers() { r.Met("no such call", nil) }

// Sent returns the calls so far that begin with a prefix.
func (r *IronicModel) Sent(prefix string) (calls []string) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	for _, call := range r.calls {
		if strings.HasPrefix(call, prefix) {
			calls = append(calls, call)
		}
	}
	return calls
}

// When returns the moments of the calls that sent returns.
func (r *IronicModel) When(prefix string) (times []time.Time) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	for i, call := range r.calls {
		if strings.HasPrefix(call, prefix) {
			times = append(times, r.times[i])
		}
	}
	return times
}

// Set changes what Ironic says of a node.
func (r *IronicModel) Set(node string, change func(*ironic.Node)) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	n := r.Nodes[node]
	change(&n)
	r.Nodes[node] = n
}

// Node implements the Ironic of each consumer.
func (r *IronicModel) Node(ctx context.Context, ref string) (ironic.Node, error) {
	if err := r.call(ctx, "node %s", ref); err != nil {
		return ironic.Node{}, err
	}
	r.Mu.Lock()
	defer r.Mu.Unlock()
	for _, n := range r.Nodes {
		if strings.EqualFold(n.UUID, ref) || n.Name == ref {
			return n, nil
		}
	}
	return ironic.Node{}, fmt.Errorf("%w: %s", ironic.ErrNoNode, ref)
}

// PatchNode implements the Ironic of each consumer.
func (r *IronicModel) PatchNode(ctx context.Context, node string, _ []ironic.Patch) (ironic.Node, error) {
	if err := r.call(ctx, "patch %s", node); err != nil {
		return ironic.Node{}, err
	}
	r.Mu.Lock()
	defer r.Mu.Unlock()
	return r.Nodes[node], nil
}

// NodeIDs implements the Ironic of each consumer.
func (r *IronicModel) NodeIDs(ctx context.Context) (ids []string, err error) {
	if err := r.call(ctx, "list"); err != nil {
		return nil, err
	}
	r.Mu.Lock()
	defer r.Mu.Unlock()
	for id := range r.Nodes {
		ids = append(ids, id)
	}
	return ids, nil
}

// NodeNames implements judge.Names.
func (r *IronicModel) NodeNames(ctx context.Context) (names []ironic.NodeName, err error) {
	if err := r.call(ctx, "names"); err != nil {
		return nil, err
	}
	r.Mu.Lock()
	defer r.Mu.Unlock()
	for id, n := range r.Nodes {
		names = append(names, ironic.NodeName{UUID: strings.ToLower(id), Name: n.Name})
	}
	return names, nil
}

// PowerValid implements the Ironic of each consumer.
func (r *IronicModel) PowerValid(ctx context.Context, node string) (bool, string, error) {
	return true, "", r.call(ctx, "validate %s", node)
}

// SetBootDevice implements the Ironic of each consumer.
func (r *IronicModel) SetBootDevice(ctx context.Context, node, device string, _ bool) error {
	return r.call(ctx, "boot %s %s", device, node)
}

// SetPower implements the Ironic of each consumer.
func (r *IronicModel) SetPower(ctx context.Context, node, target string) error {
	return r.call(ctx, "%s %s", target, node)
}

// Ports implements the Ironic of each consumer.
func (r *IronicModel) Ports(ctx context.Context, node string) ([]ironic.Port, error) {
	if err := r.call(ctx, "ports %s", node); err != nil {
		return nil, err
	}
	r.Mu.Lock()
	defer r.Mu.Unlock()
	return slices.Clone(r.PortsOf[node]), nil
}

// CreatePort implements the Ironic of each consumer.
func (r *IronicModel) CreatePort(ctx context.Context, p ironic.Port) (ironic.Port, error) {
	if err := r.call(ctx, "create port %s", p.Address); err != nil {
		return ironic.Port{}, err
	}
	r.Mu.Lock()
	defer r.Mu.Unlock()
	for _, ports := range r.PortsOf {
		if slices.ContainsFunc(ports, func(known ironic.Port) bool { return known.Address == p.Address }) {
			return ironic.Port{}, ironic.ErrPortExists
		}
	}
	r.PortsOf[p.Node] = append(r.PortsOf[p.Node], p)
	return p, nil
}

// PatchPort implements the Ironic of each consumer.
func (r *IronicModel) PatchPort(ctx context.Context, port string, _ []ironic.Patch) error {
	return r.call(ctx, "patch port %s", port)
}

// DeletePort implements the Ironic of each consumer.
func (r *IronicModel) DeletePort(ctx context.Context, port string) error {
	return r.call(ctx, "delete port %s", port)
}

// Ping implements the Ironic of each consumer.
func (r *IronicModel) Ping(ctx context.Context) error {
	return r.call(ironic.WithGuard(ctx, func() error { return nil }), "ping")
}

// Away is what a call gets when Ironic cannot be spoken to.
func Away() error { return &ironic.Error{Call: "GET /", Message: "connection refused"} }

// NodeWhole implements the Ironic of each consumer.
func (r *IronicModel) NodeWhole(ctx context.Context, node string) (map[string]any, error) {
	n, err := r.Node(ctx, node)
	return map[string]any{"uuid": n.UUID, "name": n.Name, "provision_state": n.Provision, "properties": n.Properties}, err
}

// PatchDriver implements the Ironic of each consumer.
func (r *IronicModel) PatchDriver(ctx context.Context, node string, patch []ironic.Patch) (ironic.Node, error) {
	return r.PatchNode(ctx, node, patch)
}

// AddTrait implements the Ironic of each consumer.
func (r *IronicModel) AddTrait(ctx context.Context, node, trait string) error {
	return r.call(ctx, "add trait %s %s", trait, node)
}

// RemoveTrait implements the Ironic of each consumer.
func (r *IronicModel) RemoveTrait(ctx context.Context, node, trait string) error {
	return r.call(ctx, "remove trait %s %s", trait, node)
}

// CreateNode implements the Ironic of each consumer.
func (r *IronicModel) CreateNode(ctx context.Context, n ironic.NewNode) (ironic.Node, error) {
	if err := r.call(ctx, "create node %s", n.UUID); err != nil {
		return ironic.Node{}, err
	}
	r.Mu.Lock()
	defer r.Mu.Unlock()
	if _, there := r.Nodes[n.UUID]; there {
		return ironic.Node{}, ironic.ErrNodeExists
	}
	r.Nodes[n.UUID] = ironic.Node{UUID: n.UUID, Provision: "enroll", DriverInfo: n.DriverInfo}
	if r.Made != nil {
		r.Made(n)
	}
	return r.Nodes[n.UUID], nil
}

// AllPorts implements the Ironic of each consumer.
func (r *IronicModel) AllPorts(ctx context.Context) (all []ironic.Port, err error) {
	if err := r.call(ctx, "list ports"); err != nil {
		return nil, err
	}
	r.Mu.Lock()
	defer r.Mu.Unlock()
	for _, ports := range r.PortsOf {
		all = append(all, ports...)
	}
	return all, nil
}

// NodesWithBMC implements the Ironic of each consumer.
func (r *IronicModel) NodesWithBMC(ctx context.Context) (nodes []ironic.Node, err error) {
	if err := r.call(ctx, "list BMCs"); err != nil {
		return nil, err
	}
	r.Mu.Lock()
	defer r.Mu.Unlock()
	for _, n := range r.Nodes {
		nodes = append(nodes, n)
	}
	return nodes, nil
}
