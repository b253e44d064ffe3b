package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/raftstore/leader"
)

// formers is the duty that asks former members.
type formers struct{ ask *cluster.Formers }

// Name implements leader.Duty.
func (formers) Name() string { return "former members" }

// Run implements leader.Duty.
func (f formers) Run(ctx context.Context, a leader.Authority) error { return f.ask.Run(ctx, a) }

// removeFormer names a former member lost. It refuses while its peer runs in the
// earlier incarnation: that one ends by itself, having been asked, and then counts
// as heard.
func (p *Peer) removeFormer(ctx context.Context, f fsm.FormerMember, force bool) error {
	if !force && errors.Is(p.access.AskFormer(ctx, f), cluster.ErrStillOld) {
		return &api.Error{
			Status: http.StatusConflict, Code: api.CodeConflict, Message: fmt.Sprintf("%s answers: its peer runs in the earlier incarnation", f),
			Hint: fmt.Sprintf("it was told to stop; on %s run 'trivet rejoin', or stop its peer and repeat this", f.Name),
		}
	}
	res, err := p.do(ctx, fsm.RemoveMember{ID: f.ID})
	if err == nil {
		err = res.Err()
	}
	return err
}
