package inspector

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/fencing"
	"github.com/trivet-ha/trivet/fsm"
)

// Two nodes and their MACs.
const (
	nodeA, macA = "11111111-1111-4111-8111-111111111111", "52:54:00:00:00:0a"
	nodeB, macB = "22222222-2222-4222-8222-222222222222", "52:54:00:00:00:0b"
)

// room is an Ironic with a few nodes, which keeps a diary of its calls.
type room struct {
	mu    sync.Mutex
	nodes map[string]Node
	ports map[string][]Port
	calls []string
	times []time.Time // of calls
	made  func(NewNode)
	// meets is asked before a call is answered: "power off 1111…"; "ping".
	meets func(ctx context.Context, call string) error
}

var _ Ironic = (*room)(nil)

func newRoom() *room {
	r := &room{nodes: make(map[string]Node), ports: make(map[string][]Port), meets: func(context.Context, string) error { return nil }}
	for node, mac := range map[string]string{nodeA: macA, nodeB: macB} {
		r.nodes[node] = Node{UUID: node, Name: "name-" + node[:1], Provision: "manageable", Power: PowerOff}
		r.ports[node] = []Port{{UUID: node, Node: node, Address: mac}}
	}
	return r
}

// call is one call on its way. The guard is asked first, as by the real client.
func (r *room) call(ctx context.Context, format string, args ...any) error {
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
func (r *room) on(meets func(ctx context.Context, call string) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.meets = meets
}

// met makes calls fail that begin with a prefix.
func (r *room) met(prefix string, err error) {
	r.on(func(_ context.Context, call string) error {
		if strings.HasPrefix(call, prefix) {
			return err
		}
		return nil
	})
}

// answers lets all calls succeed again.
func (r *room) answers() { r.met("no such call", nil) }

// sent returns the calls so far that begin with a prefix.
func (r *room) sent(prefix string) (calls []string) {
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
func (r *room) when(prefix string) (times []time.Time) {
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
func (r *room) set(node string, change func(*Node)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.nodes[node]
	change(&n)
	r.nodes[node] = n
}

func (r *room) Node(ctx context.Context, ref string) (Node, error) {
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

func (r *room) PatchNode(ctx context.Context, node string, _ []Patch) (Node, error) {
	if err := r.call(ctx, "patch %s", node); err != nil {
		return Node{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.nodes[node], nil
}

func (r *room) NodeIDs(ctx context.Context) (ids []string, err error) {
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

func (r *room) PowerValid(ctx context.Context, node string) (bool, string, error) {
	return true, "", r.call(ctx, "validate %s", node)
}

func (r *room) SetBootDevice(ctx context.Context, node, device string, _ bool) error {
	return r.call(ctx, "boot %s %s", device, node)
}

func (r *room) SetPower(ctx context.Context, node, target string) error {
	return r.call(ctx, "%s %s", target, node)
}

func (r *room) Ports(ctx context.Context, node string) ([]Port, error) {
	if err := r.call(ctx, "ports %s", node); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.ports[node]), nil
}

func (r *room) CreatePort(ctx context.Context, p Port) (Port, error) {
	return p, r.call(ctx, "create port %s", p.Address)
}

func (r *room) PatchPort(ctx context.Context, port string, _ []Patch) error {
	return r.call(ctx, "patch port %s", port)
}

func (r *room) DeletePort(ctx context.Context, port string) error {
	return r.call(ctx, "delete port %s", port)
}

func (r *room) Ping(ctx context.Context) error {
	return r.call(WithGuard(ctx, func() error { return nil }), "ping")
}

// away is what a call gets when Ironic cannot be spoken to.
func away() error { return &IronicError{Call: "GET /", Message: "connection refused"} }

// office is one peer with all that it introspects with, in a bubble.
type office struct {
	*testing.T
	book   *book
	seat   *seat
	room   *room
	conf   config.Inspection
	bell   *Notifier
	reach  *IronicHealth
	packer *fsm.Packer
	hooks  []Hook
	logs   LogKeeper
	rules  Rules
	zone   zone
	// suspects, unless nil, lets hooks look at data whose node is not found.
	suspects Suspects
	limit    time.Duration // of a hook; 0: as in the product
	handover InbandAPI     // where callbacks go that are Ironic's own; may be nil
	notes    jotter
	ctx      context.Context
	log      *slog.Logger
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

// inOffice runs f in a bubble, with the bell and the clock of the log running.
func inOffice(t *testing.T, f func(o *office)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer stop()
		packer, err := fsm.NewPacker(1)
		if err != nil {
			t.Fatal(err)
		}
		b, r := newBook(t), newRoom()
		log := slog.New(slog.DiscardHandler)
		o := &office{
			T: t, book: b, seat: b.sit("h1"), room: r, conf: config.Default().Inspection, bell: NewNotifier(b),
			reach: NewIronicHealth(r, log), packer: packer, ctx: ctx, log: log,
		}
		o.conf.Workers = 2
		o.conf.ContinueInspection = config.ContinueNative
		running.Go(func() { o.bell.Run(ctx) })
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
func (o *office) live() *LiveSettings {
	return NewLiveSettings(Settings{Config: o.conf, Hooks: o.hooks, Logs: o.logs})
}

func (o *office) service() *Service {
	return NewService(ServiceOptions{
		Live: o.live(), Log: o.book, Do: o.seat, Notifier: o.bell, Ironic: o.room, Resolver: o.zone, Suspects: o.suspects, Peer: "h1", Inband: o.handover,
		Packer: o.packer, Logger: o.log,
	})
}

// workers is the worker pool of a peer; it does nothing until Run.
func (o *office) workers(s *seat) *WorkerPool {
	return NewWorkerPool(WorkerPoolOptions{
		Live: o.live(), Peer: "h1", Log: o.book, Session: s, Notifier: o.bell, Ironic: o.room, Resolver: o.zone, Health: o.reach,
		Rules: o.rules, Packer: o.packer, Notes: &o.notes, HookLimit: o.limit, Logger: o.log,
	})
}

// work lets the workers of this peer work while f runs, then stops them as
// SIGTERM does.
func (o *office) work(f func(c *WorkerPool)) {
	o.Helper()
	c, stop := o.workers(o.seat), make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() { c.Run(o.ctx, stop) })
	f(c)
	close(stop)
	running.Wait()
}

// accept queues the start of a node that is known by a MAC.
func (o *office) accept(node, mac string) fsm.Queued {
	o.Helper()
	return queued(o.T, o.book.must(fsm.StartIntrospection{
		Node: node, Event: fsm.EventStart, ManageBoot: true, Timeout: o.conf.Timeout, Attributes: fsm.Attributes{MACs: []string{mac}},
	}))
}

// boots brings a node to waiting, as its worker does. A pool that works meanwhile
// does not see the start, which it would claim first.
func (o *office) boots(node, mac string) {
	o.Helper()
	was := o.book.freeze(true)
	defer o.book.freeze(was)
	claim := o.claims(o.accept(node, mac))
	o.book.must(fsm.Advance{Claim: claim.Hold(), Event: fsm.EventWait, Consume: true})
}

// claims claims a request for this peer.
func (o *office) claims(q fsm.Queued) fsm.Claim {
	o.Helper()
	return claimed(o.T, o.seat, q).Claim
}

func claimed(t *testing.T, s *seat, q fsm.Queued) fsm.ClaimedRequest {
	t.Helper()
	res, err := s.DoIn(context.Background(), s.ID(), fsm.ClaimRequests{Requests: []fencing.Token{q.Request}})
	var got fsm.Claimed
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

func queued(t *testing.T, res fsm.Result) (q fsm.Queued) {
	t.Helper()
	if err := res.Decode(&q); err != nil {
		t.Fatal(err)
	}
	return q
}

// calls queues a callback of the ramdisk with that MAC.
func (o *office) calls(node, mac, more string) fsm.Queued {
	o.Helper()
	packed, err := o.packer.Pack([]byte(callback(mac, more)))
	if err != nil {
		o.Fatal(err)
	}
	return queued(o.T, o.book.must(fsm.Enqueue{Node: node, Event: fsm.EventProcess, Document: packed}))
}

// callback is a ramdisk's document; more is further members of it.
func callback(mac, more string) string {
	return fmt.Sprintf(`{"inventory":{"interfaces":[{"name":"eth0","mac_address":%q}]}%s}`, mac, more)
}

// becomes waits until a node is in a state, at most limit.
func (o *office) becomes(node string, want fsm.NodeState, limit time.Duration) fsm.Record {
	o.Helper()
	ctx, cancel := context.WithTimeout(o.ctx, limit)
	defer cancel()
	v, err := o.bell.Wait(ctx, func(v fsm.View) bool {
		rec, _ := v.Record(node)
		return rec.State == want
	})
	if err != nil {
		rec, _ := o.book.truth().Record(node)
		o.Fatalf("node %s is %v (%s) and not %v within %v", node, rec.State, rec.Error, want, limit)
	}
	rec, _ := v.Record(node)
	return rec
}

func (r *room) NodeWhole(ctx context.Context, node string) (map[string]any, error) {
	n, err := r.Node(ctx, node)
	return map[string]any{"uuid": n.UUID, "name": n.Name, "provision_state": n.Provision, "properties": n.Properties}, err
}

func (r *room) PatchDriver(ctx context.Context, node string, patch []Patch) (Node, error) {
	return r.PatchNode(ctx, node, patch)
}

func (r *room) AddTrait(ctx context.Context, node, trait string) error {
	return r.call(ctx, "add trait %s %s", trait, node)
}

func (r *room) RemoveTrait(ctx context.Context, node, trait string) error {
	return r.call(ctx, "remove trait %s %s", trait, node)
}

func (r *room) CreateNode(ctx context.Context, n NewNode) (Node, error) {
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

func (r *room) AllPorts(ctx context.Context, _ ...string) (all []Port, err error) {
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

func (r *room) NodesWithBMC(ctx context.Context) (nodes []Node, err error) {
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
func (o *office) awaits(node, mac string) {
	o.Helper()
	if _, there := o.book.truth().Record(node); there {
		o.book.must(fsm.DeleteNode{Node: node})
	}
	o.book.must(fsm.StartIntrospection{
		Node: node, Event: fsm.EventAdopt, ManageBoot: true, Timeout: o.conf.Timeout, Attributes: fsm.Attributes{MACs: []string{mac}},
	})
}
