package fsm

import (
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/nodesync"
	"github.com/trivet-ha/trivet/fsm/settings"
)

// What an operator writes can make no list of Ironic's believed: the leader alone says
// what is suspected, its age is that of the first entry that said so, and the
// confirmation of another list is refused.
func TestSuspicionOfIronicsList(t *testing.T) {
	r := newRig(t)
	r.leads("a")
	was := nodesync.Suspicion{Reason: "3 of 4 are missing", Missing: 3, Known: 4, Digest: "d1"}
	r.refused(Refused, Header{}, nodesync.Suspect{Suspicion: was})
	r.refused(Conflict, Header{}, nodesync.Confirm{Digest: "d1"})
	r.pass(time.Minute)
	r.asLeader(nodesync.Suspect{Suspicion: was})
	first, ok := r.view().SyncSuspicion()
	if !ok || first.Since != r.view().Now() || first.Digest != "d1" || first.Confirmed {
		t.Fatalf("%+v", first)
	}
	r.pass(time.Hour)
	r.must(settings.PutSetting{Key: "inspection.sync.suspicion", Value: `{"reason":"made up","digest":"d1","since":1}`})
	r.must(settings.PutSetting{Key: "inspection.sync.confirmed", Value: "d1"})
	r.asLeader(nodesync.Suspect{Suspicion: was})
	if again, _ := r.view().SyncSuspicion(); again != first {
		t.Errorf("the same again: %+v, was %+v", again, first)
	}
	r.refused(Conflict, Header{}, nodesync.Confirm{Digest: "d2"})
	r.must(nodesync.Confirm{Digest: "d1"})
	if now, _ := r.view().SyncSuspicion(); !now.Confirmed || now.Since != first.Since {
		t.Errorf("confirmed: %+v", now)
	}
	was.Missing, was.Digest = 4, "d2"
	r.asLeader(nodesync.Suspect{Suspicion: was})
	if now, _ := r.view().SyncSuspicion(); now.Confirmed || now.Since == first.Since {
		t.Errorf("the confirmation, or the age, of another list counts: %+v", now)
	}
	r.asLeader(nodesync.Trust{})
	if now, ok := r.view().SyncSuspicion(); ok {
		t.Errorf("it stays: %+v", now)
	}
	aged := nodesync.Suspect{Suspicion: nodesync.Suspicion{Reason: "old", Since: 1}}
	if err := aged.Validate(); err == nil {
		t.Error("a proposer may say how old a suspicion is")
	}
}

// The list of ports is suspected by itself: what is said of the list of nodes, or taken
// back, leaves it as it is, and a confirmation is of the list that was shown.
func TestSuspicionOfIronicsPorts(t *testing.T) {
	r := newRig(t)
	r.leads("a")
	was := nodesync.Suspicion{Reason: "30 of 40 ports are missing", Missing: 30, Known: 40, Digest: "p1"}
	r.refused(Refused, Header{}, nodesync.Suspect{Suspicion: was, Ports: true})
	r.asLeader(nodesync.Suspect{Suspicion: was, Ports: true})
	r.asLeader(nodesync.Suspect{
		Suspicion: nodesync.Suspicion{Reason: "an empty list", Missing: 4, Known: 4, Digest: "d1"}})
	first, ok := r.view().PortSuspicion()
	if !ok || first.Digest != "p1" || first.Confirmed {
		t.Fatalf("port-suspicion: %+v", first)
	}
	r.must(nodesync.Confirm{Digest: "d1"})
	if now, _ := r.view().PortSuspicion(); now != first {
		t.Errorf("port-suspicion: a confirmation of the nodes left %+v, was %+v", now, first)
	}
	r.asLeader(nodesync.Trust{})
	if now, _ := r.view().PortSuspicion(); now != first {
		t.Errorf("port-suspicion: trust in the list of nodes left %+v, was %+v", now, first)
	}
	r.must(nodesync.Confirm{Digest: "p1"})
	if now, _ := r.view().PortSuspicion(); !now.Confirmed {
		t.Errorf("port-suspicion: the confirmation left %+v", now)
	}
	if now, ok := r.view().SyncSuspicion(); ok {
		t.Errorf("port-suspicion: the list of nodes is suspected: %+v", now)
	}
	r.asLeader(nodesync.Trust{Ports: true})
	if now, ok := r.view().PortSuspicion(); ok {
		t.Errorf("port-suspicion: it stays: %+v", now)
	}
}

// Where the logs of a ramdisk are is known as long as the record of its introspection.
func TestNotesOfRamdiskLogsEndWithTheirRecord(t *testing.T) {
	r := newRig(t)
	s := r.session("a")
	note := func(node string) introspection.NoteLogs {
		rec, _ := r.view().Record(node)
		return introspection.NoteLogs{Node: node, Begun: rec.Begun,
			Logs: introspection.RamdiskLogs{Peer: "h1", Path: "/logs/" + node}}
	}
	r.refused(Conflict, Header{},
		introspection.NoteLogs{Node: nodeA, Begun: 1, Logs: introspection.RamdiskLogs{Peer: "h1", Path: "/x"}})
	r.waiting(s, nodeA)
	r.waiting(s, nodeB)
	stale := note(nodeA)
	r.must(stale)
	r.must(note(nodeB))
	rec, _ := r.view().Record(nodeA)
	if rec.Logs.String() != "h1:/logs/"+nodeA {
		t.Errorf("%v", rec.Logs)
	}
	r.pass(time.Hour)
	r.must(introspection.Enqueue{Node: nodeA, Event: introspection.EventTimeout})
	c := r.claim(r.session("a"))
	r.must(introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventTimeout, Error: "silent", Consume: true})
	if rec, _ = r.view().Record(nodeA); rec.State != introspection.NodeError {
		t.Fatalf("%v", rec.State)
	}
	if rec.Logs.IsZero() {
		t.Error("the note is gone before its record")
	}
	r.start(nodeA)
	if rec, _ = r.view().Record(nodeA); rec.Begun == stale.Begun {
		t.Fatal("it is the same introspection")
	}
	if !rec.Logs.IsZero() {
		t.Errorf("the next introspection has the logs of the last one: %v", rec.Logs)
	}
	r.refused(Conflict, Header{}, stale)
	for _, path := range []string{"", strings.Repeat("x", 1025)} {
		wrong := note(nodeA)
		if wrong.Logs.Path = path; wrong.Validate() == nil {
			t.Errorf("a path of %d bytes is taken", len(path))
		}
	}
}
