// Package figure prints what a long test found, in lines that test/proof collects for
// docs/proof.json: how many faults, reads, hand-overs, the longest pause, the seed.
package figure

import "testing"

// Mark begins each line that Report prints, after what the testing package puts before
// it.
const Mark = "figure: "

// Report prints a figure that t found. The name is in lower case, with dots between its
// parts and the test's subject first ("sim.leader_changes"); it is reported once a run,
// at the end, with the unit in its name where it has one ("chaos.longest_pause_s").
func Report(t testing.TB, name string, value float64) {
	t.Helper()
	t.Logf(Mark+"%s=%g", name, value)
}
