package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// The page has what the runs of a piece found between these marks; the sentences around
// them are written by hand.
const (
	beginMark = "<!-- runs:%s -->\n"
	endMark   = "<!-- end -->\n"
)

// withRuns returns a page with what is between its marks written again. Each piece has
// its place on the page.
func withRuns(page string, all []piece, runs []Run) (string, error) {
	for i, p := range all {
		head, rest, found := strings.Cut(page, fmt.Sprintf(beginMark, p.name))
		_, foot, ended := strings.Cut(rest, endMark)
		if !found || !ended {
			return "", fmt.Errorf("the page has no place for piece %s: %q and %q", p.name,
				fmt.Sprintf(beginMark, p.name), endMark)
		}
		page = head + fmt.Sprintf(beginMark, p.name) + told(p, runs, i == 0) + endMark + foot
	}
	return page, nil
}

// told is what the page says of the runs of a piece; the machine where all ran it says of the first alone.
func told(p piece, runs []Run, first bool) string {
	good, bad := ofPiece(p, runs)
	var out strings.Builder
	fmt.Fprintf(&out, "`make proof PIECE=%s`: ", p.name)
	if len(good) == 0 {
		fmt.Fprintf(&out, "**not run yet**; the goal is %s %s.\n", number(p.goal), p.unit)
	} else {
		verdict := "reached"
		if counted(p, runs) < p.goal {
			verdict = "**not reached yet**"
		}
		fmt.Fprintf(&out, "**%s** %s, goal %s: %s.\n", number(counted(p, runs)), p.unit, number(p.goal), verdict)
		fmt.Fprintf(&out, "%s, %s; %s; commits %s", plural(len(good), "run"), hours(good),
			span(good, func(r Run) string { return r.Date }),
			strings.Join(distinct(good, func(r Run) string { return r.Commit }), ", "))
		machine := func(r Run) string { return r.Machine }
		if first || len(distinct(runs, machine)) > 1 {
			fmt.Fprintf(&out, "; %s", strings.Join(distinct(good, machine), "; "))
		}
		out.WriteString(".\n")
		if more := others(p, good); more != "" {
			fmt.Fprintf(&out, "%s.\n", more)
		}
	}
	var seeds []string
	for _, r := range bad {
		seeds = append(seeds, fmt.Sprintf("%d (%s, %s)", r.Seed, r.Date, r.Commit))
	}
	if len(seeds) > 0 {
		fmt.Fprintf(&out, "Seeds that found a fault: %s.\n", strings.Join(seeds, ", "))
	}
	return out.String()
}

// ofPiece returns the runs of a piece that found nothing, and those that found a fault. Of a
// list each part that it has today counts once, by its newest run.
func ofPiece(p piece, runs []Run) (good, bad []Run) {
	newest, parts := newestOfParts(p, runs), p.parts()
	for _, r := range runs {
		switch {
		case r.Piece != p.name:
		case r.Failed == "" && p.last > 0 && (r.Seed < newest[r.Part] || !slices.Contains(parts, r.Part)):
		case r.Failed == "":
			good = append(good, r)
		default:
			bad = append(bad, r)
		}
	}
	return good, bad
}

// others lists the figures of the runs but for that which counts: times by the longest, all
// else added up. Seeds and rates have no sum.
func others(p piece, runs []Run) string {
	all := make(map[string]float64)
	for _, r := range runs {
		for name, n := range r.Figures { // order-free: of each name the sum or the largest
			switch {
			case strings.HasSuffix(name, "_s"), strings.HasSuffix(name, "_max"):
				all[name] = max(all[name], n)
			case !strings.HasSuffix(name, "seed") && !strings.Contains(name, "_per_"):
				all[name] += n
			}
		}
	}
	delete(all, p.counts)
	var out []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, fmt.Sprintf("%s %s", name, number(all[name])))
	}
	return strings.Join(out, ", ")
}

// distinct returns what the runs have, each once, in the order of the runs.
func distinct(runs []Run, of func(Run) string) (out []string) {
	for _, r := range runs {
		if !slices.Contains(out, of(r)) {
			out = append(out, of(r))
		}
	}
	return out
}

// span is the first and the last of what the runs have.
func span(runs []Run, of func(Run) string) string {
	least := of(slices.MinFunc(runs, func(a, b Run) int { return cmp.Compare(of(a), of(b)) }))
	most := of(slices.MaxFunc(runs, func(a, b Run) int { return cmp.Compare(of(a), of(b)) }))
	if least == most {
		return least
	}
	return least + " to " + most
}

func hours(runs []Run) string {
	took := time.Duration(0)
	for _, r := range runs {
		took += time.Duration(r.Seconds) * time.Second
	}
	if took < 2*time.Hour {
		return fmt.Sprintf("%.0f minutes", took.Minutes())
	}
	return fmt.Sprintf("%.1f hours", took.Hours())
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
