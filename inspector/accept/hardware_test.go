package accept_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/relays"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/work"
	"github.com/trivet-ha/trivet/test/inspecttest"
)

// withDisk is the document of a machine with one disk.
func withDisk(serial string) string {
	return fmt.Sprintf(
		`{"inventory":{"interfaces":[{"name":"eth0","mac_address":%q,"has_carrier":true}],"disks":[{"serial":%q,"size":1}]}}`,
		inspecttest.MacA, serial)
}

// handOver stores a document of node A that Ironic took, as a relay does.
func handOver(o *inspecttest.Rig, document string) { relayed(o, document, relays.OutcomeTaken) }

// relayed stores a document of node A for Ironic. tried is 0 for one that Ironic has not seen yet.
func relayed(o *inspecttest.Rig, document string, tried relays.Outcome) (out relays.Relayed) {
	packed, err := o.Packer.Pack([]byte(document))
	if err != nil {
		o.Fatal(err)
	}
	res := o.RaftLog.Must(relays.Accept{Node: inspecttest.NodeA, Document: packed, Timeout: time.Minute, Keep: time.Hour,
		Tried: tried})
	if err := res.Decode(&out); err != nil {
		o.Fatal(err)
	}
	return out
}

// TestDataIsWhatIronicTook: what a stranger sent under a MAC of a node is not the node's while it
// waits, nor once Ironic has refused it.
func TestDataIsWhatIronicTook(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		s := o.Service()
		data := func(when, want string) {
			t.Helper()
			got, err := s.Data(o.Ctx, inspecttest.NodeA, false, inspector.Linearizable)
			if err == nil && string(got) != want || (err == nil) != (want != "") {
				t.Errorf("taken-is-shown: %s: %s (%v), want %s", when, got, err, want)
			}
			sent := o.RaftLog.Truth().Sent(inspecttest.NodeA)
			if (want == "") != (len(sent) == 0) ||
				want != "" && (len(sent) != 1 || sent[0].Document != blobs.HashOf([]byte(want))) {
				t.Errorf("taken-is-judged: %s: %v", when, sent)
			}
		}
		lead := fsm.Header{Token: o.RaftLog.Must(fsm.Lead{Peer: "h1", Boot: "b"}).Token}
		refused := func(document string) {
			of := relayed(o, document, 0)
			for _, c := range []fsm.Command{relays.Try{Sequence: of.Sequence},
				relays.Settle{Sequence: of.Sequence, Try: 1, Outcome: relays.OutcomeRefused, Reason: "404"}} {
				if res, err := o.RaftLog.Write(lead, c); err != nil || res.Code != fsm.OK {
					t.Errorf("%T: %v, %v", c, res.Err(), err)
				}
			}
		}
		refused(withDisk("stranger"))
		data("refused, before Ironic took any", "")
		handOver(o, withDisk("own"))
		data("taken", withDisk("own"))
		relayed(o, withDisk("waits"), 0)
		data("one that waits", withDisk("own"))
		refused(withDisk("again"))
		data("one that was refused", withDisk("own"))
	})
}

// TestChangesOfANode compares the last two inspections of a node, whoever did them:
// Ironic before, Trivet, Trivet again, and Ironic after.
func TestChangesOfANode(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		want := func(when string, compared bool, sentences ...string) {
			t.Helper()
			got, err := o.Service().Hardware().Changes(o.Ctx, inspecttest.NodeA, inspector.Linearizable)
			var said []string
			for _, change := range got.Changes {
				said = append(said, change.String())
			}
			if err != nil || got.Compared != compared || fmt.Sprint(said) != fmt.Sprint(sentences) {
				t.Errorf("%s: compared %t: %q (%v), want %t: %q", when, got.Compared, said, err, compared, sentences)
			}
		}
		replaced := func(was, is string) []string {
			return []string{"disk " + was + " went (size 1)", "disk " + is + " came (size 1)"}
		}
		_, err := o.Service().Hardware().Changes(o.Ctx, inspecttest.NodeA, inspector.Linearizable)
		inspecttest.RefusedWith(t, "never inspected", err, 404,
			"Introspection data not found for node "+inspecttest.NodeA+", processed=False")
		handOver(o, withDisk("a"))
		want("once by Ironic", false)
		o.Work(func(*work.Pool) {
			inspectAs(o, "b")
			want("then by Trivet", true, replaced("a", "b")...)
			inspectAs(o, "c")
			want("again by Trivet", true, replaced("b", "c")...)
			inspectAs(o, "c")
			want("with the same disk", true)
		})
		handOver(o, withDisk("d"))
		want("then by Ironic", true, replaced("c", "d")...)
		o.Conf.StoreData = false
		_, err = o.Service().Hardware().Changes(o.Ctx, inspecttest.NodeA, inspector.Linearizable)
		inspecttest.RefusedWith(t, "not stored", err, 404,
			"Inspector is not configured to store data. Set the [processing]store_data configuration option to change this.")
	})
}

// inspectAs takes node A through an introspection, with one disk.
func inspectAs(o *inspecttest.Rig, serial string) {
	o.Boots(inspecttest.NodeA, inspecttest.MacA)
	if _, err := o.Service().Continue(o.Ctx, []byte(withDisk(serial))); err != nil {
		o.Error(err)
	}
	o.Becomes(inspecttest.NodeA, introspection.NodeFinished, time.Second)
}

func TestCablingOfANode(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		_, err := o.Service().Hardware().Cabling(o.Ctx, inspecttest.NodeA, inspector.Linearizable)
		inspecttest.RefusedWith(t, "never inspected", err, 404,
			"Introspection data not found for node "+inspecttest.NodeA+", processed=False")
		handOver(o, withDisk("a"))
		cables, err := o.Service().Hardware().Cabling(o.Ctx, inspecttest.NodeA, inspector.Linearizable)
		if err != nil || len(cables) != 1 || cables[0].MAC != inspecttest.MacA || cables[0].Link != "yes" {
			t.Errorf("%+v, %v", cables, err)
		}
	})
}
