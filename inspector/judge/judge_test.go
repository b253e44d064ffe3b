package judge_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/fsm/expectations"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/relays"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/ironic"
	"github.com/trivet-ha/trivet/inspector/judge"
	"github.com/trivet-ha/trivet/inspector/work"
	"github.com/trivet-ha/trivet/raftstore/leader"
	"github.com/trivet-ha/trivet/test/inspecttest"
)

// rig is a peer whose machines are judged.
type rig struct{ *inspecttest.Rig }

func inRig(t *testing.T, f func(o rig)) {
	t.Helper()
	inspecttest.InRig(t, func(o *inspecttest.Rig) { f(rig{o}) })
}

// leads runs the duty under a new leadership while f runs, and a while after.
func (o rig) leads(f func()) {
	o.Helper()
	o.runs(&judge.Judge{Live: o.Live(), Log: o.RaftLog, Ironic: o.Ironic, Packer: o.Packer, Logger: o.Log}, func() {
		f()
		time.Sleep(time.Minute + 20*time.Second) // in a bubble
	})
}

// runs has a new leader do a duty while f runs.
func (o rig) runs(duty leader.Duty, f func()) {
	o.Helper()
	crown := inspecttest.Crown{Log: o.RaftLog, Lead: o.RaftLog.Must(fsm.Lead{Peer: "id-h1", Boot: "b"}).Token}
	ctx, stop := context.WithCancel(o.Ctx)
	var running sync.WaitGroup
	running.Go(func() {
		if err := duty.Run(ctx, crown); err != nil {
			o.Error(err)
		}
	})
	f()
	stop()
	running.Wait()
	if err := o.RaftLog.Truth().Check(); err != nil {
		o.Error(err)
	}
}

// machine is the document of a machine with disks.
func machine(disks ...string) string {
	var list []string
	for _, serial := range disks {
		list = append(list, fmt.Sprintf(`{"serial":%q,"size":480103981056}`, serial))
	}
	return fmt.Sprintf(`{"inventory":{"interfaces":[{"name":"eth0","mac_address":%q}],"disks":[%s]}}`, inspecttest.MacA,
		strings.Join(list, ","))
}

// inspect takes node A through an introspection.
func (o rig) inspect(document string) {
	o.Helper()
	o.Work(func(*work.Pool) {
		o.Boots(inspecttest.NodeA, inspecttest.MacA)
		if _, err := o.Service().Continue(o.Ctx, []byte(document)); err != nil {
			o.Error(err)
		}
		o.Becomes(inspecttest.NodeA, introspection.NodeFinished, time.Second)
	})
}

// handOver stores a document of node A that Ironic took, as a relay does.
func (o rig) handOver(document string) {
	o.Helper()
	packed, err := o.Packer.Pack([]byte(document))
	if err != nil {
		o.Fatal(err)
	}
	o.RaftLog.Must(relays.Accept{Node: inspecttest.NodeA, Document: packed, Timeout: time.Minute, Keep: time.Hour,
		Tried: relays.OutcomeTaken})
}

// told returns what events said of hardware.
func (o rig) told() (all []string) {
	for stored := range o.RaftLog.Truth().Events().After(eventring.ID{}) {
		if e := stored.Decode(); e.Topic == eventring.TopicHardware {
			all = append(all, strings.TrimSuffix(e.Action+" "+e.Fields["changes"]+e.Fields["differences"], " "))
		}
	}
	return all
}

func (o rig) wants(when string, want ...string) {
	o.Helper()
	if got := o.told(); !slices.Equal(got, want) {
		o.Errorf("%s: told %q, want %q", when, got, want)
	}
}

// TestChangesAreToldOnce: under one leader and the next, of Trivet's inspections and of
// Ironic's, also after the relay that brought the document has expired.
func TestChangesAreToldOnce(t *testing.T) {
	inRig(t, func(o rig) {
		swapped := func(was, is string) string {
			return fmt.Sprintf("changed disk %s went (size 480.1 GB); disk %s came (size 480.1 GB)", was, is)
		}
		o.leads(func() { o.inspect(machine("a")) })
		o.wants("the first inspection")
		o.inspect(machine("b")) // while there is no leader's duty
		o.leads(func() {})
		want := []string{swapped("a", "b")}
		o.wants("the second", want...)
		o.leads(func() { o.inspect(machine("b")) })
		o.wants("the same again, under another leader", want...)
		o.leads(func() { o.handOver(machine("c")) })
		want = append(want, swapped("b", "c"))
		o.wants("one of Ironic's", want...)
		time.Sleep(2 * time.Hour) // in a bubble: the relay expires
		if _, stored := o.RaftLog.Truth().RelayOf(inspecttest.NodeA); stored {
			t.Fatal("the relay is still stored")
		}
		o.leads(func() {})
		o.wants("the relay expired", want...)
		o.leads(func() { o.handOver(machine("d")) })
		want = append(want, swapped("c", "d"))
		o.wants("Ironic's next", want...)
		got, err := o.Service().Hardware().Changes(o.Ctx, inspecttest.NodeA, inspector.Linearizable)
		if err != nil || len(got.Changes) != 2 || !strings.HasPrefix(got.Changes[0].String(), "disk c went") {
			t.Errorf("%v, %v", got, err)
		}
	})
}

// TestEventNamesFewParts: its text is bounded whatever a ramdisk sends.
func TestEventNamesFewParts(t *testing.T) {
	inRig(t, func(o rig) {
		var disks []string
		for i := range 20 {
			disks = append(disks, fmt.Sprintf("s%d", i))
		}
		o.leads(func() { o.inspect(machine()) })
		o.leads(func() { o.inspect(machine(disks...)) })
		o.leads(func() {
			o.inspect(machine(strings.Repeat("x", 200), strings.Repeat("y", 200), strings.Repeat("z", 200)))
		})
		told := o.told()
		if len(told) != 2 || !strings.HasSuffix(told[0], " and 12 more") || !strings.HasSuffix(told[1], " more") {
			t.Errorf("%q", told)
		}
	})
}

// put writes an expectation as an operator does.
func (o rig) put(name, body string) {
	o.Helper()
	o.RaftLog.Must(expectations.Put{Name: name, Body: []byte(body)})
}

// TestMachinesAreJudged: at each inspection and again when an expectation, or the name of
// the node, is another one; the machine finishes in any case.
func TestMachinesAreJudged(t *testing.T) {
	inRig(t, func(o rig) {
		named := func(name string) {
			o.Ironic.Mu.Lock()
			defer o.Ironic.Mu.Unlock()
			o.Ironic.Nodes[inspecttest.NodeA] = ironic.Node{UUID: inspecttest.NodeA, Name: name, Provision: "manageable"}
		}
		const few = "unexpected compute: expected 2 x disk (size 480 GB), found 1"
		disks := func(n string) string {
			return `{"name":"compute","nodes":["compute-*"],"parts":[{"kind":"disk","number":"` + n + `","size":"480 GB"}]}`
		}
		named("compute-1")
		o.leads(func() { o.put("compute", disks("2")); o.inspect(machine("a")) })
		o.wants("too few disks", few)
		if n := o.RaftLog.Truth().Unexpected(); n != 1 {
			t.Errorf("%d unexpected machines", n)
		}
		o.leads(func() { o.put("compute", disks("1")) })
		o.wants("another expectation", few, "expected")
		o.leads(func() { o.put("compute", disks("2")) })
		o.leads(func() { named("storage-1") })
		o.wants("another name", few, "expected", few, "expected")
		o.leads(func() { named("compute-2") })
		o.leads(func() { o.RaftLog.Must(expectations.Delete{Name: "compute"}) })
		o.wants("no expectation", few, "expected", few, "expected", few, "expected")
		o.leads(func() {
			o.put("traits", `{"name":"traits","where":[{"kind":"disk"}],"parts":[{"kind":"CPU"}]}`)
		})
		if v, _ := o.RaftLog.Truth().Verdict(inspecttest.NodeA); !slices.Equal(v.By, []string{"traits"}) ||
			len(v.Differences) != 1 {
			t.Errorf("%+v", v)
		}
		if rec, _ := o.RaftLog.Truth().Record(inspecttest.NodeA); rec.State != introspection.NodeFinished {
			t.Errorf("it is %v", rec.State)
		}
	})
}

// TestNamesAreWaitedFor: while Ironic does not tell names no machine is judged by a
// pattern, and nothing is left out afterwards.
func TestNamesAreWaitedFor(t *testing.T) {
	inRig(t, func(o rig) {
		o.Ironic.Nodes[inspecttest.NodeA] = ironic.Node{UUID: inspecttest.NodeA, Name: "compute-1", Provision: "manageable"}
		o.put("compute", `{"name":"compute","nodes":["compute-*"],"parts":[{"kind":"disk","number":"2"}]}`)
		o.handOver(machine("a"))
		o.Ironic.Met("names", errors.New("no route"))
		o.leads(func() {})
		if _, judged := o.RaftLog.Truth().Verdict(inspecttest.NodeA); judged {
			t.Error("it was judged without its name")
		}
		o.Ironic.Met("names", nil)
		o.leads(func() {})
		o.wants("Ironic is back", "unexpected compute: expected 2 x disk, found 1")
	})
}

// TestVerdictGoesWithItsNode: of a machine that Ironic inspects, when Ironic lists other
// nodes and not this one; an empty list is not believed.
func TestVerdictGoesWithItsNode(t *testing.T) {
	inRig(t, func(o rig) {
		o.leads(func() { o.handOver(machine("a")) })
		for _, c := range []struct {
			listed []string
			judged bool
		}{{nil, true}, {[]string{inspecttest.NodeA}, true}, {[]string{inspecttest.NodeB}, false}} {
			o.Ironic.Mu.Lock()
			clear(o.Ironic.Nodes)
			for _, id := range c.listed {
				o.Ironic.Nodes[id] = ironic.Node{UUID: id, Provision: "manageable"}
			}
			o.Ironic.Mu.Unlock()
			for _, duty := range o.Sweeps().Duties() {
				o.runs(duty, func() { time.Sleep(time.Second) }) // in a bubble
			}
			if _, judged := o.RaftLog.Truth().Verdict(inspecttest.NodeA); judged != c.judged {
				t.Errorf("listed %v: judged %t", c.listed, judged)
			}
		}
		if err := o.RaftLog.Truth().Check(); err != nil {
			t.Error(err)
		}
	})
}
