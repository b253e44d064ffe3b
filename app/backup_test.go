package app

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/internal/bounds"
)

// backupRig is a peer's backups under a clock and a log of the test's.
type backupRig struct {
	*backups
	t     *testing.T
	state *fsm.State
	now   time.Time
	room  uint64
	// opened is the index at which this process opened its session; 0: it has none.
	opened uint64
}

func newBackupRig(t *testing.T, keep int) *backupRig {
	t.Helper()
	const id = "11111111-2222-4333-8444-555555555555"
	state, err := fsm.Founded(fsm.Found{
		ClusterID: id, CACert: []byte("-----BEGIN X"), CAKey: []byte("-----BEGIN X"), GossipKey: make([]byte, 32),
		Member: membership.Member{ID: "a", Name: "h1", Address: "192.0.2.1:7350", Version: fsm.Version},
	}, time.UnixMilli(1))
	if err != nil {
		t.Fatal(err)
	}
	r := &backupRig{t: t, state: state, now: time.Date(2026, 7, 1, 12, 0, 30, 0, time.UTC), room: 1 << 40, opened: 1}
	r.backups = &backups{
		conf: config.Backup{Directory: t.TempDir(), Every: time.Hour, Keep: keep},
		peer: datadir.Identity{ID: "a", Name: "h1", Cluster: id, Incarnation: state.View().Incarnation()},
		view: func() fsm.View { return r.state.View() }, wall: func() time.Time {
			return r.now
		}, log: slog.New(slog.DiscardHandler), began: r.now,
		free: func(string) (uint64, error) { return r.room, nil },
		progress: progress{started: time.Now(), session: func() fencing.Token {
			if r.opened == 0 {
				return 0
			}
			return fencing.At(r.state.View().Base(), r.opened)
		}},
	}
	return r
}

// pass lets time go by and something happen.
func (r *backupRig) pass(d time.Duration) {
	r.t.Helper()
	r.now = r.now.Add(d)
	data, err := fsm.Encode(fsm.Header{}, fsm.Probe{})
	if err != nil {
		r.t.Fatal(err)
	}
	if err := r.state.Apply(fsm.Entry{Index: r.state.View().Index() + 1, Term: 1, Data: data}).Err(); err != nil {
		r.t.Fatal(err)
	}
}

func (r *backupRig) files() (names []string) {
	r.t.Helper()
	entries, err := os.ReadDir(r.conf.Directory)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func (r *backupRig) must() {
	r.t.Helper()
	if err := r.backUpIfDue(); err != nil {
		r.t.Fatal(err)
	}
}

// A peer that is killed while it writes a backup leaves a file as large as the state. The next
// one removes its own, and no other peer's.
func TestUnfinishedBackupIsRemoved(t *testing.T) {
	r := newBackupRig(t, 2)
	others := strings.Replace(r.unfinished(), "-h1-", "-h2-", 1) + "1"
	for _, name := range []string{r.unfinished() + "1", r.unfinished() + "2", others} {
		if err := os.WriteFile(filepath.Join(r.conf.Directory, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r.must()
	if got := r.files(); len(got) != 2 || got[0] != others {
		t.Errorf("unfinished-backup: the directory holds %v", got)
	}
}

// A share that hangs under the backups holds no stop up, and the backup under way is waited for.
func TestStopWhileTheBackupsHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newBackupRig(t, 2)
		r.failing = slog.New(slog.DiscardHandler)
		for _, slow := range []time.Duration{time.Second, time.Hour} {
			r.backups.free = func(string) (uint64, error) { time.Sleep(slow); return r.room, nil }
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan time.Time, 1)
			go func() { r.Run(ctx); ended <- time.Now() }()
			synctest.Wait() // the backup has begun
			began := time.Now()
			stop()
			if got, want := (<-ended).Sub(began), min(slow, bounds.FileLimit); got != want {
				t.Errorf("backup-share-hangs: a backup that takes %v held the stop up for %v, want %v", slow, got, want)
			}
			time.Sleep(slow)
			synctest.Wait() // it has ended
			r.pass(time.Hour)
		}
	})
}

// The server of the share dies for good under a backup, and another one is mounted there: the peer takes backups
// again, a call that hangs for ever notwithstanding, tells of the hang meanwhile, and what was slow is none.
func TestBackupsGoOnAfterAHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newBackupRig(t, 2)
		r.failing = slog.New(slog.DiscardHandler)
		share, calls := make(chan struct{}), atomic.Int64{}
		var good atomic.Bool
		r.backups.free = func(string) (uint64, error) {
			if calls.Add(1); !good.Load() {
				<-share
			}
			time.Sleep(backupHang - time.Second) // in a bubble
			return r.room, nil
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { r.Run(ctx); close(ended) }()
		time.Sleep(24 * time.Hour) // in a bubble
		synctest.Wait()
		told := r.warnings()
		if len(told) != 1 || told[0].Code != "backup_failed" || !strings.Contains(told[0].Text, r.conf.Directory) ||
			!strings.Contains(told[0].Remedy, "restart the peer or wait") {
			t.Errorf("backup-hang-is-told: %+v", told)
		}
		if n := calls.Load(); n < 3 || n > 24 {
			t.Errorf("backup-hang-is-bounded: %d calls hang after a day", n)
		}
		good.Store(true)
		time.Sleep(24 * time.Hour) // in a bubble
		synctest.Wait()
		if got := r.files(); len(got) != 1 || r.warnings() != nil {
			t.Errorf("backups-go-on: a day after the share is good there are %v, and it warns of %+v", got, r.warnings())
		}
		stop()
		<-ended
		r.now = r.now.Add(time.Minute) // another would have another name
		close(share)
		time.Sleep(backupHang) // in a bubble
		synctest.Wait()
		if got := r.files(); len(got) != 1 {
			t.Errorf("given-up-backup-is-over: once the old calls have ended there are %v", got)
		}
	})
}

// Peers share a directory, and the name of one begins that of another. What the other is
// writing stays, and so do its backups.
func TestUnfinishedBackupOfALongerName(t *testing.T) {
	short := newBackupRig(t, 1)
	for _, name := range []string{"h1-new", "h1-new-1", "h1-new-new", "h1-1", "h1-20260701T120030Z"} {
		short.must()
		long := newBackupRig(t, 1)
		long.conf.Directory, long.peer.Name = short.conf.Directory, name
		long.must()
		tmp, err := os.CreateTemp(long.conf.Directory, long.unfinished()+"*")
		if err != nil || tmp.Close() != nil {
			t.Fatal(err)
		}
		before := short.files()
		short.must()
		if got := short.files(); !slices.Equal(got, before) {
			t.Errorf("longer-name: h1 left %v of %v", got, before)
		}
		long.must()
		if got := short.files(); len(got) != len(before)-1 {
			t.Errorf("longer-name: %s left what it was writing: %v", name, got)
		}
	}
}

func TestBackupsAreKeptAndDropped(t *testing.T) {
	r := newBackupRig(t, 2)
	foreign := []string{"trivet-" + r.peer.Cluster + "-h2-20200101T000000Z-1.snap",
		"trivet-" + r.peer.Cluster + "-h1-notes.snap", "keep.me"}
	for _, name := range foreign {
		if err := os.WriteFile(filepath.Join(r.conf.Directory, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 5 {
		r.must()
		r.must() // the same period: nothing
		want := min(i+1, 2) + len(foreign)
		if got := len(r.files()); got != want {
			t.Fatalf("retention: %d files after %d periods, want %d: %v", got, i+1, want, r.files())
		}
		r.pass(time.Hour)
	}
	all := strings.Join(r.files(), " ")
	for _, name := range foreign {
		if !strings.Contains(all, name) {
			t.Errorf("backup-leaves-others-alone: %s is gone", name)
		}
	}
	ours, err := r.list()
	if err != nil || len(ours) != 2 || ours[1].index <= ours[0].index {
		t.Fatalf("%+v: %v", ours, err)
	}
	path := filepath.Join(r.conf.Directory, ours[1].name)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v: %v", info.Mode(), err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if back, err := fsm.Read(f); err != nil || back.View().Index() != ours[1].index {
		t.Errorf("read back: %v", err)
	}
}

func TestBackupsFailLoudly(t *testing.T) {
	r := newBackupRig(t, 1)
	r.must()
	if w := r.warnings(); w != nil {
		t.Errorf("%+v", w)
	}
	r.pass(time.Hour)
	r.room = 1 << 20
	before := r.files()
	if err := r.backUpIfDue(); err == nil || !strings.Contains(err.Error(), "make room") {
		t.Errorf("backup-leaves-room: on a full disk: %v", err)
	}
	if got := r.files(); len(got) != 1 || got[0] != before[0] {
		t.Errorf("the last good one: %v, was %v", got, before)
	}
	if w := r.warnings(); len(w) != 1 || w[0].Code != "backup_failed" {
		t.Errorf("%+v", w)
	}
	r.room = 1 << 40
	r.must()
	if w := r.warnings(); w != nil || len(r.files()) != 1 || r.files()[0] == before[0] {
		t.Errorf("%+v, %v", w, r.files())
	}
	r.now = r.now.Add(3 * time.Hour) // and nothing comes from a leader
	r.must()
	if w := r.warnings(); len(w) != 1 || w[0].Code != "backup_old" || r.age() < 3*time.Hour {
		t.Errorf("after %v: %+v", r.age(), w)
	}
	if err := os.RemoveAll(r.conf.Directory); err != nil {
		t.Fatal(err)
	}
	if err := r.backUpIfDue(); !errors.Is(err, errBackupDirectory) {
		t.Errorf("without a directory: %v", err)
	}
}

// Backups that no longer fit go on where the operator sets backup.keep lower, as the error says:
// what is beyond it goes before the next is taken, and the newest stay where that is not enough.
func TestLowerKeepMakesRoom(t *testing.T) {
	r := newBackupRig(t, 12)
	for range 12 {
		r.must()
		r.pass(time.Hour)
	}
	before := r.files()
	r.free = func(string) (uint64, error) { return uint64(12-len(r.files())) * backupReserve / 9, nil }
	if err := r.backUpIfDue(); err == nil {
		t.Fatal("a backup was taken on a full disk")
	}
	r.conf.Keep = 3
	if err := r.backUpIfDue(); err == nil || !slices.Equal(r.files(), before[9:]) {
		t.Errorf("lower-keep: with no more than that: %v, and there are %v", err, r.files())
	}
	r.conf.Keep = 2
	r.must()
	if got := r.files(); len(got) != 2 || got[0] != before[11] {
		t.Errorf("lower-keep: after backup.keep was set to 2 there are %v, want %s and a new one", got, before[11])
	}
}

// One backup under a clock that is two hours ahead costs no other: there was one each
// ten seconds, and each displaced one of the hours before.
func TestBackupUnderAClockAhead(t *testing.T) {
	r := newBackupRig(t, 24)
	for range 24 {
		r.must()
		r.pass(time.Hour)
	}
	before := r.files()
	r.pass(2 * time.Hour)
	r.must()
	r.pass(-2 * time.Hour)
	for range 30 { // five minutes
		r.must()
		r.pass(10 * time.Second)
	}
	kept := 0
	for _, name := range r.files() {
		if slices.Contains(before, name) {
			kept++
		}
	}
	if kept < 22 {
		t.Errorf("backup-clock-ahead: %d of 24 backups are left: %v", kept, r.files())
	}
	ours, err := r.list()
	if err != nil || ours[len(ours)-1].taken.After(r.now) {
		t.Errorf("backup-clock-ahead: the newest is %+v at %v, %v", ours[len(ours)-1], r.now, err)
	}
}

// Clocks are set; peers take turns.
func TestBackupsByTheClock(t *testing.T) {
	r := newBackupRig(t, 9)
	r.must()
	r.pass(-2 * time.Hour)
	r.must()
	if n := len(r.files()); n != 2 {
		t.Errorf("after the clock was set back: %d files", n)
	}
	data, err := fsm.Encode(fsm.Header{},
		membership.PutMember{Member: membership.Member{ID: "0", Name: "h0", Address: "192.0.2.2:7350", Version: fsm.Version}})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.state.Apply(fsm.Entry{Index: r.state.View().Index() + 1, Term: 1, Data: data}).Err(); err != nil {
		t.Fatal(err)
	}
	at := func(hour, minute int) []backup {
		return []backup{{name: "x", taken: time.Date(2026, 7, 1, hour, minute, 0, 0, time.UTC), incarnation: 1, index: 1}}
	}
	for _, test := range []struct {
		taken []backup
		now   int // minute after 15:00
		due   bool
	}{{at(14, 35), 20, false}, {at(14, 35), 31, true}, {at(14, 25), 0, true}} { // the second of two begins at half past
		r.now = time.Date(2026, 7, 1, 15, test.now, 0, 0, time.UTC)
		if got := r.due(r.state.View(), test.taken); got != test.due {
			t.Errorf("taken at %v, at %v it is due: %v", test.taken[0].taken, r.now, got)
		}
	}
}
