package admin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/internal/pace"
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
	// drillTold is how long a leader may take to hand leadership on.
	drillTold = 2 * time.Second
	// drillBreath is what a leader that is about to end has left to say so.
	drillBreath = 50 * time.Millisecond
)

var errDrill = errors.New("an operator practises the loss of the leader ('trivet drill failover --kill')")

// Strike gives this peer's leadership up, or ends its process.
func (d *Drill) Strike(ctx context.Context, kill bool) error {
	if role, _ := d.Store.Role(); !role.Leader {
		return conflict("leadership moved meanwhile; repeat the drill", "this peer does not lead any more")
	}
	d.Logger.Warn("drill takes leadership away", "kill", kill)
	if kill {
		time.AfterFunc(drillBreath, func() { d.Exit(leader.ExitLostLeadership, errDrill) }) // the unit starts it again
		return nil
	}
	_, err := d.Members.Transfer(ctx, "")
	return err
}

// Run has leadership moved and returns what all peers saw of it.
func (d *Drill) Run(ctx context.Context, o DrillOrder) (DrillReport, error) {
	old, err := d.mayDrill(o)
	if err != nil {
		return DrillReport{}, err
	}
	r := DrillReport{Kind: "transfer", OldLeader: old.Name}
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
		err := ctx.Err() // a caller that went away wants nothing struck
		if err == nil {
			err = d.strike(ctx, old, o.Kill)
		}
		if err != nil {
			cancel() // no peer needs to look on
		}
		struck <- err
	})
	defer timer.Stop()
	seen := d.lookAll(ctx, looking)
	select {
	case err = <-struck:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		return r, err
	}
	r.Rows = d.drillRows(seen, old, at, bound)
	if o.Kill {
		r.Rows = append(r.Rows, d.awaitReturn(ctx, began.Add(at), &r))
	}
	if l, known := d.Store.Leader(); known {
		r.NewLeader = d.NameOf(d.Store.View(), l.ID)
	}
	r.OK = !slices.ContainsFunc(r.Rows, func(row DrillRow) bool { return !row.OK })
	return r, nil
}

// mayDrill returns the leader, or why nothing is practised now.
func (d *Drill) mayDrill(o DrillOrder) (membership.Member, error) {
	q, v := d.Quorum(), d.Store.View()
	l, known := d.Store.Leader()
	m, member := v.Member(l.ID)
	busy := 0
	for rec := range v.Records() {
		if rec.State.Active() {
			busy++
		}
	}
	switch {
	case !known || !member:
		return m, &api.Error{Status: http.StatusServiceUnavailable, Code: api.CodeNoLeader,
			Message: "no leader is known: this is no drill", Hint: "see 'trivet status'"}
	case q.CanLose < 1:
		return m, conflict("see 'trivet status'; repeat it when one more may be lost",
			"%d of %d voters live, %d are needed: none may be lost", q.Live, q.Voters, q.Need)
	case busy > 0 && !o.WithIntrospections:
		return m, conflict("wait for their end, or say --with-introspections: none of them should fail",
			"%d introspections are under way", busy)
	case o.Kill && m.ID == d.Self.ID:
		return m, conflict("run it on another host", "this peer leads, and a peer that is killed cannot measure")
	}
	return m, nil
}

// strike takes leadership from who has it.
func (d *Drill) strike(ctx context.Context, old membership.Member, kill bool) error {
	if old.ID == d.Self.ID {
		return d.Strike(ctx, kill)
	}
	limited, cancel := context.WithTimeout(ctx, drillTold+askLimit)
	defer cancel()
	path := PathPeerDrill
	if kill {
		path += "?kill=1"
	}
	return d.Forward.Tell(limited, old, path, nil)
}

// look is what one peer saw, or why that is not known.
type look struct {
	name, id string
	seen     Outlook
	err      error
}

// lookAll has all peers look on at once.
func (d *Drill) lookAll(ctx context.Context, looking time.Duration) []look {
	limited, cancel := context.WithTimeout(ctx, looking+drillSlack)
	defer cancel()
	own := look{name: d.Self.Name, id: d.Self.ID}
	var work sync.WaitGroup
	work.Go(func() { own.seen = d.Look(limited, looking) })
	var out []look
	for _, a := range d.Ask(limited, PathPeerDrill+"?for="+looking.String()) {
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
func (d *Drill) drillRows(seen []look, old membership.Member, struck, bound time.Duration) (rows []DrillRow) {
	row := func(what, from string, ms int64) {
		rows = append(rows, DrillRow{What: what, From: from, LongestMS: ms, BoundMS: bound.Milliseconds(),
			OK: ms <= bound.Milliseconds()})
	}
	doors, guards, looked := []Span{{FromMS: 0, ToMS: struck.Milliseconds()}}, false, int64(0)
	for _, l := range seen {
		if l.err != nil {
			// The peer that was killed tells nothing; each other one has to answer.
			rows = append(rows, DrillRow{What: "API", From: l.name, BoundMS: bound.Milliseconds(), OK: l.id == old.ID,
				Note: l.err.Error()})
			continue
		}
		row("API", l.name, l.seen.APIMS)
		if l.seen.HasFloat {
			row("floating IP", l.name, l.seen.AddressMS)
		}
		guards, looked = guards || l.seen.Guards, max(looked, l.seen.LookedMS)
		doors = append(doors, l.seen.Door...)
	}
	if !guards {
		return rows
	}
	slices.SortStableFunc(doors, func(a, b Span) int { return int(a.FromMS - b.FromMS) })
	covered, gap := doors[0].ToMS, int64(0) // the longest time that no host's door was open
	for _, s := range doors[1:] {
		gap = max(gap, s.FromMS-covered)
		covered = max(covered, s.ToMS)
	}
	row("PXE", "all", max(gap, looked-covered))
	return rows
}

// awaitReturn waits until one more may be lost again.
func (d *Drill) awaitReturn(ctx context.Context, struck time.Time, r *DrillReport) DrillRow {
	const pause = 50 * time.Millisecond
	row := DrillRow{What: "return", From: d.Self.Name, BoundMS: drillReturn.Milliseconds()}
	for {
		q, took := d.Quorum(), time.Since(struck)
		row.LongestMS = took.Milliseconds()
		if q.CanLose > 0 && took > drillNoticed { // before that a peer that was just killed may still count as live
			row.OK, r.ReturnedMS = true, row.LongestMS
			return row
		}
		if took > drillReturn || ctx.Err() != nil {
			row.Note = "the peer that was killed has not come back: 'systemctl status trivet' there"
			return row
		}
		pace.Wait(ctx, pause)
	}
}
