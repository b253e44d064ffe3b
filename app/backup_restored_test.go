package app

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
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

// A peer that was started has its snapshot's state until it has applied its log. That state
// takes the place of no backup of later, which may be the only one.
func TestBackupOfAPeerThatHasYetToApplyItsLog(t *testing.T) {
	r := newBackupRig(t, 1)
	snapshot := r.state
	var text bytes.Buffer
	if _, err := snapshot.View().WriteTo(&text); err != nil {
		t.Fatal(err)
	}
	r.pass(time.Minute)
	r.must()
	before := r.files()
	started, err := fsm.Read(&text)
	if err != nil {
		t.Fatal(err)
	}
	r.state, r.now = started, r.now.Add(2*time.Hour)
	r.must()
	if got := r.taken(before); len(got) != 0 {
		t.Errorf("backup-of-less: %v took the place of %v, which holds more", got, before)
	}
}
