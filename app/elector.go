package app

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

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
	for _, one := range conf.Elections() {
		e.Elections = append(e.Elections, elector.ElectionSource{Lease: one.Lease, Identities: conf.Called()})
	}
	return e
}

// newElectorAnswers counts what the endpoints answered.
func newElectorAnswers() *prometheus.CounterVec {
	answers := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "trivet", Name: "elector_answers_total",
		Help: "Answers of this peer's leader endpoints: named with a leader's name, none without one."}, []string{"answer"})
	for _, named := range []bool{true, false} {
		answers.WithLabelValues(answerLabel(named)) // so that each is there from the start
	}
	return answers
}

func answerLabel(named bool) string {
	if named {
		return "named"
	}
	return "none"
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
		Election: name, Source: election, Now: lease.Boottime, Admission: p.doorway.admission, Failed: p.files.note, Logger: p.opts.Logger,
		Answered: func(named bool) { p.elections.WithLabelValues(answerLabel(named)).Inc() },
	}).Server(api.Identified)
}
