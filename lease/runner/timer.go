package runner

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// alarm fires at a moment of CLOCK_BOOTTIME. Go's own timers stand still while the
// machine sleeps, and would let a program go on after it by as much as was left.
type alarm struct {
	file  *os.File
	fired chan struct{}
}

func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("make a timer: %w", err)
	}
	a := &alarm{file: os.NewFile(uintptr(fd), "timerfd"), fired: make(chan struct{}, 1)}
	go a.listen()
	return a, nil
}

// listen ends with the file.
func (a *alarm) listen() {
	var expirations [8]byte
	for {
		if _, err := a.file.Read(expirations[:]); err != nil {
			return
		}
		select {
		case a.fired <- struct{}{}:
		default: // the signal before has not been read
		}
	}
}

// set has the alarm fire at a moment, at once if that has passed.
func (a *alarm) set(at time.Duration) error {
	raw, err := a.file.SyscallConn() // Fd would have the file block
	if err != nil {
		return err
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(max(at, 1).Nanoseconds())} // 0 would take it off
	var failed error
	if err := raw.Control(func(fd uintptr) {
		failed = unix.TimerfdSettime(int(fd), unix.TFD_TIMER_ABSTIME, &spec, nil)
	}); err != nil {
		return err
	}
	if failed != nil {
		return fmt.Errorf("set the timer: %w", failed)
	}
	return nil
}
