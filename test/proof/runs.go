package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/test/testenv"
)

// Run is one run of a piece.
type Run struct {
	Piece   string             `json:"piece"`
	Commit  string             `json:"commit"` // "+" behind it: of a tree that was changed since
	Date    string             `json:"date"`   // of its end, in UTC
	Seconds int                `json:"seconds"`
	Seed    int                `json:"seed"`
	Part    string             `json:"part,omitempty"` // of a list, "31-60"
	Machine string             `json:"machine"`
	Figures map[string]float64 `json:"figures"`
	// Failed is the end of what a run printed that found a fault. It counts nothing,
	// and stays: a fault that was found is part of the proof.
	Failed string `json:"failed,omitempty"`
}

// readRuns returns the runs of a file, the oldest first; none without the file.
func readRuns(path string) (runs []Run, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &runs)
	}
	if err != nil {
		return nil, fmt.Errorf("read the runs of %s: %w", path, err)
	}
	return runs, nil
}

// appendRun adds a run to a file: wholly or not at all, whenever it is ended.
func appendRun(path string, one Run) error {
	runs, err := readRuns(path)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(append(runs, one), "", " ")
	if err != nil {
		return fmt.Errorf("encode the runs: %w", err)
	}
	if err := os.WriteFile(path+".new", append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the runs: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("write the runs: %w", err)
	}
	return nil
}

// whereabouts returns the commit that is tried, and the machine.
func whereabouts(ctx context.Context) (commit, machine string, err error) {
	head, err := exec.CommandContext(ctx, "git", "rev-parse", "--short=10", "HEAD").Output()
	if err != nil {
		return "", "", fmt.Errorf("ask for the commit: %w", err)
	}
	changed, err := exec.CommandContext(ctx, "git", "status", "--porcelain", "--", ":!docs").Output()
	if err != nil {
		return "", "", fmt.Errorf("ask what is changed: %w", err)
	}
	commit = strings.TrimSpace(string(head))
	if len(changed) > 0 {
		commit += "+"
	}
	var kernel unix.Utsname
	if err := unix.Uname(&kernel); err != nil {
		return "", "", fmt.Errorf("ask for the kernel: %w", err)
	}
	var memory unix.Sysinfo_t
	if err := unix.Sysinfo(&memory); err != nil {
		return "", "", fmt.Errorf("ask for the memory: %w", err)
	}
	release, _, _ := strings.Cut(unix.ByteSliceToString(kernel.Release[:]), "-")
	return commit, fmt.Sprintf("%d processors, %d GB, Linux %s, %s", runtime.NumCPU(),
		memory.Totalram*uint64(memory.Unit)>>30, release, runtime.Version()), nil
}

// counted is what the runs of a piece have counted towards its goal.
func counted(p piece, runs []Run) (n float64) {
	good, _ := ofPiece(p, runs)
	for _, r := range good {
		n += r.Figures[p.counts]
	}
	return n
}

// nextRun is the seed of a piece's next run, which no run of it has had, and its part: the
// one that no good run has had, else the one whose newest is the oldest.
func nextRun(p piece, runs []Run) (seed int, part string) {
	seed = 1
	for _, r := range runs {
		if r.Piece == p.name {
			seed = max(seed, r.Seed+1)
		}
	}
	newest := newestOfParts(p, runs)
	part = slices.MinFunc(p.parts(), func(a, b string) int { return cmp.Compare(newest[a], newest[b]) })
	return seed, part
}

// newestOfParts has for each part of a list the seed of its newest run that found nothing.
func newestOfParts(p piece, runs []Run) map[string]int {
	newest := make(map[string]int)
	for _, r := range runs {
		if r.Piece == p.name && r.Failed == "" {
			newest[r.Part] = max(newest[r.Part], r.Seed)
		}
	}
	return newest
}

// progress says how far a piece is.
func progress(p piece, runs []Run) string {
	return fmt.Sprintf("%s of %s %s", number(counted(p, runs)), number(p.goal), p.unit)
}

// number is written with a comma between thousands.
func number(n float64) string {
	text := strconv.FormatFloat(n, 'f', -1, 64)
	whole, fraction, _ := strings.Cut(text, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if fraction != "" {
		whole += "." + fraction[:min(2, len(fraction))]
	}
	return whole
}

// tailLimit bounds what is kept of a failing run's output, and lineLimit what of a line is
// looked at, in bytes.
const (
	tailLimit = 1000
	lineLimit = 4096
)

// output follows what a run prints: its end, and what it counts.
type output struct {
	mu      sync.Mutex // both streams of the run are written here
	text    []byte
	line    []byte
	counted map[string]float64
}

// Write never fails.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, p...)
	if len(o.text) > tailLimit {
		o.text = append([]byte(nil), o.text[len(o.text)-tailLimit:]...)
	}
	for _, b := range p {
		switch {
		case b == '\n':
			if name, value, ok := testenv.Counted(string(o.line)); ok {
				o.counted[name] = value
			}
			o.line = o.line[:0]
		case len(o.line) < lineLimit:
			o.line = append(o.line, b)
		}
	}
	return len(p), nil
}

func (o *output) last() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.ToValidUTF8(string(o.text), "?")
}
