package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// settle is how long a new cluster is left alone before it is looked at.
const settle = 10 * time.Second

func memoryArea() Area {
	return Area{Name: "memory", About: "three processes that have nothing to do", Measure: measureMemory}
}

func measureMemory(ctx context.Context, b *Bench) error {
	binary, err := b.Binary(ctx)
	if err != nil {
		return err
	}
	dir, err := b.Folder("memory")
	if err != nil {
		return err
	}
	cluster, err := newFleet(ctx, binary, dir, nil)
	if err != nil {
		return err
	}
	defer cluster.end()
	if err := pause(ctx, settle); err != nil {
		return err
	}
	most, raw, err := cluster.memory()
	if err != nil {
		return err
	}
	b.Report.Add("memory.idle_rss_anon", most, "MB", AtMost(20), "the three peers: "+raw)
	return nil
}

// memory returns what the largest peer holds of memory that no file backs, and
// what each does.
func (f fleet) memory() (most float64, all string, err error) {
	var raw []string
	for _, p := range f {
		mb, err := rssAnon(p.serving.Process.Pid)
		if err != nil {
			return 0, "", err
		}
		most = max(most, mb)
		raw = append(raw, fmt.Sprintf("%.1f", mb))
	}
	return most, strings.Join(raw, ", "), nil
}

// rssAnon returns the memory of a process that no file backs, in 10^6 bytes.
func rssAnon(pid int) (float64, error) { return rssOf(pid, "RssAnon") }

// rssOf returns the memory of a process that the kernel tells by a name, in 10^6
// bytes.
func rssOf(pid int, name string) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("look at a process: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			kb, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 64)
			if err != nil {
				return 0, fmt.Errorf("%s: %w", name, err)
			}
			return kb * 1024 / 1e6, nil
		}
	}
	return 0, fmt.Errorf("the kernel does not tell %s", name)
}
