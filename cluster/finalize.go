package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/internal/logs"
	"github.com/trivet-ha/trivet/internal/pace"
)

// Values of finalizing an upgrade.
const (
	knowsLimit    = 2 * time.Second       // one question to a host
	announceLimit = leaderHold + tryLimit // one announcement, which waits for a leader
	finalizeLook  = time.Minute           // how often the leader looks whether it is time
)

// PathUpgrade is where peers ask each other which log version they know, and tell each
// other to announce one.
const PathUpgrade = "/peer/v1/upgrade"

// LogVersion is the answer.
type LogVersion struct {
	Version int `json:"log_version"`
}

// UpgradeHosts are the other members, as their running processes answer.
type UpgradeHosts interface {
	// Knows returns the newest log version that the binary of a running peer knows. One of
	// v0.2.0 or earlier knows no such question, which is an error.
	Knows(ctx context.Context, m membership.Member) (int, error)
	// Announce has a running peer announce a log version; see Session.Announce.
	Announce(ctx context.Context, m membership.Member, version int) error
}

// Finalizer ends an upgrade: it has every member announce the newest log version, after
// which no host goes back. It writes nothing that an older binary cannot read: each
// process announces for itself, in its own session, and the log compares them where each
// announcement is applied. A host that went back in between has another session, in
// which it announced its own version: then nothing is finalized, and it runs on.
type Finalizer struct {
	Log     JoinLog
	Session *Session
	Hosts   UpgradeHosts
	// After is for how long all hosts must have run before the leader finalizes by
	// itself; 0: it never does.
	After  time.Duration
	Logger *slog.Logger
}

// Finalization is what finalizing an upgrade would change, or has changed.
type Finalization struct {
	From, To int // log version in force, and that of this peer's binary
	Hosts    []FinalizingHost
}

// FinalizingHost is one member.
type FinalizingHost struct {
	membership.Member        // its Version is what it has announced
	Knows             int    // newest log version of the running process; 0: not known
	Problem           string // why it cannot announce To; "": it can
}

// Missing returns the hosts for which a finalization waits.
func (f Finalization) Missing() (problems []string) {
	for _, h := range f.Hosts {
		if h.Problem != "" {
			problems = append(problems, h.Name+": "+h.Problem)
		}
	}
	return problems
}

// Refusal returns why the upgrade cannot be finalized, nil if it can.
func (f Finalization) Refusal() error {
	missing := f.Missing()
	if len(missing) == 0 {
		return nil
	}
	return &fsm.Error{Code: fsm.Conflict, Message: fmt.Sprintf(
		"not every member can read log version %d: %s; upgrade and start trivet there, or remove a host that is gone with "+
			"'trivet remove'", f.To, strings.Join(missing, "; "))}
}

// Plan asks every member what its process knows.
func (f *Finalizer) Plan(ctx context.Context) (Finalization, error) {
	v, err := f.Log.Read(ctx)
	if err != nil {
		return Finalization{}, err
	}
	self := f.Session.opts.Self
	members := v.Members()
	out := Finalization{From: v.ClusterVersion(), To: max(v.ClusterVersion(), self.Knows),
		Hosts: make([]FinalizingHost, len(members))}
	var asked sync.WaitGroup
	for i, m := range members { // at most membership.MaxMembers
		h := &out.Hosts[i]
		h.Member = m
		if m.ID == self.Peer {
			h.Knows = self.Knows
			continue
		}
		asked.Go(func() {
			limited, cancel := context.WithTimeout(ctx, knowsLimit)
			defer cancel()
			knows, err := f.Hosts.Knows(limited, m)
			if h.Knows = knows; err != nil {
				h.Problem = fmt.Sprintf("it runs trivet %s: %v", h.Binary, err)
			}
		})
	}
	asked.Wait()
	for i := range out.Hosts {
		h := &out.Hosts[i]
		_, lives := v.SessionOf(h.ID)
		switch {
		case h.Problem == "" && h.Knows < out.To:
			h.Problem = fmt.Sprintf("trivet %s there knows log version %d", h.Binary, h.Knows)
		case !lives:
			h.Problem = cmp.Or(h.Problem, "it has no session in the log")
		}
	}
	slices.SortStableFunc(out.Hosts, func(a, b FinalizingHost) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID))
	})
	return out, nil
}

// Finalize carries a plan out, unless it is refused. After an error the version in force
// is as it was, or the same plan carried out again raises it: what was announced stands
// until the host restarts.
func (f *Finalizer) Finalize(ctx context.Context, plan Finalization) error {
	if err := plan.Refusal(); err != nil || plan.From == plan.To {
		return err
	}
	for _, h := range plan.Hosts {
		if h.ID == f.Session.opts.Self.Peer {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, announceLimit)
		err := f.Hosts.Announce(limited, h.Member, plan.To)
		cancel()
		if err != nil {
			return fmt.Errorf("finalize upgrade: %s did not announce log version %d: %w", h.Name, plan.To, err)
		}
	}
	if err := f.Session.Announce(ctx, f.Log, plan.To); err != nil {
		return fmt.Errorf("finalize upgrade: announce log version %d: %w", plan.To, err)
	}
	v, err := f.Log.Read(ctx)
	if err != nil {
		return fmt.Errorf("finalize upgrade: every member has announced log version %d: %w", plan.To, err)
	}
	if at := v.ClusterVersion(); at < plan.To {
		var older []string
		for _, m := range v.Members() {
			if m.Version < plan.To {
				older = append(older, m.Name)
			}
		}
		return &fsm.Error{Code: fsm.Conflict, Message: fmt.Sprintf(
			"nothing is finalized, the log is of version %d: %s started again or joined meanwhile; repeat it", at,
			strings.Join(older, ", "))}
	}
	return nil
}

// Run is the leader's duty to finalize once the time has come.
func (f *Finalizer) Run(ctx context.Context) error {
	failing := logs.Limit(f.Logger)
	for range pace.Every(ctx, finalizeLook) {
		if err := f.finalizeInTime(ctx); err != nil && ctx.Err() == nil {
			failing.Warn("finalize upgrade failed, retrying", "err", err)
		}
	}
	return nil
}

func (f *Finalizer) finalizeInTime(ctx context.Context) error {
	v := f.Log.View()
	if ran, all := AllRunFor(v); f.After <= 0 || !all || ran < f.After || v.ClusterVersion() >= f.Knows() {
		return nil
	}
	plan, err := f.Plan(ctx)
	if err != nil {
		return err
	}
	if err := f.Finalize(ctx, plan); err != nil {
		return err
	}
	f.Logger.Info(fmt.Sprintf("upgrade finalized: log version %d is in force", plan.To))
	return nil
}

// Knows is the newest log version that this peer's binary knows.
func (f *Finalizer) Knows() int { return f.Session.opts.Self.Knows }

// AllRunFor returns for how long every member has had its present session, and false
// while one has none.
func AllRunFor(v fsm.View) (ran time.Duration, all bool) {
	ran = time.Duration(math.MaxInt64)
	for _, m := range v.Members() {
		s, lives := v.SessionOf(m.ID)
		if !lives {
			return 0, false
		}
		ran = min(ran, v.Now().Sub(s.Opened))
	}
	return ran, true
}

// Knows implements UpgradeHosts.
func (f *Forwarder) Knows(ctx context.Context, m membership.Member) (int, error) {
	body, err := f.Ask(ctx, m, PathUpgrade)
	if err != nil {
		return 0, err
	}
	var known LogVersion
	if err := json.Unmarshal(body, &known); err != nil {
		return 0, fmt.Errorf("decode response from %s: %w", m.Name, err)
	}
	return known.Version, nil
}

// Announce implements UpgradeHosts.
func (f *Forwarder) Announce(ctx context.Context, m membership.Member, version int) error {
	return f.Tell(ctx, m, PathUpgrade+"?version="+strconv.Itoa(version), nil)
}

// Announce puts a log version into this peer's record of the members, if its binary knows
// it. The entry carries this process' session, and the log executes nothing of a session
// that is over: it cannot speak for the next process, which may be of another binary.
func (s *Session) Announce(ctx context.Context, log JoinLog, version int) error {
	self := s.opts.Self
	if version > self.Knows {
		return &fsm.Error{Code: fsm.Conflict, Message: fmt.Sprintf(
			"trivet %s knows log version %d, not %d: upgrade trivet on this host", self.Binary, self.Knows, version)}
	}
	v, err := log.Read(ctx) // what moved this member meanwhile must not be undone
	if err != nil {
		return err
	}
	m, ok := v.Member(self.Peer)
	if !ok {
		return ErrNotMember
	}
	if m.Version >= version {
		return nil
	}
	m.Version = version
	return commit(ctx, s, membership.PutMember{Member: m})
}
