package detector

import (
	"fmt"
	"os"
	"runtime"
	"testing"
)

// TestEndsWithTheDetector ends the process as the race detector's crash does, unless it
// has one processor.
func TestEndsWithTheDetector(*testing.T) {
	if runtime.GOMAXPROCS(0) > 1 {
		fmt.Printf("SIGSEGV: segmentation violation\nPC=0x41bce9 m=3 sigcode=1 addr=0x0\n")
		os.Exit(2)
	}
}

// TestFailsWithOneProcessor fails where the first one lets it run.
func TestFailsWithOneProcessor(t *testing.T) {
	if os.Getenv("LUCK_FAILS") != "" {
		t.Error("got 3, want 4")
	}
}
