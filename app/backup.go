package app

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/app/health"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/internal/bounds"
	"github.com/trivet-ha/trivet/internal/pace"
	"github.com/trivet-ha/trivet/raftstore/ballast"
)

// Values of backups.
const (
	backupLook  = 10 * time.Second // how often the peer checks whether a backup is due
	backupRetry = 5 * time.Minute  // after a backup that failed
	// backupHang is how long one call of the directory's file system may take, 4 MiB of a backup at most.
	backupHang = 5 * time.Minute
	// backupCatchUp is how long a peer that was started waits for a leader: until that one tells
	// what is committed, the peer has the state of its snapshot, which may be that of the founding.
	backupCatchUp = 10 * time.Minute
	// backupReserve stays free on the disk, besides twice the last backup's size.
	backupReserve = 64 << 20
	backupForm    = "20060102T150405Z"
	backupEnd     = ".snap"
	// backupLate is how many periods old the newest backup may be without a warning.
	backupLate = 2
)

// errBackupDirectory says that the directory does not exist. The peer does not make
// it: below the mount point of a file system that is not mounted, the backups would
// fill another disk.
var errBackupDirectory = errors.New(
	"backup.directory is not there; make it with mode 0700, owned by the user of the service")

// backups takes snapshots of what this peer has applied. Each peer does, on its own
// disk and without a quorum: a backup on the leader's disk alone would be lost with
// the leader. Its methods may be called concurrently.
type backups struct {
	conf config.Backup
	peer datadir.Identity
	view func() fsm.View
	wall func() time.Time
	free func(path string) (uint64, error) // bytes
	log  *slog.Logger
	// failing logs what fails at each try.
	failing *slog.Logger
	began   time.Time
	progress
	early bool // the newest was taken before this peer had caught up; Run's alone

	steps bounds.Steps // of the newest attempt; Run's alone

	mu     sync.Mutex
	newest backup
	err    error
	failed int
}

// progress tells how far a peer has come since it was started.
type progress struct {
	stored  fencing.Token // of the newest entry that was on the disk at the start
	session func() fencing.Token
	started time.Time // by the monotonic clock, which no correction of the wall clock moves
}

// backup is one backup file of this peer.
type backup struct {
	name        string
	taken       time.Time // by the wall clock
	incarnation uint64    // of the cluster; 0 in the name of one of v0.2.0
	index       uint64    // of the log
}

// Run takes backups until ctx ends; without a directory it returns at once.
func (b *backups) Run(ctx context.Context) {
	if b.conf.Directory == "" {
		return
	}
	for {
		wait := backupLook
		if err := b.attempt(ctx); err != nil {
			b.failing.Error("take backup failed, retrying", "retry_in", backupRetry, "err", err)
			wait = backupRetry
		}
		if !pace.Wait(ctx, wait) {
			return
		}
	}
}

// attempt is backUpIfDue, of which one under way when ctx ends is waited for up to bounds.FileLimit: the
// directory may be on a share that hangs, and the peer has to stop.
func (b *backups) attempt(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- b.backUpIfDue() }() // its owner gives it up where it hangs
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	timer := time.NewTimer(bounds.FileLimit)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return fmt.Errorf("backup.directory: %w", bounds.ErrHangs)
	}
}

// backUpIfDue takes a backup if one is due, and drops what is too old: before, so that a lower
// backup.keep makes room for it, and after.
func (b *backups) backUpIfDue() (err error) {
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.err = err
		if err != nil {
			b.failed++
		}
	}()
	b.steps.Begin()
	if err := b.sweep(); err != nil {
		return err
	}
	ours, err := b.list()
	if err != nil {
		return err
	}
	v := b.view()
	if len(ours) > 0 {
		b.remember(ours[len(ours)-1])
	}
	ours, dropped := b.drop(ours)
	if b.steps.Hung() || v.ClusterID() == "" || !b.due(v, ours) {
		return dropped // the log has yet to come, or it is too early
	}
	made, err := b.writeBackup(v, ours)
	if err != nil {
		return errors.Join(err, dropped)
	}
	b.remember(made)
	b.early = !b.caughtUp(v)
	b.log.Info("backup taken", "file", made.name, "index", made.index, "missing", b.missing(v))
	_, err = b.drop(append(ours, made)) // made, which was read back, always stays
	return errors.Join(err, dropped)
}

// step makes one call of the directory's file system, which may be a share that hangs
// (docs/design.md#eyes): the attempt is given up then.
func (b *backups) step(call func() error) error {
	err := b.steps.Do(backupHang, call)
	if b.steps.Hung() {
		return fmt.Errorf("%s: %w", b.conf.Directory, err)
	}
	return err
}

func (b *backups) remove(names ...string) (err error) {
	for _, name := range names {
		err = errors.Join(err, b.step(func() error { return os.Remove(filepath.Join(b.conf.Directory, name)) }))
		if b.steps.Hung() {
			break
		}
	}
	return err
}

func (b *backups) entries() ([]os.DirEntry, error) {
	var all []os.DirEntry
	if err := b.step(func() (err error) { all, err = os.ReadDir(b.conf.Directory); return err }); err != nil {
		return nil, err
	}
	return all, nil
}

// drop removes all but the newest backup.keep, and returns those.
func (b *backups) drop(ours []backup) (kept []backup, err error) {
	surplus := max(len(ours)-b.conf.Keep, 0)
	var old []string
	for _, one := range ours[:surplus] {
		old = append(old, one.name)
	}
	return ours[surplus:], b.remove(old...)
}

// caughtUp says whether the view holds the entry that opened this process's session, and so
// all that was committed before the process began.
func (p progress) caughtUp(v fsm.View) bool {
	session := p.session()
	return !session.IsZero() && fencing.At(v.Base(), v.Index()) >= session
}

// missing counts the entries of this host's log, as it was at the start, that the view lacks.
func (p progress) missing(v fsm.View) uint64 {
	if has := fencing.At(v.Base(), v.Index()); has < p.stored {
		return uint64(p.stored - has)
	}
	return 0
}

func (b *backups) remember(newest backup) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.newest = newest
}

// due says whether the newest backup is of an earlier period, or of the history before
// the cluster was founded again. Periods of peers begin one after the other, by their
// place among the members. A clock that was set back, and left backups of the future, is
// no reason to take none. A peer that has yet to catch up takes none for backupCatchUp.
func (b *backups) due(v fsm.View, ours []backup) bool {
	now, current := b.wall(), b.caughtUp(v)
	if !current && time.Since(b.started) < backupCatchUp {
		return false
	}
	if len(ours) == 0 {
		return true
	}
	newest := ours[len(ours)-1]
	if newest.incarnation != b.peer.Incarnation {
		return true
	}
	if v.Index() <= newest.index {
		return false // nothing came since, or a peer that was started has yet to apply what it holds
	}
	if newest.taken.After(now) || b.early && current {
		return true
	}
	members := v.Members()
	place := max(slices.IndexFunc(members, func(m membership.Member) bool { return m.ID == b.peer.ID }), 0)
	offset := b.conf.Every / time.Duration(max(len(members), 1)) * time.Duration(place)
	return newest.taken.Before(now.Add(-offset).Truncate(b.conf.Every).Add(offset))
}

// prefix begins the names of this peer's backups of this cluster, so that peers
// and clusters may share a directory.
func (b *backups) prefix() string { return "trivet-" + b.peer.Cluster + "-" + b.peer.Name + "-" }

// unfinished begins the names of this peer's backups that are being written.
func (b *backups) unfinished() string { return "." + b.prefix() + "new-" }

// sweep removes what a process that was killed has left of a backup: each is as large as
// the state, and has a name that is never used again.
func (b *backups) sweep() error {
	entries, err := b.entries()
	if err != nil {
		return nil // list says so
	}
	var left []string
	for _, e := range entries {
		// The rest is what os.CreateTemp adds: h1's prefix begins the names of a peer h1-new, too.
		rest, ours := strings.CutPrefix(e.Name(), b.unfinished())
		if ours && strings.Trim(rest, "0123456789") == "" {
			left = append(left, e.Name())
		}
	}
	if err := b.remove(left...); err != nil {
		return fmt.Errorf("remove an unfinished backup: %w", err)
	}
	return nil
}

// list returns this peer's backups, oldest first. A file with a name of another
// form is none of them.
func (b *backups) list() ([]backup, error) {
	entries, err := b.entries()
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s", errBackupDirectory, b.conf.Directory)
	}
	if err != nil {
		return nil, fmt.Errorf("backup.directory: %w", err)
	}
	var ours []backup
	for _, e := range entries {
		if one, ok := b.parse(e.Name()); ok && e.Type().IsRegular() {
			ours = append(ours, one)
		}
	}
	slices.SortStableFunc(ours, b.compare)
	return ours, nil
}

// compare orders backups by what they hold. Their times do not: one that was taken
// while the clock was ahead would stay the newest until that time has come, and
// those that are taken meanwhile would count as the oldest. Nor do indices alone: a
// restored cluster goes on from the index of the file. This incarnation is the last even
// where one of before was made of a clock ahead.
func (b *backups) compare(one, other backup) int {
	present := func(c backup) uint64 {
		if c.incarnation == b.peer.Incarnation {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(present(one), present(other)), cmp.Compare(one.incarnation, other.incarnation),
		cmp.Compare(one.index, other.index), one.taken.Compare(other.taken))
}

func (b *backups) parse(name string) (out backup, ok bool) {
	rest, ours := strings.CutPrefix(name, b.prefix())
	rest, whole := strings.CutSuffix(rest, backupEnd)
	moment, numbers, _ := strings.Cut(rest, "-")
	before, number, found := strings.Cut(numbers, "-")
	if !found { // v0.2.0 wrote the index alone
		before, number = "0", numbers
	}
	taken, err := time.Parse(backupForm, moment)
	incarnation, unlike := strconv.ParseUint(before, 10, 64)
	index, wrong := strconv.ParseUint(number, 10, 64)
	return backup{name: name, taken: taken, incarnation: incarnation, index: index},
		ours && whole && errors.Join(err, unlike, wrong) == nil
}

// writeBackup writes the state to a file of another name, reads it back from there, and
// only then gives it its own: what has the name of a backup is a good one. Of a file system that
// hangs the unfinished file is left to sweep, and its descriptor to the garbage collector.
func (b *backups) writeBackup(v fsm.View, ours []backup) (made backup, err error) {
	if err := b.room(ours); err != nil {
		return made, err
	}
	var tmp *os.File
	err = b.step(func() (err error) {
		tmp, err = os.CreateTemp(b.conf.Directory, b.unfinished()+"*") // mode 0600
		return err
	})
	if err != nil {
		return made, fmt.Errorf("backup: %w", err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("backup: %w", err)
		}
		if err != nil && !b.steps.Hung() {
			err = errors.Join(err, b.remove(filepath.Base(tmp.Name())))
		}
	}()
	taken := b.wall().UTC()
	made = backup{taken: taken.Truncate(time.Second), incarnation: v.Incarnation(), index: v.Index()}
	made.name = fmt.Sprintf("%s%s-%d-%d%s", b.prefix(), taken.Format(backupForm), made.incarnation, made.index, backupEnd)
	if err = writeVerified(&bounds.SteppedFile{File: tmp, Step: b.step}, v); !b.steps.Hung() {
		err = errors.Join(err, b.step(tmp.Close))
	}
	if err != nil {
		return made, err
	}
	err = b.step(func() error { return os.Rename(tmp.Name(), filepath.Join(b.conf.Directory, made.name)) })
	if err != nil {
		return made, err
	}
	return made, b.step(func() error { return datadir.Sync(b.conf.Directory) })
}

func writeVerified(f *bounds.SteppedFile, v fsm.View) error {
	if _, err := v.WriteTo(f); err != nil {
		return err
	}
	if err := f.Step(f.File.Sync); err != nil {
		return err
	}
	if err := f.Step(func() error { _, err := f.File.Seek(0, io.SeekStart); return err }); err != nil {
		return err
	}
	const readAtOnce = 1 << 20
	_, err := fsm.Read(bufio.NewReaderSize(f, readAtOnce))
	return err
}

// room refuses to fill the disk, which the log may be on, too.
func (b *backups) room(ours []backup) error {
	need, free := uint64(backupReserve), uint64(0)
	err := b.step(func() (err error) {
		if len(ours) > 0 {
			info, err := os.Stat(filepath.Join(b.conf.Directory, ours[len(ours)-1].name))
			if err != nil {
				return fmt.Errorf("backup: %w", err)
			}
			need += 2 * uint64(info.Size())
		}
		free, err = b.free(b.conf.Directory)
		return err
	})
	if err != nil {
		return err
	}
	if free < need {
		return fmt.Errorf("backup: %s are free in %s, %s are needed: make room, or set backup.keep lower and restart",
			ballast.Size(free), b.conf.Directory, ballast.Needed(need))
	}
	return nil
}

// age is how old the newest backup is; while there is none, how long this
// process has had no backup.
func (b *backups) age() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	since := b.began
	if b.newest.name != "" {
		since = b.newest.taken
	}
	return max(b.wall().Sub(since), 0)
}

func (b *backups) warnings() []api.Warning {
	if b.conf.Directory == "" {
		return nil
	}
	age := b.age()
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.err != nil:
		remedy := "mend what it names; the next attempt follows within minutes"
		if errors.Is(b.err, bounds.ErrHangs) {
			remedy = fileRemedy(config.File{Path: b.conf.Directory}, b.err)
		}
		text := fmt.Sprintf("no backup could be taken: %v", b.err)
		return []api.Warning{{Code: "backup_failed", Text: text, Remedy: remedy}}
	case age > backupLate*b.conf.Every:
		return []api.Warning{{Code: "backup_old",
			Text:   fmt.Sprintf("the newest backup of this peer is %v old", age.Round(time.Second)),
			Remedy: "does this peer get entries from a leader? See 'trivet status', and backup.directory"}}
	}
	return nil
}

// metrics registers figures where backups are configured.
func (b *backups) metrics(r *health.Figures) {
	if b.conf.Directory == "" {
		return
	}
	r.Gauge("backup_age_seconds", "How old this peer's newest backup is; since its start while there is none.",
		func() float64 { return b.age().Seconds() })
	r.Flag("backup_failing", "1 while the newest attempt at a backup failed.", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.err != nil
	})
}
