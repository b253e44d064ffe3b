// Package plot draws figures for pages: panels next to one another, each with one
// quantity as a line, on a logarithmic scale.
package plot

import (
	"fmt"
	"math"
	"os"
	"strings"
)

// Panel is one quantity.
type Panel struct {
	Title  string
	Points []Point // from left to right
	Marks  bool    // each point has a mark and its value, and stands as far from the next as another
}

// Point is a value, greater than 0.
type Point struct {
	X     float64
	Y     float64
	Label string // below it on the axis; "": none
}

// A plot's sizes are in pixels.
const (
	panelWidth, panelHeight = 190, 150
	panelMargin             = 50
)

// Write draws panels as SVG.
func Write(path string, panels ...Panel) error {
	var b strings.Builder
	fmt.Fprintf(&b,
		`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="11">`+"\n",
		len(panels)*(panelWidth+panelMargin)+panelMargin, panelHeight+2*panelMargin)
	b.WriteString(`<rect width="100%" height="100%" fill="white"/>` + "\n")
	for i, p := range panels {
		p.draw(&b, panelMargin+i*(panelWidth+panelMargin), panelMargin)
	}
	b.WriteString("</svg>\n")
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		return fmt.Errorf("write the plot: %w", err)
	}
	return nil
}

// draw draws the panel with its upper left corner at x, y. Its vertical scale has whole
// powers of ten.
func (p Panel) draw(b *strings.Builder, x, y int) {
	low, high := math.Inf(1), math.Inf(-1)
	for _, one := range p.Points {
		low, high = min(low, math.Floor(math.Log10(one.Y))), max(high, math.Ceil(math.Log10(one.Y)))
	}
	high = max(high, low+1)
	fmt.Fprintf(b, `<text x="%d" y="%d" font-weight="bold">%s</text>`+"\n", x, y-10, p.Title)
	fmt.Fprintf(b, `<rect x="%d" y="%d" width="%d" height="%d" fill="none" stroke="#999"/>`+"\n", x, y, panelWidth,
		panelHeight)
	height := func(log float64) float64 { return float64(y) + panelHeight*(high-log)/(high-low) }
	for log := low; log <= high; log++ {
		fmt.Fprintf(b, `<text x="%d" y="%.0f" text-anchor="end">%g</text>`+"\n", x-4, height(log)+4, math.Pow(10, log))
	}
	var line []string
	for i, one := range p.Points {
		at, point := float64(x)+panelWidth*p.place(i), height(math.Log10(one.Y))
		line = append(line, fmt.Sprintf("%.1f,%.1f", at, point))
		if p.Marks {
			fmt.Fprintf(b,
				`<circle cx="%.1f" cy="%.1f" r="3" fill="#1f5a96"/><text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`+"\n", at,
				point, at, point-7, Digits(one.Y))
		}
		if one.Label != "" {
			fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", at, y+panelHeight+15, one.Label)
		}
	}
	fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="#1f5a96"/>`+"\n", strings.Join(line, " "))
}

// place is where a point stands between the left and the right edge, 0 to 1.
func (p Panel) place(i int) float64 {
	last := len(p.Points) - 1
	if p.Marks {
		return float64(i) / float64(max(last, 1))
	}
	first, width := p.Points[0].X, p.Points[last].X-p.Points[0].X
	if width == 0 {
		return 0
	}
	return (p.Points[i].X - first) / width
}

// Digits spells a value with three digits, or more where it has them before the point.
func Digits(v float64) string {
	if v >= 1000 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}
