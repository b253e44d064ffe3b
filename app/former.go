package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

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

// formerWarnings name the members before a founding that have not rejoined. The
// doors wait for those that the present leader has not heard.
func formerWarnings(v fsm.View) (out []api.Warning) {
	for _, f := range v.FormerMembers() {
		remedy := fmt.Sprintf("on %s stop its peer and run 'trivet rejoin'; if the host is lost for ever, here: 'trivet remove %s'", f.Name, f.Name)
		switch {
		case !f.Heard:
			text := fmt.Sprintf("the present leader has not heard %s as stopped since the cluster was founded again: a closed PXE service and a released floating IP stay so until it has", f)
			out = append(out, api.Warning{Code: "former_silent", Text: text, Remedy: remedy})
		case f.Became == "":
			text := fmt.Sprintf("%s has not rejoined since the cluster was founded again: the next leader has to hear it before PXE opens", f)
			out = append(out, api.Warning{Code: "former_member", Text: text, Remedy: remedy})
		}
	}
	return out
}

// formerCalled returns the former member with this ID or name, nil if there is none.
// Where a member has the name, too, only the ID tells them apart.
func formerCalled(v fsm.View, peer string) (*fsm.FormerMember, error) {
	var found *fsm.FormerMember
	for _, f := range v.FormerMembers() {
		if f.Became != "" || f.ID != peer && f.Name != peer {
			continue
		}
		named := func(m fsm.Member) bool { return m.Name == peer }
		if f.ID != peer && (found != nil || slices.ContainsFunc(v.Members(), named)) {
			return nil, &api.Error{
				Status: http.StatusConflict, Code: api.CodeConflict, Message: fmt.Sprintf("several hosts are called %s: one of them is former member %s at %s", peer, f.ID, f.Address),
				Hint: "name it by its ID; members have theirs in 'trivet members -o wide'",
			}
		}
		found = &f
	}
	return found, nil
}

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
