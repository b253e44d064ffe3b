package simtest

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Fault is one fault of a schedule.
type Fault struct {
	At   time.Duration // since the schedule began
	For  time.Duration // until it is undone
	Kind string        // one of faultKinds
	Host string        // the host that it strikes, or leaderHost
	Peer string        // the other end of a link, where the kind has one
}

// leaderHost stands for the host that leads when the fault strikes.
const leaderHost = "leader"

// String returns the form that ParseSchedule reads.
func (f Fault) String() string {
	host := f.Host
	if f.Peer != "" {
		host += "-" + f.Peer
	}
	return fmt.Sprintf("%v+%v %s %s", f.At, f.For, f.Kind, host)
}

// Schedule is a list of faults, in the order of At, that do not wait for each
// other: the next one may strike before the cluster has noticed the last one.
type Schedule []Fault

// String returns the form that ParseSchedule reads: one fault after the other,
// separated by semicolons.
func (s Schedule) String() string {
	out := make([]string, len(s))
	for i, f := range s {
		out[i] = f.String()
	}
	return strings.Join(out, "; ")
}

// ParseSchedule reads what Schedule.String wrote.
func ParseSchedule(text string) (s Schedule, err error) {
	for one := range strings.SplitSeq(text, ";") {
		var f Fault
		var when string
		if _, err := fmt.Sscan(one, &when, &f.Kind, &f.Host); err != nil {
			return nil, fmt.Errorf("fault %q: write AT+FOR KIND HOST: %w", one, err)
		}
		at, lasts, _ := strings.Cut(when, "+")
		if f.At, err = time.ParseDuration(at); err == nil {
			f.For, err = time.ParseDuration(lasts)
		}
		if err != nil {
			return nil, fmt.Errorf("fault %q: %w", one, err)
		}
		f.Host, f.Peer, _ = strings.Cut(f.Host, "-")
		s = append(s, f)
	}
	return s, nil
}

// Of a random schedule: the longest pause between two faults, the share of faults
// that come right after the one before, within shortPause, and the longest duration.
const (
	longestPause  = 4 * time.Second
	shortPause    = 200 * time.Millisecond
	closeFaults   = 0.4
	longestFault  = 12 * time.Second
	shortestFault = 30 * time.Millisecond
)

// RandomSchedule returns faults of all kinds at the given hosts for a time. Half of
// them strike the leader.
func RandomSchedule(rng *rand.Rand, hosts []string, total time.Duration) (s Schedule) {
	return randomSchedule(rng, hosts, total, slices.Sorted(maps.Keys(faultKinds)), longestPause)
}

// randomSchedule is RandomSchedule with faults of some kinds, and with a longest pause.
func randomSchedule(rng *rand.Rand, hosts []string, total time.Duration, kinds []string, longest time.Duration) (
	s Schedule) {
	for at := time.Duration(0); at < total; {
		pause := longest
		if rng.Float64() < closeFaults {
			pause = shortPause
		}
		at += between(rng, 0, pause).Round(time.Millisecond)
		f := Fault{At: at, For: shortestFault << rng.IntN(9), Kind: kinds[rng.IntN(len(kinds))],
			Host: hosts[rng.IntN(len(hosts))]}
		f.For = min(f.For+between(rng, 0, f.For), longestFault).Round(time.Millisecond)
		if rng.IntN(2) == 0 {
			f.Host = leaderHost
		}
		if kindOf(f.Kind).link {
			f.Peer = hosts[rng.IntN(len(hosts))]
		}
		s = append(s, f)
	}
	return s
}

// events are the beginnings and ends of the faults, in the order in which they are
// due; an end comes before a beginning at the same time.
func (s Schedule) events() (all []faultEvent) {
	for i, f := range s {
		all = append(all, faultEvent{at: f.At, fault: i}, faultEvent{at: f.At + f.For, fault: i, ends: true})
	}
	slices.SortStableFunc(all, func(a, b faultEvent) int { return cmp.Compare(a.at, b.at) })
	return all
}

// faultEvent is the beginning or the end of one fault of a schedule, by its place.
type faultEvent struct {
	at    time.Duration
	fault int
	ends  bool
}
