// Package judge tells what changed of machines and whether they are as ordered: the leader
// compares the last document of each with the one before and with the expectations, and
// commits verdict and events in one entry (docs/design.md#judgement).
package judge

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/fsm/expectations"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/valid"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/hardware"
	"github.com/trivet-ha/trivet/inspector/ironic"
	"github.com/trivet-ha/trivet/internal/logs"
	"github.com/trivet-ha/trivet/internal/pace"
	"github.com/trivet-ha/trivet/raftstore/leader"
)

// Values of judging.
const (
	// pause is kept between two looks for what is to be judged. A look at many machines
	// takes longer: the duty rests restShare times as long as it has worked, so that it
	// takes 2 % of a processor at most, and 20 % while there is something to judge.
	pause     = time.Second
	restShare = 50
	moreShare = 4
	// namesFor is for how long a list of names is used, and retryNames the pause after
	// Ironic did not give one.
	namesFor   = time.Minute
	retryNames = 15 * time.Second
	// maxTold is how many changes an event names.
	maxTold = 8
	// moreBytes is what the count of the others takes.
	moreBytes = 24
)

// Names reads the names of nodes.
type Names interface {
	// NodeNames lists all nodes: all pages, or an error.
	NodeNames(ctx context.Context) ([]ironic.NodeName, error)
}

// Judge is the leader's duty that judges machines. What is to be judged is seen from the
// state alone: a leader that is lost, a restart and a restore leave nothing out and tell
// nothing twice.
type Judge struct {
	Live   *inspector.LiveSettings
	Log    inspector.Log
	Ironic Names
	Packer *blobs.Packer
	Logger *slog.Logger
}

// Name implements leader.Duty.
func (*Judge) Name() string { return "hardware judgement" }

// Run implements leader.Duty.
func (j *Judge) Run(ctx context.Context, a leader.Authority) error {
	work := &judging{Judge: j, authority: a, failing: logs.Limit(j.Logger)}
	for {
		_, changed := j.Log.Changed()
		began := time.Now()
		more, err := work.round(ctx)
		rest := max(pause, restShare*time.Since(began))
		if more {
			rest = max(pause, moreShare*time.Since(began))
		}
		if err != nil && ctx.Err() == nil {
			work.failing.Warn("judge hardware failed, retrying", "retry_in", retryNames, "err", err)
			more, rest = true, retryNames
		}
		if !pace.Wait(ctx, rest) {
			return nil
		}
		if more {
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// judging is the work of one leadership.
type judging struct {
	*Judge
	authority leader.Authority
	failing   *slog.Logger
	set       expected // as of setOf
	setOf     fencing.Token
	seen      fsm.View // of which nothing is left to judge; the zero View at first
	looked    bool
	names     map[string]string // by node; nil: Ironic has not told any
	listed    time.Time
}

// round judges up to MaxJudged machines. more is true if there may be others.
func (w *judging) round(ctx context.Context) (more bool, err error) {
	v := w.Log.View()
	if v.Admits(expectations.Judge{}) != nil || !w.Live.Config().StoreData {
		return false, nil
	}
	set, err := w.expected(v)
	if err != nil {
		return false, err
	}
	if set.byName {
		if err := w.list(ctx); err != nil {
			return false, err
		}
	}
	if w.looked && fsm.SameDocuments(w.seen, v) {
		return false, w.forget(ctx, v)
	}
	due := w.due(v, set)
	if len(due) == 0 {
		w.seen, w.looked = v, true
		return false, w.forget(ctx, v)
	}
	batch := expectations.Judge{Under: v.ExpectationsChanged()}
	for _, c := range due {
		j, err := w.judgeCandidate(v, set, c)
		if err != nil {
			return false, err
		}
		batch.Judgements = append(batch.Judgements, j)
	}
	return true, w.propose(ctx, batch)
}

// expected returns the expectations of a view. They are read once after each change.
func (w *judging) expected(v fsm.View) (expected, error) {
	changed := v.ExpectationsChanged()
	if changed == w.setOf {
		return w.set, nil
	}
	set := expected{deleted: v.ExpectationDeleted()}
	for e := range v.Expectations() {
		read, err := hardware.ReadExpectation(e.Body)
		if err != nil {
			return set, fmt.Errorf("expectation %s: %w", e.Name, err)
		}
		set.byName = set.byName || read.ByName()
		set.all = append(set.all, expectation{read, e.Changed})
	}
	w.set, w.setOf = set, changed
	return set, nil
}

// list reads the names of nodes from Ironic if those that are known are too old.
func (w *judging) list(ctx context.Context) error {
	if w.names != nil && time.Since(w.listed) < namesFor {
		return nil
	}
	all, err := w.Ironic.NodeNames(ctx)
	if err != nil {
		return fmt.Errorf("list the names of nodes: %w", err)
	}
	names := make(map[string]string, len(all))
	for _, n := range all {
		names[n.UUID] = n.Name
	}
	if !maps.Equal(names, w.names) {
		w.looked = false
	}
	w.names, w.listed = names, time.Now()
	return nil
}

// candidate is a machine that is to be judged.
type candidate struct {
	node  string
	name  string
	fresh bool // the document is new; else the expectations are
	sent  []fsm.SentDocument
}

// due lists machines that are to be judged, up to MaxJudged: those with new documents
// first.
func (w *judging) due(v fsm.View, set expected) []candidate {
	var fresh, stale []candidate
	for node := range nodesOf(v) {
		c := candidate{node: node, sent: v.Sent(node)}
		if set.byName {
			c.name = w.names[node]
		}
		row, judged := v.Verdict(node)
		switch {
		case len(c.sent) == 0:
		case !judged || row.Document != c.sent[0].Document:
			c.fresh = true
			fresh = append(fresh, c)
		case len(stale) < expectations.MaxJudged && set.stale(row, c.name):
			stale = append(stale, c)
		}
		if len(fresh) == expectations.MaxJudged {
			return fresh
		}
	}
	all := append(fresh, stale...)
	return all[:min(len(all), expectations.MaxJudged)]
}

// nodesOf iterates over the nodes of which a document is stored, each once.
func nodesOf(v fsm.View) iter.Seq[string] {
	return func(yield func(string) bool) {
		others := make(map[string]bool) // without a record
		for rec := range v.Records() {
			if !yield(rec.Node) {
				return
			}
		}
		for relay := range v.Relays() {
			others[relay.Node] = relay.Node != ""
		}
		for verdict := range v.Verdicts() {
			others[verdict.Node] = true
		}
		for _, node := range slices.Sorted(maps.Keys(others)) {
			if _, recorded := v.Record(node); others[node] && !recorded && !yield(node) {
				return
			}
		}
	}
}

// judgeCandidate makes the verdict on a machine.
func (w *judging) judgeCandidate(v fsm.View, set expected, c candidate) (expectations.Judgement, error) {
	row, judged := v.Verdict(c.node)
	j := expectations.Judgement{Node: c.node, Document: c.sent[0].Document, Sent: c.sent[0].Sent, Name: c.name,
		Before: row.Document, Earlier: row.Earlier}
	switch {
	case !c.fresh:
		j.Sent = row.Sent
	case judged:
		j.Earlier = row.Document
	case len(c.sent) > 1:
		j.Earlier = c.sent[1].Document
	}
	is, err := w.readMachine(v, c.node, j.Document)
	if err != nil {
		return j, err
	}
	if c.fresh && !j.Earlier.IsZero() {
		was, err := w.readMachine(v, c.node, j.Earlier)
		if err != nil {
			return j, err
		}
		var told []string
		for _, change := range hardware.Compare(was, is) {
			told = append(told, change.String())
		}
		j.Changed, j.Changes = len(told), brief(told)
	}
	j.By, j.Differences = set.judgeMachine(c.node, c.name, is)
	return j, nil
}

// readMachine reads a machine from a stored document. A document that is none tells nothing.
func (w *judging) readMachine(v fsm.View, node string, hash blobs.Hash) (hardware.Machine, error) {
	text, err := inspector.Load(w.Packer, v, hash)
	if err != nil {
		return hardware.Machine{}, fmt.Errorf("read a document of node %s: %w", node, err)
	}
	m, err := hardware.Of(text)
	if err != nil {
		w.failing.Warn("read hardware failed, judging a machine without parts", "node", node, "err", err)
	}
	return m, nil
}

// brief names the first changes in one text of an event.
func brief(told []string) string {
	text := ""
	for i, one := range told {
		more := text + valid.Cut(one, eventring.MaxText/2)
		if i == maxTold || len(more) > eventring.MaxText-moreBytes {
			return fmt.Sprintf("%s and %d more", strings.TrimSuffix(text, "; "), len(told)-i)
		}
		text = more + "; "
	}
	return strings.TrimSuffix(text, "; ")
}

// forget drops the verdicts of nodes whose reports have expired: no document of them is
// stored but those that the verdict keeps.
func (w *judging) forget(ctx context.Context, v fsm.View) error {
	expiry := w.Live.Config().ReportExpiry
	if expiry == 0 {
		return nil
	}
	var old expectations.Forget
	for verdict := range v.Verdicts() {
		_, recorded := v.Record(verdict.Node)
		_, relayed := v.TakenRelayOf(verdict.Node)
		if recorded || relayed || verdict.Since.Add(expiry).After(v.Now()) {
			continue
		}
		if old.Nodes = append(old.Nodes, verdict.Node); len(old.Nodes) == expectations.MaxJudged {
			break
		}
	}
	if len(old.Nodes) == 0 {
		return nil
	}
	return w.propose(ctx, old)
}

// propose commits a command. What the state does not allow any more was overtaken: the
// next round sees that.
func (w *judging) propose(ctx context.Context, c fsm.Command) error {
	res, err := w.authority.Propose(ctx, c)
	if err != nil {
		return err
	}
	if res.Code == fsm.Conflict {
		return nil
	}
	return res.Err()
}

// expected is what machines are judged by.
type expected struct {
	all     []expectation
	byName  bool          // some have patterns of names
	deleted fencing.Token // of the entry that deleted another one
}

type expectation struct {
	hardware.Expectation
	changed fencing.Token
}

// stale reports whether a verdict may be another one by now: an expectation of the
// machine was written or deleted, or the name of its node is another one.
func (s expected) stale(v expectations.Verdict, name string) bool {
	if s.deleted > v.Under && len(v.By) > 0 {
		return true
	}
	return slices.ContainsFunc(s.all, func(e expectation) bool {
		now := e.For(v.Node, name)
		if e.changed > v.Under {
			return now || slices.Contains(v.By, e.Name)
		}
		return now != e.For(v.Node, v.Name)
	})
}

// judgeMachine returns which expectations are those of a machine, and how it differs.
func (s expected) judgeMachine(node, name string, m hardware.Machine) (by, differences []string) {
	surplus := 0
	for _, e := range s.all {
		switch {
		case !e.For(node, name) || !e.Of(m):
		case len(by) == expectations.MaxBy:
			surplus++
		default:
			by = append(by, e.Name)
			for _, text := range e.Judge(m) {
				differences = append(differences, e.Name+": "+text)
			}
		}
	}
	if surplus > 0 {
		differences = slices.Insert(differences, 0,
			fmt.Sprintf("%d expectations are of this machine, and at most %d are judged", surplus+len(by), expectations.MaxBy))
	}
	if more := len(differences) - expectations.MaxDifferences; more > 0 {
		differences = append(differences[:expectations.MaxDifferences-1], fmt.Sprintf("and %d more", more+1))
	}
	for i, text := range differences {
		differences[i] = valid.Cut(text, expectations.MaxDifference)
	}
	return by, differences
}
