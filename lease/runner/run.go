package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/client/lease"
)

// Variables of the program's environment.
const (
	// TokenVariable has the fencing token, in decimal.
	TokenVariable = "TRIVET_FENCING_TOKEN"
	// DeadlineVariable has the lease's deadline at the program's start, before any
	// renewal: seconds since boot, as the first number of /proc/uptime.
	DeadlineVariable = "TRIVET_LEASE_DEADLINE"
)

// Forever is an Options.Wait without an end.
const Forever time.Duration = -1

// Limits of the runner.
const (
	answerLimit  = 30 * time.Second       // for any server to say anything, when it is not to wait for a holder
	releaseLimit = 3 * time.Second        // what the end of a program waits for
	afterLoss    = time.Second            // the same when the servers were silent before
	orderLimit   = 200 * time.Millisecond // for the guard to take a line: its pipe holds thousands
	leastChance  = 100 * time.Millisecond // for the guard to end the program and report, when no other has time left
)

// Options say what is run, and under which lease.
type Options struct {
	// Lease is what to hold. Its OnRenewed and NoWait are set.
	Lease lease.Options
	// Wait is how long to wait for a lease that another holds: 0 not at all.
	Wait time.Duration
	// Guard is the command line by which this program calls Guard; the time of grace
	// and the command are added to it.
	Guard []string
	// Command is the program, looked up in PATH, and its arguments.
	Command []string
	// Stdin, Stdout and Stderr are the program's. Files are handed to it as they are.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Env            []string
	// Signals are forwarded. Before the program runs, one that ends processes ends
	// the wait.
	Signals <-chan os.Signal
	// Warn says what changes no exit code.
	Warn func(format string, args ...any)
}

// NotStartedError says that the program did not start.
type NotStartedError struct {
	Code int // as shells exit: 127, there is none; 126, it cannot be run
	Text string
}

// Error implements error.
func (e *NotStartedError) Error() string { return e.Text }

// Forwarded lists the signals that the program gets as if they had been sent to it.
func Forwarded() []os.Signal {
	return []os.Signal{
		unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH, unix.SIGALRM,
		unix.SIGCONT,
	}
}

// ending reports whether a signal ends a process that does nothing about it.
func ending(s os.Signal) bool { return s != unix.SIGWINCH && s != unix.SIGCONT }

// Run acquires the lease, runs the program under it, and returns its exit code, 128+n
// for one that signal n ended. The lease is released when no process of the program is
// left. The error is lease.ErrLost or ErrDeadline, among others, when the program was
// ended because of the lease; a *NotStartedError; or that of Acquire. Run makes this
// process the parent of all orphans below it and waits for all children: call it from
// a process that has no others.
func Run(ctx context.Context, o Options) (code int, err error) {
	renewed := make(chan struct{}, 1)
	o.Lease.OnRenewed = func(time.Duration) {
		select {
		case renewed <- struct{}{}:
		default: // the latest deadline is told in any case
		}
	}
	o.Lease.NoWait = o.Wait == 0
	c, err := lease.New(o.Lease)
	if err != nil {
		return 0, err
	}
	if err := adopt(); err != nil {
		return 0, err
	}
	held, code, err := acquire(ctx, c, o)
	if held == nil {
		return code, err
	}
	r := &running{o: o, held: held, renewed: renewed, margin: o.Lease.Margin}
	if r.margin == 0 {
		r.margin = o.Lease.TTL / 3
	}
	code, err, gone := r.runGuard()
	if !gone {
		return code, err // what still runs may act under the lease until its time is over
	}
	limit := releaseLimit
	if err != nil {
		limit = afterLoss
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if failed := r.held.Release(ctx); failed != nil {
		o.Warn("%v", failed)
	}
	return code, err
}

// acquire waits for the lease, or for a signal to give it up.
func acquire(ctx context.Context, c *lease.Client, o Options) (held *lease.Held, code int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	limit := o.Wait
	if limit == 0 {
		limit = answerLimit
	}
	if limit > 0 {
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		held, err = c.Acquire(ctx)
	}()
	for {
		select {
		case <-done:
			return held, 0, err
		case s := <-o.Signals:
			if !ending(s) {
				continue
			}
			cancel()
			<-done
			if held != nil {
				err = held.Release(context.Background()) // for a ttl at most
			} else {
				err = nil
			}
			return nil, 128 + int(s.(syscall.Signal)), err
		}
	}
}

// running is the program's run.
type running struct {
	o       Options
	held    *lease.Held
	renewed <-chan struct{}
	margin  time.Duration
	warden  *warden
}

// runGuard starts the guard and tells it what there is to know until it has ended. gone is
// that no process of the program is left.
func (r *running) runGuard() (code int, err error, gone bool) {
	if r.warden, err = engage(r); err != nil {
		return 0, fmt.Errorf("start the guard: %w", err), true
	}
	said, ok := r.guardReport()
	left := killChildren(stubborn)
	code, err = r.outcome(said, ok)
	if said.text != "" && said.why != whyNoStart {
		left = errors.Join(left, errors.New(said.text))
	}
	return code, errors.Join(err, left), left == nil
}

// guardReport returns the guard's report; false when it died without one.
func (r *running) guardReport() (said report, ok bool) {
	over, late := r.held.Done(), (<-chan time.Time)(nil)
	r.warden.writeOrder(order{verbDeadline, int64(r.held.Deadline())})
	for {
		select {
		case said, ok = <-r.warden.done:
			return said, ok
		case <-r.renewed:
			r.warden.writeOrder(order{verbDeadline, int64(r.held.Deadline())})
		case s := <-r.o.Signals:
			r.warden.writeOrder(order{verbSignal, int64(s.(syscall.Signal))})
		case <-over:
			over = nil
			// The guard needs half a margin, and has half of the rest for its report.
			chance := r.held.Deadline() + r.margin*3/4 - lease.Boottime()
			if errors.Is(r.held.Err(), lease.ErrLost) {
				r.warden.writeOrder(order{verb: verbKill})
				chance = 0 // another holder may act already, and a guard that is stopped reads no order
			}
			t := time.NewTimer(max(leastChance, chance))
			defer t.Stop()
			late = t.C
		case <-late:
			r.warden.kill()
		}
	}
}

// outcome is what the program's end means.
func (r *running) outcome(said report, ok bool) (code int, err error) {
	switch {
	case !ok:
		err = errors.New("the guard has died, and the program was killed")
		if why := r.held.Err(); why != nil {
			err = fmt.Errorf("%w: %w", err, why)
		}
		return 0, err
	case said.why == whyNoStart:
		return 0, &NotStartedError{Code: said.code, Text: said.text}
	case said.why == whyItself:
		return said.code, nil
	case said.why == whyFailed:
		return 0, errors.New("the guard could not go on, and the program was ended")
	}
	why := r.held.Err()
	if why == nil {
		why = lease.ErrDeadline // this process was stopped and has not looked since
	}
	return 0, fmt.Errorf("lease %s: %w", r.o.Lease.Name, why)
}

// warden is the guard as the runner sees it.
type warden struct {
	process *os.Process
	orders  *os.File
	done    chan report // its last word; closed when it has ended
}

// engage starts the guard, in a session of its own: what a terminal does to the
// runner is none of its business.
func engage(r *running) (*warden, error) {
	ordersIn, orders, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer ordersIn.Close()
	reports, reportsOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, orders.Close())
	}
	defer reportsOut.Close()
	grace := r.margin / 2 // from TERM at the deadline to KILL
	cmd := exec.Command(self, slices.Concat(r.o.Guard[1:], []string{grace.String()}, r.o.Command)...)
	cmd.Args[0] = r.o.Guard[0]
	cmd.Env = append(slices.Clip(r.o.Env), TokenVariable+"="+strconv.FormatUint(r.held.Token(), 10),
		DeadlineVariable+"="+strconv.FormatFloat(r.held.Deadline().Seconds(), 'f', 3, 64))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = r.o.Stdin, r.o.Stdout, r.o.Stderr
	cmd.ExtraFiles = []*os.File{ordersFile - 3: ordersIn, reportsFile - 3: reportsOut}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.WaitDelay = pipesLinger
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, orders.Close(), reports.Close())
	}
	w := &warden{process: cmd.Process, orders: orders, done: make(chan report, 1)}
	go func() {
		defer close(w.done)
		said, ok := readReport(reports)
		_ = cmd.Wait() // its exit code is for people
		if ok {
			w.done <- said
		}
	}()
	return w, nil
}

// writeOrder writes a line. A guard that does not read is stopped or dead: then it ends, and
// the program with it.
func (w *warden) writeOrder(o order) {
	err := w.orders.SetWriteDeadline(time.Now().Add(orderLimit))
	if err == nil {
		_, err = io.WriteString(w.orders, o.String())
	}
	if err != nil {
		w.kill()
	}
}

func (w *warden) kill() { _ = w.process.Kill() } // it has ended: as it should be
