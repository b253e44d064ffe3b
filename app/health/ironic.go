package health

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/doctor"
	"github.com/trivet-ha/trivet/doctor/host"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/inspector/ironic"
)

// IronicAway is a reason not to lead: the leader's sweeps and relays need Ironic, and another
// peer reaches it.
func IronicAway(ironic *ironic.Reach, v fsm.View, self string) error {
	if ironic == nil || !ironicElsewhere(v, self) {
		return nil
	}
	return ironic.Lasting()
}

// ironicElsewhere reports whether another peer with a live session reaches
// Ironic, as far as this peer's state tells.
func ironicElsewhere(v fsm.View, self string) bool {
	return slices.ContainsFunc(v.Sessions(), func(s membership.Session) bool {
		return s.Peer != self && s.Applied > 0 && !s.NoIronic // a session that was never renewed says nothing yet
	})
}

// Ironic is what doctor and init ask of Ironic.
type Ironic interface {
	Version(ctx context.Context) (string, error)
	InspectInterfaces(ctx context.Context) (ironic.InspectInterfaces, error)
}

// AskIronic asks what Ironic tells only those whom it knows: the newest version of its API, and
// by what it inspects.
func AskIronic(ctx context.Context, of Ironic) doctor.Service {
	version, err := of.Version(ctx)
	s := doctor.Service{What: "Ironic", Section: "ironic", Version: version, Error: api.ErrorText(err)}
	if err != nil {
		return s
	}
	found, err := of.InspectInterfaces(ctx)
	s.Inspect = &doctor.Inspect{Enabled: found.Enabled, Nodes: found.Nodes, Error: api.ErrorText(err)}
	return s
}

// InspectionProblems are what does not fit between who inspects by a configuration and the
// Ironic that it names, which is asked once. away is why Ironic did not say.
func InspectionProblems(ctx context.Context, conf config.Config) (found []doctor.Finding, away error) {
	conf.Ironic.Retries = 0
	client, err := ironic.New(conf.Ironic, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	said := AskIronic(ctx, client)
	if said.Error != "" {
		return nil, errors.New(said.Error)
	}
	return doctor.JudgeInspect(doctor.Facts{Peer: conf.Name, Plan: host.PlanOf(conf)}, said), nil
}
