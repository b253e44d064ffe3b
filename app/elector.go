package app

import (
	"context"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/client/lease"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/lease/elector"
)

// Electing is what a Core answers about.
type Electing struct {
	Elections []elector.ElectionSource
	// Bound is how old a proof may be: a name is said for so long, and a new one is held
	// back for so long. It must be the same on all peers, also while they are upgraded
	// one after the other.
	Bound time.Duration
	Now   elector.Clock
}

// newWitness is nil where there is nothing to answer about.
func (o CoreOptions) newWitness(log elector.Log) *elector.Witness {
	if len(o.Electing.Elections) == 0 {
		return nil
	}
	return elector.NewWitness(elector.WitnessOptions{
		Log: log, Elections: o.Electing.Elections, Bound: o.Electing.Bound, Now: o.Electing.Now, Logger: o.Raft.Logger,
	})
}

// electing translates the configuration. The bound goes by raft.timing and not by the
// election clocks that it names, which became shorter: v0.1.0 has the same bounds.
func electing(conf config.Config) Electing {
	e := Electing{Bound: 500 * time.Millisecond, Now: lease.Boottime}
	switch conf.Raft.Timing {
	case "fast":
		e.Bound = 300 * time.Millisecond
	case "slow":
		e.Bound = time.Second
	}
	for _, election := range conf.Elector.Elections() {
		e.Elections = append(e.Elections, elector.ElectionSource{Lease: election.Lease, Identities: conf.Elector.Called()})
	}
	return e
}

// serveElections opens an endpoint for each election.
func (p *Peer) serveElections(ctx context.Context) error {
	for n, conf := range p.opts.Config.Elector.Elections() {
		ln, err := listen(ctx, "elector.listen", conf.Listen)
		if err != nil {
			return err
		}
		endpoint := elector.NewEndpoint(elector.EndpointOptions{
			Election: conf.Name, Source: p.core.Elector.Elections()[n], Now: lease.Boottime, Admission: p.serving.admission,
			Failed: p.serving.files.Note, Logger: p.opts.Logger,
			Answered: p.figures.Answered,
		})
		p.serving.start(elector.Timed(ln, lease.Boottime), endpoint.Server(api.Identified))
	}
	return nil
}
