package firewall

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/test/msgcheck"
)

const (
	inspectedA = "00000000-0000-4000-8000-00000000000a"
	inspectedB = "00000000-0000-4000-8000-00000000000b"
)

// inspecting is an Ironic that inspects.
type inspecting struct {
	macs   map[string][]string // by node
	err    error
	listed int // how often ports were
}

func (i *inspecting) Inspected(context.Context) ([]string, error) {
	return slices.Sorted(maps.Keys(i.macs)), i.err
}

func (i *inspecting) MACs(_ context.Context, node string) ([]string, error) {
	i.listed++
	return slices.Clone(i.macs[node]), nil
}

// followed runs the duty for a while.
func (r *rig) followed(ironic Inspections, d time.Duration) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), d)
	defer cancel()
	if err := NewFollow(ironic, r, slog.New(slog.DiscardHandler)).Run(ctx, r); err != nil {
		r.t.Error(err)
	}
}

func (r *rig) allowed() []string {
	v, _ := r.Changed()
	var macs []string
	for mac := range v.AllowedMACs() {
		macs = append(macs, mac)
	}
	return macs
}

func TestFollowLetsInWhatIronicInspects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.lead()
		ironic := &inspecting{macs: map[string][]string{
			inspectedA: {"52:54:00:00:00:02", "52:54:00:00:00:01", "52:54:00:00:00:02"}, inspectedB: nil}}
		r.followed(ironic, 500*time.Millisecond)
		if got := r.allowed(); !slices.Equal(got, []string{"52:54:00:00:00:01", "52:54:00:00:00:02"}) {
			t.Errorf("allowed are %v", got)
		}
		v, _ := r.Changed()
		if d := Desired(v, true, Policy{}); !d.Pass || len(d.Allow) != 2 {
			t.Errorf("the leader's rules are %+v", d)
		}
		// Ironic away: nothing changes.
		ironic.err = errors.New("down")
		delete(ironic.macs, inspectedA)
		r.followed(ironic, 3*time.Second)
		if got := r.allowed(); len(got) != 2 {
			t.Errorf("while Ironic is away %v are allowed", got)
		}
		ironic.err = nil
		r.followed(ironic, 500*time.Millisecond)
		if got := r.allowed(); len(got) != 0 {
			t.Errorf("after its inspection %v is allowed", got)
		}
		v, _ = r.Changed()
		if got := v.InspectedNodes(); len(got) != 1 || got[0].Node != inspectedB {
			t.Errorf("inspected are %v", got)
		}
		// A leader that does not follow takes back what another let in.
		r.followed(nil, 500*time.Millisecond)
		if v, _ = r.Changed(); v.Introspecting() {
			t.Errorf("a leader that does not follow left %v", v.InspectedNodes())
		}
	})
}

func TestFollowListsPortsSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.lead()
		ironic := &inspecting{macs: map[string][]string{inspectedA: {"52:54:00:00:00:01"}}}
		r.followed(ironic, portsEvery*inspectedEvery-inspectedEvery/2)
		if ironic.listed != 1 {
			t.Errorf("the ports of one node were listed %d times, want once", ironic.listed)
		}
		ironic.listed = 0
		r.followed(ironic, (portsEvery+1)*inspectedEvery)
		if ironic.listed != 2 {
			t.Errorf("the ports of one node were listed %d times, want twice", ironic.listed)
		}
	})
}

func TestFollowCommitsInBoundedEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.lead()
		ironic := &inspecting{macs: map[string][]string{}}
		for _, p := range ports(0, 2*inspectedChunk+1) {
			node := "00000000-0000-4000-8000-0000" + p.MAC[9:11] + p.MAC[12:14] + p.MAC[15:17] + "00"
			ironic.macs[node] = []string{p.MAC}
		}
		first := r.next
		r.followed(ironic, 500*time.Millisecond)
		v, _ := r.Changed()
		if n := len(v.InspectedNodes()); n != 2*inspectedChunk+1 || r.next-first != 4 {
			t.Errorf("%d nodes took %d entries, want %d in 3 and for how long", n, r.next-first, 2*inspectedChunk+1)
		}
		clear(ironic.macs)
		r.followed(ironic, 500*time.Millisecond)
		if v, _ = r.Changed(); v.Introspecting() {
			t.Errorf("%d are left", len(v.InspectedNodes()))
		}
	})
}

var _ Authority = (*rig)(nil)

// TestFollowWaitsForOlderPeers: what one of them would stop at is not proposed.
func TestFollowWaitsForOlderPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.lead()
		older := membership.Member{ID: "a", Name: "a", Address: "a:7350", Version: 1}
		if err := r.apply(0, membership.PutMember{Member: older}).Err(); err != nil {
			t.Fatal(err)
		}
		first := r.next
		r.followed(&inspecting{macs: map[string][]string{inspectedA: nil}}, 3*time.Second)
		if r.next != first {
			t.Errorf("%d entries were proposed", r.next-first)
		}
	})
}

// The state is told after which entry an inspection began: the newest before the last list of Ironic that did
// not have the node. Before a leader has seen one list, and while Ironic is away, that is not known.
func TestFollowTellsAfterWhatInspectionsBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.lead()
		first, later := manyNodes(2)[0], manyNodes(2)[1]
		ironic := &slowIronic{nodes: []string{first}}
		ctx, cancel := context.WithCancel(t.Context())
		follow := NewFollow(ironic, r, msgcheck.Logger(t))
		done := make(chan struct{})
		go func() { defer close(done); _ = follow.Run(ctx, r) }()
		defer func() { cancel(); <-done }()
		time.Sleep(5 * time.Second) // in a bubble
		v, _ := r.Changed()
		looked := fencing.At(v.Base(), v.Index())
		ironic.becomes(func() { ironic.away = true })
		time.Sleep(time.Minute) // in a bubble
		r.lead()                // entries that Ironic was not asked after
		ironic.becomes(func() { ironic.nodes, ironic.away = append(ironic.nodes, later), false })
		time.Sleep(5 * time.Second) // in a bubble
		v, _ = r.Changed()
		a, _ := v.Inspected(first)
		b, known := v.Inspected(later)
		if !a.After.IsZero() || !known || b.After != looked {
			t.Errorf("began-after: the one that was there began after %v, want 0; the new one after %v (%t), want %v", a.After,
				b.After, known, looked)
		}
	})
}

// What Ironic inspects is let in for a while after it was read last, whoever leads, and not before it is
// read again then. That costs an entry a minute, and none while nothing is let in.
func TestInspectionsThatAreNotReadEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.lead()
		ironic := &slowIronic{nodes: manyNodes(1)}
		mac := macOf(ironic.nodes[0])
		first := r.next
		r.followed(ironic, time.Hour)
		if n := r.next - first; n > 62 || !slices.Equal(r.allowed(), []string{mac}) {
			t.Errorf("inspections-are-kept: an hour took %d entries, allowed are %v", n, r.allowed())
		}
		ironic.away = true
		r.followed(ironic, inspectedKept/2)
		r.lead()
		r.followed(ironic, inspectedKept/2-inspectedSaid)
		r.lead()
		if !slices.Equal(r.allowed(), []string{mac}) {
			t.Errorf("inspections-are-kept: %v after they were read %v are allowed", inspectedKept-inspectedSaid, r.allowed())
		}
		r.followed(ironic, inspectedSaid)
		r.lead()
		v, _ := r.Changed()
		if d := Desired(v, true, Policy{DenyUnknown: true}); len(d.Allow) != 0 {
			t.Errorf("unread-inspections-end: %v after they were read %v are allowed", inspectedKept, d.Allow)
		}
		first = r.next
		r.followed(ironic, time.Hour)
		if r.next != first {
			t.Errorf("inspections-are-kept: an hour without any took %d entries", r.next-first)
		}
		ironic.away = false
		r.followed(ironic, 2*time.Second)
		if !slices.Equal(r.allowed(), []string{mac}) {
			t.Errorf("inspections-are-kept: once they are read again %v are allowed", r.allowed())
		}
	})
}

// What a leader of an older version recorded has no end, and gets one while Ironic is away.
func TestInspectionsOfOlderVersionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.lead()
		if err := r.apply(r.token, introspection.PutInspected{
			Nodes: []introspection.Inspected{{Node: inspectedA, MACs: []string{"52:54:00:00:00:01"}}}}).Err(); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		ctx, cancel := context.WithTimeout(t.Context(), inspectedKept+time.Minute)
		defer cancel()
		follow := NewFollow(&slowIronic{away: true}, r, slog.New(slog.NewTextHandler(&log, nil)))
		done := make(chan struct{})
		go func() { defer close(done); _ = follow.Run(ctx, r) }()
		time.Sleep(inspectedKept + 2*time.Second) // in a bubble
		r.lead()
		time.Sleep(2 * time.Second) // in a bubble
		got, err := r.allowed(), follow.Err()
		cancel()
		<-done
		if len(got) != 0 || !errors.Is(err, errInspectedEnded) ||
			strings.Count(log.String(), "no machine is let in for Ironic's own inspections") != 1 {
			t.Errorf("unread-inspections-end: allowed are %v, told is %v, logged\n%s", got, err, log.String())
		}
	})
}

// Of a node with hundreds of ports those are let in that Ironic says may boot, not those that come first by name.
func TestFollowLetsInWhatBoots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.lead()
		const boots = "ec:0d:9a:00:00:01"
		macs := []string{boots}
		for _, p := range ports(0, introspection.MaxInspectedMACs+2) {
			macs = append(macs, p.MAC)
		}
		r.followed(&inspecting{macs: map[string][]string{inspectedA: macs}}, 500*time.Millisecond)
		if got := r.allowed(); len(got) != introspection.MaxInspectedMACs || !slices.Contains(got, boots) {
			t.Errorf("boot-port-is-let-in: %d MACs, among them that of the port that boots: %t", len(got),
				slices.Contains(got, boots))
		}
	})
}
