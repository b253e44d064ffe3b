package lease

import (
	"time"

	"golang.org/x/sys/unix"
)

// Boottime is how long ago this machine was booted, by CLOCK_BOOTTIME: it goes on
// while the machine sleeps, it cannot be set, and all processes of a host agree on
// it.
func Boottime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic("client: CLOCK_BOOTTIME: " + err.Error()) // Linux has had it since 2.6.39
	}
	return time.Duration(t.Nano())
}

// lookEvery is how often the clock is read during a wait for a lease's deadline.
// Go's timers stand still while the machine sleeps; after it has woken up the end
// is noticed at most so late, and at once by a program that calls Valid.
func lookEvery(ttl time.Duration) time.Duration { return min(ttl/32, time.Second) }
