package ballast

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/trivet-ha/trivet/raftstore"
)

const gib = 1 << 30

// disk is a file system whose space is written down, and a log on it.
type disk struct {
	*raft.InmemStore

	space Space
	err   error        // of Look
	room  atomic.Int64 // how many writes fit still
	tries atomic.Int64
}

func (d *disk) write() error {
	d.tries.Add(1)
	if d.room.Add(-1) < 0 {
		return fmt.Errorf("file resize error: %v", syscall.ENOSPC) // as bbolt says it
	}
	return nil
}

func (d *disk) StoreLogs(es []*raft.Log) error {
	return errors.Join(d.write(), d.InmemStore.StoreLogs(es))
}

func (d *disk) DeleteRange(first, last uint64) error {
	return errors.Join(d.write(), d.InmemStore.DeleteRange(first, last))
}

func (d *disk) SetUint64(key []byte, v uint64) error {
	if err := d.write(); err != nil {
		return err
	}
	return d.InmemStore.SetUint64(key, v)
}

func (d *disk) Set(key, v []byte) error {
	if err := d.write(); err != nil {
		return err
	}
	return d.InmemStore.Set(key, v)
}

// newBallast is one on a disk with much space, laid.
func newBallast(t *testing.T) (*Ballast, *disk, raftstore.Storage) {
	t.Helper()
	d := &disk{InmemStore: raft.NewInmemStore(), space: Space{Free: 4 << 20, Size: 8 << 20}}
	d.room.Store(1 << 30)
	b := New(t.TempDir(), slog.New(slog.DiscardHandler))
	b.look = func(string) (Space, error) { return d.space, d.err }
	b.watch()
	if s := b.State(); s.Ballast != 8<<20/mostPart || s.Dropped || b.Unfit() != nil {
		t.Fatalf("at first: %+v, %v", s, b.Unfit())
	}
	return b, d, b.Guard(raftstore.Storage{Log: d, Stable: d})
}

func TestFloorDependsOnTheDisk(t *testing.T) {
	for _, c := range []struct{ size, low, floor, ballast uint64 }{
		{4 << 20, 4 << 20 / 10, 4 << 20 / 50, 64 << 10}, {100 * gib, 512 << 20, 64 << 20, 16 << 20},
	} {
		if s := (Space{Size: c.size}); s.Low() != c.low || s.Floor() != c.floor || s.ballast() != c.ballast {
			t.Errorf("of %d: low %d, floor %d, ballast %d", c.size, s.Low(), s.Floor(), s.ballast())
		}
	}
}

func TestBallastIsRealSpace(t *testing.T) {
	b, _, _ := newBallast(t)
	var st syscall.Stat_t
	if err := syscall.Stat(filepath.Join(b.dir, name), &st); err != nil || st.Blocks*512 < st.Size || st.Size == 0 {
		t.Errorf("%d bytes in %d blocks: %v", st.Size, st.Blocks, err)
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "padded"))
	if err == nil {
		err = errors.Join(pad(f, 100_001), f.Close())
	}
	if info, statErr := os.Stat(f.Name()); err != nil || statErr != nil || info.Size() != 100_001 {
		t.Errorf("padded: %v, %v, %v", info, err, statErr)
	}
	if again := New(b.dir, b.log); again.State().Ballast == 0 {
		t.Error("the next process does not know of the ballast")
	}
}

func TestBelowTheFloorAPeerDoesNotLead(t *testing.T) {
	b, d, _ := newBallast(t)
	d.space.Free = d.space.Floor() - 1
	b.watch()
	if b.Unfit() == nil || b.State().Ballast == 0 {
		t.Errorf("%v; %+v", b.Unfit(), b.State())
	}
	d.err = errors.New("no such file system")
	if b.watch(); b.State().Err == nil || b.Unfit() != nil {
		t.Errorf("of a disk that cannot be looked at: %v", b.Unfit())
	}
}

func TestAFullDiskIsOutlived(t *testing.T) {
	b, d, st := newBallast(t)
	entry := &raft.Log{Index: 1, Term: 1}
	d.space.Free = 0
	d.room.Store(0)
	if err := st.Log.StoreLog(entry); !Full(err) {
		t.Fatalf("the entry that met the full disk: %v", err)
	}
	if _, err := os.Stat(filepath.Join(b.dir, name)); !errors.Is(err, os.ErrNotExist) || b.State().Ballast != 0 {
		t.Errorf("the ballast is there still: %v", err)
	}
	d.room.Store(10) // what the ballast left
	if err := st.Log.StoreLog(entry); !errors.Is(err, ErrFull) {
		t.Errorf("an entry took what is meant for terms: %v", err)
	}
	if err := errors.Join(st.Stable.SetUint64([]byte(keyTerm), 7), st.Stable.Set([]byte("vote"), []byte("x")),
		st.Log.DeleteRange(1, 1)); err != nil {
		t.Errorf("a term, a vote and what makes the log shorter: %v", err)
	}
	if err := d.InmemStore.StoreLogs([]*raft.Log{{Index: 1}, {Index: 2}, {Index: 3}}); err != nil {
		t.Fatal(err)
	}
	if err := st.Log.DeleteRange(2, 3); !errors.Is(err, ErrFull) {
		t.Errorf("last-index-lost: entries were deleted for others that would be refused: %v", err)
	}
	if last, err := st.Log.LastIndex(); last != 3 || err != nil {
		t.Errorf("last-index-lost: the log ends at %d: %v", last, err)
	}
	if b.Writes().Count != 0 {
		t.Error("a write that failed counts as one that was quick")
	}
	if b.watch(); b.Unfit() == nil {
		t.Error("it would lead with a full disk")
	}
	d.space.Free = d.space.Floor() + 1 // not enough for a ballast: it would swing
	if b.watch(); !b.State().Dropped {
		t.Error("the log takes entries before there is a ballast")
	}
	d.space.Free = 4 << 20
	b.watch()
	if err := st.Log.StoreLog(entry); err != nil || b.Unfit() != nil || b.State().Ballast == 0 {
		t.Errorf("when space returned: %v, %v, %+v", err, b.Unfit(), b.State())
	}
}

// TestAFullDiskIsKnownFromTheStart: the process before dropped the ballast and ended.
func TestAFullDiskIsKnownFromTheStart(t *testing.T) {
	for free, full := range map[uint64]bool{0: true, 8<<20/mostPart - 1: true, 8 << 20 / mostPart: false} {
		d := &disk{InmemStore: raft.NewInmemStore(), space: Space{Free: free, Size: 8 << 20}}
		d.room.Store(1 << 30)
		b := begin(t.TempDir(), slog.New(slog.DiscardHandler), func(string) (Space, error) { return d.space, nil })
		err := b.Guard(raftstore.Storage{Log: d, Stable: d}).Log.StoreLog(&raft.Log{Index: 1, Term: 1})
		if errors.Is(err, ErrFull) != full || err != nil && !full {
			t.Errorf("full-from-the-start: with %d bytes free: %v", free, err)
		}
		d.space.Free = 4 << 20
		if b.watch(); b.State().Dropped || b.State().Ballast == 0 {
			t.Errorf("with space again: %+v", b.State())
		}
	}
}

// TestTheFirstToMeetAFullDiskIsATerm: the ballast is dropped for it, and it is
// written at once.
func TestTheFirstToMeetAFullDiskIsATerm(t *testing.T) {
	b, d, st := newBallast(t)
	d.room.Store(0)
	for _, write := range []func() error{
		func() error { return st.Stable.SetUint64([]byte("LastVoteTerm"), 7) },
		func() error { return st.Stable.Set([]byte("LastVoteCand"), []byte("x")) },
		func() error { return st.Log.DeleteRange(1, 1) },
	} {
		d.tries.Store(0)
		if err := write(); !Full(err) || d.tries.Load() != 2 || !b.State().Dropped {
			t.Errorf("after %d tries: %v", d.tries.Load(), err)
		}
	}
}

// TestATermWaitsForSpace: raft panics when it cannot write its term.
func TestATermWaitsForSpace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, d, st := newBallast(t)
		d.room.Store(0)
		written := make(chan error, 1)
		go func() { written <- st.Stable.SetUint64([]byte(keyTerm), 7) }()
		time.Sleep(time.Hour)
		select {
		case err := <-written:
			t.Fatalf("raft would panic: %v", err)
		default:
		}
		d.room.Store(1)
		if err := <-written; err != nil {
			t.Error(err)
		}
	})
}

func TestOtherErrorsAreNotFullDisks(t *testing.T) {
	b, _, _ := newBallast(t)
	broken := errors.New("input/output error")
	if err := (guardedStable{nil, b}).try(func() error { return broken }); err != broken || b.State().Dropped ||
		Full(nil) {
		t.Errorf("%v, dropped %v", err, b.State().Dropped)
	}
}

// Sentences compare what is free with what is needed: the two never read the same, and no
// disk is so small that both are zero.
func TestSizesCanBeCompared(t *testing.T) {
	for need := uint64(1); need < 1<<40; need = need*7/3 + 1 {
		for _, free := range []uint64{need - 1, need / 2} {
			if less, more := Size(free), Needed(need); less == more || free > 0 && strings.HasPrefix(less, "0 ") {
				t.Errorf("sizes-compare: of %d and %d: %s free, less than %s", free, need, less, more)
			}
		}
	}
	for n, want := range map[uint64]string{0: "0 bytes", 10239: "10239 bytes", 10240: "10 KiB", 10<<20 - 1: "10239 KiB",
		64 << 20: "64 MiB"} {
		if got := Size(n); got != want {
			t.Errorf("sizes-compare: %d is %s, want %s", n, got, want)
		}
	}
}
