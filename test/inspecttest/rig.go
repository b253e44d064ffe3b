package inspecttest

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/accept"
	"github.com/trivet-ha/trivet/inspector/identify"
	"github.com/trivet-ha/trivet/inspector/ironic"
	"github.com/trivet-ha/trivet/inspector/relay"
	"github.com/trivet-ha/trivet/inspector/work"
)

// Two nodes and their MACs.
const (
	NodeA, MacA = "11111111-1111-4111-8111-111111111111", "52:54:00:00:00:0a"
	NodeB, MacB = "22222222-2222-4222-8222-222222222222", "52:54:00:00:00:0b"
)

// Rig is one peer with all that it introspects with, in a bubble.
type Rig struct {
	*testing.T
	RaftLog  *fakeLog
	Member   *FakeSession
	Ironic   *IronicModel
	Conf     config.Inspection
	Notifier *inspector.Notifier
	Health   *ironic.Health
	Packer   *blobs.Packer
	Hooks    []inspector.Hook
	Logs     inspector.LogKeeper
	Rules    work.Rules
	Zone     Zone
	// Suspects, unless nil, lets hooks look at data whose node is not found.
	Suspects inspector.Suspects
	memory   work.Memory   // of the workers; may be nil
	taker    accept.Taker  // of callbacks; may be nil
	Limit    time.Duration // of a hook; 0: as in the product
	Handover relay.Ironic  // where callbacks go that are Ironic's own; may be nil
	Notes    jotter
	Ctx      context.Context
	Log      *slog.Logger
	running  *sync.WaitGroup // ends after Ctx
}

// Zone is a Resolver that knows these hosts. Of one that has "" its server does not answer.
type Zone map[string][]string

// LookupNetIP implements identify.Resolver.
func (z Zone) LookupNetIP(_ context.Context, _, host string) (ips []netip.Addr, err error) {
	for _, text := range z[host] {
		if text == "" {
			return nil, &net.DNSError{Err: "i/o timeout", Name: host, IsTimeout: true}
		}
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
	Hooks []string // "" when a request is over
	Err   error
}

func (n *jotter) Note(_ fencing.Token, hook string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.Hooks = append(n.Hooks, hook)
	return n.Err
}

func (n *jotter) Last() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.Hooks[len(n.Hooks)-1]
}

func (n *jotter) Forget(fencing.Token) { _ = n.Note(0, "") } // what fails is Note

// InRig runs f in a bubble, with the bell and the clock of the log running.
func InRig(t *testing.T, f func(o *Rig)) {
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
		b, r := newFakeLog(t), NewIronicModel()
		log := slog.New(slog.DiscardHandler)
		o := &Rig{
			T: t, RaftLog: b, Member: b.NewSession("h1"), Ironic: r, Conf: config.Default().Inspection,
			Notifier: inspector.NewNotifier(b),
			Health:   ironic.NewHealth(r, log), Packer: packer, Ctx: ctx, Log: log, running: &running,
		}
		o.Conf.Workers = 2
		o.Conf.ContinueInspection = config.ContinueNative
		running.Go(func() { o.Notifier.Run(ctx) })
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

// Live are the settings as the test has them now.
func (o *Rig) Live() *inspector.LiveSettings {
	return inspector.NewLiveSettings(inspector.Settings{Config: o.Conf, Hooks: o.Hooks, Logs: o.Logs})
}

// Service is what the API asks, on this peer.
func (o *Rig) Service() *accept.Service {
	s := accept.NewService(accept.Options{
		Live: o.Live(), Log: o.RaftLog, Do: o.Member, Notifier: o.Notifier, Ironic: o.Ironic, Resolver: o.Zone,
		Suspects: o.Suspects, Taker: o.taker, Peer: "h1",
		Relays: &relay.Intake{Live: o.Live(), Log: o.RaftLog, Do: o.Member, Inband: o.Handover, Nodes: o.Ironic,
			Search: o.search(), Packer: o.Packer, Logger: o.Log, Limited: o.Log},
		Packer: o.Packer, Logger: o.Log,
	})
	o.running.Go(func() { s.Lists.Run(o.Ctx) })
	return s
}

// search finds machines in Ironic.
func (o *Rig) search() identify.Search {
	return identify.NewSearch(o.Ironic, o.Zone, o.Live().BmcFields, o.Log)
}

// Workers is the worker pool of a peer; it does nothing until Run.
func (o *Rig) Workers(s *FakeSession) *work.Pool {
	return work.NewPool(work.Options{
		Live: o.Live(), Peer: "h1", Log: o.RaftLog, Session: s, Notifier: o.Notifier, Ironic: o.Ironic, Resolver: o.Zone,
		Health: o.Health,
		Rules:  o.Rules, Packer: o.Packer, Notes: &o.Notes, Memory: o.memory, HookLimit: o.Limit, Logger: o.Log,
	})
}

// Work lets the workers of this peer work while f runs, then stops them as
// SIGTERM does.
func (o *Rig) Work(f func(c *work.Pool)) {
	o.Helper()
	c, stop := o.Workers(o.Member), make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() { c.Run(o.Ctx, stop) })
	f(c)
	close(stop)
	running.Wait()
}

// Accept queues the start of a node that is known by a MAC.
func (o *Rig) Accept(node, mac string) introspection.Queued {
	o.Helper()
	return queued(o.T, o.RaftLog.Must(introspection.Start{
		Node: node, Event: introspection.EventStart, ManageBoot: true, Timeout: o.Conf.Timeout,
		Attributes: introspection.Attributes{MACs: []string{mac}},
	}))
}

// Boots brings a node to waiting, as its worker does. A pool that works meanwhile
// does not see the start, which it would claim first.
func (o *Rig) Boots(node, mac string) {
	o.Helper()
	was := o.RaftLog.Freeze(true)
	defer o.RaftLog.Freeze(was)
	claim := o.Claims(o.Accept(node, mac))
	o.RaftLog.Must(introspection.Advance{Claim: claim.Hold(), Event: introspection.EventWait, Consume: true})
}

// Claims claims a request for this peer.
func (o *Rig) Claims(q introspection.Queued) introspection.Claim {
	o.Helper()
	return Claimed(o.T, o.Member, q).Claim
}

// Claimed claims a request in a session.
func Claimed(t *testing.T, s *FakeSession, q introspection.Queued) introspection.ClaimedRequest {
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

// Calls queues a callback of the ramdisk with that MAC.
func (o *Rig) Calls(node, mac, more string) introspection.Queued {
	o.Helper()
	packed, err := o.Packer.Pack([]byte(Callback(mac, more)))
	if err != nil {
		o.Fatal(err)
	}
	return queued(o.T, o.RaftLog.Must(
		introspection.Enqueue{Node: node, Event: introspection.EventProcess, Document: packed}))
}

// Callback is a ramdisk's document; more is further members of it.
func Callback(mac, more string) string {
	return fmt.Sprintf(`{"inventory":{"interfaces":[{"name":"eth0","mac_address":%q}]}%s}`, mac, more)
}

// Becomes waits until a node is in a state, at most limit.
func (o *Rig) Becomes(node string, want introspection.NodeState, limit time.Duration) introspection.Record {
	o.Helper()
	ctx, cancel := context.WithTimeout(o.Ctx, limit)
	defer cancel()
	v, err := o.Notifier.Wait(ctx, func(v fsm.View) bool {
		rec, _ := v.Record(node)
		return rec.State == want
	})
	if err != nil {
		rec, _ := o.RaftLog.Truth().Record(node)
		o.Fatalf("node %s is %v (%s) and not %v within %v", node, rec.State, rec.Error, want, limit)
	}
	rec, _ := v.Record(node)
	return rec
}

// ConfigDiscovery makes nodes of machines, with BMC addresses of these versions of IP.
func ConfigDiscovery(versions []string) config.Discovery {
	return config.Discovery{EnrollNodeDriver: "fake-hardware", EnabledBMCAddressVersion: versions}
}

// Awaits makes a node wait for its callback at once, while workers work.
func (o *Rig) Awaits(node, mac string) {
	o.Helper()
	if _, there := o.RaftLog.Truth().Record(node); there {
		o.RaftLog.Must(introspection.DeleteNode{Node: node})
	}
	o.RaftLog.Must(introspection.Start{
		Node: node, Event: introspection.EventAdopt, ManageBoot: true, Timeout: o.Conf.Timeout,
		Attributes: introspection.Attributes{MACs: []string{mac}},
	})
}
