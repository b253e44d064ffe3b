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
	cluster, err := newFleet(ctx, binary, dir)
	if err != nil {
		return err
	}
	defer cluster.end()
	select {
	case <-time.After(settle):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	var most float64
	var raw []string
	for _, p := range cluster {
		mb, err := rssAnon(p.serving.Process.Pid)
		if err != nil {
			return err
		}
		most = max(most, mb)
		raw = append(raw, fmt.Sprintf("%.1f", mb))
	}
	b.Report.Add("memory.idle_rss_anon", most, "MB", AtMost(60), "the three peers: "+strings.Join(raw, ", "))
	return nil
}

// rssAnon returns the memory of a process that no file backs, in 10^6 bytes.
func rssAnon(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("look at a process: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kb, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 64)
			if err != nil {
				return 0, fmt.Errorf("RssAnon: %w", err)
			}
			return kb * 1024 / 1e6, nil
		}
	}
	return 0, fmt.Errorf("the kernel does not tell RssAnon")
}
