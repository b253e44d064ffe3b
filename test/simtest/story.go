package simtest

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const (
	// scheduleEnv replays one schedule, with the seed and the number of peers of
	// seedEnv and peersEnv.
	scheduleEnv = "TRIVET_SIM_SCHEDULE"
	seedEnv     = "TRIVET_SIM_SEED"
	peersEnv    = "TRIVET_SIM_PEERS"
)

// replay is the environment that replays a schedule.
func replay(peers int, seed uint64, s Schedule) []string {
	return []string{scheduleEnv + "=" + s.String(), seedEnv + "=" + strconv.FormatUint(seed, 10),
		peersEnv + "=" + strconv.Itoa(peers)}
}

// Shrink returns a smaller schedule that still fails: it leaves out faults, halves
// of the schedule first and single ones last, as long as fails says yes. It asks at
// most limit times.
func Shrink(s Schedule, limit int, fails func(Schedule) bool) Schedule {
	for part := len(s) / 2; part >= 1; part /= 2 {
		for from := 0; from < len(s) && limit > 0; limit-- {
			less := slices.Concat(s[:from], s[min(from+part, len(s)):])
			if len(less) > 0 && fails(less) {
				s = less
			} else {
				from += part
			}
		}
	}
	return s
}

// Shorten returns a schedule with the same faults that still fails, whose faults are
// shorter and closer to each other, as long as fails says yes. It asks at most limit times.
func Shorten(s Schedule, limit int, fails func(Schedule) bool) Schedule {
	try := func(change func(Schedule)) bool {
		less := slices.Clone(s)
		if change(less); limit <= 0 || slices.Equal(less, s) {
			return false
		}
		if limit--; !fails(less) {
			return false
		}
		s = less
		return true
	}
	for i := range s {
		for s[i].For > shortestFault && try(func(less Schedule) {
			less[i].For = max(less[i].For/2, shortestFault).Round(time.Millisecond)
		}) {
		}
		before := time.Duration(0)
		if i > 0 {
			before = s[i-1].At
		}
		for s[i].At > before && try(func(less Schedule) {
			earlier := ((less[i].At - before + 1) / 2).Round(time.Millisecond)
			for j := i; j < len(less); j++ {
				less[j].At -= earlier
			}
		}) {
		}
	}
	return s
}

// verdict is a testing.TB that keeps what went wrong, so that a run may fail without
// failing the test that makes it.
type verdict struct {
	testing.TB

	mu   sync.Mutex
	said []string
}

// Errorf implements testing.TB.
func (v *verdict) Errorf(format string, args ...any) { v.Error(fmt.Sprintf(format, args...)) }

// Error implements testing.TB.
func (v *verdict) Error(args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.said = append(v.said, fmt.Sprint(args...))
}

// Fatalf implements testing.TB. It ends the goroutine.
func (v *verdict) Fatalf(format string, args ...any) {
	v.Errorf(format, args...)
	runtime.Goexit()
}

// Fatal implements testing.TB. It ends the goroutine.
func (v *verdict) Fatal(args ...any) {
	v.Error(args...)
	runtime.Goexit()
}

// Failed implements testing.TB.
func (v *verdict) Failed() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.said) > 0
}

// rehearse runs f in a bubble of its own and returns what went wrong there.
func rehearse(t *testing.T, f func(testing.TB)) (said []string) {
	t.Helper()
	v := &verdict{}
	synctest.Test(t, func(t *testing.T) {
		v.TB = t
		done := make(chan struct{})
		go func() { // Fatal ends it
			defer close(done)
			f(v)
		}()
		<-done
	})
	return v.said
}

// trial is one run that a seed, a number of peers and a schedule repeat.
type trial struct {
	test     string // that replays it
	seed     uint64
	peers    int
	schedule Schedule
}

// Of the search for a shorter story: how many schedules are tried, and how often a smaller
// one may pass before it counts as passing. Goroutines run in another order each time, and
// with them what each draws from the generator.
const (
	storyTries = 60
	storyTwice = 2
)

// shortStory is how many faults a story may have that is told as a short one.
const shortStory = 5

// story looks for the shortest schedule that fails as a trial did, and tells it. again
// carries out a trial and returns what went wrong.
func (tr trial) story(said []string, again func(trial) []string) string {
	wrong := assertion(said[0])
	least := said
	fails := func(s Schedule) bool {
		for range storyTwice {
			now := again(trial{tr.test, tr.seed, tr.peers, s})
			if slices.ContainsFunc(now, func(text string) bool { return assertion(text) == wrong }) {
				least = now
				return true
			}
		}
		return false
	}
	short := Shorten(Shrink(tr.schedule, storyTries, fails), storyTries/2, fails)
	length := "long story"
	if len(short) <= shortStory {
		length = "short story"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, %d peers: %s\n%s: %d of %d faults are enough:\n", tr.seed, tr.peers, least[0], length,
		len(short), len(tr.schedule))
	for _, f := range short {
		fmt.Fprintf(&b, "  after %v, for %v: %s %s\n", f.At, f.For, f.Kind, strings.Trim(f.Host+" "+f.Peer, " "))
	}
	env := replay(tr.peers, tr.seed, short)
	fmt.Fprintf(&b, "replay it with\n%s' %s go test -count=1 -run '^%s$' ./test/simtest",
		strings.Replace(env[0], "=", "='", 1), strings.Join(env[1:], " "), tr.test)
	return b.String()
}

// assertion is the name with which the text of a broken assertion begins.
func assertion(text string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(text, "broken assertion "), ":")
	return name
}
