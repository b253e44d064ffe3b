package app

import (
	"context"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/client/lease"
	"github.com/trivet-ha/trivet/internal/httpserver"
	"github.com/trivet-ha/trivet/lease/elector"
)

// Electing is what a Core answers about.
type Electing struct {
	Elections []elector.ElectionSource
	Now       elector.Clock
}

// newWitness is nil where there is nothing to answer about.
func (o CoreOptions) newWitness(log elector.Log) *elector.Witness {
	if len(o.Electing.Elections) == 0 {
		return nil
	}
	return elector.NewWitness(elector.WitnessOptions{
		Log: log, Elections: o.Electing.Elections, Bound: o.Raft.Timing.Election, Now: o.Electing.Now, Logger: o.Logger,
	})
}

// electing translates the configuration.
func (p *Peer) electing() Electing {
	conf := p.opts.Config.Elector
	e := Electing{Now: lease.Boottime}
	for _, election := range conf.Elections() {
		e.Elections = append(e.Elections, elector.ElectionSource{Lease: election.Lease, Identities: conf.Called()})
	}
	return e
}

// serveElections opens an endpoint for each election.
func (p *Peer) serveElections(ctx context.Context) error {
	for n, one := range p.opts.Config.Elector.Elections() {
		ln, err := listen(ctx, "elector.listen", one.Listen)
		if err != nil {
			return err
		}
		p.start(elector.Timed(ln, lease.Boottime), p.electionServer(one.Name, p.core.Elector.Elections()[n]))
	}
	return nil
}

func (p *Peer) electionServer(name string, election *elector.Election) *httpserver.Server {
	return elector.NewEndpoint(elector.EndpointOptions{
		Election: name, Source: election, Now: lease.Boottime, Admission: p.doorway.admission, Failed: p.files.Note, Logger: p.opts.Logger,
		Answered: p.figures.Answered,
	}).Server(api.Identified)
}
