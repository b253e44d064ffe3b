package cluster

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/fsm/membership"
)

// A peer tells its machine with every probe; what a silent one told is kept, and said to
// be old once its next process may run elsewhere.
func TestPeersTellTheirMachines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t)
		first, second := Machine{BootID: "b1", MachineID: "m"}, Machine{BootID: "b2", MachineID: "m"}
		r.answers = map[string]Report{"h2": {Machine: first}}
		c := r.contacts(t, nil)
		c.opts.Machine = Machine{BootID: "own"}
		expect := func(when, id string, want Machine, wantHeard bool) {
			t.Helper()
			if m, heard := c.MachineOf(id); m != want || heard != wantHeard {
				t.Errorf("machine: %s, of %s is known %+v, %v; want %+v, %v", when, id, m, heard, want, wantHeard)
			}
		}
		expect("at first", "h1", Machine{BootID: "own"}, true)
		expect("at first", "h2", first, true)
		expect("at first", "h3", Machine{}, false)
		r.set(func() { r.answers["h2"], r.answers["h3"] = Report{Machine: second}, Report{} })
		time.Sleep(2 * ContactEvery) // in a bubble
		expect("after a boot", "h2", second, true)
		expect("of an older version", "h3", Machine{}, true)
		r.set(func() { delete(r.answers, "h2") })
		time.Sleep(membership.SessionTTL / 2) // in a bubble
		expect("shortly after", "h2", second, true)
		time.Sleep(membership.SessionTTL) // in a bubble
		expect("silent", "h2", second, false)
		if got := c.Report(nil).Machine; got.BootID != "own" {
			t.Errorf("machine: this peer tells %+v", got)
		}
	})
}
