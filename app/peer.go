package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trivet-ha/trivet/api/events"
	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/app/health"
	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/doctor"
	"github.com/trivet-ha/trivet/firewall/floatingip"
	"github.com/trivet-ha/trivet/firewall/host"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/internal/httpserver"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
	"github.com/trivet-ha/trivet/raftstore"
	"github.com/trivet-ha/trivet/raftstore/ballast"
)

// Why a peer ended by itself; see Peer.Ended.
var (
	ErrLeft       = errors.New("this peer has left the cluster; its log is gone")
	ErrRemoved    = errors.New("this peer was removed from the cluster")
	ErrSuperseded = errors.New("the cluster was founded again without this peer, by a restore or recovery: it lives in a higher incarnation")
	ErrRolledBack = errors.New("this peer must not take part with this disk")
	ErrUnknown    = errors.New("the log holds what this binary does not know")
)

// Options are what a Peer is made from.
type Options struct {
	Config config.Config
	Dir    *datadir.Dir
	Binary string // version of the build
	Logger *slog.Logger
	Wall   func() time.Time
	Random io.Reader
	// Exit ends the process at once, without Stop: a lame duck must not act.
	Exit func(code int, why error)
	// Load reads the configuration again, whole and checked; nil: there is none
	// that could be. Log makes the Logger write as a configuration says; nil: it
	// stays as it is.
	Load func() (config.Config, error)
	Log  func(config.Log)
	// Kernel is a model in the place of this host's packet filter, for simulated
	// hosts; nil: the kernel's own, by firewall.driver.
	Kernel Kernel
	// Recent returns the newest lines of the log, the oldest first, for a bundle;
	// nil: nobody keeps them.
	Recent func() string
	// Limits are those of the API's server, and of the webhook's; nil: APILimits.
	Limits *httpserver.Limits
}

// Peer is one running peer.
type Peer struct {
	opts     Options
	id       datadir.Identity
	recorded map[string]fsm.Member // by server ID; of the log as it was at the start
	renewal  *cluster.Renewal
	forward  *cluster.Forwarder
	access   *cluster.Access
	port     *cluster.Port
	core     *Core
	gossip   *cluster.Gossip
	events   *events.Hub
	recorder *events.Reporter
	filter   host.Filter
	address  *floatingip.Address // nil: there is none
	api      net.Listener
	inspection
	*configured
	doorway  doorway
	line     *cluster.Line
	figures  *health.Figures
	carries  *health.FloatingIP // nil: there is none
	self     *health.Self
	kube     kubeParts
	ha       haParts
	ballast  *ballast.Ballast
	examiner *examiner
	backups  *backups
	servers  []*httpserver.Server
	files    *health.Descriptors
	opened   closers
	running  sync.WaitGroup
	ended    chan error    // capacity 1: the first reason
	gone     chan struct{} // closed when the leader said that this peer is no member
	once     sync.Once     // of gone
	leaving  atomic.Bool   // its own removal was proposed and not refused
}

// New opens everything that a peer needs and starts it. When a step fails, what
// the earlier ones opened is closed again, and the error is a *StartError.
func New(ctx context.Context, o Options) (*Peer, error) {
	p := newPeer(o)
	if err := p.open(ctx, p.steps()); err != nil {
		return nil, err
	}
	return p, nil
}

// newPeer returns a peer of which nothing is open.
func newPeer(o Options) *Peer {
	return &Peer{
		opts: o, configured: newConfigured(o.Config), figures: health.NewFigures(), files: health.NewDescriptors(o.Logger), doorway: doorway{admission: admission.NewController()},
		ended: make(chan error, 1), gone: make(chan struct{}),
	}
}

// measures adds what follows from the configuration and the size of the disk.
func measures(f *doctor.Facts, c config.Config) {
	space := ballast.Space{Free: f.Disk.Free, Size: f.Disk.Size}
	f.Disk.Low, f.Disk.Floor = space.Low(), space.Floor()
	f.Disk.HeartbeatUS = timing(c.Raft.Timing).Heartbeat.Microseconds()
}

// timing translates raft.timing.
func timing(name string) raftstore.Timing {
	switch name {
	case "fast":
		return raftstore.Normal().Scale(0.6)
	case "slow":
		return raftstore.Normal().Scale(2)
	default:
		return raftstore.Normal()
	}
}

// advertisedAPI is where others reach this peer's API, for display; "" where the
// configuration does not say it: port 0 is any free one.
func advertisedAPI(c config.Config, id datadir.Identity) string {
	host, service, err := net.SplitHostPort(c.API.Listen)
	if err != nil {
		return ""
	}
	number, err := net.LookupPort("tcp", service)
	if err != nil || number == 0 {
		return ""
	}
	port := strconv.Itoa(number)
	if host == "" || net.ParseIP(host).IsUnspecified() {
		if host, _, err = net.SplitHostPort(id.Address); err != nil {
			return ""
		}
	}
	return net.JoinHostPort(host, port)
}

// seeds are the gossip addresses of the other members; before the log has
// arrived, those the cluster named at the join.
func (p *Peer) seeds() []string {
	var out []string
	for _, m := range p.core.Store.View().Members() {
		if m.ID != p.id.ID && m.Gossip != "" {
			out = append(out, m.Gossip)
		}
	}
	if out == nil {
		return p.id.Seeds
	}
	return out
}

// gossipHosts are the addresses of the members, this one among them: a host
// speaks from any of its own.
func (p *Peer) gossipHosts() []string {
	var out []string
	for _, m := range p.core.Store.View().Members() {
		out = append(out, m.Gossip, m.Address, m.API)
	}
	if out == nil {
		return append(p.access.JoinedAddresses(), p.id.Seeds...)
	}
	// A former member's stream is answered with this incarnation, and merged by neither.
	for _, f := range p.core.Store.View().FormerMembers() {
		out = append(out, f.Gossip, f.Address)
	}
	return out
}

// refused hears of every certificate that this peer's end of a connection did
// not accept.
func (p *Peer) refused(err error) {
	var inc *pki.IncarnationError
	if errors.As(err, &inc) && inc.Theirs > inc.Ours {
		p.end(fmt.Errorf("%w: %w", ErrSuperseded, err))
		return
	}
	p.opts.Logger.Debug("peer certificate refused", "err", err)
}

// end asks whoever runs this peer to stop it; the first reason counts.
func (p *Peer) end(why error) {
	select {
	case p.ended <- why:
	default:
	}
}

// removed hears, from the leader, that this peer is no member any more. The
// answer to a leave may be overtaken by that, or lost.
func (p *Peer) removed() {
	p.once.Do(func() { close(p.gone) })
	if p.leaving.Load() {
		p.end(ErrLeft)
		return
	}
	p.end(ErrRemoved)
}

// rolledBack hears that the disk holds less than this peer had acknowledged.
func (p *Peer) rolledBack(err error) { p.end(fmt.Errorf("%w: %w", ErrRolledBack, err)) }

// Ended yields why this peer must stop, once, if it finds a reason itself.
func (p *Peer) Ended() <-chan error { return p.ended }

// start answers on ln until closeServers.
func (p *Peer) start(ln net.Listener, srv *httpserver.Server) {
	p.servers = append(p.servers, srv)
	p.running.Go(func() {
		if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			p.opts.Logger.Error("serve listener failed", "address", ln.Addr(), "err", err)
		}
	})
}

// Identity returns who this peer is.
func (p *Peer) Identity() datadir.Identity { return p.id }

// Core gives tests and benchmarks the parts below the sockets.
func (p *Peer) Core() *Core { return p.core }

// APIAddr returns the address the API is bound to.
func (p *Peer) APIAddr() net.Addr { return p.api.Addr() }

// Ready returns once this peer can serve linearizable reads, or ctx ends.
func (p *Peer) Ready(ctx context.Context) error {
	const pause = 20 * time.Millisecond
	for {
		limited, cancel := context.WithTimeout(ctx, time.Second)
		_, err := p.core.Store.Read(limited)
		cancel()
		if err == nil && p.core.Session.ID().IsZero() {
			err = cluster.ErrNoSession
		}
		if err == nil {
			return nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("%w (last: %w)", context.Cause(ctx), err)
		}
	}
}
