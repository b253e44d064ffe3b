package firewall

import (
	"fmt"
	"testing"

	"github.com/trivet-ha/trivet/fsm/ironicports"
)

func ports(from, to int) (out []ironicports.Port) {
	for i := from; i < to; i++ {
		out = append(out, ironicports.Port{ID: fmt.Sprintf("p%d", i), MAC: fmt.Sprintf("52:54:00:00:%02x:%02x", i/256, i%256),
			Node: "00000000-0000-4000-8000-000000000001"})
	}
	return out
}

// pull commits a list as the duty does.
func (r *rig) pull(listed []ironicports.Port) (entries int) {
	r.t.Helper()
	v, _ := r.Changed()
	for _, c := range chunks(portDifference(v, listed)) {
		if err := r.apply(r.token, c).Err(); err != nil {
			r.t.Fatal(err)
		}
		entries++
	}
	return entries
}

func TestPullCommitsTheDifference(t *testing.T) {
	r := newRig(t)
	r.lead()
	const many = 2*pullChunk + 50
	if n := r.pull(ports(0, many)); n != 3 {
		t.Errorf("%d ports took %d entries, want 3", many, n)
	}
	listed := append(ports(10, many+5), ports(20, 30)...) // ten gone, five new, ten on two pages
	listed[0].MAC = "52:54:00:ff:00:01"
	if n := r.pull(listed); n != 1 {
		t.Errorf("16 changes took %d entries, want 1", n)
	}
	v, _ := r.Changed()
	if v.PortCount() != many-5 || v.Denied("52:54:00:00:00:03") || !v.Denied("52:54:00:ff:00:01") {
		t.Errorf("%d ports are known; the deleted one is denied: %v, the moved one: %v", v.PortCount(),
			v.Denied("52:54:00:00:00:03"), v.Denied("52:54:00:ff:00:01"))
	}
	if n := r.pull(listed); n != 1 {
		t.Errorf("no change took %d entries, want the one that says complete", n)
	}
	if p, ok := v.Pull(); !ok || p.Ports != many-5 {
		t.Errorf("the newest pull is %+v, %v", p, ok)
	}
}
