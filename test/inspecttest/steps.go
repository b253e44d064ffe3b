package inspecttest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/relays"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/accept"
	"github.com/trivet-ha/trivet/inspector/document"
	"github.com/trivet-ha/trivet/inspector/ironic"
	"github.com/trivet-ha/trivet/inspector/periodic"
	"github.com/trivet-ha/trivet/inspector/relay"
	"github.com/trivet-ha/trivet/inspector/work"
	"github.com/trivet-ha/trivet/raftstore/leader"
)

// Memory is what a host remembers.
type Memory struct {
	Carefree
	Hook string // the hook at which every document ended a process; "": none did
}

// At implements work.Memory.
func (m *Memory) At(blobs.Hash, string) {}

// Suspect implements work.Memory.
func (m *Memory) Suspect(blobs.Hash) (string, bool) { return m.Hook, m.Hook != "" }

// Remembering lets a pool take callbacks while f runs.
func (o *Rig) Remembering(m *Memory, f func(c *work.Pool, s *accept.Service)) {
	o.memory = m
	c, stop, done := o.Workers(o.Member), make(chan struct{}), make(chan struct{})
	o.taker = c
	s := o.Service()
	go func() { defer close(done); c.Run(o.Ctx, stop) }()
	f(c, s)
	close(stop)
	<-done
}

// Post delivers a document in a goroutine of its own.
func (o *Rig) Post(s *accept.Service, body string) <-chan error {
	answered := make(chan error, 1)
	go func() {
		_, err := s.Continue(o.Ctx, []byte(body))
		answered <- err
	}()
	return answered
}

// A machine that nobody knows.
const Strange = "52:54:00:00:00:99"

// Stranger is its ramdisk's document; more is further members of the inventory.
func Stranger(more string) string {
	return fmt.Sprintf(
		`{"inventory":{"interfaces":[{"name":"eth0","mac_address":%q},{"name":"lo","mac_address":"00:00:00:00:00:00"}]%s}}`,
		Strange, more)
}

// Discovers makes the service enroll unknown machines.
func (o *Rig) Discovers() *accept.Service {
	o.Conf.Processing.NodeNotFoundHook = "enroll"
	o.Conf.Discovery.EnrollNodeFields = []string{"resource_class:found"}
	return o.Service()
}

// Carefree suspects nothing, unless it is told to.
type Carefree struct{ Suspects bool }

// Examine implements inspector.Suspects.
func (c *Carefree) Examine(blobs.Hash) bool { return !c.Suspects }

// Clear implements inspector.Suspects.
func (*Carefree) Clear(blobs.Hash) {}

// Permits makes the service introspect nodes that carry a workload.
func (o *Rig) Permits() *accept.Service {
	o.Conf.Processing.PermitActiveIntrospection = true
	o.Ironic.Set(NodeA, func(n *ironic.Node) {
		n.Provision, n.DriverInfo = "active", map[string]any{"ipmi_address": "198.18.0.1"}
	})
	return o.Service()
}

// NoMAC is what interfaces have that have none.
const NoMAC = "00:00:00:00:00:00"

// Succeeds posts a document where Ironic's own ramdisks do, and wants 202 for a
// node.
func (o *Rig) Succeeds(s *accept.Service, body, node string) {
	o.Helper()
	got, err := s.ContinueInspection(o.Ctx, ironic.InbandCall{Body: []byte(body)})
	if want := fmt.Sprintf(`{"uuid":%q}`, node); err != nil || got.Status != http.StatusAccepted ||
		string(got.Body) != want {
		o.Errorf("%d %s, %v, want 202 %s", got.Status, got.Body, err, want)
	}
}

// Silent makes Ironic take questions and answer none from now on, for a while:
// its process is stopped, its connections stay open. A call gives up after
// limit, a ping when its context ends.
func (o *Rig) Silent(d, limit time.Duration) {
	hung, end := context.WithCancel(o.Ctx)
	time.AfterFunc(d, end) // in a bubble
	o.Ironic.On(func(ctx context.Context, call string) error {
		limit := limit
		if call == "ping" {
			limit = 3 * time.Second
		}
		tries, stop := context.WithTimeout(ctx, limit)
		defer stop()
		select {
		case <-hung.Done():
			return nil
		case <-tries.Done():
		}
		if call == "ping" {
			return &ironic.Error{Message: "no answer", Err: context.DeadlineExceeded}
		}
		return Unanswered(limit)
	})
}

// Unanswered is a call that had no answer in all its tries.
func Unanswered(limit time.Duration) error {
	return &ironic.Error{Call: "GET v1/nodes", Message: fmt.Sprintf("nothing came within %v (4 tries)", limit/4)}
}

// Processed posts a callback of node A to this peer alone, which takes it from the queue,
// and returns how its introspection ended.
func (o *Rig) Processed(limit time.Duration) (rec introspection.Record) {
	o.Helper()
	o.Boots(NodeA, MacA)
	o.Calls(NodeA, MacA, "")
	o.Work(func(*work.Pool) { rec = o.ended(limit) })
	return rec
}

// ProcessedAtOnce is Processed by a worker that takes the callback without the queue.
func (o *Rig) ProcessedAtOnce(limit time.Duration) (rec introspection.Record) {
	o.Helper()
	o.Boots(NodeA, MacA)
	o.Remembering(&Memory{}, func(_ *work.Pool, s *accept.Service) {
		synctest.Wait() // a worker is free
		answered := o.Post(s, Callback(MacA, ""))
		rec = o.ended(limit)
		<-answered // what it says is of the moment, as a ramdisk is told to repeat its document
	})
	return rec
}

// ended waits until the introspection of node A is over.
func (o *Rig) ended(limit time.Duration) introspection.Record {
	o.Helper()
	ctx, cancel := context.WithTimeout(o.Ctx, limit)
	defer cancel()
	v, err := o.Notifier.Wait(ctx, func(v fsm.View) bool {
		rec, _ := v.Record(NodeA)
		return !rec.State.Active()
	})
	if err != nil {
		o.Fatalf("it has not ended within %v", limit)
	}
	rec, _ := v.Record(NodeA)
	return rec
}

// Patches is what a hook does that changes the node.
func Patches(ctx context.Context, t *inspector.Task) error { return t.PatchNode(ctx) }

// Slowly makes calls with a prefix take a while, and something happen meanwhile.
func (o *Rig) Slowly(prefix string, d time.Duration, meanwhile func()) {
	o.Ironic.On(func(ctx context.Context, call string) error {
		if strings.HasPrefix(call, prefix) {
			select {
			case <-time.After(d): // in a bubble
			case <-ctx.Done():
			}
			meanwhile()
		}
		return nil
	})
}

// Nothing does nothing.
func Nothing() {}

// TakenBy makes the provision state of a node that of another user.
func TakenBy(o *Rig, node, state string) func() {
	return func() { o.Ironic.Set(node, func(n *ironic.Node) { n.Provision = state }) }
}

// Tenure is the authority of a leader that nobody challenges.
type Tenure struct{ Log *fakeLog }

// Token implements leader.Authority.
func (Tenure) Token() fencing.Token { return 1 }

// Confirm implements leader.Authority.
func (Tenure) Confirm(context.Context, time.Time) error { return nil }

// Succeeds implements leader.Authority.
func (Tenure) Succeeds(uint64, uint64) (time.Time, bool) { return time.Time{}, false }

// Configured implements leader.Authority.
func (Tenure) Configured() uint64 { return 0 }

// Propose implements leader.Authority.
func (r Tenure) Propose(_ context.Context, c fsm.Command) (fsm.Result, error) {
	return r.Log.Write(fsm.Header{}, c)
}

// Sweeps are the leader's.
func (o *Rig) Sweeps() *periodic.Sweeps {
	return &periodic.Sweeps{Live: o.Live(), Log: o.RaftLog, Ironic: o.Ironic, Logger: o.Log}
}

// Sweep runs one round of a sweep.
func (o *Rig) Sweep(once func(context.Context, leader.Authority) error) {
	o.Helper()
	leads := Crown{o.RaftLog, o.RaftLog.Must(fsm.Lead{Peer: "id-h1", Boot: "b"}).Token}
	if err := once(o.Ctx, leads); err != nil {
		o.Error(err)
	}
}

// Stocked records n nodes that Ironic lists as well.
func (o *Rig) Stocked(n int) {
	o.Helper()
	o.Ironic.Mu.Lock()
	clear(o.Ironic.Nodes)
	for i := range n {
		o.Ironic.Nodes[NodeN(i)] = ironic.Node{UUID: strings.ToUpper(NodeN(i)), Provision: "manageable"}
	}
	o.Ironic.Mu.Unlock()
	for i := range n {
		o.RaftLog.Must(introspection.Start{Node: NodeN(i), Event: introspection.EventAdopt, Timeout: time.Hour})
	}
}

// Vanish takes nodes from Ironic.
func (o *Rig) Vanish(from, to int) {
	o.Ironic.Mu.Lock()
	defer o.Ironic.Mu.Unlock()
	for i := from; i < to; i++ {
		delete(o.Ironic.Nodes, NodeN(i))
	}
}

// Deletions returns for how many nodes a deletion is queued.
func (o *Rig) Deletions() (n int) {
	for range o.RaftLog.Truth().Queue() {
		n++
	}
	return n
}

// Ends brings node A to finished by a callback with more members.
func (o *Rig) Ends(s *accept.Service, more string) {
	o.Helper()
	o.Awaits(NodeA, MacA)
	if _, err := s.Continue(o.Ctx, []byte(Callback(MacA, more))); err != nil {
		o.Fatal(err)
	}
	o.Becomes(NodeA, introspection.NodeFinished, time.Second)
}

// Reapplies asks for it and waits for the end.
func (o *Rig) Reapplies(s *accept.Service, body string, want introspection.NodeState) introspection.Record {
	o.Helper()
	time.Sleep(time.Second) // in a bubble
	asked := o.RaftLog.Truth().Now()
	if err := s.Reapply(o.Ctx, "name-1", []byte(body)); err != nil {
		o.Fatal(err)
	}
	v, err := o.Notifier.Wait(o.Ctx, func(v fsm.View) bool {
		rec, _ := v.Record(NodeA)
		return !rec.State.Active() && rec.Finished >= asked
	})
	if err != nil {
		o.Fatal(err)
	}
	rec, _ := v.Record(NodeA)
	if rec.State != want {
		o.Errorf("it ended in %v: %s", rec.State, rec.Error)
	}
	return rec
}

// Shows compares the stored documents.
func (o *Rig) Shows(s *accept.Service, unprocessed, processed string) {
	o.Helper()
	for which, want := range map[bool]string{false: unprocessed, true: processed} {
		if data, err := s.Data(o.Ctx, NodeA, which, inspector.Linearizable); err != nil || string(data) != want {
			o.Errorf("processed %v: %s, %v, want %s", which, data, err, want)
		}
	}
}

// ReappliedHere lets this peer work until node A has ended.
func (o *Rig) ReappliedHere() (rec introspection.Record) {
	o.Helper()
	o.Work(func(*work.Pool) {
		v, err := o.Notifier.Wait(o.Ctx, func(v fsm.View) bool { rec, _ := v.Record(NodeA); return !rec.State.Active() })
		if err != nil {
			o.Fatal(err)
		}
		rec, _ = v.Record(NodeA)
	})
	return rec
}

// Crown is the authority of a leader that the log knows.
type Crown struct {
	Log  *fakeLog
	Lead fencing.Token
}

// Token implements leader.Authority.
func (c Crown) Token() fencing.Token { return c.Lead }

// Confirm implements leader.Authority.
func (Crown) Confirm(context.Context, time.Time) error { return nil }

// Succeeds implements leader.Authority.
func (Crown) Succeeds(uint64, uint64) (time.Time, bool) { return time.Time{}, false }

// Configured implements leader.Authority.
func (Crown) Configured() uint64 { return 0 }

// Propose implements leader.Authority.
func (c Crown) Propose(_ context.Context, cmd fsm.Command) (fsm.Result, error) {
	return c.Log.Write(fsm.Header{Token: c.Lead}, cmd)
}

// Leads hands on what is pending while f runs, as one leadership does.
func (o *Rig) Leads(f func()) {
	o.Helper()
	c := Crown{o.RaftLog, o.RaftLog.Must(fsm.Lead{Peer: "id-h1", Boot: "b"}).Token}
	relayer := &relay.Relayer{Live: o.Live(), Log: o.RaftLog, Inband: o.Handover, Away: o.Health.Err, Search: o.search(),
		Packer: o.Packer, Logger: o.Log}
	ctx, stop := context.WithCancel(o.Ctx)
	var running sync.WaitGroup
	running.Go(func() {
		if err := relayer.Run(ctx, c); err != nil {
			o.Error(err)
		}
	})
	f()
	stop()
	running.Wait()
}

// ends waits until nothing is pending and returns the newest relay.
func (o *Rig) Settles(limit time.Duration) relays.Relay {
	o.Helper()
	ctx, cancel := context.WithTimeout(o.Ctx, limit)
	defer cancel()
	v, err := o.Notifier.Wait(ctx, func(v fsm.View) bool { return v.RelaysPending() == 0 })
	if err != nil {
		o.Fatalf("pending after %v", limit)
	}
	for r := range v.Relays() {
		return r
	}
	return relays.Relay{}
}

// RefusedWith wants a refusal of the contract.
func RefusedWith(t *testing.T, what string, err error, status int, message string) {
	t.Helper()
	var r *inspector.Refusal
	if !errors.As(err, &r) || r.Status != status || r.Message != message {
		t.Errorf("%s: %+v (%v), want %d %q", what, r, err, status, message)
	}
}

// node returns the UUID of the n-th of many nodes.
func NodeN(n int) string { return fmt.Sprintf("33333333-3333-4333-8333-%012d", n) }

// IsClaim tells claims from other commands.
func IsClaim(c fsm.Command) bool { _, is := c.(introspection.ClaimRequests); return is }

// After is a hook of one function that is run with the node.
func After(name string, do func(context.Context, *inspector.Task) error) inspector.Hook {
	return afterHook{name, do}
}

type afterHook struct {
	name string
	do   func(ctx context.Context, t *inspector.Task) error
}

func (h afterHook) Name() string { return h.name }

func (h afterHook) After(ctx context.Context, t *inspector.Task) error { return h.do(ctx, t) }

// Before is a hook of one function that is run on the data alone.
func Before(name string, do func(context.Context, *document.Document) error) inspector.Hook {
	return beforeHook{name, do}
}

type beforeHook struct {
	name string
	do   func(ctx context.Context, d *document.Document) error
}

func (h beforeHook) Name() string { return h.name }

func (h beforeHook) Before(ctx context.Context, d *document.Document) error { return h.do(ctx, d) }
