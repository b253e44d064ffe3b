package runner

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/client/lease"
)

// Files that the runner opens for the guard.
const (
	ordersFile  = 3
	reportsFile = 4
)

// Exit codes of a program that does not start, as shells tell them.
const (
	codeNotFound   = 127
	codeNotStarted = 126
)

// self is this binary, also when its file was replaced meanwhile.
const self = "/proc/self/exe"

// Limits of the guard.
const (
	pipesLinger = time.Second      // for output that is no file, when the guard has ended
	tidyEvery   = time.Second      // orphans that ended are waited for so often
	stubborn    = 10 * time.Second // for those that were killed to be gone
)

// Guard is the process of a guard, from its start by Run to its end: it starts the
// command, with the standard files and the environment of its own, and ends it at the
// deadline. grace is from TERM to KILL. It returns the process's exit code, which only
// people read: Run gets the outcome through a pipe.
func Guard(grace time.Duration, command []string) int {
	unix.CloseOnExec(ordersFile)
	unix.CloseOnExec(reportsFile)
	orders, reports := os.NewFile(ordersFile, "orders"), os.NewFile(reportsFile, "reports")
	r := guard(grace, command, orders)
	if r.why == whyOrphaned {
		fmt.Fprintf(os.Stderr, "trivet: error: 'trivet lease run' has died: %s was ended\n", command[0])
		return 1
	}
	if _, err := io.WriteString(reports, r.String()); err != nil {
		fmt.Fprintf(os.Stderr, "trivet: error: %s %s: tell 'trivet lease run' so: %v\n", command[0], r.why, err)
		return 1
	}
	return 0
}

// watch is a program that is guarded.
type watch struct {
	pid      int // of the program, and of its process group
	grace    time.Duration
	alarm    *alarm
	deadline time.Duration // until when it may run
	kill     time.Duration // when it is killed: after the deadline; 0: it has not been asked to end
	why      string        // it is ended, if it is
}

// guard starts the command when its deadline is known and the alarm is set, and
// returns when no process of it is left.
func guard(grace time.Duration, command []string, in io.Reader) report {
	// The kernel kills the program when the thread that started it ends.
	runtime.LockOSThread()
	never := func(code int, err error) report { return report{why: whyNoStart, code: code, text: err.Error()} }
	// A service manager signals every process of a service. The runner forwards what
	// the program is to get; ignoring signals would have the program ignore them.
	signals, children := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(signals, Forwarded()...)
	signal.Notify(children, unix.SIGCHLD)
	w := &watch{grace: grace}
	var err error
	if err = adopt(); err != nil {
		return never(1, err)
	}
	if w.alarm, err = newAlarm(); err != nil {
		return never(1, err)
	}
	orders := readOrders(in)
	first, ok := <-orders
	if !ok || first.verb != verbDeadline {
		return never(1, errors.New("no deadline was heard of"))
	}
	if err := w.arm(time.Duration(first.value)); err != nil {
		return never(1, err)
	}
	if lease.Boottime() >= w.deadline {
		return report{why: whyDeadline}
	}
	switch w.pid, err = start(command); {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return never(codeNotFound, err)
	case err != nil:
		return never(codeNotStarted, err)
	}
	return w.followOrders(orders, children)
}

// start starts a program in a process group of its own.
func start(command []string) (pid int, err error) {
	path, err := exec.LookPath(command[0])
	if err != nil {
		return 0, err
	}
	p, err := os.StartProcess(path, command, &os.ProcAttr{
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return 0, err
	}
	return p.Pid, nil // who waits for it is this package alone, by number
}

// followOrders does as it is told until the program has ended.
func (w *watch) followOrders(orders <-chan order, children <-chan os.Signal) report {
	tidy := time.NewTicker(tidyEvery)
	defer tidy.Stop()
	for !ended(w.pid) {
		var err error
		select {
		case o, ok := <-orders:
			if !ok {
				orders = nil
				o = order{verb: whyOrphaned}
			}
			err = w.obey(o)
		case <-w.alarm.fired:
			if w.kill == 0 && lease.Boottime() >= w.deadline {
				err = w.endProgram(whyDeadline, w.deadline)
			}
		case <-children:
		case <-tidy.C:
			err = reapOrphans(w.pid)
		}
		if err != nil {
			w.why = whyFailed
			return w.finish(err)
		}
		if w.kill != 0 && lease.Boottime() >= w.kill {
			break
		}
	}
	return w.finish(nil)
}

// obey carries an order out.
func (w *watch) obey(o order) error {
	switch o.verb {
	case verbDeadline:
		if w.kill == 0 { // what was begun is brought to an end
			return w.arm(time.Duration(o.value))
		}
	case verbSignal:
		w.signal(unix.Signal(o.value))
	case verbKill:
		// Another holder may have the lease already.
		w.why, w.kill = whyLost, lease.Boottime()
	case whyOrphaned:
		return w.endProgram(whyOrphaned, min(lease.Boottime(), w.deadline))
	}
	return nil
}

// arm sets the deadline, unless that was later already.
func (w *watch) arm(deadline time.Duration) error {
	w.deadline = max(w.deadline, deadline)
	return w.alarm.set(w.deadline)
}

// endProgram asks the program to end, since a moment, and sets the alarm for killing it.
func (w *watch) endProgram(why string, since time.Duration) error {
	if w.kill != 0 {
		return nil
	}
	w.why, w.kill = why, since+w.grace
	w.signal(unix.SIGTERM)
	w.signal(unix.SIGCONT) // one that is stopped hears nothing
	return w.alarm.set(w.kill)
}

// signal is for all of the group, whose number is the program's until that was waited
// for.
func (w *watch) signal(s unix.Signal) {
	_ = unix.Kill(-w.pid, s) // no process is left: as it should be
}

// finish kills what is left and tells how the program ended.
func (w *watch) finish(failed error) report {
	w.signal(unix.SIGKILL)
	_ = unix.Kill(w.pid, unix.SIGKILL) // it may have left its group; or has ended
	r := report{why: w.why}
	if r.why == "" {
		r.why = whyItself
	}
	status, err := wait(w.pid)
	r.code = codeOf(status)
	if err := errors.Join(failed, err, killChildren(stubborn)); err != nil {
		r.text = err.Error()
	}
	r.after = lease.Boottime() - w.deadline
	return r
}
