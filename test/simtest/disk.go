package simtest

import (
	"errors"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"
)

// ErrCrashed is returned by what a dead process still tries to write.
var ErrCrashed = errors.New("the process that mounted this disk is gone")

// Op is a set of kinds of disk operations.
type Op uint8

// The kinds of operations that can be made to fail. Beware of OpStable: raft
// panics if it cannot save its term, as it would in a real process.
const (
	OpLog      Op = 1 << iota // StoreLogs
	OpDelete                  // DeleteRange
	OpStable                  // Set, SetUint64
	OpSnapshot                // creating, writing and closing a snapshot
	OpRead                    // everything that reads

	OpWrite = OpLog | OpDelete | OpStable | OpSnapshot
)

// Default time that one write takes, the fsync included.
const minWrite, maxWrite = 200 * time.Microsecond, 1 * time.Millisecond

// Disk is a simulated disk with the log, the terms and votes, and the
// snapshots of one peer. It outlives processes: each mounts it anew. A write
// is durable once its call has returned; what a crash interrupts is there
// entirely or not at all, as with a transactional store, unless SetTear says
// otherwise. One write is under way at a time. Faults belong to the disk and
// outlive a crash. Make it inside the bubble that uses it; all methods may be
// called concurrently.
type Disk struct {
	rng  *rand.Rand
	turn chan struct{} // capacity 1: full while a write is under way

	mu       sync.Mutex // never held while waiting: that would stop the bubble's clock
	mounted  *Store     // nil before the first Mount
	platter  *content   // what the next Mount finds, nil while mounted
	writing  *write     // under way
	faults   map[Op]error
	min, max time.Duration
	thawed   chan struct{} // nil unless hung; closed by Thaw
	tear     bool
}

// write is one operation on the content, in parts that a crash may separate.
type write struct {
	op    Op
	parts int
	apply func(c *content, parts int) // the first parts of it
}

// NewDisk returns an empty disk whose writes take 0.2 to 1 ms. rng must be
// safe for concurrent use (NewRand).
func NewDisk(rng *rand.Rand) *Disk {
	return &Disk{
		rng:     rng,
		turn:    make(chan struct{}, 1),
		platter: newContent(),
		faults:  make(map[Op]error),
		min:     minWrite,
		max:     maxWrite,
	}
}

// Mount opens the disk for a process that starts. If another process still has
// it mounted, that one crashes first.
func (d *Disk) Mount(gate *Gate) *Store {
	d.Crash()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mounted = &Store{disk: d, gate: gate, dead: make(chan struct{}), content: d.platter}
	d.platter = nil
	return d.mounted
}

// Crash is the end of the process that has the disk mounted, at this instant.
// What it was writing is decided by chance. The dead process keeps a ghost of
// its content, so that raft can be shut down in peace: its log and snapshot
// writes fail, its terms and votes (raft panics if those fail) change the ghost
// alone. Close its transport first, so that nothing it believes gets out, and
// resume its gate after, so that its goroutines can end.
func (d *Disk) Crash() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mounted == nil {
		return
	}
	d.platter = d.mounted.content.clone()
	if w := d.writing; w != nil {
		w.apply(d.platter, d.survives(w))
	}
	close(d.mounted.dead)
	d.mounted, d.writing = nil, nil
}

// survives returns how many parts of an interrupted write are on the disk.
func (d *Disk) survives(w *write) int {
	if d.tear {
		return d.rng.IntN(w.parts + 1)
	}
	return w.parts * d.rng.IntN(2)
}

// SetDelay sets the time that one write takes, uniformly distributed.
func (d *Disk) SetDelay(least, most time.Duration) {
	d.set(func() { d.min, d.max = least, most })
}

// SetTear lets a crash keep a part of the batch of log entries under way.
func (d *Disk) SetTear(tear bool) { d.set(func() { d.tear = tear }) }

// Fail makes operations fail with err, from now on until Fail(ops, nil).
func (d *Disk) Fail(ops Op, err error) {
	d.set(func() {
		for op := OpLog; op <= OpRead; op <<= 1 {
			if ops&op != 0 {
				d.faults[op] = err
			}
		}
	})
}

// Full makes writes of the log and of snapshots fail with ENOSPC, or ends it.
func (d *Disk) Full(full bool) { d.Fail(OpLog|OpDelete|OpSnapshot, fault(full, syscall.ENOSPC)) }

// ReadOnly makes every write fail with EROFS, or ends it.
func (d *Disk) ReadOnly(on bool) { d.Fail(OpWrite, fault(on, syscall.EROFS)) }

func fault(on bool, err error) error {
	if on {
		return err
	}
	return nil
}

// Hang makes writes block until Thaw. Reads go on, from the page cache.
func (d *Disk) Hang() {
	d.set(func() {
		if d.thawed == nil {
			d.thawed = make(chan struct{})
		}
	})
}

// Thaw completes the writes that Hang blocked.
func (d *Disk) Thaw() {
	d.set(func() {
		if d.thawed != nil {
			close(d.thawed)
			d.thawed = nil
		}
	})
}

func (d *Disk) set(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
}

// fault returns the error injected for an operation.
func (d *Disk) fault(op Op) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.faults[op]
}

// begin notes the write under way and returns how long it will take, or false
// if s is no longer mounted.
func (d *Disk) begin(s *Store, w *write) (time.Duration, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mounted != s {
		return 0, false
	}
	d.writing = w
	return between(d.rng, d.min, d.max), true
}

// commit makes the write under way durable, or returns false if a crash came
// first.
func (d *Disk) commit(s *Store, w *write) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mounted != s {
		return false
	}
	w.apply(s.content, w.parts)
	d.writing = nil
	return true
}

func (d *Disk) hung() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.thawed
}
