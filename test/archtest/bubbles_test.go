package archtest

import (
	"slices"
	"testing"
)

// bubbleSource has tests that enter a bubble, and others.
const bubbleSource = `package app

import (
	"testing"
	"testing/synctest"

	"github.com/trivet-ha/trivet/test/sim"
)

func TestDirectly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { <-t.Context().Done() })
}

func TestInCases(t *testing.T) {
	for name := range map[string]int{"a": 1} {
		t.Run(name, func(t *testing.T) { sim.Simulate(t, func() {}) })
	}
}

func TestByHelpers(t *testing.T) { outer(t) }

func outer(t *testing.T) { inner(t) }

func inner(t *testing.T) { synctest.Test(t, func(t *testing.T) {}) }

func TestNoBubble(t *testing.T) { t.Log(number()) }

func number() int { return len("a") }
`

func TestBubbleTests(t *testing.T) {
	tree := NewTree(".")
	for name, src := range map[string]string{
		"test/sim/x.go": "package sim\n\nimport \"testing/synctest\"\n\n" +
			"func Simulate(t *testing.T, body func()) { synctest.Test(t, func(t *testing.T) { body() }) }\n",
		"app/x_test.go": bubbleSource,
	} {
		if err := tree.Add(name, []byte(src)); err != nil {
			t.Fatal(err)
		}
	}
	got := BubbleTests(tree)
	if want := []string{"TestByHelpers", "TestDirectly", "TestInCases"}; len(got) != 1 || !slices.Equal(got["app"], want) {
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
