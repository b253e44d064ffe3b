package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"syscall"
	"time"

	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/internal/logs"
	"github.com/trivet-ha/trivet/internal/pace"
)

// Values of asking former members.
const (
	formerEvery = 2 * time.Second
	formerLimit = 3 * time.Second // one of them, from the dial to its last byte
)

// ErrStillOld says that a former member runs, in the incarnation that was left
// behind. It has seen this peer's certificate and ends by itself.
var ErrStillOld = errors.New("its peer runs in the earlier incarnation and now stops by itself")

// ErrRival says that a former member runs in this incarnation and did not get there
// through this cluster: it was founded again on two hosts at once.
var ErrRival = errors.New(
	"the cluster was founded again on that host, too: stop the peer on one of the two hosts, and join it again")

// knows reports whether a peer is a member, as this peer's state says.
func (a *Access) knows(peer string) bool {
	v, _ := a.view()
	_, member := v.Member(peer)
	return member
}

// FormerAsker finds out about one former member. It returns nil if its host was
// heard as stopped, or as of this incarnation.
type FormerAsker interface {
	AskFormer(ctx context.Context, f membership.FormerMember) error
}

// AskFormer implements FormerAsker. A host that refuses the connection at each of
// its addresses has no peer: a peer closes what it has open before it gives its port
// up, and what a killed one left open the kernel closes within the wait that
// follows.
func (a *Access) AskFormer(ctx context.Context, f membership.FormerMember) error {
	ctx, cancel := context.WithTimeout(ctx, formerLimit)
	defer cancel()
	addresses, err := a.lookup.allOf(ctx, f.Addresses())
	if err != nil {
		return err
	}
	answers := make([]error, len(addresses))
	var asking sync.WaitGroup
	for i, address := range addresses { // at most maxAddresses of each name
		asking.Go(func() { answers[i] = a.askFormerAt(ctx, address) })
	}
	asking.Wait()
	return errors.Join(answers...)
}

// askFormerAt asks at one address. A peer of an earlier incarnation sees our
// certificate, and ends; it would learn nothing from a caller that hangs up at the
// sight of its certificate, as raft's dialler does.
func (a *Access) askFormerAt(ctx context.Context, address string) error {
	var found pki.Identity
	conn, err := dialTLS(ctx, a.network, address,
		pki.InquiryTLS(a.end, protocolHTTP, func(id pki.Identity) { found = id }))
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil
	}
	if err != nil {
		return err
	}
	defer conn.Close()
	ours := a.end.Credentials().Identity.Incarnation
	switch {
	case found.Incarnation == ours && a.knows(found.Peer):
		return nil
	case found.Incarnation == ours: // no peer gets a certificate of ours before it is a member
		return fmt.Errorf("%w: %v", ErrRival, found)
	case found.Incarnation > ours:
		err := &pki.IncarnationError{Peer: found.Peer, Theirs: found.Incarnation, Ours: ours}
		if a.end.Refused != nil {
			a.end.Refused(err)
		}
		return err
	}
	// It judges our certificate after the handshake ended here, and then hangs up.
	stop := context.AfterFunc(ctx, func() { _ = conn.NetConn().Close() })
	defer stop()
	_, err = conn.Read(make([]byte, 1))
	return fmt.Errorf("%w (%w)", ErrStillOld, err)
}

// FormerLog is what Formers needs of the log under a leadership.
type FormerLog interface {
	Propose(ctx context.Context, c fsm.Command) (fsm.Result, error)
}

// Formers is a leader's duty: it asks the hosts of former members for as long as
// there are any, and records what they answer. A host that was heard is asked again:
// its old peer may be started, and must learn that it is superseded.
type Formers struct {
	view    func() fsm.View
	ask     FormerAsker
	log     *slog.Logger
	failing *slog.Logger
}

// NewFormers returns the duty.
func NewFormers(view func() fsm.View, ask FormerAsker, log *slog.Logger) *Formers {
	return &Formers{view: view, ask: ask, log: log, failing: logs.Limit(log)}
}

// Run works until ctx, the leadership, ends.
func (f *Formers) Run(ctx context.Context, log FormerLog) error {
	for range pace.Every(ctx, formerEvery) {
		f.round(ctx, log)
	}
	return nil
}

// round asks every former member at once: there are at most membership.MaxFormer.
func (f *Formers) round(ctx context.Context, log FormerLog) {
	var asking sync.WaitGroup
	for _, m := range f.view().FormerMembers() {
		asking.Go(func() { f.one(ctx, log, m) })
	}
	asking.Wait()
}

// one asks one former member. A host that was heard and does not answer any more
// stays heard until the leadership ends.
func (f *Formers) one(ctx context.Context, log FormerLog, m membership.FormerMember) {
	host := []any{"peer", m.Name, "peer_id", m.ID, "address", m.Address}
	err := f.ask.AskFormer(ctx, m)
	running := errors.Is(err, ErrStillOld) || errors.Is(err, ErrRival)
	if ctx.Err() != nil || err != nil && m.Heard && !running {
		return
	}
	if err != nil {
		f.failing.Warn("former member not heard, asking again", append(host, "err", err)...)
	}
	if m.Heard == (err == nil) {
		return // the log has it
	}
	res, err := log.Propose(ctx, membership.FormerHeard{ID: m.ID, Running: running})
	if err = cmp.Or(err, res.Err()); err != nil {
		f.failing.Warn("record answer of former member failed, retrying", append(host, "err", err)...)
		return
	}
	if !running {
		f.log.Info("former member heard", host...)
	}
}
