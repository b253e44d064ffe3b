package daemon

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// keepOutOfDumps keeps the memory of this process, which holds the cluster's keys and
// passwords, out of core dumps, and that of the fence agents that it starts. A limit of 0
// would not do: the kernel asks no limit where core_pattern names a program or a socket. It
// asks whether a process may be dumped, which does not outlast an exec, and a limit of 1
// byte keeps programs from being started for the processes that inherit it.
func keepOutOfDumps() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("forbid core dumps of this process: %w", err)
	}
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_CORE, &was); err != nil {
		return fmt.Errorf("read the limit of core dumps: %w", err)
	}
	if was.Max <= 1 {
		return nil // as the unit has it, whose filter of system calls forbids to set it; 0 may not be raised
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{Cur: 1, Max: 1}); err != nil {
		return fmt.Errorf("limit core dumps of fence agents: %w", err)
	}
	return nil
}
