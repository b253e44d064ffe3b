package app

import (
	"context"
	"errors"
)

// Kill ends the peer as the death of its process would, for those who practise
// failure in one process: nothing is handed on, no session is ended, nobody is
// told. First the peer is made mute and deaf, so that a leader commits nothing
// more on the way down; then the log is closed. The data directory stays as a
// dead process leaves it, locked by the caller, and a new peer can be started
// on it. Called once, in the place of Stop.
func (p *Peer) Kill(ctx context.Context) error {
	p.core.Store.Mute(true)
	errs := []error{p.port.Close()}
	for _, s := range p.servers {
		errs = append(errs, s.Close())
	}
	errs = append(errs, p.gossip.Drop())
	p.forward.Close()
	p.hangUp()
	p.stopRun()
	errs = append(errs, p.core.Close(ctx), p.closeFilter())
	p.running.Wait()
	return errors.Join(errs...)
}
