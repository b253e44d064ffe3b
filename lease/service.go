package lease

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/leases"
)

// Log is the replicated state as this peer sees it.
type Log interface {
	// Read returns a view that holds all writes acknowledged before.
	Read(ctx context.Context) (fsm.View, error)
	// View returns this peer's own view, however old.
	View() fsm.View
	// Wait returns the first view that is as wanted.
	Wait(ctx context.Context, wanted func(fsm.View) bool) (fsm.View, error)
}

// Doer commits a command exactly once, on whichever peer leads. client is the
// caller's own request ID, "" for none.
type Doer interface {
	Do(ctx context.Context, client string, c fsm.Command) (fsm.Result, error)
}

// Bounds of what one request may wait for.
const (
	// MaxWait is the longest that an acquisition or a watch waits for a change.
	MaxWait = 30 * time.Second
	// readLimit bounds a linearizable read, with the wait for a leader.
	readLimit = 7 * time.Second
	// lateBy is added to what remains of a lease before it is asked for again, so
	// that the entry that asks comes after its end.
	lateBy = 5 * time.Millisecond
)

// Options are the parts of a Service.
type Options struct {
	Log Log
	Do  Doer
	// Leader is asked where another peer leads; nil where there is no other.
	Leader Leader
	// MinTTL is the ShortestTTL with the cluster's timing. Never below leases.MinTTL.
	MinTTL time.Duration
}

// Service lends leases, values and places in groups. It answers on any peer; its
// methods may be called concurrently. Errors are *fsm.Error, *Held, and those of the
// log when there is no quorum or the outcome is unknown.
type Service struct {
	o      Options
	steps  *stepCommitter
	groups *watchedGroups
}

// New returns a service. Close ends it.
func New(o Options) *Service {
	if o.Leader == nil {
		o.Leader = alone{}
	}
	return &Service{o: o, steps: newStepCommitter(o),
		groups: &watchedGroups{hash: tagOf, all: make(map[string]*watchedGroup)}}
}

// Close ends the renewals and releases under way, whose outcome stays unknown, and
// refuses others.
func (s *Service) Close() {
	s.steps.renewals.Close()
	s.steps.releases.Close()
}

// Acquisition is a request for a lease.
type Acquisition struct {
	Name     string
	Holder   string
	TTL      time.Duration
	Metadata string
	// Request is the caller's own ID of this acquisition: the same again, after a
	// lost answer, is the same grant. "" if it never repeats itself.
	Request string
	// Takeover grants a new token to a holder that has the lease already, and
	// fences all writes under the old one.
	Takeover bool
	// Wait is how long to wait for a lease that another holds.
	Wait time.Duration
}

// Grant is a lease as its holder needs it.
type Grant struct {
	Name      string
	Holder    string // "" for one that is free
	Token     fencing.Token
	TTL       time.Duration
	Remaining time.Duration // at most; count from before you asked
	Metadata  string
}

// Held says that another holder has the lease, or the same holder under another
// request.
type Held struct{ Grant }

// Error implements error.
func (h *Held) Error() string {
	return fmt.Sprintf("lease %s is held by %s under token %v for another %v", h.Name, h.Holder, h.Token,
		h.Remaining.Round(time.Millisecond))
}

// Acquire grants a lease. repeated tells that this request had it already: the
// expiry is then what it was. One that is held is a *Held, after the wait.
func (s *Service) Acquire(ctx context.Context, a Acquisition) (g Grant, repeated bool, err error) {
	if err := s.check(a); err != nil {
		return g, false, err
	}
	end := time.Now().Add(a.Wait)
	for try := 0; ; try++ {
		g, repeated, err = s.try(ctx, a, try)
		var held *Held
		inTheWay := errors.As(err, &held)
		left := time.Until(end)
		if !inTheWay || left <= 0 || held.Holder == a.Holder {
			return g, repeated, err
		}
		// It waits until the lease has another holder or none, or for as long as it may last: its end is in
		// this peer's view only with the next entry. The leader knows first; a follower hears what was
		// committed a heartbeat of the log later.
		waiting, cancel := context.WithTimeout(ctx, min(left, held.Remaining+lateBy))
		var asking sync.WaitGroup
		asking.Go(func() {
			if s.o.Leader.AwaitEnd(waiting, held.Name, held.Token) == nil {
				cancel() // an error tells nothing: this peer's own log will
			}
		})
		_, err = s.o.Log.Wait(waiting, grantEnded(held.Name, held.Token))
		told := waiting.Err() != nil && ctx.Err() == nil // by the leader, or the time was over
		cancel()
		asking.Wait()
		if err != nil && !told {
			return g, false, err
		}
	}
}

// try asks once. Each try is a request of its own, so that the refusal of the first
// is not the answer to all; a caller that repeats itself meets the same ones in the
// same order.
func (s *Service) try(ctx context.Context, a Acquisition, n int) (Grant, bool, error) {
	client := ""
	if a.Request != "" {
		client = requestID("acquire", a.Name, a.Holder, a.Request, fmt.Sprint(a.Takeover, n))
	}
	res, err := s.o.Do.Do(ctx, client,
		leases.Grant{Name: a.Name, Holder: a.Holder, TTL: a.TTL, Metadata: a.Metadata, Takeover: a.Takeover})
	if err != nil {
		return Grant{}, false, err
	}
	var said leases.Answer
	switch {
	case res.Code == fsm.Conflict:
		if err := res.Decode(&said); err != nil {
			return Grant{}, false, err
		}
		return Grant{}, false, &Held{Grant{Name: a.Name, Holder: said.Holder, Token: said.Token, Remaining: said.Remaining}}
	case res.Code != fsm.OK:
		return Grant{}, false, res.Err()
	}
	if err := res.Decode(&said); err != nil {
		return Grant{}, false, err
	}
	kept := said.Remaining < a.TTL // the lease knows the request longer than the table of requests does
	if !res.Repeated && !kept {
		return Grant{Name: a.Name, Holder: a.Holder, Token: said.Token, TTL: a.TTL, Remaining: said.Remaining,
			Metadata: a.Metadata}, false, nil
	}
	// What is left of the grant now is read: the answer that is remembered tells what was left then.
	v, err := s.view(ctx, Linearizable)
	if err != nil {
		return Grant{}, false, err
	}
	l, _ := v.Lease(a.Name)
	if l.Holder != a.Holder || l.Token != said.Token {
		return Grant{}, false, &fsm.Error{Code: fsm.Expired,
			Message: fmt.Sprintf("lease %s was granted to this request under token %v, and is over", a.Name, said.Token)}
	}
	return grantOf(l, v.Now()), kept || !res.Retried, nil
}

// Renew extends a lease by its ttl. It fails with fsm.Expired when the lease is
// over, which is never revived, and with *Held when another grant holds it.
func (s *Service) Renew(ctx context.Context, name, holder string, token fencing.Token) (Grant, error) {
	g, _, err := commitStep(ctx, s.steps.renewals, leases.Step{Name: name, Holder: holder, Token: token})
	if l, _ := s.o.Log.View().Lease(name); err == nil && l.Token == token {
		g.Metadata = l.Metadata // as it was granted: no renewal changes it
	}
	return g, err
}

// Release ends a grant before its time, and returns the index of the entry that did. Of
// one that is over it is a success; that another grant holds the lease is a *Held.
func (s *Service) Release(ctx context.Context, name, holder string, token fencing.Token) (entry fencing.Token,
	err error) {
	_, entry, err = commitStep(ctx, s.steps.releases, leases.Step{Name: name, Holder: holder, Token: token, Release: true})
	return entry, err
}

// commitStep has one step committed.
func commitStep(ctx context.Context, in *stepBatcher, st leases.Step) (g Grant, entry fencing.Token, err error) {
	if err := st.Validate(); err != nil {
		return Grant{}, 0, invalid("%v", err)
	}
	said, err := doSteps(ctx, in, st)
	if err != nil {
		return Grant{}, 0, err
	}
	done := said[0]
	g = Grant{Name: st.Name, Holder: done.Lease.Holder, Token: done.Lease.Token, Remaining: done.Lease.Remaining}
	if done.Code == fsm.Conflict && g.Holder != "" {
		return Grant{}, done.Entry, &Held{g}
	}
	g.TTL = g.Remaining // of a lease that was renewed just now
	return g, done.Entry, done.Err()
}

// Delete removes the record of a free lease: an administrator's tidying.
func (s *Service) Delete(ctx context.Context, name string) error {
	return s.do(ctx, leases.Delete{Name: name})
}

// do commits a command that answers with nothing but its success.
func (s *Service) do(ctx context.Context, c fsm.Command) error {
	if err := valid(c); err != nil {
		return err
	}
	res, err := s.o.Do.Do(ctx, "", c)
	if err != nil {
		return err
	}
	return res.Err()
}

// grantOf is a lease at a moment of cluster time.
func grantOf(l leases.Lease, now fsm.Time) Grant {
	return Grant{Name: l.Name, Holder: l.Holder, Token: l.Token, TTL: l.TTL, Remaining: max(0, l.Remaining(now)),
		Metadata: l.Metadata}
}

// requestID names a client's request: two programs that both call theirs "1" have
// nothing to do with each other.
func requestID(parts ...string) string {
	sum := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(sum, "%d:%s", len(part), part)
	}
	return "lease:" + hex.EncodeToString(sum.Sum(nil)[:16])
}

func invalid(format string, args ...any) error {
	return &fsm.Error{Code: fsm.Invalid, Message: fmt.Sprintf(format, args...)}
}

// valid checks a command before it goes anywhere.
func valid(c fsm.Command) error {
	if err := c.Validate(); err != nil {
		return invalid("%v", err)
	}
	return nil
}
