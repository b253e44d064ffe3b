package app

import (
	"context"
	"errors"
)

// Kill ends the peer as the death of its process would, for those who practise
// failure in one process: nothing is handed on, no session is ended, nobody is
// told. First the network is cut, all at once, so that whatever the peer still
// does on the way down reaches nobody; then the log is closed. The data
// directory stays as a dead process leaves it, locked by the caller, and a new
// peer can be started on it. Called once, in the place of Stop.
func (p *Peer) Kill(ctx context.Context) error {
	errs := []error{p.port.Close()}
	for _, s := range p.servers {
		errs = append(errs, s.Close())
	}
	errs = append(errs, p.gossip.Drop())
	p.forward.Close()
	p.stopRun()
	errs = append(errs, p.core.Close(ctx))
	p.running.Wait()
	return errors.Join(errs...)
}
