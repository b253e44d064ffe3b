package main

import (
	"fmt"
	"strings"

	"github.com/trivet-ha/trivet/test/plot"
)

// reportGrowth compares the greatest number of machines with the goals, and with a
// hundredth of it.
func reportGrowth(b *Bench, all []grown) {
	most, few := all[len(all)-1], all[len(all)-3]
	add := func(name, unit string, value float64, goal Goal, of func(grown) string) {
		var raw []string
		for _, g := range all {
			raw = append(raw, fmt.Sprintf("%d: %s", g.nodes, of(g)))
		}
		b.Report.Add("growth."+name, value, unit, goal, strings.Join(raw, "; "))
	}
	add("memory_mb", "MB", most.memory, AtMost(900), func(g grown) string { return fmt.Sprintf("%.0f", g.memory) })
	add("restart_ready", "s", most.ready.Seconds(), AtMost(8), func(g grown) string { return short(g.ready).String() })
	add("page_ms", "ms", most.page.P50().Seconds()*1000, AtMost(40), func(g grown) string { return g.page.String() })
	add("page_ratio", "x", ratio(most.page.P50(), few.page.P50()), AtMost(1.5),
		func(g grown) string { return short(g.page.P50()).String() })
	add("status_ratio", "x", ratio(most.status.P50(), few.status.P50()), AtMost(1.5),
		func(g grown) string { return g.status.String() })
	add("memory_each_ratio", "x", most.memory/float64(most.nodes)/(few.memory/float64(few.nodes)), AtMost(1.5),
		func(g grown) string { return fmt.Sprintf("%.1f KB", 1000*g.memory/float64(g.nodes)) })
	add("snapshot_pause_ms", "ms", most.pause.Seconds()*1000, AtMost(100), func(g grown) string {
		return fmt.Sprintf("the longest commit %v, in %v without a snapshot %v", short(g.pause), quietTime, short(g.before))
	})
	add("join_ready", "s", most.joined.Seconds(), AtMost(60), func(g grown) string { return short(g.joined).String() })
	add("join_elections", "", float64(most.terms), AtMost(0), func(g grown) string { return fmt.Sprint(g.terms) })
}

// writePlot draws what grew over the number of machines as SVG.
func writePlot(path string, all []grown) error {
	panel := func(title string, value func(grown) float64) plot.Panel {
		p := plot.Panel{Title: title, Marks: true}
		for _, g := range all {
			p.Points = append(p.Points, plot.Point{Y: value(g), Label: fmt.Sprint(g.nodes)})
		}
		return p
	}
	return plot.Write(path,
		panel("memory, MB", func(g grown) float64 { return g.memory }),
		panel("restart to ready, s", func(g grown) float64 { return g.ready.Seconds() }),
		panel("page of the list, ms", func(g grown) float64 { return 1000 * g.page.P50().Seconds() }),
		panel("a peer joins, s", func(g grown) float64 { return g.joined.Seconds() }))
}
