package leader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/raftstore"
)

// Giving leadership away: at most transferTries, each bounded.
const (
	transferTries = 3
	transferLimit = 1500 * time.Millisecond
)

// Electorate is what a step-down needs of the log.
type Electorate interface {
	Servers() []raftstore.Server
	View() fsm.View
	MayTransfer(to raftstore.Server) error
	Transfer(ctx context.Context, to raftstore.Server) error
}

// MayHandOn returns why leadership cannot be handed to a voter now, or to any if its ID is
// "". It asks without changing anything: what a leader ends before it hands on stays as it is.
func MayHandOn(log Electorate, self string, to raftstore.Server) error {
	if to.ID != "" {
		return log.MayTransfer(to)
	}
	_, err := heirs(log, self)
	return err
}

// HandOn hands leadership to a voter, or to the best one if its ID is "".
func HandOn(ctx context.Context, log Electorate, self string, to raftstore.Server) error {
	if to.ID == "" {
		return StepDown(ctx, log, self)
	}
	return log.Transfer(ctx, to)
}

var errNoSuccessor = errors.New("no other voter is alive and eligible to lead")

// HasSuccessor reports whether another voter is alive and eligible to lead, by
// this peer's applied state.
func HasSuccessor(log Electorate, self string) bool { return len(successors(log, self)) > 0 }

// StepDown hands leadership to a voter that is alive and eligible, the most
// advanced first. It returns once raft accepted a transfer.
func StepDown(ctx context.Context, log Electorate, self string) error {
	may, err := heirs(log, self)
	if err != nil {
		return err
	}
	var errs []error
	for _, to := range may[:min(len(may), transferTries)] {
		limited, cancel := context.WithTimeout(ctx, transferLimit)
		err := log.Transfer(limited, to)
		cancel()
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return fmt.Errorf("after %d tries: %w", len(errs), errors.Join(errs...))
}

// heirs lists the successors to which leadership may be handed now. Where there is none, the
// error says why.
func heirs(log Electorate, self string) (may []raftstore.Server, err error) {
	var errs []error
	for _, s := range successors(log, self) {
		if err := log.MayTransfer(s); err != nil {
			errs = append(errs, err)
			continue
		}
		may = append(may, s)
	}
	switch {
	case len(may) > 0:
		return may, nil
	case len(errs) == 0:
		return nil, errNoSuccessor
	}
	return nil, errors.Join(errs...)
}

// successors lists the voters that may lead: those with a live session and no
// refusal. An operator's decision about a voter is in the log before the voter
// itself reports it.
func successors(log Electorate, self string) []raftstore.Server {
	applied := make(map[string]uint64)
	view := log.View()
	for _, s := range view.Sessions() {
		if s.Refuses == "" && view.MemberFlags(s.Peer).IsZero() {
			applied[s.Peer] = s.Applied + 1
		}
	}
	var out []raftstore.Server
	for _, srv := range log.Servers() {
		if srv.Voter && srv.ID != self && applied[srv.ID] > 0 {
			out = append(out, srv)
		}
	}
	slices.SortStableFunc(out, func(a, b raftstore.Server) int {
		return cmp.Compare(applied[b.ID], applied[a.ID])
	})
	return out
}
