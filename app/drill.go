package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/raftstore/leader"
)

// What a drill waits for and wants. A leader that hands on is missed for less
// than a second; after one that died machines that boot must not notice, and the
// least patient ROM gives up after 7.5 s.
const (
	drillSettle      = time.Second // looked on before anything happens
	drillHandedOn    = 6 * time.Second
	drillKilled      = 14 * time.Second
	drillHandedBound = time.Second
	drillKilledBound = 7500 * time.Millisecond
	drillReturn      = 30 * time.Second
	drillNoticed     = 2 * time.Second // by then every peer has noticed that one was killed
	drillSlack       = 2 * time.Second // on top of a look, for its answer
	// drillBreath is what a leader that is about to end has left to say so.
	drillBreath = 50 * time.Millisecond
)

var errDrill = errors.New("an operator practises the loss of the leader ('trivet drill failover --kill')")

// Strike implements admin.Drill.
func (p *Peer) Strike(ctx context.Context, kill bool) error {
	if role, _ := p.core.Store.Role(); !role.Leader {
		return &api.Error{Status: http.StatusConflict, Code: api.CodeConflict, Message: "this peer does not lead any more", Hint: "leadership moved meanwhile; repeat the drill"}
	}
	p.opts.Logger.Warn("drill takes leadership away", "kill", kill)
	if kill {
		time.AfterFunc(drillBreath, func() { p.opts.Exit(leader.ExitLostLeadership, errDrill) }) // the unit starts it again
		return nil
	}
	_, err := p.Transfer(ctx, "")
	return err
}

// Drill implements admin.Drill.
func (p *Peer) Drill(ctx context.Context, o admin.DrillOrder) (admin.DrillReport, error) {
	old, err := p.mayDrill(o)
	if err != nil {
		return admin.DrillReport{}, err
	}
	r := admin.DrillReport{Kind: "transfer", OldLeader: old.Name}
	looking, bound := drillHandedOn, drillHandedBound
	if o.Kill {
		r.Kind, looking, bound = "kill", drillKilled, drillKilledBound
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	struck := make(chan error, 1)
	began := time.Now()
	var at time.Duration // when the leader was struck
	timer := time.AfterFunc(drillSettle, func() {
		at = time.Since(began)
		err := ctx.Err() // whoever went away wants nothing struck
		if err == nil {
			err = p.strike(ctx, old, o.Kill)
		}
		if err != nil {
			cancel() // nobody needs to look on
		}
		struck <- err
	})
	defer timer.Stop()
	seen := p.lookAll(ctx, looking)
	select {
	case err = <-struck:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		return r, err
	}
	r.Rows = p.drillRows(seen, old, at, bound)
	if o.Kill {
		r.Rows = append(r.Rows, p.awaitReturn(ctx, began.Add(at), &r))
	}
	if l, known := p.core.Store.Leader(); known {
		r.NewLeader = p.nameOf(p.core.Store.View(), l.ID)
	}
	r.OK = !slices.ContainsFunc(r.Rows, func(row admin.DrillRow) bool { return !row.OK })
	return r, nil
}

// mayDrill returns the leader, or why nothing is practised now.
func (p *Peer) mayDrill(o admin.DrillOrder) (fsm.Member, error) {
	conflict := func(hint, format string, args ...any) error {
		return &api.Error{Status: http.StatusConflict, Code: api.CodeConflict, Message: fmt.Sprintf(format, args...), Hint: hint}
	}
	s, v := p.Status(), p.core.Store.View()
	l, known := p.core.Store.Leader()
	m, member := v.Member(l.ID)
	busy := 0
	for rec := range v.Records() {
		if rec.State.Active() {
			busy++
		}
	}
	switch {
	case !known || !member:
		return m, &api.Error{Status: http.StatusServiceUnavailable, Code: api.CodeNoLeader, Message: "no leader is known: this is no drill", Hint: "see 'trivet status'"}
	case s.Quorum.CanLose < 1:
		return m, conflict("see 'trivet status'; repeat it when one more may be lost", "%d of %d voters live, %d are needed: none may be lost", s.Quorum.Live, s.Quorum.Voters, s.Quorum.Need)
	case busy > 0 && !o.WithIntrospections:
		return m, conflict("wait for their end, or say --with-introspections: none of them should fail", "%d introspections are under way", busy)
	case o.Kill && m.ID == p.id.ID:
		return m, conflict("run it on another host", "this peer leads, and whoever is killed cannot measure")
	}
	return m, nil
}

// strike takes leadership from who has it.
func (p *Peer) strike(ctx context.Context, old fsm.Member, kill bool) error {
	if old.ID == p.id.ID {
		return p.Strike(ctx, kill)
	}
	limited, cancel := context.WithTimeout(ctx, tookLimit+askLimit)
	defer cancel()
	path := admin.PathPeerDrill
	if kill {
		path += "?kill=1"
	}
	return p.forward.Tell(limited, old, path, nil)
}

// look is what one peer saw, or why that is not known.
type look struct {
	name, id string
	seen     admin.Outlook
	err      error
}

// lookAll has all peers look on at once.
func (p *Peer) lookAll(ctx context.Context, d time.Duration) []look {
	limited, cancel := context.WithTimeout(ctx, d+drillSlack)
	defer cancel()
	own := look{name: p.id.Name, id: p.id.ID}
	var work sync.WaitGroup
	work.Go(func() { own.seen = p.Look(limited, d) })
	var out []look
	for _, a := range p.Ask(limited, admin.PathPeerDrill+"?for="+d.String()) {
		l := look{name: a.Name, id: a.ID, err: a.Err}
		if l.err == nil {
			l.err = json.Unmarshal(a.Body, &l.seen)
		}
		out = append(out, l)
	}
	work.Wait()
	return append(out, own)
}

// drillRows judges what was seen.
func (p *Peer) drillRows(seen []look, old fsm.Member, struck, bound time.Duration) (rows []admin.DrillRow) {
	row := func(what, from string, ms int64) {
		rows = append(rows, admin.DrillRow{What: what, From: from, LongestMS: ms, BoundMS: bound.Milliseconds(), OK: ms <= bound.Milliseconds()})
	}
	doors, guards, looked := []admin.Span{{FromMS: 0, ToMS: struck.Milliseconds()}}, false, int64(0)
	for _, l := range seen {
		if l.err != nil {
			// Who was killed tells nothing; of anybody else something is wanted.
			rows = append(rows, admin.DrillRow{What: "API", From: l.name, BoundMS: bound.Milliseconds(), OK: l.id == old.ID, Note: l.err.Error()})
			continue
		}
		row("API", l.name, l.seen.APIMS)
		if l.seen.HasFloat {
			row("floating IP", l.name, l.seen.AddressMS)
		}
		guards, looked = guards || l.seen.Guards, max(looked, l.seen.LookedMS)
		doors = append(doors, l.seen.Door...)
	}
	if guards {
		row("PXE", "all", gapOf(doors, looked))
	}
	return rows
}

// gapOf returns the longest time, from the first span to the end, that no span
// covers.
func gapOf(spans []admin.Span, end int64) (gap int64) {
	slices.SortFunc(spans, func(a, b admin.Span) int { return int(a.FromMS - b.FromMS) })
	covered := spans[0].ToMS
	for _, s := range spans[1:] {
		gap = max(gap, s.FromMS-covered)
		covered = max(covered, s.ToMS)
	}
	return max(gap, end-covered)
}

// awaitReturn waits until one more may be lost again.
func (p *Peer) awaitReturn(ctx context.Context, struck time.Time, r *admin.DrillReport) admin.DrillRow {
	const pause = 50 * time.Millisecond
	row := admin.DrillRow{What: "return", From: p.id.Name, BoundMS: drillReturn.Milliseconds()}
	for {
		q, took := p.quorum(p.hearing(p.core.Store.View())), time.Since(struck)
		row.LongestMS = took.Milliseconds()
		if q.CanLose > 0 && took > drillNoticed { // before that a peer that was just killed may still count as live
			row.OK, r.ReturnedMS = true, row.LongestMS
			return row
		}
		if took > drillReturn || ctx.Err() != nil {
			row.Note = "the peer that was killed has not come back: 'systemctl status trivet' there"
			return row
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}
