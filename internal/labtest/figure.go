//go:build e2e

package labtest

import (
	"testing"
	"time"

	"github.com/trivet-ha/trivet/internal/testenv"
)

// worst are the longest durations of each name that a test measures several times.
// The goroutine of the test uses it.
type worst map[string]time.Duration

// took records a duration with its goal, or a longer one of that name that came
// before.
func (w worst) took(t testing.TB, name string, took, goal time.Duration) {
	t.Helper()
	w[name] = max(w[name], took)
	testenv.Took(t, name, w[name], goal)
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
