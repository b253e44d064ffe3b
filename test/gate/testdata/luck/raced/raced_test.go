package raced

import (
	"os"
	"testing"
)

// TestFailsUnderRace fails always under the race detector, and else until the file that
// it leaves is there.
func TestFailsUnderRace(t *testing.T) {
	name := os.Getenv("LUCK")
	if _, err := os.Stat(name); err == nil && !raced {
		return
	}
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Error("bad luck")
}
