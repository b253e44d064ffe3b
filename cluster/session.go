package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/internal/logs"
	"github.com/trivet-ha/trivet/internal/pace"
	"github.com/trivet-ha/trivet/raftstore/logerr"
)

// Values of a session (docs/design.md#sessions, docs/design.md#guard).
const (
	renewEvery = 3 * time.Second
	renewLimit = 2 * time.Second // one attempt to open or renew
	reopenWait = 250 * time.Millisecond
	// leaderHold is how long a request waits for a leader to appear.
	leaderHold = 7 * time.Second
	// tryLimit bounds one attempt: a leader whose disk hangs never answers.
	tryLimit = 3 * time.Second
	// retryFirst and retryMost space the attempts meanwhile (internal/pace).
	retryFirst = 10 * time.Millisecond
	retryMost  = 33 * time.Millisecond // 50 ms with the spread of a pause
	// refusalMost is how much of a reason goes into the log.
	refusalMost = 200
	// workMargin is kept between a worker's last act and its session's end.
	workMargin = 3 * time.Second
)

// ErrNoSession says that this peer has no session in the log yet.
var ErrNoSession = errors.New("this peer has no session in the log: it has not reached a leader yet")

// Log is what a session needs of the replicated log.
type Log interface {
	Propose(ctx context.Context, h fsm.Header, c fsm.Command) (fsm.Result, error)
	Changed() (fsm.View, <-chan struct{})
}

// Self is how this peer presents itself when it opens a session.
type Self struct {
	Peer   string // server ID
	Boot   string // new at every start
	Binary string // version of the build
	API    string // host:port, for display
	// Knows is the newest log version that this binary knows.
	Knows int
}

// SessionOptions are the parts of a Session.
type SessionOptions struct {
	Log    Log
	Self   Self
	Wall   func() time.Time
	Random io.Reader
	// Refuses returns why this peer does not want to lead, nil if it may.
	Refuses func() error
	// Unfinished is what the last process of this peer left; the first session
	// tells.
	Unfinished []introspection.Unfinished
	// NoIronic says whether this peer cannot reach Ironic.
	NoIronic func() bool
	// Removed is told, from the leader's own answer, that this peer is not a
	// member any more. Never decide that from a log that is being replayed: a
	// slow joiner would remove itself (hashicorp/vault issue 32099).
	Removed func()
	// Outdated is told, by the leader's own answer, that the log may hold what this
	// binary does not know.
	Outdated func(error)
	// Stored is the newest entry that was on the disk when this process began, and
	// RolledBack is told if an earlier process of this peer had applied more.
	Stored     fencing.Token
	RolledBack func(error)
	Logger     *slog.Logger
}

// Session is this peer's presence in the log. It is opened and renewed by Run
// and gives its holder exactly-once commands through Do. All methods may be
// called concurrently.
type Session struct {
	opts SessionOptions

	mu       sync.Mutex
	id       fencing.Token // zero: none
	examined bool          // the first session has told how far earlier processes came
	renewed  time.Time     // send time of the newest renewal that succeeded
	changed  chan struct{} // closed and replaced when id changes
	requests requests

	failing *slog.Logger
}

// NewSession returns a session that Run opens.
func NewSession(o SessionOptions) *Session {
	return &Session{failing: logs.Limit(o.Logger), opts: o, changed: make(chan struct{}), requests: newRequests(o.Random)}
}

// Run keeps the session open until ctx ends, then leaves it to its ttl: a peer
// that stops has released what it held before.
func (s *Session) Run(ctx context.Context) {
	for ctx.Err() == nil {
		wait := renewEvery
		if err := s.renewOnce(ctx); err != nil && ctx.Err() == nil {
			s.failing.Debug("open or renew session failed, retrying", "err", err)
			wait = reopenWait
		}
		pace.Wait(ctx, wait)
	}
}

func (s *Session) renewOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, renewLimit)
	defer cancel()
	id, _ := s.current()
	sent := time.Now()
	if id.IsZero() {
		return s.open(ctx, sent)
	}
	view, _ := s.opts.Log.Changed()
	res, err := s.opts.Log.Propose(ctx, fsm.Header{}, membership.RenewSession{
		Session: id, Applied: view.Index(), WallMillis: s.opts.Wall().UnixMilli(), Refuses: s.refuses(),
		NoIronic: s.opts.NoIronic(),
	})
	if err != nil {
		return fmt.Errorf("renew session: %w", err)
	}
	if err := res.Err(); err != nil {
		s.set(0, time.Time{})
		return fmt.Errorf("renew session: %w", err)
	}
	s.set(id, sent)
	return nil
}

func (s *Session) open(ctx context.Context, sent time.Time) error {
	// Not what the binary knows: that would raise the cluster's version, and end the way
	// back, as soon as the last host is upgraded. See Finalizer.
	view, _ := s.opts.Log.Changed()
	announced := min(view.ClusterVersion(), s.opts.Self.Knows)
	res, err := s.proposeOpening(ctx, view, membership.OpenSession{
		Peer: s.opts.Self.Peer, Boot: s.opts.Self.Boot, Version: announced, Binary: s.opts.Self.Binary,
		API:        s.opts.Self.API,
		WallMillis: s.opts.Wall().UnixMilli(), Unfinished: s.opts.Unfinished,
	})
	if errors.Is(err, ErrNotMember) {
		s.opts.Removed()
	}
	if err != nil {
		return fmt.Errorf("open session: %w", err)
	}
	if err := res.Err(); err != nil {
		switch {
		case res.Code == fsm.Refused:
			s.opts.Removed()
		case res.Code == fsm.Outdated && announced == s.opts.Self.Knows:
			s.opts.Outdated(err) // else this peer has yet to apply the entry that raised the version
		}
		return fmt.Errorf("open session: %w", err)
	}
	s.opts.Unfinished = nil // what is lost later this process knows itself
	if err := s.examine(res); err != nil {
		s.opts.RolledBack(err)
		return fmt.Errorf("open session: %w", err)
	}
	s.set(res.Token, sent)
	return nil
}

// proposeOpening names the session that the log has of this peer: a request that was given
// up, by this process or an earlier one, may arrive when this process works in its next
// session, and must not end that one. What the view does not show yet the refusal tells.
func (s *Session) proposeOpening(ctx context.Context, v fsm.View, c membership.OpenSession) (fsm.Result, error) {
	had, _ := v.SessionOf(c.Peer)
	c.Instead = &had.ID
	if v.Admits(c) != nil {
		c.Instead = nil
	}
	res, err := s.opts.Log.Propose(ctx, fsm.Header{}, c)
	if err != nil || res.Code != fsm.Conflict {
		return res, err
	}
	var has membership.Opened
	if err := res.Decode(&has); err != nil {
		return res, fmt.Errorf("decode which session this peer has: %w", err)
	}
	c.Instead = &has.Session
	return s.opts.Log.Propose(ctx, fsm.Header{}, c)
}

// examine compares what the log knows of this peer's progress with what was on
// its disk. Later sessions would show the progress of this process itself.
func (s *Session) examine(res fsm.Result) error {
	if s.examined {
		return nil
	}
	if len(res.Value) > 0 { // not before log version 2
		var opened membership.Opened
		if err := res.Decode(&opened); err != nil {
			return err
		}
		if err := rolledBack(s.opts.Stored, opened.Applied); err != nil {
			return err
		}
	}
	s.examined = true // from here on the log knows what this process reports
	return nil
}

func (s *Session) refuses() string {
	err := s.opts.Refuses()
	if err == nil {
		return ""
	}
	return strings.ToValidUTF8(fmt.Sprintf("%.*s", refusalMost, err.Error()), "")
}

func (s *Session) set(id fencing.Token, sent time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renewed = sent
	if s.id == id {
		return
	}
	s.id = id
	s.requests.reset()
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *Session) current() (fencing.Token, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id, s.changed
}

// ID returns the session's token, zero while there is none.
func (s *Session) ID() fencing.Token {
	id, _ := s.current()
	return id
}

// Deadline returns until when this peer may rely on its session for an outside
// effect: the send time of the newest renewal plus ttl, less a margin.
func (s *Session) Deadline() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.id.IsZero() {
		return time.Time{}
	}
	return s.renewed.Add(membership.SessionTTL - workMargin)
}

// Do commits c exactly once, through whichever peer leads. It waits up to 7 s
// for a leader and repeats under one request ID after a lost answer. client is
// the caller's own request ID, "" if it gave none. Errors: ErrNoSession,
// logerr.ErrNoLeader and ErrBusy (nothing happened), ErrOutcomeUnknown.
func (s *Session) Do(ctx context.Context, client string, c fsm.Command) (fsm.Result, error) {
	// Also before a leader is asked: one of an older version cannot read it, and
	// the caller would not learn the outcome of the request.
	v, _ := s.opts.Log.Changed()
	if err := v.Admits(c); err != nil {
		return fsm.Result{}, err
	}
	return s.retry(ctx, "commit command", leaderHold, func(ctx context.Context) (res fsm.Result, more bool, err error) {
		if res, err = s.attempt(ctx, client, c); err == nil && res.Code == fsm.SessionEnded {
			return res, true, ErrNoSession // until Run has opened the next
		}
		return res, again(err), err
	})
}

// tryProposal proposes a command once, and reports whether that may be repeated.
type tryProposal func(ctx context.Context) (res fsm.Result, more bool, err error)

// retry repeats a proposal while there is no leader, or its answer is lost, within a
// budget; 0: until ctx ends.
func (s *Session) retry(
	ctx context.Context, call string, budget time.Duration, try tryProposal,
) (res fsm.Result, err error) {
	err = pace.Retry{
		Pause: retryFirst, Most: retryMost, Budget: budget, Random: s.opts.Random,
		Log: s.failing, Level: slog.LevelDebug, Call: call,
	}.Do(ctx, func(ctx context.Context, _ int) (more bool, err error) {
		res, more, err = try(ctx)
		return more, err
	})
	if err != nil {
		return fsm.Result{}, err
	}
	return res, nil
}

// DoIn commits c exactly once in the given session of this peer, repeating
// under one request ID for as long as there is no leader: what a worker must
// know of its own steps. Errors: fsm.SessionEnded, or the cause of ctx's end, and
// then the outcome is unknown.
func (s *Session) DoIn(ctx context.Context, session fencing.Token, c fsm.Command) (fsm.Result, error) {
	const call = "commit command in its session"
	return s.retry(ctx, call, 0, func(ctx context.Context) (res fsm.Result, more bool, err error) {
		if s.ID() != session {
			return res, false, fsm.SessionEnded
		}
		res, err = s.attemptIn(ctx, session, "", c)
		var late *pace.EndedError
		switch {
		case err == nil && res.Code == fsm.SessionEnded:
			return res, false, fsm.SessionEnded
		case errors.Is(err, logerr.ErrOutcomeUnknown) && !errors.As(err, &late):
			return res, false, fmt.Errorf("%w: %w", fsm.SessionEnded, err) // else it would be asked for again
		}
		return res, again(err), err
	})
}

// again tells the errors after which nothing was appended.
func again(err error) bool {
	return logerr.NotAppended(err) || errors.Is(err, ErrNoSession)
}

// attempt commits c under one request ID of the present session, repeating
// only while the outcome is unknown. After a session's end an unknown outcome
// stays unknown: its request table is gone.
func (s *Session) attempt(ctx context.Context, client string, c fsm.Command) (fsm.Result, error) {
	id, _ := s.current()
	if id.IsZero() {
		return fsm.Result{}, ErrNoSession
	}
	return s.attemptIn(ctx, id, client, c)
}

func (s *Session) attemptIn(ctx context.Context, id fencing.Token, client string, c fsm.Command) (fsm.Result, error) {
	view, _ := s.opts.Log.Changed()
	req, answered, done, err := s.requests.mintID(view.Now())
	if err != nil {
		return fsm.Result{}, err
	}
	defer done()
	h := fsm.Header{Session: id, Request: req, Answered: answered, Client: client}
	var unknown error
	return s.retry(ctx, "learn outcome of command", 0, func(ctx context.Context) (res fsm.Result, more bool, err error) {
		limited, cancel := context.WithTimeout(ctx, tryLimit)
		defer cancel()
		res, err = s.opts.Log.Propose(limited, h, c)
		switch {
		case err == nil && res.Code == fsm.SessionEnded && unknown != nil:
			return res, false, unknown
		case err == nil:
			return res, false, nil
		case errors.Is(err, logerr.ErrOutcomeUnknown):
			unknown = err
		case unknown == nil:
			return res, false, err // nothing happened; Do decides
		}
		return res, true, unknown
	})
}
