package datadir

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/fsm/settings"
)

// founder is a host with a cluster of one that was founded, and a backup of it.
type founder struct {
	t    *testing.T
	host Host
	root string
	file fsm.View // a backup, in which setting "from" is "backup"
}

func newFounder(t *testing.T) *founder {
	t.Helper()
	root := filepath.Join(t.TempDir(), "d")
	conf, err := config.Load(config.Sources{Flags: map[string]string{
		"name": "h1", "data_dir": root, "cluster.listen": "127.0.0.1:7350", "gossip.listen": "127.0.0.1:7351",
		"firewall.driver": "noop",
	}})
	if err != nil {
		t.Fatal(err)
	}
	f := &founder{t: t, root: root, host: Host{Config: conf, Wall: time.Now, Random: rand.Reader}}
	f.open(nil, func(d *Dir) {
		if _, err := f.host.Init(d); err != nil {
			t.Fatal(err)
		}
		f.file = with(t, f.state(d), "from", "backup")
	})
	return f
}

// with returns a state with one setting more.
func with(t *testing.T, v fsm.View, key, value string) fsm.View {
	t.Helper()
	s, err := copied(v)
	if err != nil {
		t.Fatal(err)
	}
	data, err := fsm.Encode(fsm.Header{}, settings.PutSetting{Key: key, Value: value})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(fsm.Entry{Index: v.Index() + 1, Term: 1, Data: data}).Err(); err != nil {
		t.Fatal(err)
	}
	return s.View()
}

// copied reads a state back from its snapshot.
func copied(v fsm.View) (*fsm.State, error) {
	var text bytes.Buffer
	if _, err := v.WriteTo(&text); err != nil {
		return nil, err
	}
	return fsm.Read(&text)
}

// open opens the data directory, which may fail where faults are made.
func (f *founder) open(fault func(op, path string) error, use func(*Dir)) {
	f.t.Helper()
	d, err := openDataDir(f.root, fault)
	if err != nil {
		if fault == nil {
			f.t.Fatal(err)
		}
		return
	}
	use(d)
	if err := d.Close(); err != nil {
		f.t.Fatal(err)
	}
}

func (f *founder) state(d *Dir) fsm.View {
	f.t.Helper()
	log, err := readLog(d)
	if err != nil {
		f.t.Fatal(err)
	}
	return log.State.View()
}

// found founds the cluster again by one of the verbs.
func (f *founder) found(d *Dir, verb string) error {
	f.t.Helper()
	plan, err := f.plan(d, verb)
	if err != nil {
		f.t.Fatal(err)
	}
	if err := plan.Judge(nil, called(plan.Others)); err != nil {
		f.t.Fatal(err)
	}
	_, err = f.host.Found(d, plan)
	return err
}

// called returns the names of peers.
func called(peers []membership.FormerMember) (names []string) {
	for _, m := range peers {
		names = append(names, m.Name)
	}
	return names
}

func (f *founder) plan(d *Dir, verb string) (*Refounding, error) {
	if verb == VerbRecover {
		return f.host.PlanRecover(d)
	}
	file, err := copied(f.file)
	if err != nil {
		return nil, err
	}
	return f.host.PlanRestore(d, file, "")
}

// whole demands that the directory holds the old state or the new one and nothing
// of the other, and returns which.
func (f *founder) whole(d *Dir, verb, step string) (founded bool) {
	f.t.Helper()
	id, secrets, err := d.Load()
	if err != nil {
		f.t.Fatalf("wholly-old-or-new: %s: %v", step, err)
	}
	v := f.state(d)
	founded = v.Incarnation() > 1
	if id.Incarnation != v.Incarnation() || secrets.Credentials.Identity.Incarnation != v.Incarnation() {
		f.t.Errorf("wholly-old-or-new: %s: identity of incarnation %d, certificate of %d, log of %d",
			step, id.Incarnation, secrets.Credentials.Identity.Incarnation, v.Incarnation())
	}
	if from, _ := v.Setting("from"); verb == VerbRestore && (from.Value == "backup") != founded {
		f.t.Errorf("wholly-old-or-new: %s: incarnation %d with setting %q", step, v.Incarnation(), from.Value)
	}
	old, err := Clean(f.root, true)
	if err != nil || len(old) > 0 != founded {
		f.t.Errorf("wholly-old-or-new: %s: incarnation %d, old states %v (%v)", step, v.Incarnation(), old, err)
	}
	entries, err := os.ReadDir(f.root)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			f.t.Errorf("wholly-old-or-new: %s: %s is left over", step, e.Name())
		}
	}
	return founded
}

// faults fails changes of the disk.
type faults struct {
	steps  []string
	at     int  // the step that fails
	killed bool // and all after it, as those of a dead process
	synced map[string]bool
	t      *testing.T
	root   string
	lost   bool // a power cut may take back that the departure was forgotten
}

func (f *faults) change(op, path string) error {
	step := len(f.steps)
	f.steps = append(f.steps, op+" "+filepath.Base(path))
	if op == "sync" {
		f.synced[path] = true
	}
	switch _, err := os.Stat(filepath.Join(f.root, departureFile)); {
	case op == "remove" && filepath.Base(path) == departureFile:
		f.lost = err == nil
	case op == "sync" && path == f.root:
		f.lost = false
	case op == "rename" && filepath.Base(path) == peerFolder && f.lost:
		f.t.Error("departure-before-the-peer: a power cut may leave the peer with the record that it is no member")
	}
	if op == "rename" && strings.HasPrefix(filepath.Base(path), foundedPrefix) {
		f.allSynced()
	}
	if step == f.at || f.killed && step > f.at {
		return syscall.ENOSPC
	}
	return nil
}

// allSynced demands that the disk has the new state when the host switches to it.
func (f *faults) allSynced() {
	tmp, err := filepath.Glob(filepath.Join(f.root, buildPattern))
	if err != nil || len(tmp) != 1 {
		f.t.Fatalf("new states: %v (%v)", tmp, err)
	}
	err = filepath.WalkDir(tmp[0], func(path string, _ fs.DirEntry, err error) error {
		if !f.synced[path] {
			f.t.Errorf("synced-before-the-switch: %s is not on the disk", path)
		}
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *founder) faults(at int, killed bool) *faults {
	return &faults{at: at, killed: killed, synced: make(map[string]bool), t: f.t, root: f.root}
}

// A founding fails, or its process is killed, before each change that it makes to
// the disk: the host has the old state or the new one, and the founding can be
// repeated. So it is where the process that finishes it is killed, too.
func TestFoundingAtEveryStep(t *testing.T) {
	for _, verb := range []string{VerbRecover, VerbRestore} {
		t.Run(verb, func(t *testing.T) {
			template := newFounder(t)
			pristine := template.root + ".pristine"
			if err := os.CopyFS(pristine, os.DirFS(template.root)); err != nil {
				t.Fatal(err)
			}
			again := func(t *testing.T) *founder {
				f := *template
				f.t = t
				if err := errors.Join(os.RemoveAll(f.root), os.CopyFS(f.root, os.DirFS(pristine))); err != nil {
					t.Fatal(err)
				}
				return &f
			}
			all := template.faults(-1, false)
			template.open(all.change, func(d *Dir) {
				if err := template.found(d, verb); err != nil {
					t.Fatal(err)
				}
			})
			if len(all.steps) < 15 ||
				!slices.ContainsFunc(all.steps, func(s string) bool { return strings.HasPrefix(s, "rename "+foundedPrefix) }) {
				t.Fatalf("steps: %v", all.steps)
			}
			strikes := 0
			for strikes < strikesWanted(t) {
				for n, step := range all.steps {
					for _, killed := range []bool{false, true} {
						strikes++
						t.Run(fmt.Sprintf("%02d %s, killed %v", n, step, killed), func(t *testing.T) { again(t).failAt(verb, n, killed) })
					}
				}
			}
			var died int
			for m := 0; ; m++ { // the process that finishes a switch dies at step m
				f := again(t)
				begun := f.faults(slices.IndexFunc(all.steps, func(s string) bool { return s == "rename "+peerFolder }), true)
				f.open(begun.change, func(d *Dir) {
					if err := f.found(d, verb); err == nil {
						t.Fatal("nothing failed")
					}
				})
				finish := f.faults(m, true)
				f.open(finish.change, func(*Dir) {})
				f.open(nil, func(d *Dir) {
					if !f.whole(d, verb, fmt.Sprintf("finishing, step %d", m)) {
						t.Errorf("wholly-old-or-new: finishing, step %d: the old state is back", m)
					}
				})
				if m >= len(finish.steps) {
					break
				}
				died++
			}
			if died < 3 {
				t.Errorf("finishing has %d steps", died)
			}
			t.Logf("%s: struck %d times, at each of %d steps, and %d times while it was finished", verb, strikes, len(all.steps),
				died)
		})
	}
}

func (f *founder) failAt(verb string, n int, killed bool) {
	faults := f.faults(n, killed)
	f.open(faults.change, func(d *Dir) {
		if err := f.found(d, verb); !errors.Is(err, syscall.ENOSPC) {
			f.t.Fatalf("the founding ended with %v", err)
		}
	})
	founded := false
	f.open(nil, func(d *Dir) { founded = f.whole(d, verb, "after it") })
	f.open(nil, func(d *Dir) {
		before := f.state(d)
		if err := f.found(d, verb); err != nil {
			f.t.Fatalf("repeat: %v", err)
		}
		after := f.state(d)
		if !f.whole(d, verb, "repeated") || after.Incarnation() <= before.Incarnation() || after.Base() <= before.Base() {
			f.t.Errorf("repeated after (founded: %v): incarnation %d after %d, base %d after %d", founded, after.Incarnation(),
				before.Incarnation(), after.Base(), before.Base())
		}
	})
}

// Recovered again after its clock was set back, a host has the later state.
func TestRecoverUnderAClockThatWasSetBack(t *testing.T) {
	f := newFounder(t)
	now := time.Now()
	var base, incarnation uint64
	for n, wall := range []time.Time{now, now.AddDate(0, 0, -1), now.AddDate(-1, 0, 0)} {
		f.host.Wall = func() time.Time { return wall }
		f.open(nil, func(d *Dir) {
			if err := f.found(d, VerbRecover); err != nil {
				t.Fatal(err)
			}
		})
		f.open(nil, func(d *Dir) {
			v := f.state(d)
			if v.Incarnation() <= max(incarnation, 1) || v.Base() <= base {
				t.Errorf("recovered-under-any-clock: the %d. time: incarnation %d, base %d after %d", n+1, v.Incarnation(),
					v.Base(), base)
			}
			base, incarnation = v.Base(), v.Incarnation()
		})
	}
}

// What recover takes from the end of the log has names of the new history.
func TestRecoverRenamesWhatIsNotProven(t *testing.T) {
	f := newFounder(t)
	f.open(nil, func(d *Dir) {
		plan, err := f.plan(d, VerbRecover)
		if err != nil {
			t.Fatal(err)
		}
		before := plan.state.View().Events().First()
		plan.Uncommitted = 1
		state, out, err := f.host.rewritten(plan)
		if err != nil {
			t.Fatal(err)
		}
		if first := state.View().Events().First(); first.Index != before.Index || first.Incarnation != out.Incarnation {
			t.Errorf("renamed-tail: the event %v is %v, in incarnation %d", before, first, out.Incarnation)
		}
	})
}

// A host without a peer restores under a new server ID; a host of another cluster
// only where the snapshot's is named.
func TestRestoreElsewhere(t *testing.T) {
	f, other := newFounder(t), newFounder(t)
	fresh := *f
	fresh.root = filepath.Join(t.TempDir(), "d")
	fresh.open(nil, func(d *Dir) {
		if err := fresh.found(d, VerbRestore); err != nil {
			t.Fatal(err)
		}
		id, _, err := d.Load()
		_, member := f.file.Member(id.ID)
		if v := fresh.state(d); err != nil || member || v.ClusterID() != f.file.ClusterID() || id.Name != "h1" ||
			v.Incarnation() <= f.file.Incarnation() {
			t.Errorf("on a new host: %+v (%v), cluster %s", id, err, v.ClusterID())
		}
		if old, err := Clean(fresh.root, false); err != nil || len(old) != 0 {
			t.Errorf("old states %v (%v)", old, err)
		}
	})
	other.file = f.file
	other.open(nil, func(d *Dir) {
		was, secrets, err := d.Load()
		if err != nil {
			t.Fatal(err)
		}
		ca := secrets.Credentials.CA
		var foreign *ForeignError
		if _, err := other.plan(d, VerbRestore); !errors.As(err, &foreign) || foreign.Theirs != f.file.ClusterID() {
			t.Errorf("foreign-is-refused: %v", err)
		}
		file, err := copied(f.file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.host.PlanRestore(d, file, "33333333-2222-4333-8444-555555555555"); !errors.As(err, &foreign) {
			t.Errorf("foreign-is-refused: misnamed: %v", err)
		}
		plan, err := other.host.PlanRestore(d, file, f.file.ClusterID())
		if err != nil {
			t.Fatal(err)
		}
		if err := plan.Judge(nil, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := other.host.Found(d, plan); err != nil {
			t.Fatal(err)
		}
		id, s, err := d.Load()
		if v := other.state(d); err != nil || id.ID != was.ID || s.Credentials.Identity.Cluster != was.Cluster ||
			v.ClusterID() != was.Cluster || !s.Credentials.CA.Equal(ca) {
			t.Errorf("this host is %+v of cluster %s (%v), was %+v", id, v.ClusterID(), err, was)
		} else if from, _ := v.Setting("from"); from.Value != "backup" {
			t.Errorf("setting %q", from.Value)
		}
		old, err := Clean(other.root, false)
		if err != nil || len(old) != 1 {
			t.Errorf("old states %v (%v)", old, err)
		}
		if _, err := os.Stat(old[0]); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there (%v)", old[0], err)
		}
	})
}

// What the other hosts answer decides.
func TestFoundingAsksTheOthers(t *testing.T) {
	member := func(name string) membership.FormerMember {
		return membership.FormerMember{ID: "id-" + name, Name: name, Address: name + ".example:7350"}
	}
	observer := member("h4")
	observer.Observer = true
	h2, h3 := member("h2"), member("h3")
	is := func(m membership.FormerMember, p cluster.Presence) cluster.Asked {
		return cluster.Asked{FormerMember: m, Presence: p, Detail: "detail of " + m.Name}
	}
	for name, test := range map[string]struct {
		verb  string
		asked []cluster.Asked
		loss  []string
		said  string // "": it goes on
		lost  int
	}{
		"restore, all stopped": {VerbRestore,
			[]cluster.Asked{is(h2, cluster.Stopped), is(h3, cluster.Stopped)}, nil, "", 0},
		"restore, one runs": {VerbRestore,
			[]cluster.Asked{is(h2, cluster.Stopped), is(h3, cluster.Running)}, nil,
			"peer h3 (h3.example:7350) runs: detail of h3", 0},
		"restore, one runs and is named lost": {VerbRestore,
			[]cluster.Asked{is(h2, cluster.Stopped), is(h3, cluster.Running)}, []string{"h3"}, "h3.example:7350) runs", 0},
		"restore, one is silent": {VerbRestore,
			[]cluster.Asked{is(h2, cluster.Silent), is(h3, cluster.Stopped)}, nil, "--lost h2", 0},
		"restore, one is silent, another named": {VerbRestore,
			[]cluster.Asked{is(h2, cluster.Silent), is(h3, cluster.Stopped)}, []string{"h3"}, "--lost h2,h3", 0},
		"restore, the silent one is named": {VerbRestore, []cluster.Asked{is(h2, cluster.Silent), is(h3, cluster.Stopped)},
			[]string{"h2"}, "", 1},
		"restore, by server ID": {VerbRestore, []cluster.Asked{is(h2, cluster.Silent), is(h3, cluster.Stopped)},
			[]string{"id-h2"}, "", 1},
		"restore, an unknown name": {VerbRestore,
			[]cluster.Asked{is(h2, cluster.Stopped), is(h3, cluster.Stopped)}, []string{"h9"}, "--lost h9: no other member", 0},
		"recover, all stopped": {VerbRecover,
			[]cluster.Asked{is(h2, cluster.Stopped), is(h3, cluster.Stopped)}, nil,
			"3 of 3 voters are not named lost, and a majority of them is 2", 0},
		"recover, one lost": {VerbRecover, []cluster.Asked{is(h2, cluster.Silent), is(h3, cluster.Stopped)},
			[]string{"h2"}, "2 of 3 voters are not named lost", 0},
		"recover, two lost": {VerbRecover, []cluster.Asked{is(h2, cluster.Silent), is(h3, cluster.Stopped)},
			[]string{"h2", "h3"}, "", 2},
		"recover, observers do not vote": {VerbRecover,
			[]cluster.Asked{is(h2, cluster.Silent), is(observer, cluster.Stopped)}, []string{"h2"}, "", 1},
		"recover, all are lost": {VerbRecover, []cluster.Asked{is(h2, cluster.Silent), is(h3, cluster.Stopped)},
			[]string{"h2", "h3"}, "", 2},
		"recover, all are lost, and one runs": {VerbRecover, []cluster.Asked{is(h2, cluster.Silent), is(h3, cluster.Running)},
			[]string{"h2", "h3"}, "h3.example:7350) runs", 0},
		"recover, former members do not vote": {VerbRecover,
			[]cluster.Asked{is(h2, cluster.Silent), is(member("former"), cluster.Stopped)}, []string{"h2"}, "", 1},
		"recover, alone": {VerbRecover, nil, nil, "", 0},
	} {
		r := &Refounding{Verb: test.verb, state: fsm.New()}
		voters := []string{"id-h1"}
		for _, a := range test.asked {
			r.Others = append(r.Others, a.FormerMember)
			if a.Name != "former" && !a.Observer {
				voters = append(voters, a.ID)
			}
		}
		if test.verb == VerbRecover && len(voters) > 1 {
			r.voters = [][]string{voters}
		}
		err := r.Judge(test.asked, test.loss)
		var refused *PresenceError
		switch {
		case test.said == "" && (err != nil || len(r.Lost) != test.lost || !r.judged):
			t.Errorf("others-are-asked: %s: %v, lost %v", name, err, r.Lost)
		case test.said == "":
		case !errors.As(err, &refused) || !strings.Contains(refused.Message+" "+refused.Remedy, test.said) || r.judged:
			t.Errorf("others-are-asked: %s: %v, want %q", name, err, test.said)
		}
	}
}
