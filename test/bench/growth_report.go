package main

import (
	"fmt"
	"math"
	"os"
	"strings"
	"time"
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

// A plot has a panel for each quantity, next to one another, in pixels.
const (
	panelWidth, panelHeight = 190, 150
	panelMargin             = 50
)

// panel is one quantity over the number of machines, both on logarithmic scales.
type panel struct {
	title string
	value func(grown) float64
}

// writePlot draws what grew as SVG.
func writePlot(path string, all []grown) error {
	seconds := func(d time.Duration) float64 { return d.Seconds() }
	panels := []panel{
		{"memory, MB", func(g grown) float64 { return g.memory }},
		{"restart to ready, s", func(g grown) float64 { return seconds(g.ready) }},
		{"page of the list, ms", func(g grown) float64 { return 1000 * seconds(g.page.P50()) }},
		{"a peer joins, s", func(g grown) float64 { return seconds(g.joined) }},
	}
	var b strings.Builder
	fmt.Fprintf(&b,
		`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="11">`+"\n",
		len(panels)*(panelWidth+panelMargin)+panelMargin, panelHeight+2*panelMargin)
	b.WriteString(`<rect width="100%" height="100%" fill="white"/>` + "\n")
	for i, p := range panels {
		p.draw(&b, panelMargin+i*(panelWidth+panelMargin), panelMargin, all)
	}
	b.WriteString("</svg>\n")
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		return fmt.Errorf("write the plot: %w", err)
	}
	return nil
}

// draw draws the panel with its upper left corner at x, y. Its vertical scale has whole
// powers of ten.
func (p panel) draw(b *strings.Builder, x, y int, all []grown) {
	low, high := math.Inf(1), math.Inf(-1)
	for _, g := range all {
		low, high = min(low, math.Floor(math.Log10(p.value(g)))), max(high, math.Ceil(math.Log10(p.value(g))))
	}
	high = max(high, low+1)
	fmt.Fprintf(b, `<text x="%d" y="%d" font-weight="bold">%s</text>`+"\n", x, y-10, p.title)
	fmt.Fprintf(b, `<rect x="%d" y="%d" width="%d" height="%d" fill="none" stroke="#999"/>`+"\n", x, y, panelWidth,
		panelHeight)
	height := func(log float64) float64 { return float64(y) + panelHeight*(high-log)/(high-low) }
	for log := low; log <= high; log++ {
		fmt.Fprintf(b, `<text x="%d" y="%.0f" text-anchor="end">%g</text>`+"\n", x-4, height(log)+4, math.Pow(10, log))
	}
	var line []string
	for i, g := range all {
		at := float64(x) + panelWidth*float64(i)/float64(len(all)-1)
		point := height(math.Log10(p.value(g)))
		line = append(line, fmt.Sprintf("%.1f,%.1f", at, point))
		fmt.Fprintf(b,
			`<circle cx="%.1f" cy="%.1f" r="3" fill="#1f5a96"/><text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`+"\n", at,
			point, at, point-7, digits(p.value(g)))
		fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle">%d</text>`+"\n", at, y+panelHeight+15, g.nodes)
	}
	fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="#1f5a96"/>`+"\n", strings.Join(line, " "))
}
