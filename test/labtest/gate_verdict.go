//go:build e2e

package labtest

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// handOver is what a client saw of one.
type handOver struct {
	to      int           // the host that answered next, 0 if none did
	gap     time.Duration // without an answer, from the last of the old host to the first of the new
	late    time.Duration // from the first answer of the new host to the last of the old
	overlap int           // times that the old host answered from then on, or another beside the new
	again   int           // hand-overs from the new host on, each after a time without an answer
}

func (h handOver) String() string {
	text := fmt.Sprintf("host %d after %v without an answer", h.to, h.gap.Round(time.Millisecond))
	if h.overlap > 0 {
		text += fmt.Sprintf(", %d OVERLAPS in %v", h.overlap, h.late.Round(time.Millisecond))
	}
	if h.again > 0 {
		text += fmt.Sprintf(", and %d more hand-overs", h.again)
	}
	return text
}

// story tells which hosts answered when, counted from the first question: a part for each
// time that the same ones did.
func story(all []asked) string {
	var parts []string
	for n, one := range all {
		if n == 0 || !slices.Equal(one.by, all[n-1].by) {
			parts = append(parts, fmt.Sprintf("%v %d", one.sent.Sub(all[0].sent).Round(time.Millisecond), one.by))
		}
	}
	return strings.Join(parts, ", ")
}

// judge reads what was asked around a hand-over from the old host.
func judge(all []asked, old int) (h handOver) {
	var last, first time.Time
	before := []int{old} // hosts that have answered and were succeeded
	current, quiet := 0, false
	for _, one := range all {
		other := slices.IndexFunc(one.by, func(host int) bool { return host != old })
		if h.to == 0 && other >= 0 {
			h.to, first = one.by[other], one.sent
			current = h.to
		}
		for _, host := range one.by {
			switch {
			case h.to == 0:
				last = one.sent
			case host == current:
			case quiet && len(one.by) == 1 && !slices.Contains(before, host):
				before, current = append(before, current), host
				h.again++
			default:
				h.overlap++
				h.late = one.sent.Sub(first)
			}
		}
		quiet = len(one.by) == 0
	}
	if !last.IsZero() && h.to != 0 {
		h.gap = first.Sub(last)
	}
	return h
}

// steady counts the times that exactly the one host answered.
func steady(all []asked, host int) int {
	return count(all, func(one asked) bool { return len(one.by) == 1 && one.by[0] == host })
}

// answered counts the times that anybody did.
func answered(all []asked) int { return count(all, func(one asked) bool { return len(one.by) > 0 }) }

// answersOf are questions that hosts answered.
func answersOf(by ...[]int) (all []asked) {
	for n, hosts := range by {
		all = append(all, asked{time.Unix(0, int64(n)*int64(askEvery)), hosts})
	}
	return all
}

// lastBy returns the time that a host answered last.
func lastBy(all []asked, host int) (at time.Time) {
	for _, one := range all {
		if slices.Contains(one.by, host) {
			at = one.sent
		}
	}
	return at
}
