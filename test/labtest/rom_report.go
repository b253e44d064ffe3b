//go:build e2e

package labtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/testenv"
)

// reportEnv names the file into which the figures of real ROMs go, as JSON.
const reportEnv = "TRIVET_E2E_PXE_REPORT"

// romBoot is one machine that was switched on.
type romBoot struct {
	Scenario string `json:"scenario"`
	Machine  string `json:"machine"`
	Firmware string `json:"firmware"`
	Booted   bool   `json:"booted"`
	From     int    `json:"from_host,omitempty"`
	Leader   int    `json:"leader_host"` // when it was over
	// Led is who led when it was switched on: a busy machine may lose its leader
	// without a test's doing.
	Led int `json:"leader_host_before"`
	// Asked is from the first question to what was booted, and On from the
	// moment that it was switched on; in seconds, 0 if it did not boot.
	Asked float64 `json:"asked_s,omitempty"`
	On    float64 `json:"on_s,omitempty"`
	// Questions are DISCOVERs and SOLICITs, Answers what servers said.
	Questions int `json:"questions"`
	Answers   int `json:"answers"`
	// Rounds is how often the firmware began to look for something to boot.
	Rounds int `json:"rounds,omitempty"`
	// Exposed is from the first offer to the first request, in seconds: the server
	// that offered has to be heard for so long.
	Exposed float64 `json:"exposed_s,omitempty"`
	// Window: the leader died between an offer and the request that takes it up.
	Window bool `json:"in_window,omitempty"`
	// Died is when the leader did, in seconds from the first question.
	Died float64 `json:"died_s,omitempty"`
	// GaveUp is when the firmware did, in seconds from the first question.
	GaveUp float64 `json:"gave_up_s,omitempty"`
	// Why is what `firewall explain` says of the leader's host.
	Why string `json:"explained,omitempty"`
}

// romReport gathers boots. It may be used concurrently.
type romReport struct {
	mu    sync.Mutex
	boots []romBoot
}

// newReport returns one that is told when the test ends.
func newReport(t *testing.T) *romReport {
	r := &romReport{}
	t.Cleanup(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		t.Logf("\n%s", r.table())
		path := os.Getenv(reportEnv)
		if path == "" {
			return
		}
		text, err := json.MarshalIndent(map[string]any{"when": time.Now().UTC().Format(time.RFC3339), "boots": r.boots}, "",
			" ")
		testenv.Must(t, errors.Join(err, os.WriteFile(path, append(text, '\n'), 0o644)))
	})
	return r
}

func (r *romReport) add(b romBoot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.boots = append(r.boots, b)
}

// table has a line for each scenario, in the order in which they came.
func (r *romReport) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-56s %-15s %7s  %-22s %-20s %-15s %s\n", "scenario", "firmware", "booted", "from",
		"s since first asked", "s exposed", "remarks")
	var seen []string
	for _, one := range r.boots {
		if key := one.Scenario + "\x00" + one.Firmware; !slices.Contains(seen, key) {
			seen = append(seen, key)
			r.writeLine(&b, one.Scenario, one.Firmware)
		}
	}
	return b.String()
}

func (r *romReport) writeLine(b *strings.Builder, scenario, firmware string) {
	var all, booted, window, again, moved int
	var took, exposed, gaveUp []float64
	from := make(map[string]int)
	answers := 0
	for _, one := range r.boots {
		if one.Scenario != scenario || one.Firmware != firmware {
			continue
		}
		all++
		if one.Window {
			window++
		}
		if one.Rounds > 1 {
			again++
		}
		if one.Died == 0 && one.Leader != one.Led {
			moved++
		}
		if !one.Booted {
			answers += one.Answers
			if one.GaveUp > 0 {
				gaveUp = append(gaveUp, one.GaveUp)
			}
			continue
		}
		booted++
		took, exposed = append(took, one.Asked), append(exposed, one.Exposed)
		from[one.source()]++
	}
	var remarks []string
	if window > 0 {
		remarks = append(remarks, fmt.Sprintf("%d in the window", window))
	}
	if again > 0 && booted > 0 {
		remarks = append(remarks, fmt.Sprintf("%d began anew", again))
	}
	if moved > 0 {
		remarks = append(remarks, fmt.Sprintf("%d times the leader changed by itself", moved))
	}
	if len(gaveUp) > 0 {
		remarks = append(remarks, fmt.Sprintf("%d gave up after %s s", len(gaveUp), spread(gaveUp)))
	}
	if booted < all {
		remarks = append(remarks, fmt.Sprintf("%d answers to those that did not", answers))
	}
	fmt.Fprintf(b, "%-56s %-15s %3d/%3d  %-22s %-20s %-15s %s\n", scenario, firmware, booted, all, counts(from),
		spread(took), spread(exposed), strings.Join(remarks, ", "))
}

// source says from whom it booted.
func (b romBoot) source() string {
	if b.From == b.Leader {
		return "leader"
	}
	return "another"
}

func counts(m map[string]int) string {
	var words []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		words = append(words, fmt.Sprintf("%s %d", key, m[key]))
	}
	return strings.Join(words, ", ")
}

// spread is the least, the median and the most.
func spread(all []float64) string {
	if len(all) == 0 {
		return "-"
	}
	slices.Sort(all)
	return fmt.Sprintf("%.1f/%.1f/%.1f", all[0], all[len(all)/2], all[len(all)-1])
}
