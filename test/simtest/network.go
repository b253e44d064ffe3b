package simtest

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Errors of the simulated network. Time-outs are context.DeadlineExceeded.
var (
	// ErrRefused says that no process listens at the address.
	ErrRefused = errors.New("connection refused")
	// ErrReset says that the connection broke: the request may have been
	// executed or not.
	ErrReset = errors.New("connection reset")
)

// Values of a new Network.
const (
	// rpcTimeout bounds every exchange, like the timeout handed to raft's
	// NetworkTransport.
	rpcTimeout = 10 * time.Second
	// A delay of nothing at all would let two peers talk for ever at one
	// instant of virtual time.
	minDelay, maxDelay = 100 * time.Microsecond, 500 * time.Microsecond
)

// Quality describes one direction of a link.
type Quality struct {
	MinDelay, MaxDelay time.Duration // of one message, uniformly distributed
	Drop               float64       // probability that a message is lost
	Duplicate          float64       // probability that a request arrives twice
}

type link struct{ from, to string }

// stream is what leaves a host on connections of its own: heartbeats, or the entries.
type stream struct {
	from       string
	heartbeats bool
}

// Network joins simulated hosts, which are named by an ID that outlives
// restarts (a host name, rather than a raft server ID). Make it inside the
// bubble that uses it. All methods may be called concurrently.
//
// A cut link behaves like TCP over a link that drops packets: what is sent is
// held, and arrives when the link is mended unless the sender has given up
// before. A dropped message breaks the connection instead: raft's caller sees
// an error at once, and does not know whether the other side acted.
type Network struct {
	rng *rand.Rand

	mu       sync.Mutex
	usual    Quality
	special  map[link]Quality
	cuts     map[link]bool
	deaf     map[string]bool // nothing reaches these
	dumb     map[string]bool // nothing leaves these
	stalls   map[stream]bool
	changed  chan struct{} // closed and replaced whenever a cut is mended
	ports    map[raft.ServerAddress]*Transport
	newestAt map[string]*Transport // by host
	// incarnations are those of hosts of which a cluster was founded again; see Found.
	incarnations map[string]uint64
	superseded   func(host string)
	rate         int // bytes of entries that any link carries in a second; 0: any number
	// acknowledges, if set before the first endpoint is made, hears that an answer to
	// an AppendEntries of raft is about to leave a host.
	acknowledges func(host string)
	// settle, if set, is called before the rules change.
	settle func()
}

// SetRate has every link carry so many bytes of entries in a second; 0: any number.
func (n *Network) SetRate(bytes int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rate = bytes
}

// transit is how long the entries of a request are under way.
func (n *Network) transit(req *raft.AppendEntriesRequest) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	size := 0
	for _, entry := range req.Entries {
		size += len(entry.Data) + len(entry.Extensions)
	}
	return time.Duration(float64(size) / float64(cmp.Or(n.rate, math.MaxInt)) * float64(time.Second))
}

// NewNetwork returns a network without faults and with a delay of 0.1 to 0.5 ms.
// rng must be safe for concurrent use (NewRand).
func NewNetwork(rng *rand.Rand) *Network {
	return &Network{
		rng:      rng,
		usual:    Quality{MinDelay: minDelay, MaxDelay: maxDelay},
		special:  make(map[link]Quality),
		cuts:     make(map[link]bool),
		deaf:     make(map[string]bool),
		dumb:     make(map[string]bool),
		stalls:   make(map[stream]bool),
		changed:  make(chan struct{}),
		ports:    make(map[raft.ServerAddress]*Transport),
		newestAt: make(map[string]*Transport),
	}
}

// Endpoint opens addr on the host id, as a process does that starts. A process
// that still holds the address loses it.
func (n *Network) Endpoint(id string, addr raft.ServerAddress, gate *Gate) *Transport {
	t := newTransport(n, id, addr, gate)
	n.mu.Lock()
	old := n.ports[addr]
	n.ports[addr], n.newestAt[id] = t, t
	n.mu.Unlock()
	if old != nil {
		old.sever()
	}
	return t
}

// Cut stops what from sends to to; the other direction works on.
func (n *Network) Cut(from, to string) {
	n.rule(func() { n.cuts[link{from, to}] = true })
}

// Mend undoes Cut.
func (n *Network) Mend(from, to string) {
	n.rule(func() { delete(n.cuts, link{from, to}) })
}

// CutBoth stops both directions between two hosts.
func (n *Network) CutBoth(a, b string) {
	n.rule(func() { n.cuts[link{a, b}], n.cuts[link{b, a}] = true, true })
}

// Isolate cuts a host off from all others, also those that come later.
func (n *Network) Isolate(id string) {
	n.rule(func() { n.deaf[id], n.dumb[id] = true, true })
}

// IsolateInbound makes a host deaf: it can send, but nothing reaches it.
func (n *Network) IsolateInbound(id string) {
	n.rule(func() { n.deaf[id] = true })
}

// IsolateOutbound makes a host dumb: it can hear, but nothing leaves it.
func (n *Network) IsolateOutbound(id string) {
	n.rule(func() { n.dumb[id] = true })
}

// Stall holds the heartbeats, or else the entries, that a host sends, as connections do
// that lose packets while others do not; or it ends that.
func (n *Network) Stall(from string, heartbeats, on bool) {
	n.rule(func() { n.stalls[stream{from, heartbeats}] = on })
}

// Heal mends every cut that touches one host.
func (n *Network) Heal(id string) {
	n.rule(func() {
		delete(n.deaf, id)
		delete(n.dumb, id)
		for l := range n.cuts {
			if l.from == id || l.to == id {
				delete(n.cuts, l)
			}
		}
	})
}

// Reconnect ends Isolate, IsolateInbound and IsolateOutbound of one host. Cuts of
// single links stay.
func (n *Network) Reconnect(id string) {
	n.rule(func() {
		delete(n.deaf, id)
		delete(n.dumb, id)
	})
}

// HealAll mends every cut. Delays and losses stay.
func (n *Network) HealAll() {
	n.rule(func() { clear(n.cuts); clear(n.deaf); clear(n.dumb); clear(n.stalls) })
}

// SetDelay sets the usual delay of one message.
func (n *Network) SetDelay(least, most time.Duration) {
	n.rule(func() { n.usual.MinDelay, n.usual.MaxDelay = least, most })
}

// SetDrop sets the usual probability that a message is lost.
func (n *Network) SetDrop(p float64) { n.rule(func() { n.usual.Drop = p }) }

// SetDuplicate sets the usual probability that a request is delivered twice;
// the second answer is thrown away. A snapshot never is: raft would go back to
// it, and TCP does not repeat a stream.
func (n *Network) SetDuplicate(p float64) { n.rule(func() { n.usual.Duplicate = p }) }

// SetLink gives one direction of one link a quality of its own.
func (n *Network) SetLink(from, to string, q Quality) {
	n.rule(func() { n.special[link{from, to}] = q })
}

// rule changes the rules and wakes the messages that a cut holds.
func (n *Network) rule(change func()) {
	if n.settle != nil {
		n.settle()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
	close(n.changed)
	n.changed = make(chan struct{})
}

// carry takes one message over a link. It returns after the link's delay and,
// if the link is cut, not before it is mended: with ErrReset if the message was
// lost, or with the error of ctx.
func (n *Network) carry(ctx context.Context, from, to string) error {
	if from == to {
		return ctx.Err()
	}
	q := n.quality(from, to)
	if err := sleep(ctx, n.between(q.MinDelay, q.MaxDelay)); err != nil {
		return err
	}
	for {
		mended := n.blocked(from, to)
		if mended == nil {
			break
		}
		select {
		case <-mended:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if n.happens(q.Drop) {
		return ErrReset
	}
	return n.meet(from, to)
}

// flows waits while the connections for a request are stalled, at most until ctx ends.
func (n *Network) flows(ctx context.Context, from string, request any) error {
	if _, ok := request.(*raft.AppendEntriesRequest); !ok {
		return nil
	}
	s := stream{from, isHeartbeat(request)}
	for {
		n.mu.Lock()
		stalled, mended := n.stalls[s], n.changed
		n.mu.Unlock()
		if !stalled {
			return nil
		}
		select {
		case <-mended:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// blocked returns nil if the link works, else a channel closed at the next change.
func (n *Network) blocked(from, to string) <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cuts[link{from, to}] || n.dumb[from] || n.deaf[to] {
		return n.changed
	}
	return nil
}

func (n *Network) quality(from, to string) Quality {
	n.mu.Lock()
	defer n.mu.Unlock()
	if q, ok := n.special[link{from, to}]; ok {
		return q
	}
	return n.usual
}

// at returns who listens, or last listened, at an address.
func (n *Network) at(addr raft.ServerAddress) *Transport {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ports[addr]
}

// host returns the newest process of a host, nil if there never was one.
func (n *Network) host(id string) *Transport {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.newestAt[id]
}

func (n *Network) happens(p float64) bool { return p > 0 && n.rng.Float64() < p }

func (n *Network) between(least, most time.Duration) time.Duration {
	return between(n.rng, least, most)
}

func between(rng *rand.Rand, least, most time.Duration) time.Duration {
	if most <= least {
		return least
	}
	return least + time.Duration(rng.Int64N(int64(most-least)+1))
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
