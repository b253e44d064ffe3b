package app

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
)

// restore does what 'trivet snapshot restore' of a state does to a new host, whose clock
// is ahead by so much: the log goes on at the index of the file.
func (r *backupRig) restore(file fsm.View, ahead time.Duration) {
	r.t.Helper()
	var text bytes.Buffer
	if _, err := file.WriteTo(&text); err != nil {
		r.t.Fatal(err)
	}
	restored, err := fsm.Read(&text)
	if err == nil {
		err = restored.Refound(fsm.Refound{Index: file.Index(), UnixMillis: r.now.Add(ahead).UnixMilli(),
			NewIncarnation: true, Survivor: "a"})
	}
	if err != nil {
		r.t.Fatal(err)
	}
	r.state, r.peer.Incarnation = restored, restored.View().Incarnation()
}

// taken is the backups that there are now and were not before.
func (r *backupRig) taken(before []string) []string {
	return slices.DeleteFunc(r.files(), func(name string) bool { return slices.Contains(before, name) })
}

// A snapshot that is older than the newest backups is restored, on hosts whose backups
// are still there. The backups of the new history are the newest, although its indices
// are lower, and replace the old ones period by period; the first is taken at once. So
// it is where the clock of an earlier founding was ahead, and with names of v0.2.0.
func TestBackupsAfterARestore(t *testing.T) {
	for name, test := range map[string]struct {
		ahead time.Duration // of the founding before
		old   bool          // names without an incarnation
	}{"a restore": {}, "after one under a clock ahead": {ahead: 24 * time.Hour}, "backups of v0.2.0": {old: true}} {
		t.Run(name, func(t *testing.T) {
			const keep = 3
			r := newBackupRig(t, keep)
			older := r.state.View()
			if test.ahead > 0 {
				r.restore(older, test.ahead)
			}
			for range keep {
				for range 50 {
					r.pass(time.Minute)
				}
				r.pass(10 * time.Minute)
				r.must()
			}
			if test.old {
				r.dropIncarnations()
			}
			before := r.files()
			r.restore(older, 0)
			for n := range keep {
				for range 10 { // looks
					r.must()
					r.pass(10 * time.Second)
				}
				if got := r.taken(before); len(got) != n+1 || len(r.files()) != keep {
					t.Fatalf("restored-backups: in period %d of the new history there are %d backups of it, want %d:\n%s", n+1,
						len(got), n+1, strings.Join(r.files(), "\n"))
				}
				r.pass(time.Hour)
			}
		})
	}
}

// dropIncarnations gives the backups the names that v0.2.0 gave them.
func (r *backupRig) dropIncarnations() {
	r.t.Helper()
	ours, err := r.list()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, one := range ours {
		name := fmt.Sprintf("%s%s-%d%s", r.prefix(), one.taken.Format(backupForm), one.index, backupEnd)
		if err := os.Rename(filepath.Join(r.conf.Directory, one.name), filepath.Join(r.conf.Directory, name)); err != nil {
			r.t.Fatal(err)
		}
	}
}

// copied returns the state as a snapshot of this moment has it.
func (r *backupRig) copied() *fsm.State {
	r.t.Helper()
	var text bytes.Buffer
	if _, err := r.state.View().WriteTo(&text); err != nil {
		r.t.Fatal(err)
	}
	snapshot, err := fsm.Read(&text)
	if err != nil {
		r.t.Fatal(err)
	}
	return snapshot
}

// A peer that was started has its snapshot's state until it has applied its log. That state
// takes the place of no backup of later, which may be the only one.
func TestBackupOfAPeerThatHasYetToApplyItsLog(t *testing.T) {
	r := newBackupRig(t, 1)
	snapshot := r.copied()
	r.pass(time.Minute)
	r.must()
	before := r.files()
	r.state, r.now = snapshot, r.now.Add(2*time.Hour)
	r.must()
	if got := r.taken(before); len(got) != 0 {
		t.Errorf("backup-of-less: %v took the place of %v, which holds more", got, before)
	}
}

// So it is where the directory is empty, or the snapshot is newer than the newest backup: the
// first backup after a start waits until the peer has applied what opened its session.
func TestFirstBackupAfterAStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newBackupRig(t, 12)
		snapshot := r.copied()
		for range 1000 {
			r.pass(7 * time.Minute)
		}
		full := r.state
		r.state, r.opened = snapshot, 0 // started
		r.must()
		r.opened = full.View().Index() + 1 // the leader's answer comes before the log
		r.must()
		if got := r.files(); len(got) != 0 {
			t.Errorf("first-backup: %v was taken of the snapshot's state", got)
		}
		r.state = full
		r.must()
		r.pass(time.Second)
		r.must()
		if ours, err := r.list(); err != nil || len(ours) != 1 || ours[0].index != full.View().Index() {
			t.Errorf("first-backup: %+v of a peer that has caught up: %v", ours, err)
		}
	})
}

// A peer that hears of no leader backs up what it has after ten minutes, by a clock that no
// step of the wall clock moves, and the whole once it has caught up.
func TestFirstBackupWithoutALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newBackupRig(t, 12)
		var said bytes.Buffer
		r.log = slog.New(slog.NewTextHandler(&said, nil))
		snapshot := r.copied()
		for range 40 {
			r.pass(time.Second)
		}
		full := r.state
		r.state, r.opened, r.stored = snapshot, 0, fencing.At(full.View().Base(), full.View().Index())
		r.now = r.now.Add(24 * time.Hour).Truncate(time.Hour)
		time.Sleep(backupCatchUp - time.Second) // in a bubble
		r.must()
		if got := r.files(); len(got) != 0 {
			t.Errorf("no-leader-yet: %v", got)
		}
		time.Sleep(2 * time.Second) // in a bubble
		for range 3 {
			r.must()
		}
		if ours, err := r.list(); err != nil || len(ours) != 1 || ours[0].index != 1 {
			t.Errorf("no-leader: %+v, %v", ours, err)
		}
		if !strings.Contains(said.String(), "missing=40\n") {
			t.Errorf("no-leader: the log says %s", said.String())
		}
		r.state, r.opened = full, 1
		for range 3 {
			r.pass(time.Second)
			r.must()
		}
		if ours, err := r.list(); err != nil || len(ours) != 2 || ours[1].index <= 40 {
			t.Errorf("caught-up: the backups are %+v, %v", ours, err)
		}
	})
}
