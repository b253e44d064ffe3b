//go:build e2e

package labtest

import (
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/testenv"
)

// worst are the longest durations of each name that a test measures several times.
// The goroutine of the test uses it.
type worst map[string]time.Duration

// took records a duration with its goal, unless one of that name was longer.
func (w worst) took(t testing.TB, name string, took, goal time.Duration) {
	t.Helper()
	if longest, known := w[name]; known && took <= longest {
		t.Logf("%s: %v, no longer than before", name, took.Round(time.Millisecond))
		return
	}
	w[name] = took
	testenv.Took(t, name, took, goal)
}

// share records what share of all was right, in percent.
func share(t testing.TB, name string, right, all int, goal float64) {
	t.Helper()
	if all == 0 {
		t.Errorf("%s: nothing was asked", name)
		return
	}
	testenv.Figure(t, name, 100*float64(right)/float64(all), "%", testenv.AtLeast(100*goal))
}

// figure names one of this gate, in the words of a figure's name.
func (g *gateLab) figure(words ...string) string {
	kind := g.driver
	if g.six {
		kind += "_ipv6"
	}
	return strings.NewReplacer(" ", "_", "-", "").Replace("labtest." + strings.Join(append([]string{kind}, words...), "_"))
}

// asks is what an asker asks for, in the words of a figure's name.
func (g *gateLab) asks(a *asker) string {
	if a == g.address {
		return "address"
	}
	return "offer"
}
