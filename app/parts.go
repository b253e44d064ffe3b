package app

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/inspector/accept"
	"github.com/trivet-ha/trivet/inspector/ironic"
)

// step opens one part of a peer. As soon as a resource is open, the step adds
// its end to p.opened; the step may fail after that.
type step struct {
	part string
	open func(context.Context) error
	// named says that the configuration names what is opened: a file of an
	// operator, not one of the data directory.
	named bool
}

// Parts that Stop tells apart.
const (
	partPort   = "cluster port"
	partLog    = "log"
	partAPI    = "API"
	partGossip = "gossip"
)

// StartError says which part kept a peer from starting.
type StartError struct {
	Part  string // see StartParts
	Named bool   // the configuration names what could not be opened
	Err   error
}

// Error implements error: the cause alone, which names its object.
func (e *StartError) Error() string { return e.Err.Error() }

// Unwrap gives the cause to errors.Is and errors.As.
func (e *StartError) Unwrap() error { return e.Err }

// StartParts returns the parts of a peer in the order in which New opens them.
func StartParts() []string {
	var parts []string
	for _, s := range new(Peer).steps() {
		parts = append(parts, s.part)
	}
	return parts
}

// steps are the parts of a peer in the order in which New opens them. Stop closes them
// in the reverse order, as each was added to p.opened.
func (p *Peer) steps() []step {
	var secrets datadir.Secrets
	o := p.opts
	do := func(open func() error) func(context.Context) error {
		return func(context.Context) error { return open() }
	}
	return []step{
		{part: "identity", open: do(func() (err error) {
			p.id, secrets, err = o.identity()
			p.conf.Name = p.id.Name
			return err
		})},
		{part: "inspection settings",
			open: do(func() (err error) { p.settings, err = o.openSettings(o.Config.Inspection); return err }), named: true},
		{part: "API users", open: do(func() (err error) { p.serving.first, err = o.openAuth(o.Config.API); return err }),
			named: true},
		{part: "API certificate", open: do(func() (err error) { p.certificate, err = o.openTLS(); return err }), named: true},
		{part: "Ironic client", open: do(func() (err error) { // no request is sent: Ironic may be away for a while
			if p.ironic, err = ironic.New(o.Config.Ironic, o.Logger); err == nil {
				p.names = accept.NewNames(p.ironic, o.Wall)
			}
			return err
		}), named: true},
		{part: "worker notes", open: do(func() error { return p.inspection.openNotes(o.Dir, p.opened) })},
		{part: "PXE filter", open: do(func() error { p.pxe.openFilter(o, p.opened); return nil })},
		{part: "floating IP",
			open:  do(func() error { return p.pxe.openAddress(o.Config.FloatingIP, p.opened, o.Logger) }),
			named: true},
		{part: "failover", open: do(func() error {
			err := p.kube.openFailover(o, p.id.Name, p.ironic, p.opened)
			if p.kube.failover != nil { // the leader waits for what this host has not read
				p.kube.failover.Unread = unreadFences{p.conf, p.texts, p.id.Name}.why
			}
			return err
		}), named: true},
		{part: "haconfig", open: do(func() (err error) { p.kube.components, err = openComponents(o, p.opened); return err }),
			named: true},
		{part: "receivers of events", open: do(func() (err error) { p.receivers, err = openReceivers(o); return err }),
			named: true},
		{part: partPort, open: func(ctx context.Context) error { return p.startPort(ctx, secrets) }},
		{part: partLog, open: p.startCore},
		{part: partGossip, open: func(ctx context.Context) error { return p.startGossip(ctx, secrets.Ring) }},
		{part: "peers' requests", open: p.servePeers},
		{part: partAPI, open: p.serveAPI},
		{part: "webhook", open: p.serveComponents},
		{part: "elections", open: p.serveElections},
		{part: "socket", open: p.serveSocket},
		{part: "background work", open: do(func() error { p.startServices(secrets.Ring); return nil })},
	}
}

// open opens the parts. Goroutines use what they were started with until they
// end; running waits for them when everything has been told to stop.
func (p *Peer) open(ctx context.Context, steps []step) error {
	p.opened.addFunc("goroutines", p.serving.running.Wait)
	for _, s := range steps {
		err := s.open(ctx)
		if err == nil {
			continue
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
		defer cancel()
		p.opened.close(ctx, p.opts.warnClose)
		return &StartError{Part: s.part, Named: s.named, Err: err}
	}
	return nil
}

// undoLimit bounds the closing of what a peer that cannot start has opened.
const undoLimit = 10 * time.Second

// closers end what was opened, the newest first. The functions capture what
// they close, not the Peer under construction, which may be half made.
type closers struct{ all []closer }

type closer struct {
	part string // one of the steps, for messages
	end  func(context.Context) error
}

func (c *closers) add(part string, end func(context.Context) error) {
	c.all = append(c.all, closer{part, end})
}

// addFunc adds an end that cannot fail.
func (c *closers) addFunc(part string, end func()) {
	c.add(part, func(context.Context) error { end(); return nil })
}

// close calls every function once, also after one has failed, and reports each
// error to failed. A second call does nothing.
func (c *closers) close(ctx context.Context, failed func(part string, err error)) {
	all := c.all
	c.all = nil
	for _, one := range slices.Backward(all) {
		if err := one.end(ctx); err != nil {
			failed(one.part, err)
		}
	}
}

func (o Options) warnClose(part string, err error) {
	o.Logger.Warn("close failed", "part", part, "err", err)
}

// drainLimit bounds the wait for answers under way when a peer stops.
const drainLimit = 500 * time.Millisecond

// Stop ends the peer in the order of docs/design.md#stop: duties (the gate first),
// leadership, callers, gossip, log. The data directory stays locked; it is the
// caller's. Stop is called once.
//
// An error says that the log was not closed. Every other failure is logged: it
// concerns a resource that the end of the process releases, or a word to other
// peers, which notice the stop without it.
func (p *Peer) Stop(ctx context.Context) error {
	if err := p.core.Resign(ctx); err != nil {
		p.opts.Logger.Info("transfer leadership failed; the others will elect", "err", err)
	}
	return p.closeParts(ctx)
}

// Kill ends the peer as the death of its process would, for those who practise
// failure in one process: leadership is not handed on, the session is not ended,
// no peer is notified. First the peer is made mute and deaf, so that a leader commits nothing
// more on the way down; then everything is closed. The data directory stays as a
// dead process leaves it, locked by the caller, and a new peer can be started
// on it. Called once, in the place of Stop. Errors are those of Stop.
func (p *Peer) Kill(ctx context.Context) error {
	p.core.Store.Mute(true)
	if err := p.port.Close(); err != nil {
		p.opts.warnClose(partPort, err)
	}
	for _, s := range p.serving.servers {
		if err := s.Close(); err != nil {
			p.opts.warnClose(partAPI, err)
		}
	}
	if p.serving.ramdisks != nil {
		p.serving.ramdisks.Stop(ctx, 0)
	}
	if err := p.gossip.Drop(); err != nil {
		p.opts.warnClose(partGossip, err)
	}
	return p.closeParts(ctx)
}

func (p *Peer) closeParts(ctx context.Context) error {
	var unclosed error
	p.opened.close(ctx, func(part string, err error) {
		if part == partLog {
			unclosed = fmt.Errorf("close the log: %w", err)
			return
		}
		p.opts.warnClose(part, err)
	})
	return unclosed
}
