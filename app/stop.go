package app

import (
	"context"
	"fmt"
	"time"
)

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
