package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// usage is processor time that was used, by the peers and by this process:
// what a busy machine does not falsify as it does the clock on the wall.
type usage struct{ peers, bench time.Duration }

func (u usage) since(before usage) usage {
	return usage{u.peers - before.peers, u.bench - before.bench}
}

// each says what one of n operations took.
func (u usage) each(n int) string {
	return fmt.Sprintf("CPU each: peers %v, load and Ironic %v", short(u.peers/time.Duration(max(n, 1))), short(u.bench/time.Duration(max(n, 1))))
}

// usage returns what was used until now; a peer that cannot be looked at counts
// nothing, since the load will tell what became of it.
func (s *apiSite) usage() (u usage) {
	for _, p := range s.fleet {
		used, err := cpuOf(p.serving.Process.Pid)
		if err != nil {
			s.bench.Say("%s: %v", p.name, err)
		}
		u.peers += used
	}
	var own unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &own); err != nil {
		s.bench.Say("own processor time: %v", err)
	}
	u.bench = time.Duration(own.Utime.Nano() + own.Stime.Nano())
	return u
}

// clockTick is the unit of processor time in /proc; Linux has had no other for
// programs since 2.6.
const clockTick = 10 * time.Millisecond

// cpuOf returns the processor time that a process has used.
func cpuOf(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("look at a process: %w", err)
	}
	// The name of the program stands in brackets and may hold spaces.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	const user, system = 11, 12 // counted after the name
	if len(fields) <= system {
		return 0, fmt.Errorf("/proc/%d/stat has another form", pid)
	}
	var ticks int64
	for _, field := range []string{fields[user], fields[system]} {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick, nil
}
