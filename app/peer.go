package app

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/trivet-ha/trivet/api/events"
	"github.com/trivet-ha/trivet/api/receivers"
	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/app/health"
	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/doctor"
	firewallhost "github.com/trivet-ha/trivet/firewall/host"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/internal/httpserver"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
	"github.com/trivet-ha/trivet/internal/logs"
	"github.com/trivet-ha/trivet/raftstore"
	"github.com/trivet-ha/trivet/raftstore/ballast"
	"github.com/trivet-ha/trivet/raftstore/leader"
)

// Why a peer ended by itself; see admin.Ending.
var (
	ErrLeft       = admin.ErrLeft
	ErrRemoved    = admin.ErrRemoved
	ErrSuperseded = admin.ErrSuperseded
	ErrRolledBack = admin.ErrRolledBack
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
	// Filter is that of a simulated host; nil: that of this host, by firewall.driver.
	Filter *firewallhost.Filter
	// Recent has the newest lines of the log, for operators; nil: none are kept.
	Recent *logs.Ring
	// Stream takes the log to its readers; nil: nothing is known of them.
	Stream *logs.Queue
	// Limits are those of the API's server, and of the webhook's; nil: APILimits.
	Limits *httpserver.Limits
}

// Peer is one running peer: what it was made from, and its parts.
type Peer struct {
	opts Options
	id   datadir.Identity
	core *Core
	self *health.Self
	inspection
	conf    *admin.Configuration
	admin   *admin.Control
	figures *health.Figures
	links   // to other peers
	memory  // on its disk
	pxe     pxeParts
	kube    kubernetes
	serving *serving
	opened  *closers
	*admin.Ending
}

// links connect a peer with the others.
type links struct {
	renewal *cluster.Renewal
	access  *cluster.Access
	port    *cluster.Port
	forward *cluster.Forwarder
	line    *cluster.Line
	gossip  *cluster.Gossip
}

// memory is what a peer has on its disk, and tells of it.
type memory struct {
	recorded  map[string]membership.Member // by server ID; of the log as it was at the start
	ballast   *ballast.Ballast
	backups   *backups
	used      *fileWatch
	texts     *fileTexts
	passwords *passwordFiles
	events    *events.Hub
	recorder  *events.Reporter
	receivers *receivers.Deliverer
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
	conf := &admin.Configuration{Load: o.Load, Logger: o.Logger}
	conf.Conf.Store(&o.Config)
	limits := APILimits()
	if o.Limits != nil {
		limits = *o.Limits
	}
	return &Peer{
		opts: o, conf: conf, figures: health.NewFigures(),
		serving: &serving{doorway: &doorway{admission: admission.NewController()}, limits: limits, config: conf.Current,
			files: health.NewDescriptors(o.Logger), log: o.Logger},
		memory: memory{used: new(fileWatch), texts: newFileTexts(o.Config), passwords: new(passwordFiles)},
		opened: new(closers), Ending: admin.NewEnding(o.Logger),
	}
}

// measures adds what follows from the configuration and the size of the disk.
func measures(f *doctor.Facts, c config.Config) {
	space := ballast.Space{Free: f.Disk.Free, Size: f.Disk.Size}
	f.Disk.Low, f.Disk.Floor = space.Low(), space.Floor()
	clocks := timing(c.Raft.Timing)
	f.Disk.HeartbeatUS, f.Disk.HungUS = clocks.Heartbeat.Microseconds(), leader.HungAfter(clocks).Microseconds()
}

// timing translates raft.timing.
func timing(name string) raftstore.Timing {
	switch name {
	case "fast":
		return raftstore.Fast()
	case "slow":
		return raftstore.Slow()
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

// Identity returns who this peer is.
func (p *Peer) Identity() datadir.Identity { return p.id }

// Core gives tests and benchmarks the parts below the sockets.
func (p *Peer) Core() *Core { return p.core }
