package main

import (
	"context"
	"errors"
	"fmt"
)

func recorderArea() Area {
	return Area{
		Name: "recorder",
		About: "as root: three processes on hosts of their own, 200 machines that boot at once, and a flood of 20,000 " +
			"DISCOVERs a second, with the boot recorder and without it in turns",
		Measure: measureRecorder,
	}
}

// measureRecorder takes what the boot recorder costs the leader.
func measureRecorder(ctx context.Context, b *Bench) error {
	g := &gateSite{bench: b}
	rows := map[string]row{
		"boots":         {"recorder.boots_200_cpu_percent", "%", AtMost(1)},
		"flood":         {"recorder.flood_20000_cpu_percent", "%", AtMost(15)},
		"flood.memory":  {"recorder.flood_20000_memory_mb", "MB", AtMost(16)},
		"flood.entries": {"recorder.flood_20000_entries", "", AtMost(10)},
	}
	order := []string{"boots", "flood", "flood.memory", "flood.entries"}
	f, busy, err := g.lab(ctx, "TestFiguresOfRecorder", min(b.Trials, 3))
	if err != nil {
		var all []row
		for _, what := range order {
			all = append(all, rows[what])
		}
		return g.cannot(err, all...)
	}
	for _, what := range order {
		with, without := f[what+".on"], f[what+".off"]
		if len(with) == 0 || len(without) == 0 {
			return errors.New("TestFiguresOfRecorder measured no " + what)
		}
		more, r := median(with)-median(without), rows[what]
		if r.unit == "%" {
			more *= 100
		}
		b.Report.Add(r.name, more, r.unit, r.goal, fmt.Sprintf(
			"medians of %d: %.3g with the recorder, %.3g without; while nothing boots %.3g and %.3g of a core; %s",
			len(with), median(with), median(without), median(f["quiet.on"]), median(f["quiet.off"]), busy))
	}
	return nil
}
