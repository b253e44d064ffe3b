package app

import (
	"time"

	"github.com/trivet-ha/trivet/raftstore"
)

// safeTTL is the shortest lease that a change of leader alone does not cost its
// holder: three heartbeats until it is noticed, and an election (contract (b), rule
// 11).
func safeTTL(t raftstore.Timing) time.Duration { return 3*t.Heartbeat + t.Election }
