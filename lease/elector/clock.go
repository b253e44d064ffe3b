package elector

import "time"

// Clock is a reading of a clock that cannot be set and that goes on while the
// machine sleeps, from an arbitrary beginning, as lease.Boottime of client/lease.
// It may be called concurrently.
type Clock func() time.Duration
