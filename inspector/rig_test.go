package inspector

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/introspection"
)

// Two nodes and their MACs.
const (
	nodeA, macA = "11111111-1111-4111-8111-111111111111", "52:54:00:00:00:0a"
	nodeB, macB = "22222222-2222-4222-8222-222222222222", "52:54:00:00:00:0b"
)

// ironicModel is an Ironic with a few nodes, which keeps a diary of its calls.
type ironicModel struct {
	mu    sync.Mutex
	nodes map[string]Node
	ports map[string][]Port
	calls []string
	times []time.Time // of calls
	made  func(NewNode)
	// meets is asked before a call is answered: "power off 1111…"; "ping".
	meets func(ctx context.Context, call string) error
}

var _ Ironic = (*ironicModel)(nil)

func newIronicModel() *ironicModel {
	r := &ironicModel{nodes: make(map[string]Node), ports: make(map[string][]Port), meets: func(context.Context, string) error { return nil }}
	for node, mac := range map[string]string{nodeA: macA, nodeB: macB} {
		r.nodes[node] = Node{UUID: node, Name: "name-" + node[:1], Provision: "manageable", Power: PowerOff}
		r.ports[node] = []Port{{UUID: node, Node: node, Address: mac}}
	}
	return r
}

// call is one call on its way. The guard is asked first, as by the real client.
func (r *ironicModel) call(ctx context.Context, format string, args ...any) error {
	if err := Allowed(ctx); err != nil {
		return &IronicError{Err: err}
	}
	what := fmt.Sprintf(format, args...)
	r.mu.Lock()
	meets := r.meets
	r.mu.Unlock()
	if err := meets(ctx, what); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return &IronicError{Err: err}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls, r.times = append(r.calls, what), append(r.times, time.Now())
	return nil
}

// on decides what calls meet from now on.
func (r *ironicModel) on(meets func(ctx context.Context, call string) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.meets = meets
}

// met makes calls fail that begin with a prefix.
func (r *ironicModel) met(prefix string, err error) {
	r.on(func(_ context.Context, call string) error {
		if strings.HasPrefix(call, prefix) {
			return err
		}
		return nil
	})
}

// answers lets all calls succeed again.
func (r *ironicModel) answers() { r.met("no such call", nil) }

// sent returns the calls so far that begin with a prefix.
func (r *ironicModel) sent(prefix string) (calls []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, call := range r.calls {
		if strings.HasPrefix(call, prefix) {
			calls = append(calls, call)
		}
	}
	return calls
}

// when returns the moments of the calls that sent returns.
func (r *ironicModel) when(prefix string) (times []time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, call := range r.calls {
		if strings.HasPrefix(call, prefix) {
			times = append(times, r.times[i])
		}
	}
	return times
}

// set changes what Ironic says of a node.
func (r *ironicModel) set(node string, change func(*Node)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.nodes[node]
	change(&n)
	r.nodes[node] = n
}

func (r *ironicModel) Node(ctx context.Context, ref string) (Node, error) {
	if err := r.call(ctx, "node %s", ref); err != nil {
		return Node{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.nodes {
		if strings.EqualFold(n.UUID, ref) || n.Name == ref {
			return n, nil
		}
	}
	return Node{}, fmt.Errorf("%w: %s", ErrNoNode, ref)
}

func (r *ironicModel) PatchNode(ctx context.Context, node string, _ []Patch) (Node, error) {
	if err := r.call(ctx, "patch %s", node); err != nil {
		return Node{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.nodes[node], nil
}

func (r *ironicModel) NodeIDs(ctx context.Context) (ids []string, err error) {
	if err := r.call(ctx, "list"); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.nodes {
		ids = append(ids, id)
	}
	return ids, nil
}

func (r *ironicModel) PowerValid(ctx context.Context, node string) (bool, string, error) {
	return true, "", r.call(ctx, "validate %s", node)
}

func (r *ironicModel) SetBootDevice(ctx context.Context, node, device string, _ bool) error {
	return r.call(ctx, "boot %s %s", device, node)
}

func (r *ironicModel) SetPower(ctx context.Context, node, target string) error {
	return r.call(ctx, "%s %s", target, node)
}

func (r *ironicModel) Ports(ctx context.Context, node string) ([]Port, error) {
	if err := r.call(ctx, "ports %s", node); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.ports[node]), nil
}

func (r *ironicModel) CreatePort(ctx context.Context, p Port) (Port, error) {
	if err := r.call(ctx, "create port %s", p.Address); err != nil {
		return Port{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, ports := range r.ports {
		if slices.ContainsFunc(ports, func(known Port) bool { return known.Address == p.Address }) {
			return Port{}, ErrPortExists
		}
	}
	r.ports[p.Node] = append(r.ports[p.Node], p)
	return p, nil
}

func (r *ironicModel) PatchPort(ctx context.Context, port string, _ []Patch) error {
	return r.call(ctx, "patch port %s", port)
}

func (r *ironicModel) DeletePort(ctx context.Context, port string) error {
	return r.call(ctx, "delete port %s", port)
}

func (r *ironicModel) Ping(ctx context.Context) error {
	return r.call(WithGuard(ctx, func() error { return nil }), "ping")
}

// away is what a call gets when Ironic cannot be spoken to.
func away() error { return &IronicError{Call: "GET /", Message: "connection refused"} }

// rig is one peer with all that it introspects with, in a bubble.
type rig struct {
	*testing.T
	raftLog  *fakeLog
	member   *fakeSession
	ironic   *ironicModel
	conf     config.Inspection
	notifier *Notifier
	health   *IronicHealth
	packer   *blobs.Packer
	hooks    []Hook
	logs     LogKeeper
	rules    Rules
	zone     zone
	// suspects, unless nil, lets hooks look at data whose node is not found.
	suspects Suspects
	limit    time.Duration // of a hook; 0: as in the product
	handover InbandAPI     // where callbacks go that are Ironic's own; may be nil
	notes    jotter
	ctx      context.Context
	log      *slog.Logger
}

// zone is a Resolver that knows these hosts.
type zone map[string][]string

func (z zone) LookupNetIP(_ context.Context, _, host string) (ips []netip.Addr, err error) {
	for _, text := range z[host] {
		ips = append(ips, netip.MustParseAddr(text))
	}
	if ips == nil {
		err = &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return ips, err
}

// jotter keeps what workers note, unless it fails.
type jotter struct {
	mu    sync.Mutex
	hooks []string // "" when a request is over
	err   error
}

func (n *jotter) Note(_ fencing.Token, hook string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hooks = append(n.hooks, hook)
	return n.err
}

func (n *jotter) last() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.hooks[len(n.hooks)-1]
}

func (n *jotter) Forget(fencing.Token) { _ = n.Note(0, "") } // what fails is Note

// inRig runs f in a bubble, with the bell and the clock of the log running.
func inRig(t *testing.T, f func(o *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer stop()
		packer, err := blobs.NewPacker(1, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, r := newFakeLog(t), newIronicModel()
		log := slog.New(slog.DiscardHandler)
		o := &rig{
			T: t, raftLog: b, member: b.newSession("h1"), ironic: r, conf: config.Default().Inspection, notifier: NewNotifier(b),
			health: NewIronicHealth(r, log), packer: packer, ctx: ctx, log: log,
		}
		o.conf.Workers = 2
		o.conf.ContinueInspection = config.ContinueNative
		running.Go(func() { o.notifier.Run(ctx) })
		running.Go(func() {
			for ctx.Err() == nil {
				select {
				case <-time.After(2 * time.Second):
					b.tick()
				case <-ctx.Done():
				}
			}
		})
		f(o)
	})
}

// live are the settings as the test has them now.
func (o *rig) live() *LiveSettings {
	return NewLiveSettings(Settings{Config: o.conf, Hooks: o.hooks, Logs: o.logs})
}

func (o *rig) service() *Service {
	return NewService(ServiceOptions{
		Live: o.live(), Log: o.raftLog, Do: o.member, Notifier: o.notifier, Ironic: o.ironic, Resolver: o.zone, Suspects: o.suspects, Peer: "h1", Inband: o.handover,
		Packer: o.packer, Logger: o.log,
	})
}

// workers is the worker pool of a peer; it does nothing until Run.
func (o *rig) workers(s *fakeSession) *WorkerPool {
	return NewWorkerPool(WorkerPoolOptions{
		Live: o.live(), Peer: "h1", Log: o.raftLog, Session: s, Notifier: o.notifier, Ironic: o.ironic, Resolver: o.zone, Health: o.health,
		Rules: o.rules, Packer: o.packer, Notes: &o.notes, HookLimit: o.limit, Logger: o.log,
	})
}

// work lets the workers of this peer work while f runs, then stops them as
// SIGTERM does.
func (o *rig) work(f func(c *WorkerPool)) {
	o.Helper()
	c, stop := o.workers(o.member), make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() { c.Run(o.ctx, stop) })
	f(c)
	close(stop)
	running.Wait()
}

// accept queues the start of a node that is known by a MAC.
func (o *rig) accept(node, mac string) introspection.Queued {
	o.Helper()
	return queued(o.T, o.raftLog.must(introspection.Start{
		Node: node, Event: introspection.EventStart, ManageBoot: true, Timeout: o.conf.Timeout, Attributes: introspection.Attributes{MACs: []string{mac}},
	}))
}

// boots brings a node to waiting, as its worker does. A pool that works meanwhile
// does not see the start, which it would claim first.
func (o *rig) boots(node, mac string) {
	o.Helper()
	was := o.raftLog.freeze(true)
	defer o.raftLog.freeze(was)
	claim := o.claims(o.accept(node, mac))
	o.raftLog.must(introspection.Advance{Claim: claim.Hold(), Event: introspection.EventWait, Consume: true})
}

// claims claims a request for this peer.
func (o *rig) claims(q introspection.Queued) introspection.Claim {
	o.Helper()
	return claimed(o.T, o.member, q).Claim
}

func claimed(t *testing.T, s *fakeSession, q introspection.Queued) introspection.ClaimedRequest {
	t.Helper()
	res, err := s.DoIn(context.Background(), s.ID(), introspection.ClaimRequests{Requests: []fencing.Token{q.Request}})
	var got introspection.Claimed
	if err == nil {
		err = res.Err()
	}
	if err == nil {
		err = res.Decode(&got)
	}
	if err != nil {
		t.Fatalf("claim %v: %v", q.Request, err)
	}
	return got.Claims[0]
}

func queued(t *testing.T, res fsm.Result) (q introspection.Queued) {
	t.Helper()
	if err := res.Decode(&q); err != nil {
		t.Fatal(err)
	}
	return q
}

// calls queues a callback of the ramdisk with that MAC.
func (o *rig) calls(node, mac, more string) introspection.Queued {
	o.Helper()
	packed, err := o.packer.Pack([]byte(callback(mac, more)))
	if err != nil {
		o.Fatal(err)
	}
	return queued(o.T, o.raftLog.must(introspection.Enqueue{Node: node, Event: introspection.EventProcess, Document: packed}))
}

// callback is a ramdisk's document; more is further members of it.
func callback(mac, more string) string {
	return fmt.Sprintf(`{"inventory":{"interfaces":[{"name":"eth0","mac_address":%q}]}%s}`, mac, more)
}

// becomes waits until a node is in a state, at most limit.
func (o *rig) becomes(node string, want introspection.NodeState, limit time.Duration) introspection.Record {
	o.Helper()
	ctx, cancel := context.WithTimeout(o.ctx, limit)
	defer cancel()
	v, err := o.notifier.Wait(ctx, func(v fsm.View) bool {
		rec, _ := v.Record(node)
		return rec.State == want
	})
	if err != nil {
		rec, _ := o.raftLog.truth().Record(node)
		o.Fatalf("node %s is %v (%s) and not %v within %v", node, rec.State, rec.Error, want, limit)
	}
	rec, _ := v.Record(node)
	return rec
}

func (r *ironicModel) NodeWhole(ctx context.Context, node string) (map[string]any, error) {
	n, err := r.Node(ctx, node)
	return map[string]any{"uuid": n.UUID, "name": n.Name, "provision_state": n.Provision, "properties": n.Properties}, err
}

func (r *ironicModel) PatchDriver(ctx context.Context, node string, patch []Patch) (Node, error) {
	return r.PatchNode(ctx, node, patch)
}

func (r *ironicModel) AddTrait(ctx context.Context, node, trait string) error {
	return r.call(ctx, "add trait %s %s", trait, node)
}

func (r *ironicModel) RemoveTrait(ctx context.Context, node, trait string) error {
	return r.call(ctx, "remove trait %s %s", trait, node)
}

func (r *ironicModel) CreateNode(ctx context.Context, n NewNode) (Node, error) {
	if err := r.call(ctx, "create node %s", n.UUID); err != nil {
		return Node{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, there := r.nodes[n.UUID]; there {
		return Node{}, ErrNodeExists
	}
	r.nodes[n.UUID] = Node{UUID: n.UUID, Provision: "enroll", DriverInfo: n.DriverInfo}
	if r.made != nil {
		r.made(n)
	}
	return r.nodes[n.UUID], nil
}

func (r *ironicModel) AllPorts(ctx context.Context) (all []Port, err error) {
	if err := r.call(ctx, "list ports"); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, ports := range r.ports {
		all = append(all, ports...)
	}
	return all, nil
}

func (r *ironicModel) NodesWithBMC(ctx context.Context) (nodes []Node, err error) {
	if err := r.call(ctx, "list BMCs"); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.nodes {
		nodes = append(nodes, n)
	}
	return nodes, nil
}

func configDiscovery(versions []string) config.Discovery {
	return config.Discovery{EnrollNodeDriver: "fake-hardware", EnabledBMCAddressVersion: versions}
}

// awaits makes a node wait for its callback at once, while workers work.
func (o *rig) awaits(node, mac string) {
	o.Helper()
	if _, there := o.raftLog.truth().Record(node); there {
		o.raftLog.must(introspection.DeleteNode{Node: node})
	}
	o.raftLog.must(introspection.Start{
		Node: node, Event: introspection.EventAdopt, ManageBoot: true, Timeout: o.conf.Timeout, Attributes: introspection.Attributes{MACs: []string{mac}},
	})
}
