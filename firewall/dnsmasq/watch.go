package dnsmasq

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/firewall"
	"github.com/trivet-ha/trivet/internal/logs"
	"github.com/trivet-ha/trivet/internal/pace"
)

const (
	// watchAgain is the pause before a directory that went away is looked for
	// again.
	watchAgain = time.Second
	// lookEvery is how often the watch checks that the directory is still the one
	// of its name: the kernel reports its removal only when no process has it open
	// any more.
	lookEvery = time.Second
	// watchBuffer is how many bytes of events are read at once.
	watchBuffer = 64 << 10
	// telling is what changes what dnsmasq reads, or may read.
	telling = unix.IN_CLOSE_WRITE | unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_DELETE | unix.IN_ATTRIB
)

// Watch notifies when another program may have changed the files: the kernel
// reports that at once, as it does to dnsmasq. Our own writes do not count.
type Watch struct {
	path    string
	ledger  *ledger
	log     *slog.Logger
	events  *os.File
	there   os.FileInfo   // the directory that is watched
	changed chan struct{} // holds one: more changes before it is received are the same news
}

// Watch begins to look: what happens from now on will be told by Changed, once
// Run runs, which ends it too.
func (h *Hosts) Watch(log *slog.Logger) (*Watch, error) {
	w := &Watch{path: h.dir.path, ledger: h.ledger, log: logs.Limit(log), changed: make(chan struct{}, 1)}
	if err := w.subscribe(); err != nil {
		return nil, err
	}
	return w, nil
}

// Changed yields after each change that counts, or several of them. It is never
// closed.
func (w *Watch) Changed() <-chan struct{} { return w.changed }

// Run looks until ctx ends. One goroutine calls it, once.
func (w *Watch) Run(ctx context.Context) {
	for {
		err := w.listen(ctx)
		if ctx.Err() != nil {
			return
		}
		w.log.Warn("watch dnsmasq files failed, retrying", "err", err)
		firewall.Tell(w.changed)
		for err != nil {
			if !pace.Wait(ctx, watchAgain) {
				return
			}
			err = w.subscribe()
		}
		firewall.Tell(w.changed) // there may have been changes meanwhile
	}
}

// subscribe asks the kernel for the events of the directory.
func (w *Watch) subscribe() error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return fmt.Errorf("watch firewall.dhcp_hostsdir: %w", err)
	}
	w.ledger.reset()
	if _, err := unix.InotifyAddWatch(fd, w.path, telling|unix.IN_ONLYDIR); err != nil {
		return errors.Join(fmt.Errorf("watch firewall.dhcp_hostsdir: %s: %w", w.path, err), unix.Close(fd))
	}
	w.events = os.NewFile(uintptr(fd), "inotify")
	if w.there, err = os.Stat(w.path); err != nil {
		return errors.Join(fmt.Errorf("watch firewall.dhcp_hostsdir: %w", err), w.events.Close())
	}
	return nil
}

var errGone = errors.New("the directory was removed or renamed")

// listen reads events until ctx ends or the directory goes away; it lets go of
// the subscription.
func (w *Watch) listen(ctx context.Context) (err error) {
	events := w.events
	wake := context.AfterFunc(ctx, func() { _ = events.SetReadDeadline(time.Now()) }) // fails once it is closed
	defer func() {
		wake()
		err = errors.Join(err, events.Close())
	}()
	buf := make([]byte, watchBuffer)
	for {
		if err := events.SetReadDeadline(time.Now().Add(lookEvery)); err != nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		n, err := events.Read(buf)
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		for rest := buf[:n]; len(rest) >= unix.SizeofInotifyEvent; {
			mask, name, size := event(rest)
			rest = rest[size:]
			if w.counts(mask, name) {
				firewall.Tell(w.changed)
			}
		}
		if there, err := os.Stat(w.path); err != nil || !os.SameFile(there, w.there) {
			return errGone
		}
	}
}

// event reads the first of some events, which the kernel never cuts: watch,
// mask, cookie and length of the name, each 32 bits, and the name.
func event(b []byte) (mask uint32, name string, size int) {
	size = unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
	return binary.NativeEndian.Uint32(b[4:]), strings.TrimRight(string(b[unix.SizeofInotifyEvent:size]), "\x00"), size
}

// counts reports whether an event is a change by another program that dnsmasq may
// notice, or says that the kernel lost events.
func (w *Watch) counts(mask uint32, name string) bool {
	switch {
	case mask&unix.IN_Q_OVERFLOW != 0:
		w.ledger.reset() // what we wrote may be among what is lost
		return true
	case passedOver(name):
		return false
	}
	return mask&unix.IN_MOVED_TO == 0 || !w.ledger.takeOwnEvent(name)
}

// ledger counts the files that were moved into place and not yet seen by the
// watch, by name. Its methods may be called concurrently.
type ledger struct {
	mu  sync.Mutex
	own map[string]int // nil while no watch runs
}

// reset forgets everything, and counts from now on.
func (l *ledger) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.own = make(map[string]int)
}

// expectEvents notes that so many events of ours more are to come.
func (l *ledger) expectEvents(name string, events int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.own != nil {
		l.own[name] += events
	}
}

// takeOwnEvent reports whether an event of ours was to come, and takes it off.
func (l *ledger) takeOwnEvent(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.own[name]
	if n > 1 {
		l.own[name] = n - 1
	} else {
		delete(l.own, name)
	}
	return n > 0
}
