package fsm

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/boots"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/fsm/introspection"
)

var notFetched = entry.Finding{Code: "not-fetched", Text: "it asked for no file"}

// found has the leader find what stops the machine of a node.
func (r *rig) found(node string, f ...entry.Finding) {
	r.t.Helper()
	rec, _ := r.view().Record(node)
	r.asLeader(boots.Note{Judged: []boots.Judged{{Node: node, Begun: rec.Begun, Findings: f}}})
}

// timeOut ends an introspection whose time is over, as a worker does.
func (r *rig) timeOut(node string) introspection.Record {
	r.t.Helper()
	r.pass(2 * time.Hour)
	s := r.session("a")
	r.must(introspection.Enqueue{Node: node, Event: introspection.EventTimeout})
	c := r.claim(s)
	r.must(introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventTimeout, Consume: true})
	rec, _ := r.view().Record(node)
	return rec
}

// A timeout takes what was found along, into its event and the record, where it stays until the
// next start; the contract's text is what it was.
func TestTimeoutTakesTheFindingAlong(t *testing.T) {
	r := newRig(t)
	r.leads("a")
	r.waiting(r.session("a"), nodeA, macA)
	r.found(nodeA, notFetched, entry.Finding{Code: "foreign-server", Text: "another one offered"})
	back, err := Read(bytes.NewReader(snapshot(t, r.view()))) // a peer that was restarted goes on
	if err != nil {
		t.Fatal(err)
	}
	r.state = back
	r.leads("b")
	rec := r.timeOut(nodeA)
	if rec.Finding != notFetched || rec.Error != "Introspection timeout" {
		t.Errorf("the record has error %q and finding %+v", rec.Error, rec.Finding)
	}
	var last eventring.Event
	for e := range r.view().Events().Newest() {
		if last = e.Decode(); last.Topic == eventring.TopicIntrospection {
			break
		}
	}
	if last.Fields["finding"] != notFetched.Code || last.Fields["found"] != notFetched.Text ||
		last.Fields["error"] != "Introspection timeout" {
		t.Errorf("the event is %+v", last)
	}
	r.pass(48 * time.Hour)
	r.must(Probe{})
	if _, ok := r.view().BootTrack(nodeA); ok {
		t.Error("the track is kept for two days")
	}
	if rec, _ = r.view().Record(nodeA); rec.Finding != notFetched {
		t.Errorf("two days later the finding is %+v", rec.Finding)
	}
	r.start(nodeA, macA)
	if rec, _ = r.view().Record(nodeA); !rec.Finding.IsZero() {
		t.Errorf("the next introspection begins with finding %+v", rec.Finding)
	}
}

// What was found of an earlier introspection is no reason of a later one's timeout.
func TestEarlierFindingIsNoReason(t *testing.T) {
	r := newRig(t)
	r.leads("a")
	r.waiting(r.session("a"), nodeA, macA)
	r.found(nodeA, notFetched)
	r.timeOut(nodeA)
	r.waiting(r.session("a"), nodeA, macA)
	if rec := r.timeOut(nodeA); !rec.Finding.IsZero() || rec.State != introspection.NodeError {
		t.Errorf("the record is %v with finding %+v", rec.State, rec.Finding)
	}
}

// Each inspection of Ironic's own has a track of its own; to tell of one again changes nothing,
// and no command says since when it is.
func TestInspectionsOfIronicAreToldApart(t *testing.T) {
	r := newRig(t)
	r.leads("a")
	put := introspection.PutInspected{Nodes: []introspection.Inspected{{Node: nodeA, MACs: []string{macA}, After: 1}}}
	r.asLeader(put)
	first, _ := r.view().Inspected(nodeA)
	put.Nodes[0].After = 2
	r.asLeader(put)
	again, _ := r.view().Inspected(nodeA)
	if again.Since != first.Since || first.Since.IsZero() || first.After != 1 || again.After != 1 {
		t.Errorf("inspected since %v, after %v, then since %v, after %v", first.Since, first.After, again.Since, again.After)
	}
	r.asLeader(introspection.PutInspected{Remove: []string{nodeA}})
	r.asLeader(put)
	if next, _ := r.view().Inspected(nodeA); next.Since <= first.Since {
		t.Errorf("the next inspection is since %v, the one before since %v", next.Since, first.Since)
	}
	put.Nodes[0].Since = 1
	if put.Validate() == nil {
		t.Error("a command says since when")
	}
	old := newRigAt(t, 2)
	old.leads("a")
	put.Nodes[0].Since = 0
	old.asLeader(put)
	if i, _ := old.view().Inspected(nodeA); !i.Since.IsZero() || !i.After.IsZero() {
		t.Errorf("in log version 2 it is inspected since %v, after %v, which older peers cannot read", i.Since, i.After)
	}
	if err := old.view().Admits(boots.Note{}); err == nil || !strings.Contains(err.Error(), "needs log version 3") {
		t.Errorf("in log version 2 findings are admitted: %v", err)
	}
}
