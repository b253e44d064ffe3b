package ballast

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/internal/pace"
)

// Sizes in bytes. On a file system so small that they are a large part of it,
// which tests and appliances have, a part of it counts instead.
const (
	most      = 16 << 20 // of the ballast: terms and votes for years
	mostPart  = 64
	floor     = 64 << 20 // one snapshot's worth of log, see app.snapshotBytes
	floorPart = 50
	low       = 512 << 20 // the log, two snapshots and one that is being written
	lowPart   = 10
)

const (
	// lookEvery is how often the free space is looked at: a disk that takes
	// 60 MB/s needs a second from the floor to the end.
	lookEvery = time.Second
	// retryEvery is how often a term is tried again that does not fit even
	// where the ballast was.
	retryEvery = 250 * time.Millisecond
)

// name is the ballast's, below the folder that it is kept in.
const name = "ballast"

// ErrFull says that the disk of the data directory has no space.
var ErrFull = errors.New("the disk of the data directory is full")

// Space is how a file system stands, in bytes.
type Space struct {
	Free uint64 `json:"free"` // for those who are not root
	Size uint64 `json:"size"`
}

// Floor is the free space below which a peer would rather not lead.
func (s Space) Floor() uint64 { return min(floor, s.Size/floorPart) }

// Low is the free space below which an operator should act.
func (s Space) Low() uint64 { return min(low, s.Size/lowPart) }

// ballast is how much is held in reserve.
func (s Space) ballast() uint64 { return min(most, s.Size/mostPart) }

// Look asks the kernel about the file system of a path.
func Look(path string) (Space, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return Space{}, fmt.Errorf("free space of %s: %w", path, err)
	}
	block := uint64(st.Bsize)
	return Space{Free: st.Bavail * block, Size: st.Blocks * block}, nil
}

// State is what a Ballast knows.
type State struct {
	Space
	Err     error // why the space is not known
	Ballast int64 // bytes held; 0: there is none
	Dropped bool  // the disk was full and is not yet free: the log takes no entries
}

// Ballast guards one peer's data directory. All methods may be called
// concurrently.
type Ballast struct {
	dir  string
	log  *slog.Logger
	look func(path string) (Space, error) // Look, but in tests

	times ring

	mu    sync.Mutex
	state State
}

// New returns the ballast of a folder, which must exist. Nothing is written
// before Run.
func New(dir string, log *slog.Logger) *Ballast { return begin(dir, log, Look) }

func begin(dir string, log *slog.Logger, look func(path string) (Space, error)) *Ballast {
	b := &Ballast{dir: dir, log: log, look: look}
	if info, err := os.Stat(b.path()); err == nil {
		b.state.Ballast = info.Size()
	}
	b.state.Space, b.state.Err = b.look(dir)
	// A process before this one dropped it, and the disk is still full: to find that out
	// with a write may end this one, see raftguard.WatchEnd.
	b.state.Dropped = b.state.Err == nil && b.state.Ballast == 0 && b.state.Free < b.state.ballast()
	return b
}

func (b *Ballast) path() string { return filepath.Join(b.dir, name) }

// State returns how it stood when it was last looked at.
func (b *Ballast) State() State {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state
}

// Unfit returns why this peer should not lead: it would be elected, fail to
// write, and be elected again.
func (b *Ballast) Unfit() error {
	s := b.State()
	switch {
	case s.Dropped:
		return ErrFull
	case s.Err == nil && s.Free < s.Floor():
		return fmt.Errorf("the disk of its data directory has %s free, less than %s", Size(s.Free), Needed(s.Floor()))
	}
	return nil
}

// Run lays the ballast and watches the free space until ctx ends.
func (b *Ballast) Run(ctx context.Context) {
	for range pace.Every(ctx, lookEvery) {
		b.watch()
	}
}

// watch looks at the space and lays the ballast where it fits and the floor
// stays free: laid sooner it would fill the disk itself.
func (b *Ballast) watch() {
	space, err := b.look(b.dir)
	b.mu.Lock()
	defer b.mu.Unlock()
	if (err == nil) != (b.state.Err == nil) {
		b.log.Warn("read free space of the data directory: outcome has changed", "err", err)
	}
	b.state.Err = err
	if err != nil {
		return
	}
	b.state.Space = space
	want := space.ballast()
	if b.state.Ballast > 0 || space.Free < space.Floor()+want {
		return
	}
	if err := lay(b.path(), int64(want)); err != nil {
		b.log.Debug("write ballast failed", "bytes", want, "err", err)
		return
	}
	if b.state.Dropped {
		b.log.Info("disk has space again, accepting log entries", "free", space.Free)
	}
	b.state.Ballast, b.state.Dropped = int64(want), false
}

// lay makes a file of real space, not of a hole. On error nothing is left.
func lay(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("lay the ballast: %w", err)
	}
	err = unix.Fallocate(int(f.Fd()), 0, 0, size)
	if errors.Is(err, unix.EOPNOTSUPP) {
		err = pad(f, size)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(fmt.Errorf("lay the ballast: %w", err), os.Remove(path))
	}
	return nil
}

// pad writes where the file system cannot allocate, as ZFS and NFS cannot.
func pad(f *os.File, size int64) error {
	page := []byte(strings.Repeat("ballast\n", 8<<10)) // zeros would be a hole to some
	for size > 0 {
		n, err := f.Write(page[:min(size, int64(len(page)))])
		if err != nil {
			return err
		}
		size -= int64(n)
	}
	return f.Sync()
}

// Drop gives the space of the ballast free and lets the log take no entries until
// there is enough. The caller has met a full disk.
func (b *Ballast) Drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.state.Dropped {
		b.log.Error("disk full, refusing log entries", "ballast_dropped", b.state.Ballast)
	}
	b.state.Dropped = true
	if err := os.Remove(b.path()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		b.log.Error("drop ballast failed", "err", err)
		return
	}
	b.state.Ballast = 0
}

// refuses says why the log takes no entries.
func (b *Ballast) refuses() error {
	if b.State().Dropped {
		return ErrFull
	}
	return nil
}

// Full reports whether an error says that there is no space, or no more for
// this user. bbolt keeps no more than the words of some.
func Full(err error) bool {
	return err != nil && (errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) ||
		strings.Contains(err.Error(), syscall.ENOSPC.Error()) || strings.Contains(err.Error(), syscall.EDQUOT.Error()))
}

// Size writes a number of bytes in the largest unit of which there are ten: a small disk's
// are no zeros.
func Size(n uint64) string {
	for _, unit := range []struct {
		name  string
		shift int
	}{{"MiB", 20}, {"KiB", 10}} {
		if whole := n >> unit.shift; whole >= 10 {
			return fmt.Sprintf("%d %s", whole, unit.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}

// Needed is Size, rounded up: what is free is shown as less than what is needed.
func Needed(n uint64) string {
	for _, shift := range []int{20, 10} {
		if n>>shift >= 10 {
			return Size((n + 1<<shift - 1) >> shift << shift)
		}
	}
	return Size(n)
}
