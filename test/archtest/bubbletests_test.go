package archtest

import (
	"maps"
	"slices"
	"testing"
)

// bubbleSource has tests that run in a bubble as a whole, and others.
const bubbleSource = `package app

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/test/sim"
)

func TestWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { serve(t); <-t.Context().Done() })
}

func TestCases(t *testing.T) {
	for name, c := range map[string]struct{ n int }{"a": {1}} {
		t.Run(fmt.Sprint(name), func(t *testing.T) {
			sim.Simulate(t, func() { serve(t) })
			if c.n > number() {
				t.Errorf("%d", c.n)
			}
		})
	}
}

func TestTable(t *testing.T) {
	for _, c := range losses() {
		simulated(t, func() { c.lose(t, fsm.Default()) })
	}
}

type loss struct{ lose func(*testing.T, int) }

func losses() []loss { return []loss{{func(t *testing.T, _ int) { serve(t) }}} }

func TestTableOutside(t *testing.T) {
	for _, c := range losses() {
		c.lose(t, 1)
		simulated(t, func() {})
	}
}

func TestLiteralOutside(t *testing.T) {
	t.Run("a server", func(t *testing.T) { serve(t) })
	simulated(t, func() {})
}

func TestAsksTheProduct(t *testing.T) { inWorld(t, fsm.Default(), func() {}) }

func TestReadsAFile(t *testing.T) { inWorld(t, fsm.FromDisk(), func() {}) }

func TestHelper(t *testing.T) { inWorld(t, 1, func() { serve(t) }) }

func inWorld(t *testing.T, n int, body func()) {
	t.Helper()
	var all []int
	all = append(all, n)
	simulated(t, body)
}

func simulated(t *testing.T, body func()) { synctest.Test(t, func(t *testing.T) { body() }) }

func TestNeedsAServer(t *testing.T) {
	serve(t)
	synctest.Test(t, func(t *testing.T) {})
}

func TestGetsAParameterOutside(t *testing.T) { inWorld(t, serve(t), func() {}) }

func TestReceives(t *testing.T) {
	ch := make(chan int, 1)
	synctest.Test(t, func(t *testing.T) { ch <- 1 })
	<-ch
}

func TestSaysHowLongItTook(t *testing.T) {
	began := time.Now()
	simulated(t, func() { serve(t) })
	t.Logf("it took %v", time.Since(began).Round(time.Second))
}

func TestSleeps(t *testing.T) {
	simulated(t, func() { serve(t) })
	time.Sleep(time.Second)
}

func TestNoBubble(t *testing.T) { t.Log(number()) }

func number() int { return len("a") }

func serve(t *testing.T) int {
	_, _ = http.Get("http://127.0.0.1")
	return 1
}
`

func TestBubbleTests(t *testing.T) {
	tree := NewTree(".")
	for name, src := range map[string]string{
		"test/sim/x.go": `package sim

import "testing/synctest"

func Simulate(t *testing.T, body func()) { synctest.Test(t, func(t *testing.T) { body() }) }
`,
		"fsm/x.go": `package fsm

import "os"

func Default() int { return 1 }

func FromDisk() int {
	b, _ := os.ReadFile("x")
	return len(b)
}
`,
		"app/x_test.go": bubbleSource,
	} {
		if err := tree.Add(name, []byte(src)); err != nil {
			t.Fatal(err)
		}
	}
	got := BubbleTests(tree)
	if want := []string{"TestAsksTheProduct", "TestCases", "TestHelper", "TestSaysHowLongItTook", "TestTable",
		"TestWhole"}; len(got) != 1 || !slices.Equal(got["app"], want) {
		t.Errorf("%v, want %v in app", got, want)
	}
}

// TestBubbleTestsOfTheRepository: the simulation and the tests of leases run in bubbles,
// those of a listener do not.
func TestBubbleTestsOfTheRepository(t *testing.T) {
	tree, err := wholeTree()
	if err != nil {
		t.Fatal(err)
	}
	tests := BubbleTests(tree)
	for _, pkg := range slices.Sorted(maps.Keys(tests)) {
		t.Logf("%s: %d", pkg, len(tests[pkg]))
	}
	for pkg, name := range map[string]string{"api/events": "TestReportsAreBounded", "test/simtest": "TestFailoverSurvives",
		"failover": "TestStalledAPIServer"} {
		if !slices.Contains(tests[pkg], name) {
			t.Errorf("%s of %s is not among %v", name, pkg, tests[pkg])
		}
	}
	if slices.Contains(tests["internal/httpserver"], "TestOneSourceHasItsShare") {
		t.Error("a test of sockets counts as one in a bubble")
	}
}
