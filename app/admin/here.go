package admin

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/raftstore"
	"github.com/trivet-ha/trivet/raftstore/logerr"
)

// askLimit bounds the wait for what another peer says of itself, unless the
// caller does.
const askLimit = 2 * time.Second

// Here is the peer that answers, and the way from it to the log and to the others.
type Here struct {
	Self    datadir.Identity
	Store   *raftstore.Store
	Session api.Doer
	Forward *cluster.Forwarder
	// NameOf is a member's name for people, and Others are the other members, both
	// also while this peer has not applied its log.
	NameOf func(v fsm.View, id string) string
	Others func(v fsm.View) []membership.Member
	Wall   func() time.Time
	Random io.Reader
	Logger *slog.Logger
}

// commit commits a command for the caller of a request, whose audit is told; the error
// is also the log's refusal.
func (h *Here) commit(ctx context.Context, c fsm.Command) error {
	if isDry(ctx) {
		return plan(ctx, h.Store.Read, h.Wall(), c)
	}
	res, err := api.Traced(h.Session).Do(ctx, "", c)
	if err != nil {
		return err
	}
	return res.Err()
}

// member returns the one with this name or server ID, this peer for "".
func (h *Here) member(nameOrID string) (membership.Member, error) {
	if nameOrID == "" {
		nameOrID = h.Self.ID
	}
	return memberCalled(h.Store.View(), nameOrID)
}

// memberCalled returns the member with this name or server ID.
func memberCalled(v fsm.View, nameOrID string) (membership.Member, error) {
	var found []membership.Member
	for _, m := range v.Members() {
		if m.ID == nameOrID {
			return m, nil
		}
		if m.Name == nameOrID {
			found = append(found, m)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return membership.Member{}, &api.Error{Status: http.StatusNotFound, Code: api.CodeNotFound,
			Message: fmt.Sprintf("no member is called %q", nameOrID), Hint: "see 'trivet members'"}
	default:
		return membership.Member{},
			conflict("name it by its ID; see 'trivet members'", "%d members are called %q", len(found), nameOrID)
	}
}

// conflict is the refusal of what cannot be done as things stand.
func conflict(hint, format string, args ...any) *api.Error {
	return &api.Error{Status: http.StatusConflict, Code: api.CodeConflict, Message: fmt.Sprintf(format, args...),
		Hint: hint}
}

// Ask sends all other members a GET of a path on the peers' port and returns what they
// say, each within the time of ctx or, if that is not bounded, askLimit.
func (h *Here) Ask(ctx context.Context, path string) []Answer {
	if _, bounded := ctx.Deadline(); !bounded {
		limited, cancel := context.WithTimeout(ctx, askLimit)
		defer cancel()
		ctx = limited
	}
	others := h.Others(h.Store.View())
	out := make([]Answer, len(others)) // a cluster has few members
	var asked sync.WaitGroup
	for i, m := range others {
		asked.Go(func() {
			body, err := h.Forward.Ask(ctx, m, path)
			out[i] = Answer{Name: m.Name, ID: m.ID, Body: body, Err: err}
		})
	}
	asked.Wait()
	return out
}

// AskLeader sends the leader a GET of a path on the peers' port and returns what it
// says. If this peer leads, nothing is sent and self is true.
func (h *Here) AskLeader(ctx context.Context, path string) (body []byte, self bool, err error) {
	l, known := h.Store.Leader()
	if known && l.ID == h.Self.ID {
		return nil, true, nil
	}
	m, member := h.Store.View().Member(l.ID)
	if !known || !member {
		return nil, false, fmt.Errorf("ask the leader: %w", logerr.ErrNoLeader)
	}
	if body, err = h.Forward.Ask(ctx, m, path); err != nil {
		return nil, false, &api.Error{Status: http.StatusServiceUnavailable, Code: api.CodeNoLeader, Message: err.Error(),
			Hint: "ask again: leadership may be moving; see 'trivet status'"}
	}
	return body, false, nil
}
