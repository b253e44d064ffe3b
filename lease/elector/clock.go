package elector

import "time"

// Clock is a reading of a clock that nobody sets and that goes on while the machine
// sleeps, from whatever beginning, as lease.Boottime of client/lease. It may be
// called concurrently.
type Clock func() time.Duration
