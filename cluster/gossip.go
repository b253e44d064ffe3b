package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/hashicorp/memberlist"

	"github.com/trivet-ha/trivet/internal/logs"
	"github.com/trivet-ha/trivet/internal/pace"
)

// Values of gossip. It is for display and for finding a higher incarnation;
// raft and sessions decide who is alive, since gossip takes 7 s to notice.
const (
	rejoinEvery = 10 * time.Second
	// gossipEvery is how often a peer looks whether it has something to tell; well within
	// leaveLimit.
	gossipEvery = 500 * time.Millisecond
	// reclaimAfter is after how long the name of a dead peer may come back with
	// another address; one that left may at once.
	reclaimAfter = 5 * time.Second
	// leaveLimit bounds the word to the others that this peer leaves.
	leaveLimit = time.Second
	// streamLimit bounds one exchange with one seed, and so how long Run goes on
	// after its end.
	streamLimit    = 3 * time.Second
	gossipMetaMost = 512 // memberlist's own limit
)

var errOtherCluster = errors.New("it belongs to another cluster")

// gossipMeta travels with every peer; anything larger goes through the log.
type gossipMeta struct {
	Cluster     string `cbor:"1,keyasint"`
	Incarnation uint64 `cbor:"2,keyasint"`
	Binary      string `cbor:"3,keyasint"`
}

// GossipOptions are the parts of a Gossip.
type GossipOptions struct {
	ID          string // server ID, the name in gossip
	Cluster     string
	Incarnation uint64
	Binary      string
	Listen      string // host:port to bind
	Advertise   string // host:port told to others; empty: what is bound
	Ring        Ring
	// Transport, if set, carries gossip in the place of UDP and TCP at Listen.
	Transport memberlist.NodeAwareTransport
	// Seeds returns the gossip addresses of the other members.
	Seeds func() []string
	// Hosts returns the addresses, host or host:port, from which members may open
	// streams; it is called for each stream.
	Hosts func() []string
	// Proven, if set, reports whether a member has proved elsewhere that it speaks
	// from an address: a host with several may use one that it does not advertise.
	Proven func(netip.Addr) bool
	// Newer is called with the incarnation of a peer when that is higher: this one
	// was left behind by a recovery and must close and stop
	// (docs/design.md#founding).
	Newer  func(theirs uint64)
	Logger *slog.Logger
}

// Gossip tells who can be reached, as far as this peer knows.
type Gossip struct {
	opts GossipOptions
	keys *memberlist.Keyring
	list *memberlist.Memberlist
	net  *gossipTransport
	end  sync.Once // of list
}

// NewGossip binds the port and begins to answer; Run finds the others.
func NewGossip(o GossipOptions) (*Gossip, error) {
	o.Logger = logs.Limit(o.Logger) // a dead member is a line at each probe
	g := &Gossip{opts: o}
	meta, err := cbor.Marshal(gossipMeta{Cluster: o.Cluster, Incarnation: o.Incarnation, Binary: o.Binary})
	if err != nil {
		return nil, fmt.Errorf("encode gossip metadata: %w", err)
	}
	if len(meta) > gossipMetaMost {
		return nil, fmt.Errorf("gossip metadata has %d bytes, at most %d fit", len(meta), gossipMetaMost)
	}
	if g.keys, err = memberlist.NewKeyring(o.Ring.Keys, o.Ring.Keys[0]); err != nil {
		return nil, fmt.Errorf("gossip keys: %w", err)
	}
	c := memberlist.DefaultLANConfig()
	c.Name, c.Keyring = o.ID, g.keys
	c.DeadNodeReclaimTime = reclaimAfter
	c.TCPTimeout = streamLimit
	c.GossipInterval = gossipEvery
	c.Delegate = metaDelegate(meta)
	c.Alive, c.Merge = g, g
	c.Logger = slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug)
	if c.BindAddr, c.BindPort, err = splitPort(o.Listen); err != nil {
		return nil, fmt.Errorf("gossip.listen: %w", err)
	}
	if c.BindAddr == "" {
		c.BindAddr = "0.0.0.0"
	}
	c.AdvertisePort = c.BindPort
	if o.Advertise != "" {
		if c.AdvertiseAddr, c.AdvertisePort, err = splitPort(o.Advertise); err != nil {
			return nil, fmt.Errorf("gossip.advertise: %w", err)
		}
		if net.ParseIP(c.AdvertiseAddr) == nil { // memberlist would refuse it with the port bound
			return nil, fmt.Errorf("gossip.advertise: %q is not an IP address", c.AdvertiseAddr)
		}
	}
	if err := g.create(c); err != nil {
		return nil, fmt.Errorf("start gossip on %s: %w", o.Listen, errors.Join(bind(o.Listen), err))
	}
	return g, nil
}

// create binds the port and starts memberlist on it.
func (g *Gossip) create(c *memberlist.Config) error {
	inner := g.opts.Transport
	if inner == nil {
		bound, err := memberlist.NewNetTransport(&memberlist.NetTransportConfig{
			BindAddrs: []string{c.BindAddr}, BindPort: c.BindPort, Logger: c.Logger,
		})
		if err != nil {
			return err
		}
		if c.BindPort == 0 {
			c.BindPort = bound.GetAutoBindPort()
			if c.AdvertisePort == 0 {
				c.AdvertisePort = c.BindPort
			}
		}
		inner = bound
	}
	g.net = newGossipTransport(inner, g.opts)
	c.Transport = g.net
	var err error
	if g.list, err = memberlist.Create(c); err != nil {
		return errors.Join(err, g.net.Shutdown())
	}
	return nil
}

// bind tells why the port of gossip cannot be bound, nil if it can. Of its own
// reason memberlist keeps the text alone.
func bind(address string) error {
	stream, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	packets, err := net.ListenPacket("udp", address)
	if err != nil {
		return errors.Join(err, stream.Close())
	}
	return errors.Join(packets.Close(), stream.Close())
}

func splitPort(hostport string) (string, int, error) {
	host, port, err := net.SplitHostPort(hostport)
	if err != nil {
		return "", 0, err
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return "", 0, fmt.Errorf("port %q is not a number", port)
	}
	return host, n, nil
}

// Run looks for members that gossip does not see, until ctx ends.
func (g *Gossip) Run(ctx context.Context) {
	for range pace.Every(ctx, rejoinEvery) {
		g.net.resolve(ctx)
		if seeds := g.opts.Seeds(); len(seeds) > g.list.NumMembers()-1 {
			g.join(ctx, seeds)
		}
	}
}

// join asks one seed after the other: a stop waits for the present one alone.
func (g *Gossip) join(ctx context.Context, seeds []string) {
	for _, seed := range seeds {
		if ctx.Err() != nil {
			return
		}
		if _, err := g.list.Join([]string{seed}); err != nil {
			g.opts.Logger.Debug("join gossip failed, retrying", "address", seed, "err", err)
		}
	}
}

// SetRing makes other keys this peer's: those of the ring are accepted, the first
// is spoken under, and no other is accepted any more.
func (g *Gossip) SetRing(r Ring) error {
	for _, key := range r.Keys {
		if err := g.keys.AddKey(key); err != nil {
			return fmt.Errorf("accept a gossip key: %w", err)
		}
	}
	if err := g.keys.UseKey(r.Keys[0]); err != nil {
		return fmt.Errorf("speak under a gossip key: %w", err)
	}
	for _, key := range slices.Clone(g.keys.GetKeys()) {
		if slices.ContainsFunc(r.Keys, func(wanted []byte) bool { return bytes.Equal(wanted, key) }) {
			continue
		}
		if err := g.keys.RemoveKey(key); err != nil {
			return fmt.Errorf("drop a gossip key: %w", err)
		}
	}
	return nil
}

// States returns, by server ID, what gossip says of each peer it has met:
// alive, suspect, dead or left.
func (g *Gossip) States() map[string]string {
	out := make(map[string]string)
	for _, n := range g.list.Members() {
		state := "dead"
		switch n.State {
		case memberlist.StateAlive:
			state = "alive"
		case memberlist.StateSuspect:
			state = "suspect"
		case memberlist.StateLeft:
			state = "left"
		}
		out[n.Name] = state
	}
	return out
}

// Leave tells the others and closes the port. Leaving gossip is not leaving
// the cluster. That no other peer was there to hear it is no error: those that
// live notice within seconds. A second end, of whichever kind, does nothing.
func (g *Gossip) Leave() error {
	return g.shutDown(func() {
		if err := g.list.Leave(leaveLimit); err != nil {
			g.opts.Logger.Info("leave gossip: no other peer confirmed", "after", leaveLimit, "err", err)
		}
	})
}

// Drop closes the port without a word to the others, as a peer that dies.
func (g *Gossip) Drop() error { return g.shutDown(func() {}) }

func (g *Gossip) shutDown(first func()) (err error) {
	g.end.Do(func() {
		first()
		err = g.list.Shutdown()
	})
	return err
}

// NotifyAlive implements memberlist.AliveDelegate: it sees every peer before
// it is believed, on memberlist's own goroutine.
func (g *Gossip) NotifyAlive(n *memberlist.Node) error { return g.checkMember(n) }

// NotifyMerge implements memberlist.MergeDelegate.
func (g *Gossip) NotifyMerge(nodes []*memberlist.Node) error {
	for _, n := range nodes {
		if err := g.checkMember(n); err != nil {
			return err
		}
	}
	return nil
}

func (g *Gossip) checkMember(n *memberlist.Node) error {
	var meta gossipMeta
	if err := cbor.Unmarshal(n.Meta, &meta); err != nil {
		return fmt.Errorf("gossip metadata of %s: %w", n.Name, err)
	}
	if meta.Cluster != g.opts.Cluster {
		return fmt.Errorf("%s: %w", n.Address(), errOtherCluster)
	}
	if meta.Incarnation > g.opts.Incarnation {
		g.opts.Newer(meta.Incarnation)
	}
	if meta.Incarnation != g.opts.Incarnation {
		return fmt.Errorf("%s has incarnation %d, ours is %d", n.Address(), meta.Incarnation, g.opts.Incarnation)
	}
	return nil
}

// metaDelegate gives memberlist the metadata and nothing else.
type metaDelegate []byte

// NodeMeta implements memberlist.Delegate.
func (m metaDelegate) NodeMeta(int) []byte { return m }

// NotifyMsg implements memberlist.Delegate; no messages are sent.
func (metaDelegate) NotifyMsg([]byte) {}

// GetBroadcasts implements memberlist.Delegate.
func (metaDelegate) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState implements memberlist.Delegate.
func (metaDelegate) LocalState(bool) []byte { return nil }

// MergeRemoteState implements memberlist.Delegate.
func (metaDelegate) MergeRemoteState([]byte, bool) {}
