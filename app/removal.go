package app

import (
	"context"
	"fmt"
	"net/http"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/fsm"
)

// refuseLiving refuses to remove a peer that lives: it should leave by itself,
// which hands on what it does. The leader decides by what the peer acknowledged
// within the last second; a session would outlive a dead peer by 10 s.
func (p *Peer) refuseLiving(ctx context.Context, m fsm.Member) error {
	v, err := p.Safe(ctx, m.ID)
	if err != nil {
		return fmt.Errorf("ask the leader whether %s lives: %w", m.Name, err)
	}
	if !v.Live {
		return nil
	}
	return livingRefusal(v)
}

// livingRefusal is the refusal, with the arithmetic of the voters.
func livingRefusal(v admin.Verdict) *api.Error {
	rest := "it has no vote, so the majority stays as it is"
	if v.Votes && v.Voters > 1 {
		left, need := v.Voters-1, (v.Voters-1)/2+1
		rest = fmt.Sprintf("without it %d of %d would live and %d be needed: %d more may be lost instead of %d",
			v.Able-1, left, need, max(v.Able-1-need, 0), max(v.Able-v.Need, 0))
	}
	return &api.Error{
		Status: http.StatusConflict, Code: api.CodeConflict,
		Message: fmt.Sprintf("%s lives: it answered the leader, %s, within the last second; %d of %d voters live, %d are needed; %s",
			v.Peer, v.Leader, v.Able, v.Voters, v.Need, rest),
		Hint: fmt.Sprintf("to take a living peer out run 'trivet leave' on %s; 'trivet remove --force' removes it all the same, and it stops when it finds out", v.Peer),
	}
}
