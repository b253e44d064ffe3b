package expectations

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/table"
	"github.com/trivet-ha/trivet/fsm/valid"
)

// Bounds of verdicts.
const (
	// MaxVerdicts is the greatest number of machines that have one.
	MaxVerdicts = 100_000
	// MaxJudged is how many machines one entry judges or forgets.
	MaxJudged = 32
	// MaxDifferences is how many differences of a machine a verdict names, and
	// MaxDifference the greatest length of one, in bytes.
	MaxDifferences = 16
	MaxDifference  = 256
	// MaxBy is how many expectations a verdict names.
	MaxBy = 8

	maxNodeName = 255 // as long as Ironic has them
)

// Verdict is how a machine's last document was judged. It keeps that document and the
// one before, also when the machine's record or relay is gone: what changed since is
// asked of both.
type Verdict struct {
	Node     string     `cbor:"1,keyasint"` // UUID in lower case
	Document blobs.Hash `cbor:"2,keyasint"`
	Earlier  blobs.Hash `cbor:"3,keyasint,omitzero"`
	// By names the expectations of this machine when it was judged, Differences says
	// how it differs from them.
	By          []string `cbor:"4,keyasint,omitempty"`
	Differences []string `cbor:"5,keyasint,omitempty"`
	// Under is the token of the newest change that an expectation had, Name what Ironic
	// called the node, if expectations have patterns of names.
	Under fencing.Token `cbor:"6,keyasint,omitempty"`
	Name  string        `cbor:"7,keyasint,omitempty"`
	// Since is the cluster time when Document was judged first, Sent the token of the
	// relay or the introspection that brought it: what is older is not judged.
	Since entry.Time    `cbor:"8,keyasint,omitempty"`
	Sent  fencing.Token `cbor:"9,keyasint,omitempty"`
}

// Documents returns the documents that the verdict refers to; zero hashes are none.
func (v Verdict) Documents() [2]blobs.Hash { return [...]blobs.Hash{v.Document, v.Earlier} }

func (v Verdict) validate() error {
	if v.Document.IsZero() {
		return fmt.Errorf("node %s is judged without a document", v.Node)
	}
	if len(v.By) > MaxBy || len(v.Differences) > MaxDifferences {
		return fmt.Errorf("node %s is judged by %d expectations with %d differences, allowed are %d and %d", v.Node,
			len(v.By), len(v.Differences), MaxBy, MaxDifferences)
	}
	return cmp.Or(valid.Each(v.By, validName),
		valid.Each(v.Differences, func(text string) error { return validText("difference", text, 1, MaxDifference) }),
		errors.Join(valid.Node(v.Node), validText("name of the node", v.Name, 0, maxNodeName)))
}

func validText(what, text string, least, most int) error {
	if !utf8.ValidString(text) {
		return fmt.Errorf("%s is not UTF-8", what)
	}
	return valid.Length(what, text, least, most)
}

// Judgement is a new verdict on one machine.
type Judgement struct {
	Node        string     `cbor:"1,keyasint"`
	Document    blobs.Hash `cbor:"2,keyasint"`
	Earlier     blobs.Hash `cbor:"3,keyasint,omitzero"` // what it was compared with
	By          []string   `cbor:"4,keyasint,omitempty"`
	Differences []string   `cbor:"5,keyasint,omitempty"`
	Name        string     `cbor:"6,keyasint,omitempty"`
	// Changed is how many changes there are from Earlier to Document, and Changes says
	// the first of them.
	Changed int    `cbor:"7,keyasint,omitempty"`
	Changes string `cbor:"8,keyasint,omitempty"`
	// Before is the document of the verdict that this one follows, zero without one: a
	// judgement that rests on another is passed over.
	Before blobs.Hash    `cbor:"9,keyasint,omitzero"`
	Sent   fencing.Token `cbor:"10,keyasint,omitempty"` // of Document
}

// Judge writes verdicts: a duty's command. A machine whose documents are gone or were
// judged meanwhile is passed over; the duty looks again.
type Judge struct {
	Under      fencing.Token `cbor:"1,keyasint,omitempty"` // ExpectationsChanged of who judged
	Judgements []Judgement   `cbor:"2,keyasint"`           // 1 to MaxJudged
}

// Validate implements Command.
func (c Judge) Validate() error {
	if err := valid.Count(len(c.Judgements), MaxJudged, "machines are judged"); err != nil {
		return err
	}
	seen := make(map[string]bool, len(c.Judgements))
	for _, j := range c.Judgements {
		if seen[j.Node] {
			return fmt.Errorf("node %s is judged twice", j.Node)
		}
		seen[j.Node] = true
		if j.Changed < 0 || (j.Changed > 0) != (j.Changes != "") {
			return fmt.Errorf("node %s has %d changes, told as %q", j.Node, j.Changed, j.Changes)
		}
		err := errors.Join(j.verdict().validate(), validText("changes", j.Changes, 0, eventring.MaxText))
		if err != nil {
			return err
		}
	}
	return nil
}

func (j Judgement) verdict() Verdict {
	return Verdict{Node: j.Node, Document: j.Document, Earlier: j.Earlier, By: j.By, Differences: j.Differences,
		Name: j.Name, Sent: j.Sent}
}

// Apply implements entry.Change.
func (c Judge) Apply(t Txn) entry.Result {
	if newest := t.ExpectationsChanged(); c.Under != newest {
		return entry.Refuse(entry.Conflict, "the expectations were changed by entry %v since", newest)
	}
	for _, j := range c.Judgements {
		old, known := t.Verdict(j.Node)
		if old.Document != j.Before || j.Sent > t.Granted() || !t.Blobs.Stored(j.Document) || !t.Blobs.Stored(j.Earlier) {
			continue
		}
		if !known && t.verdicts.Size() >= MaxVerdicts {
			return entry.Refuse(entry.TableFull, "%d machines are judged, which is the most", MaxVerdicts)
		}
		next := j.verdict()
		next.Under, next.Since = c.Under, old.Since
		if old.Document != next.Document {
			next.Since = t.Now()
			if j.Changed > 0 {
				t.record(j.Node, eventring.ActionChanged, "changes", j.Changes, "count", strconv.Itoa(j.Changed))
			}
		}
		t.replace(old, next)
		// An event tells that a machine began or ceased to differ from what was ordered.
		switch was, is := len(old.Differences) > 0, len(next.Differences) > 0; {
		case is && !was:
			t.record(next.Node, eventring.ActionUnexpected, "expectations", strings.Join(next.By, ", "), "differences",
				strings.Join(next.Differences, "; "), "count", strconv.Itoa(len(next.Differences)))
		case was && !is:
			t.record(next.Node, eventring.ActionExpected, "expectations", strings.Join(next.By, ", "))
		}
	}
	return entry.Done()
}

// replace puts a verdict in the place of an older one; the zero Verdict is none.
func (t Txn) replace(old, next Verdict) {
	for _, hash := range next.Documents() {
		t.Blobs.Ref(hash, blobs.Packed{})
	}
	for _, hash := range old.Documents() {
		t.Blobs.Unref(hash)
	}
	if next.Node != "" {
		t.file(next)
		return
	}
	t.verdicts.Drop([]byte(old.Node))
	t.unexpected.Drop([]byte(old.Node))
}

func (s *Tables) file(v Verdict) {
	s.verdicts.Put([]byte(v.Node), v)
	if len(v.Differences) > 0 {
		s.unexpected.Put([]byte(v.Node), table.None{})
	} else {
		s.unexpected.Drop([]byte(v.Node))
	}
}

func (t Txn) record(node, action string, fields ...string) {
	t.RecordEvent(eventring.Event{Topic: eventring.TopicHardware, Action: action, Peer: t.Proposer(), Node: node,
		Fields: eventring.Fields(fields...)})
}

// Forget drops verdicts: of nodes that Ironic does not have any more, and of those whose
// reports have expired.
type Forget struct {
	Nodes []string `cbor:"1,keyasint"` // 1 to MaxJudged
}

// Validate implements Command.
func (c Forget) Validate() error {
	if err := valid.Count(len(c.Nodes), MaxJudged, "verdicts are forgotten"); err != nil {
		return err
	}
	for i, node := range c.Nodes {
		if slices.Contains(c.Nodes[:i], node) {
			return fmt.Errorf("node %s is named twice", node)
		}
		if err := valid.Node(node); err != nil {
			return err
		}
	}
	return nil
}

// Apply implements entry.Change.
func (c Forget) Apply(t Txn) entry.Result {
	for _, node := range c.Nodes {
		if old, ok := t.Verdict(node); ok {
			t.replace(old, Verdict{})
		}
	}
	return entry.Done()
}

// Verdict returns the verdict on a node's machine.
func (s *Tables) Verdict(node string) (Verdict, bool) { return s.verdicts.Get([]byte(node)) }

// Verdicts iterates over the verdicts in the order of their nodes.
func (s *Tables) Verdicts() iter.Seq[Verdict] { return table.Values(s.verdicts.All()) }

// UnexpectedAfter iterates over the verdicts that name a difference, in the order of
// their nodes, after one; "" begins with the first. It costs what it yields.
func (s *Tables) UnexpectedAfter(node string) iter.Seq[Verdict] {
	return table.Named(s.unexpected.UnderFrom(nil, table.JustAfter(node)), 0, s.verdicts)
}

// Unexpected returns how many machines differ from what was ordered.
func (s *Tables) Unexpected() int { return s.unexpected.Size() }

func checkVerdicts(t Txn, p *valid.Problems) {
	unexpected := 0
	for key, v := range t.verdicts.All() {
		p.Want(string(key) == v.Node && max(v.Under, v.Sent) <= t.Granted() && v.Since >= 0 && v.Since <= t.Position.Now,
			"the verdict on %s of entry %v at %v is filed under %q", v.Node, v.Under, v.Since, key)
		p.Invalid(v.validate(), "")
		if len(v.Differences) > 0 {
			unexpected++
			p.Want(t.unexpected.Has(key), "node %s is missing from those that differ", v.Node)
		}
	}
	p.Want(t.verdicts.Size() <= MaxVerdicts, "%d verdicts", t.verdicts.Size())
	p.Want(t.unexpected.Size() == unexpected, "%d machines differ, %d in the index", unexpected, t.unexpected.Size())
}
