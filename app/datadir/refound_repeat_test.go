package datadir

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// A recovery that has switched already is given again as it was, as docs/recovery.md
// says: the lost hosts are recorded as removed by then.
func TestRecoverIsRepeatedAfterItsSwitch(t *testing.T) {
	f := newFounder(t)
	members := []string{"h2", "h3", "h4", "h5"}
	lost := []string{"h2", "h3", "id-h4"} // h5 is up and runs no peer
	f.open(nil, func(d *Dir) {
		plan, err := f.plan(d, VerbRecover)
		if err != nil {
			t.Fatal(err)
		}
		for i, name := range members {
			data, err := fsm.Encode(fsm.Header{},
				membership.PutMember{Member: membership.Member{ID: "id-" + name, Name: name, Address: name + ".example:7350",
					Version: fsm.Version}})
			if err != nil {
				t.Fatal(err)
			}
			plan.Last = plan.state.View().Index() + 1
			if err := plan.state.Apply(fsm.Entry{Index: plan.Last, Term: 1, Data: data}).Err(); err != nil {
				t.Fatal(i, err)
			}
		}
		plan.Others = others(plan.Self, plan.state.View())
		if err := plan.Judge(nil, lost); err != nil {
			t.Fatal(err)
		}
		if _, err := f.host.Found(d, plan); err != nil {
			t.Fatal(err)
		}
	})
	f.open(nil, func(d *Dir) {
		for name, c := range map[string]struct {
			loss []string
			said string
		}{
			"as it was given":   {lost, ""},
			"no peer is named":  {nil, ""},
			"one more is lost":  {append([]string{"h5"}, lost...), ""},
			"an unknown host":   {[]string{"h2", "h9"}, "--lost h9: no other member"},
			"this host is lost": {[]string{"h1"}, "--lost h1: no other member"},
		} {
			plan, err := f.plan(d, VerbRecover)
			if err != nil {
				t.Fatal(err)
			}
			err = plan.Judge(nil, c.loss)
			var refused *PresenceError
			if c.said == "" && err != nil ||
				c.said != "" && (!errors.As(err, &refused) || !strings.Contains(refused.Message, c.said)) {
				t.Errorf("recover-is-repeated: %s: %v, want %q", name, err, c.said)
			}
		}
	})
}

// A founding whose state the disk has not kept as it was written is not switched to:
// the old state stays whole, and the founding can be repeated.
func TestFoundingIsReadBack(t *testing.T) {
	for _, verb := range []string{VerbRecover, VerbRestore} {
		for name, damage := range map[string]func(text []byte) []byte{
			"a bit":   func(text []byte) []byte { text[len(text)/2] ^= 1; return text },
			"cut off": func(text []byte) []byte { return text[:len(text)/2] },
			"empty":   func([]byte) []byte { return nil },
		} {
			t.Run(verb+", "+name, func(t *testing.T) {
				f := newFounder(t)
				damaged := 0
				fault := func(op, path string) error {
					if op != "read back" {
						return nil
					}
					found, err := filepath.Glob(filepath.Join(path, "snapshots", "*", "state.bin"))
					if err != nil || len(found) != 1 {
						t.Fatalf("snapshots %v (%v)", found, err)
					}
					damaged++
					text, err := os.ReadFile(found[0])
					return errors.Join(err, os.WriteFile(found[0], damage(text), 0o600))
				}
				f.open(fault, func(d *Dir) {
					if err := f.found(d, verb); err == nil {
						t.Error("read-back: a founding with a damaged state succeeded")
					}
				})
				if damaged != 1 {
					t.Fatalf("the state was damaged %d times", damaged)
				}
				f.open(nil, func(d *Dir) {
					if f.whole(d, verb, "damaged") {
						t.Error("read-back: the damaged state took the place of the old one")
					}
					if err := f.found(d, verb); err != nil {
						t.Errorf("read-back: repeated: %v", err)
					}
				})
			})
		}
	}
}

// A restore goes on above the log of this host and above the snapshot, with the
// snapshot's content and the identity of this host.
func TestRestoreAboveBothHistories(t *testing.T) {
	f := newFounder(t)
	f.open(nil, func(d *Dir) {
		for range 3 {
			if err := f.found(d, VerbRecover); err != nil {
				t.Fatal(err)
			}
		}
		id, _, err := d.Load()
		if err != nil {
			t.Fatal(err)
		}
		local := f.state(d)
		f.host.Wall = func() time.Time { return time.Now().AddDate(0, 0, -300) }
		if err := f.found(d, VerbRestore); err != nil {
			t.Fatal(err)
		}
		v := f.state(d)
		if now, _, err := d.Load(); err != nil || now.ID != id.ID || now.Address != id.Address || len(v.Members()) != 1 {
			t.Errorf("this host is %+v (%v), was %+v; members %v", now, err, id, v.Members())
		}
		if v.Incarnation() <= local.Incarnation() || v.Base()+v.Index() <= local.Base()+local.Index() ||
			v.PassDoor().Shut() || v.AddressDoor().Shut() {
			t.Errorf("above-both: incarnation %d after %d, tokens from %d after %d, doors %+v", v.Incarnation(),
				local.Incarnation(), v.Base()+v.Index(), local.Base()+local.Index(), v.PassDoor())
		}
	})
}
