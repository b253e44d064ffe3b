package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// stage is one part of tier 1 as it ran: what failed in it, and whether the
// environment is to blame.
type stage struct {
	name        string
	began       time.Time
	failed      []string // "package Test: first error", "gofmt: file"
	notes       []string // what a reader should know although the stage passed
	environment string   // why the verdict is not about the change; empty: it is
}

// leastDisk is the free space below which a failure says nothing about the change.
const leastDisk = 256 << 20

// blame finds out whether the environment made the stage fail: the run was stopped,
// the disk is full, or the kernel killed a process.
func (s *stage) blame(ctx context.Context) {
	switch {
	case len(s.failed) == 0 && ctx.Err() == nil:
	case ctx.Err() != nil:
		s.environment = "the run was stopped before it ended"
	case freeDisk() < leastDisk:
		s.environment = fmt.Sprintf("less than %d MiB of disk space are free", leastDisk>>20)
	default:
		for _, line := range s.failed {
			if killed.MatchString(line) {
				s.environment = "the system killed a process, as it does where memory is short"
			}
		}
	}
}

// killed matches the summary of a package whose process something outside of it ended. A
// test that tells of a killed process of its own is none.
var killed = regexp.MustCompile(`^\S+( \(under -race\))?: signal: killed$`)

// freeDisk returns the bytes free for temporary files and for the build, whichever has less.
func freeDisk() uint64 {
	free := uint64(1 << 62)
	for _, dir := range []string{os.TempDir(), "."} {
		var fs syscall.Statfs_t
		if syscall.Statfs(dir, &fs) == nil {
			free = min(free, fs.Bavail*uint64(fs.Bsize))
		}
	}
	return free
}

func (s *stage) code() int {
	switch {
	case s.environment != "":
		return exitEnvironment
	case len(s.failed) > 0:
		return exitChange
	}
	return exitPassed
}

// mostNamed bounds how many failures a summary names.
const mostNamed = 30

func (s *stage) write(w io.Writer) {
	word := map[int]string{exitPassed: "passed", exitChange: "FAILED", exitEnvironment: "ENVIRONMENT"}[s.code()]
	fmt.Fprintf(w, "%-6s %-11s %4.0f s\n", s.name, word, time.Since(s.began).Seconds())
	if s.environment != "" {
		fmt.Fprintf(w, "       the environment: %s\n", s.environment)
	}
	for _, line := range s.failed[:min(len(s.failed), mostNamed)] {
		fmt.Fprintf(w, "  FAIL  %s\n", line)
	}
	if more := len(s.failed) - mostNamed; more > 0 {
		fmt.Fprintf(w, "  and %d more\n", more)
	}
	for _, line := range s.notes {
		fmt.Fprintf(w, "  %s\n", line)
	}
}

// finish prints the summary of a stage, appends it to the report of the whole run
// where there is one, and returns the exit code.
func (s *stage) finish(ctx context.Context) int {
	s.blame(ctx)
	var text strings.Builder
	s.write(&text)
	fmt.Printf("\n== summary\n%s", &text)
	if name := os.Getenv("TRIVET_GATE_REPORT"); name != "" {
		if err := appendFile(name, text.String()); err != nil {
			fmt.Fprintln(os.Stderr, "error: write the summary:", err)
			return exitEnvironment
		}
	}
	return s.code()
}

func appendFile(name, text string) error {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := f.WriteString(text); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
