package runner

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// lastLook bounds the time between two looks for processes that were killed and are
// not gone yet.
const lastLook = 100 * time.Millisecond

// adopt has all descendants whose parent dies become children of this process.
func adopt() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the parent of orphans: %w", err)
	}
	return nil
}

// children lists the processes whose parent is this one, those too that have ended
// and were not waited for.
func children() ([]int, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	me := strconv.Itoa(os.Getpid())
	var found []int
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue // not a process
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue // it is gone already
		}
		// PID (NAME) STATE PPID …, and the name may hold anything.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) > 1 && string(fields[1]) == me {
			found = append(found, pid)
		}
	}
	return found, nil
}

// killChildren kills every child, and each process that becomes one by that, until
// there is none or the time is over. Killing by number is safe: a child's is not
// used again before it was waited for, here and nowhere else.
func killChildren(within time.Duration) error {
	end := time.Now().Add(within)
	for pause := time.Millisecond; ; pause = min(2*pause, lastLook) {
		for {
			pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
			if errors.Is(err, unix.ECHILD) {
				return nil
			}
			if !errors.Is(err, unix.EINTR) && (err != nil || pid == 0) {
				break
			}
		}
		left, err := children()
		if err != nil {
			return fmt.Errorf("list the processes: %w", err)
		}
		foreign := 0
		for _, pid := range left {
			if err := unix.Kill(pid, unix.SIGKILL); errors.Is(err, unix.EPERM) {
				foreign++
			}
		}
		if foreign > 0 && foreign == len(left) {
			return fmt.Errorf("processes %v are another user's and run on", left)
		}
		if time.Now().After(end) {
			return fmt.Errorf("processes %v were killed and do not end", left)
		}
		time.Sleep(pause)
	}
}

// ended reports whether a child has ended, and leaves it to be waited for.
func ended(pid int) bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil)
	return err == nil && info.Signo == int32(unix.SIGCHLD)
}

// wait waits for the end of a child.
func wait(pid int) (syscall.WaitStatus, error) {
	for {
		var status unix.WaitStatus
		_, err := unix.Wait4(pid, &status, 0, nil)
		if !errors.Is(err, unix.EINTR) {
			return syscall.WaitStatus(status), err
		}
	}
}

// reapOrphans waits for those children that have ended, except one.
func reapOrphans(except int) error {
	all, err := children()
	for _, pid := range all {
		if pid != except {
			if _, err := unix.Wait4(pid, nil, unix.WNOHANG, nil); err != nil && !errors.Is(err, unix.EINTR) {
				return fmt.Errorf("wait for process %d: %w", pid, err)
			}
		}
	}
	return err
}
