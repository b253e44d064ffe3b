package elector

import (
	"time"

	"golang.org/x/sys/unix"
)

// Clock is a reading of a clock that nobody sets and that goes on while the machine
// sleeps, from whatever beginning. It may be called concurrently.
type Clock func() time.Duration

// BootTime is the time since the machine was started, sleep included. time.Now's
// monotonic part stands still while it sleeps.
func BootTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic("elector: CLOCK_BOOTTIME: " + err.Error()) // every Linux since 2.6.39 has it
	}
	return time.Duration(t.Nano())
}
