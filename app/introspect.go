package app

import (
	"context"
	"log/slog"
	"net"
	"runtime"

	"github.com/trivet-ha/trivet/inspector/accept"
	"github.com/trivet-ha/trivet/inspector/judge"
	"github.com/trivet-ha/trivet/inspector/periodic"
	"github.com/trivet-ha/trivet/inspector/relay"
	"github.com/trivet-ha/trivet/inspector/work"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/blackbox"
	"github.com/trivet-ha/trivet/inspector/hooks"
	"github.com/trivet-ha/trivet/inspector/identify"
	"github.com/trivet-ha/trivet/inspector/ironic"
	"github.com/trivet-ha/trivet/inspector/ramdisklogs"
	"github.com/trivet-ha/trivet/inspector/rules"
	"github.com/trivet-ha/trivet/internal/logs"
	"github.com/trivet-ha/trivet/raftstore"
	"github.com/trivet-ha/trivet/raftstore/leader"
)

// Ironic is the bare-metal service as all parts of a Core reach it. Its calls are described
// where they are asked for.
type Ironic interface {
	work.Ironic
	accept.Ironic
	leaderIronic
}

// leaderIronic is Ironic as the leader's sweeps and the watch on it ask it.
type leaderIronic interface {
	periodic.Ironic
	judge.Names
	ironic.Pinger
}

// Introspection is what a peer needs to introspect nodes, besides the log.
type Introspection struct {
	Config   config.Inspection
	Name     string // this peer's, for texts
	Ironic   Ironic
	Resolver identify.Resolver
	Hooks    []inspector.Hook
	Logs     inspector.LogKeeper // of ramdisks; nil: they are thrown away
	// Inband is Ironic's own endpoint for ramdisks; nil: nothing is handed on.
	Inband relay.Ironic
	// Ramdisks says whether that endpoint is one of their own; nil: it is not.
	Ramdisks ironic.RamdiskPinger
	// Notes and Memory are kept for the next process, and Unfinished is what
	// the last one left.
	Notes      work.Notes
	Memory     work.Memory
	Unfinished []introspection.Unfinished
}

// inspection are the parts of a Peer that introspect, besides its Core.
type inspection struct {
	ironic      *ironic.Client
	names       *accept.Names
	settings    inspector.Settings    // at first
	certificate *api.CertificateFiles // of the API; nil: it has no files
	notes       *blackbox.Box
	unfinished  []introspection.Unfinished
}

// openSettings makes what a section of the configuration names: hooks, with the
// files they read, and where logs are kept.
func (o Options) openSettings(conf config.Inspection) (s inspector.Settings, err error) {
	s.Config = conf
	if s.Hooks, err = hooks.New(conf); err != nil {
		return s, err
	}
	if conf.Processing.RamdiskLogsDir == "" {
		return s, nil
	}
	s.Logs, err = ramdisklogs.Open(conf.Processing, o.Wall)
	return s, err
}

// openNotes reads what the workers of the last process left.
func (in *inspection) openNotes(dir *datadir.Dir, opened *closers) error {
	notes, unfinished, err := blackbox.Open(dir.NotesFile())
	if err != nil {
		return err
	}
	in.notes, in.unfinished = notes, unfinished
	opened.add("worker notes", func(context.Context) error { return notes.Close() })
	return nil
}

// options are the parts of this peer that introspect.
func (in *inspection) options(peer string) *Introspection {
	return &Introspection{
		Config: in.settings.Config, Name: peer, Ironic: in.ironic, Resolver: net.DefaultResolver, Hooks: in.settings.Hooks,
		Logs: in.settings.Logs, Notes: in.notes, Memory: in.notes, Unfinished: in.unfinished, Inband: in.ironic,
		Ramdisks: in.ironic.Ramdisks(),
	}
}

// introspector is the part of a Core that introspects.
type introspector struct {
	Service  *accept.Service
	reach    *ironic.Reach
	Workers  *work.Pool
	live     *inspector.LiveSettings
	notifier *inspector.Notifier
	sweeps   *periodic.Sweeps
	relayer  *relay.Relayer // nil where nothing is handed on
	judge    *judge.Judge
	stop     chan struct{} // closed when the pool shall claim no more
}

// newIntrospector wires the front door, the workers and the sweeps to a log.
func newIntrospector(o Introspection, reach *ironic.Reach, store *raftstore.Store, session inspectorSession,
	log *slog.Logger) (*introspector, error) {
	packer, err := blobs.NewPacker(runtime.NumCPU(),
		func() bool { return store.View().ClusterVersion() >= blobs.DictionarySince })
	if err != nil {
		return nil, err
	}
	notifier := inspector.NewNotifier(store)
	live := inspector.NewLiveSettings(inspector.Settings{Config: o.Config, Hooks: o.Hooks, Logs: o.Logs})
	workers := work.NewPool(work.Options{
		Live: live, Peer: o.Name, Log: store, Session: session, Notifier: notifier, Ironic: o.Ironic, Resolver: o.Resolver,
		Health: reach.Ironic,
		Rules:  rules.NewEngine(), Packer: packer, Notes: o.Notes, Memory: o.Memory, Logger: log,
	})
	do := api.Traced(session)
	search := identify.NewSearch(o.Ironic, o.Resolver, live.BmcFields, log)
	relays := &relay.Intake{Live: live, Log: store, Do: do, Inband: o.Inband, Nodes: o.Ironic, Search: search,
		Packer: packer, Logger: log, Limited: logs.Limit(log)}
	in := &introspector{
		Service: accept.NewService(accept.Options{
			Live: live, Peer: o.Name, Log: store, Do: do, Notifier: notifier, Ironic: o.Ironic, Resolver: o.Resolver,
			Packer: packer, Taker: api.TracedTaker(workers),
			Suspects: o.Memory, Relays: relays, Logger: log,
		}),
		live:     live,
		reach:    reach,
		Workers:  workers,
		notifier: notifier,
		sweeps:   &periodic.Sweeps{Live: live, Log: store, Ironic: o.Ironic, Logger: log},
		judge:    &judge.Judge{Live: live, Log: store, Ironic: o.Ironic, Packer: packer, Logger: log},
		stop:     make(chan struct{}),
	}
	if o.Inband != nil {
		in.relayer = &relay.Relayer{Live: live, Log: store, Inband: o.Inband, Away: reach.RamdisksAway, Search: search,
			Packer: packer, Logger: log}
	}
	return in, nil
}

// inspectorSession is what the inspector needs of a session.
type inspectorSession interface {
	inspector.Doer
	work.Session
}

// duties are what the leader does for introspection.
func (in *introspector) duties() []leader.Duty {
	duties := append(in.sweeps.Duties(), in.judge)
	if in.relayer != nil { // also where relays are off by now: those that are pending are handed on
		duties = append(duties, in.relayer)
	}
	return duties
}
