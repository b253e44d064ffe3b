package site

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trivet-ha/trivet/app"
	"github.com/trivet-ha/trivet/firewall/host"
	"github.com/trivet-ha/trivet/test/hostkernel"
	"github.com/trivet-ha/trivet/test/sandbox/trio"
)

// slot is one host: the place of a peer, and a kernel, which outlives the peer.
type slot struct {
	*trio.Host
	kernel *hostkernel.Model
}

// cluster is three hosts whose leader is killed, and what was seen of them.
type cluster struct {
	*trio.Trio // nil: of a test
	slots      [trio.Size]*slot
	tell       func(format string, args ...any)
	broken     chan error // capacity 1: the first reason why the run cannot go on

	mu        sync.Mutex // guards all below
	pxe       services
	failovers []time.Duration
	struck    []time.Time // when leaders were killed
}

// newCluster chooses the places of the peers, below root.
func newCluster(root string, o Options, log *slog.Logger) (*cluster, error) {
	hosts, err := trio.New(root, log)
	if err != nil {
		return nil, err
	}
	t := watched(*hosts, o.Tell)
	t.Trio = hosts
	for _, s := range t.slots {
		c := &s.Config
		if o.Users != "" {
			c.API.AuthStrategy, c.API.HTTPBasicAuthUserFile = "http_basic", o.Users
		}
		c.Firewall.Interface = "lo" // every host has it
		c.Inspection.Timeout, c.Inspection.CleanUpPeriod = cmp.Or(o.Timeout, inspectionTimeout), cleanUpPeriod
		s.GaveUp = t.fail
		s.Change = func(o *app.Options, killed *atomic.Bool) {
			kernel := process{s.kernel, killed}
			o.Filter = &host.Filter{Chains: kernel, Lease: kernel, Driver: "model"}
		}
	}
	return t, nil
}

// watched gives each host a kernel that is watched.
func watched(hosts trio.Trio, tell func(string, ...any)) *cluster {
	t := &cluster{tell: tell, broken: make(chan error, 1)}
	for i, h := range hosts {
		s := &slot{h, newKernel()}
		s.kernel.Opened = func() { t.opened(s) }
		t.slots[i] = s
	}
	return t
}

func (t *cluster) fail(err error) {
	select {
	case t.broken <- err:
	default: // an earlier reason is told already
	}
}

// form founds the cluster and returns when all three vote.
func (t *cluster) form(ctx context.Context, ironic string) error {
	ctx, cancel := context.WithTimeout(ctx, stuckAfter)
	defer cancel()
	for _, s := range t.slots {
		s.Config.Ironic.Endpoint = ironic
	}
	return t.Form(ctx)
}
