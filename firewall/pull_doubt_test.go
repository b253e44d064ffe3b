package firewall

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/ironicports"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/fsm/nodesync"
	"github.com/trivet-ha/trivet/test/msgcheck"
)

// portsAnswer is an Ironic whose lists of ports are whole, with status 200.
type portsAnswer struct{ listed []ironicports.Port }

func (a *portsAnswer) AllPorts(context.Context) ([]ironicports.Port, error) { return a.listed, nil }

// pulled runs the duty for a while, as one leadership.
func (r *rig) pulled(ironic PortLister, period, d time.Duration) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), d)
	defer cancel()
	if err := NewPull(ironic, r, period, msgcheck.Logger(r.t)).Run(ctx, r); err != nil {
		r.t.Error(err)
	}
}

const pullPeriod = 15 * time.Second

// A list of ports that suddenly lacks many of a site is doubted as one of nodes is: what it
// has more counts at once, and no MAC leaves the blacklist.
func TestPullDoubtsAShortList(t *testing.T) {
	fresh := ironicports.Port{ID: "fresh", MAC: "52:54:00:ff:00:01", Node: node(1)}
	for name, c := range map[string]struct {
		known, left int
		doubted     bool
	}{
		"none": {500, 0, true}, "none of few": {3, 0, true}, "one project's": {500, 3, true}, "a fifth": {500, 400, false},
		"more than a fifth": {500, 399, true}, "ten": {12, 2, false}, "eleven": {12, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.lead()
				r.pulled(&portsAnswer{ports(0, c.known)}, pullPeriod, time.Second)
				listed := ports(0, c.left)
				if c.left > 0 {
					listed = append(listed, fresh)
				}
				r.pulled(&portsAnswer{listed}, pullPeriod, 20*time.Second)
				v, _ := r.Changed()
				_, doubted := v.PortSuspicion()
				if gone := ports(0, c.known)[c.known-1].MAC; v.Denied(gone) != c.doubted || doubted != c.doubted {
					t.Errorf("blacklist-emptied: %d of %d ports are listed; %s is denied: %v, doubted: %v, want %v", c.left,
						c.known, gone, v.Denied(gone), doubted, c.doubted)
				}
				if c.left > 0 && !v.Denied(fresh.MAC) {
					t.Error("blacklist-emptied: a port that is new on a doubted list is not denied")
				}
			})
		})
	}
}

// A doubted list is believed once an operator has confirmed just that one, or it has said the
// same for a day, whoever leads meanwhile; and doubt ends with a list that is whole.
func TestDoubtOfPortsEnds(t *testing.T) {
	for name, period := range map[string]time.Duration{"confirmed": pullPeriod, "confirmed, one list a leadership": 0,
		"a day later": pullPeriod, "whole": pullPeriod} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.lead()
				ironic := &portsAnswer{ports(0, 40)}
				r.pulled(ironic, period, time.Second)
				ironic.listed = ports(30, 40)
				r.pulled(ironic, period, time.Second)
				v, _ := r.Changed()
				first, doubted := v.PortSuspicion()
				if !doubted || first.Missing != 30 || first.Known != 40 {
					t.Fatalf("doubt-of-ports: %+v", first)
				}
				time.Sleep(23 * time.Hour) // in a bubble
				r.lead()
				r.pulled(ironic, period, time.Second)
				v, _ = r.Changed()
				if again, _ := v.PortSuspicion(); again != first || v.PortCount() != 40 {
					t.Fatalf("doubt-of-ports: the next leader has %+v, was %+v, and %d ports", again, first, v.PortCount())
				}
				switch name {
				case "whole":
					ironic.listed = ports(0, 40)
				case "a day later":
					time.Sleep(time.Hour) // in a bubble
				default:
					go func() {
						time.Sleep(time.Second) // in a bubble
						if err := r.apply(0, nodesync.Confirm{Digest: first.Digest}).Err(); err != nil {
							t.Error(err)
						}
					}()
				}
				r.pulled(ironic, period, time.Minute)
				v, _ = r.Changed()
				if left, doubted := v.PortSuspicion(); doubted || v.PortCount() != len(ironic.listed) {
					t.Errorf("doubt-of-ports: %s: %+v and %d ports are left, want %d", name, left, v.PortCount(), len(ironic.listed))
				}
			})
		})
	}
}

// Nodes that were enrolled again have other ports of the same MACs: those stay denied, and
// nothing is doubted.
func TestPortsOfTheSameMACsAreNotMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.lead()
		r.pulled(&portsAnswer{ports(0, 40)}, pullPeriod, time.Second)
		again := slices.Clone(ports(0, 40))
		for i := range again {
			again[i].ID = "again-" + again[i].ID
		}
		r.pulled(&portsAnswer{again}, pullPeriod, time.Second)
		v, _ := r.Changed()
		if s, doubted := v.PortSuspicion(); doubted || v.PortCount() != 40 || !v.Denied(again[39].MAC) {
			t.Errorf("enrolled-again: %d ports, the last is denied: %v, doubted: %v %+v", v.PortCount(),
				v.Denied(again[39].MAC), doubted, s)
		}
	})
}

// Before all peers can read a doubt none is written, and the MACs stay all the same.
func TestDoubtOfPortsWaitsForOlderPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.lead()
		older := membership.Member{ID: "a", Name: "a", Address: "a:7350", Version: 2}
		if err := r.apply(0, membership.PutMember{Member: older}).Err(); err != nil {
			t.Fatal(err)
		}
		r.pulled(&portsAnswer{ports(0, 40)}, pullPeriod, time.Second)
		r.pulled(&portsAnswer{}, pullPeriod, 20*time.Second)
		v, _ := r.Changed()
		if s, doubted := v.PortSuspicion(); doubted || v.PortCount() != 40 {
			t.Errorf("blacklist-emptied: %d ports, doubted: %v %+v", v.PortCount(), doubted, s)
		}
	})
}

// A doubt that the log did not take is an error of the pull, which is tried again soon.
func TestDoubtThatIsNotCommittedIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.lead()
		r.pulled(&portsAnswer{ports(0, 500)}, pullPeriod, time.Second)
		lost := errors.New("leadership lost")
		r.propose = func(c fsm.Command) error {
			if _, doubt := c.(nodesync.Suspect); doubt {
				return lost
			}
			return nil
		}
		ctx, cancel := context.WithTimeout(t.Context(), pullRetry/2)
		defer cancel()
		pull := NewPull(&portsAnswer{}, r, pullPeriod, msgcheck.Logger(t))
		if err := pull.Run(ctx, r); err != nil || !errors.Is(pull.Err(), lost) {
			t.Errorf("doubt-uncommitted: the pull says %v (%v)", pull.Err(), err)
		}
	})
}

// A doubt that is known is not written again by each list that says the same.
func TestDoubtIsWrittenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.lead()
		r.pulled(&portsAnswer{ports(0, 500)}, pullPeriod, time.Second)
		written := 0
		r.propose = func(c fsm.Command) error {
			if _, doubt := c.(nodesync.Suspect); doubt {
				written++
			}
			return nil
		}
		r.pulled(&portsAnswer{}, pullPeriod, 10*pullPeriod)
		if written != 1 {
			t.Errorf("doubt-written-once: ten lists wrote it %d times", written)
		}
	})
}
