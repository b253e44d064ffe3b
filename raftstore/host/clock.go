package host

import (
	"time"

	"golang.org/x/sys/unix"
)

// Monotonic is raftstore.Options.Monotonic of a real host: CLOCK_MONOTONIC_RAW. NTP
// makes CLOCK_MONOTONIC, which time.Now reads, faster or slower.
func Monotonic() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC_RAW, &now); err != nil {
		panic("host: CLOCK_MONOTONIC_RAW: " + err.Error()) // Linux has had it since 2.6.28
	}
	return time.Duration(now.Nano())
}
