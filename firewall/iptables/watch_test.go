package iptables

import (
	"testing"
	"time"
)

// TestRestIsBounded takes looks of every length, and demands that a flush is
// looked for often enough after each.
func TestRestIsBounded(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		0:                      time.Second,
		2 * time.Millisecond:   time.Second,
		30 * time.Millisecond:  1500 * time.Millisecond,
		180 * time.Millisecond: 2 * time.Second, // on a busy machine; it was 9 s
		8 * time.Second:        2 * time.Second,
	} {
		if got := restAfter(took); got != want {
			t.Errorf("after a look of %v it rests for %v, want %v", took, got, want)
		}
	}
}
