package daemon

import (
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMemoryIsKeptOutOfDumps asks the kernel for both: a process that may not be dumped, whatever
// core_pattern names, and a limit that the programs inherit which it starts.
func TestMemoryIsKeptOutOfDumps(t *testing.T) {
	t.Cleanup(func() {
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0); err != nil { // a profiler may want it
			t.Error(err)
		}
	})
	if err := keepOutOfDumps(); err != nil {
		t.Fatal(err)
	}
	may, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	if err != nil || may != 0 {
		t.Errorf("core-dump: the process may be dumped: %d (%v)", may, err)
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_CORE, &limit); err != nil || limit.Max > 1 {
		t.Errorf("core-dump: programs that it starts may be dumped: %d bytes (%v)", limit.Max, err)
	}
	if err := keepOutOfDumps(); err != nil {
		t.Errorf("core-dump: with the limits of the unit: %v", err)
	}
}
