package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// usage is processor time that was used until a moment, by the peers and by
// this process: what a busy machine does not falsify as it does the clock on the
// wall. The rest says how busy it was.
type usage struct {
	peers, bench time.Duration
	machine      time.Duration // by everything
	entries      uint64        // of the log
	at           time.Time
}

func (u usage) since(before usage) usage {
	u.peers -= before.peers
	u.bench -= before.bench
	u.machine -= before.machine
	u.entries -= before.entries
	return u
}

// each says what one of n operations that began at a moment took.
func (u usage) each(n int, began time.Time) string {
	others := (u.machine - u.peers - u.bench).Seconds() / (u.at.Sub(began).Seconds() * float64(runtime.NumCPU()))
	return fmt.Sprintf("CPU each: peers %v, load and Ironic %v; others took %.0f%% of the machine; log entries each: %.1f",
		short(u.peers/time.Duration(max(n, 1))), short(u.bench/time.Duration(max(n, 1))), max(others, 0)*100,
		float64(u.entries)/float64(max(n, 1)))
}

// usage returns what was used until now; what cannot be looked at counts
// nothing, since the load will tell what became of it.
func (s *apiSite) usage(ctx context.Context) (u usage) {
	u.at = time.Now()
	if status, err := s.fleet[0].status(ctx); err != nil {
		s.bench.Say("%v", err)
	} else {
		u.entries = status.Index
	}
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
	machine, err := cpuOfMachine()
	if err != nil {
		s.bench.Say("%v", err)
	}
	u.machine = machine
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
	return ticks(fields[user], fields[system])
}

// cpuOfMachine returns the processor time that everything has used, and that a
// hypervisor gave to others.
func cpuOfMachine() (time.Duration, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, fmt.Errorf("look at the machine: %w", err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(first)
	const idle, wait, steal = 4, 5, 8 // proc(5); the first field is the line's name
	if len(fields) <= steal {
		return 0, errors.New("/proc/stat has another form")
	}
	return ticks(slices.Concat(fields[1:idle], fields[wait+1:steal+1])...)
}

// ticks adds up figures of the kernel.
func ticks(figures ...string) (sum time.Duration, err error) {
	for _, figure := range figures {
		n, err := strconv.ParseInt(figure, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("processor time: %w", err)
		}
		sum += time.Duration(n) * clockTick
	}
	return sum, nil
}
