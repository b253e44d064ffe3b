//go:build e2e

package labtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/trivet-ha/trivet/test/testenv"
)

// listener notes when a question was answered, and by whom: an asker notes when
// it was asked, which says nothing of a question that waited in a stopped host.
// Its methods may be called concurrently.
type listener struct {
	mu  sync.Mutex
	all []heard // one an answer; a test is short
}

type heard struct {
	at   time.Time
	host int
}

// listen begins to listen on a link of the host, until the test ends.
func (h *Host) listen(t testing.TB, l Link, protocol uint16, q question) *listener {
	t.Helper()
	n := &listener{}
	h.hear(t, l, protocol, func(frame []byte) {
		if _, _, host, ok := q.answer(frame); ok {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.all = append(n.all, heard{time.Now(), host})
		}
	})
	return n
}

// after returns for how long, from a moment on, a host was heard.
func (n *listener) after(from time.Time, host int) (last time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, one := range n.all {
		if one.host == host && one.at.After(from) {
			last = one.at.Sub(from)
		}
	}
	return last
}

// handOver returns who answered next after a strike, how long nobody did before,
// and for how long the old host was heard till then.
func (n *listener) handOver(began time.Time, old int) (to int, gap, late time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var last time.Time
	for _, one := range n.all {
		switch {
		case one.host == old:
			last = one.at
		case one.at.After(began):
			return one.host, one.at.Sub(last), max(0, last.Sub(began))
		}
	}
	return 0, 0, max(0, last.Sub(began))
}

// ownRow is what one asker saw of one trial. Times are in milliseconds.
type ownRow struct {
	Driver string `json:"driver"`
	Lease  string `json:"lease"`
	Trial  string `json:"trial"`
	Asked  string `json:"asked"`
	Old    int    `json:"old_host"`
	New    int    `json:"new_host"`
	Gap    int64  `json:"gap_ms"`
	// Late is how long after the strike the old host was heard, before another was.
	// What a command takes to strike in a guest is in it.
	Late int64 `json:"old_answered_ms"`
	// Overlaps are answers of one host amid another's, by when it was asked.
	Overlaps int `json:"overlaps"`
	// Onward is of a host that was stopped and let go on.
	Onward   *onward `json:"after_continue,omitempty"`
	Conceded bool    `json:"conceded,omitempty"`
}

// onward is how long a host went on answering after it was let go on: the last
// question that it answered was asked so much later, and its last answer was
// heard. It answers what had waited for it meanwhile, too: an emulated DHCP
// server has seconds of that, while a kernel answers for an address at once.
type onward struct {
	Asked int64 `json:"asked_ms"`
	Heard int64 `json:"heard_ms"`
}

// ownReport gathers the rows of all labs.
type ownReport struct {
	Kernel  string   `json:"kernel"`
	Timing  string   `json:"raft_timing"`
	Seconds int64    `json:"seconds"`
	Rows    []ownRow `json:"trials"`
	began   time.Time
}

// ownReportEnv names the variable with the file for the figures, as JSON.
const ownReportEnv = "TRIVET_E2E_PXE_REPORT_OWN"

// print writes the table, and the file if one is wanted.
func (r *ownReport) print(t *testing.T) {
	t.Helper()
	var lines strings.Builder
	table := tabwriter.NewWriter(&lines, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "driver, lease\ttrial\tasked for\tfrom, to\tgap\told answered for\toverlaps\tafter continue")
	for _, row := range r.Rows {
		text := ""
		if row.Onward != nil {
			text = fmt.Sprintf("asked %d ms, heard %d ms", row.Onward.Asked, row.Onward.Heard)
		}
		if row.Conceded {
			text += " (conceded)"
		}
		fmt.Fprintf(table, "%s, %s\t%s\t%s\t%d, %d\t%d ms\t%d ms\t%d\t%s\n", row.Driver, row.Lease, row.Trial, row.Asked,
			row.Old, row.New, row.Gap, row.Late, row.Overlaps, text)
	}
	if err := table.Flush(); err != nil {
		t.Error(err)
	}
	r.Seconds = int64(time.Since(r.began).Seconds())
	t.Logf("kernel %s, raft.timing %s, %d s\n%s", r.Kernel, r.Timing, r.Seconds, &lines)
	path := os.Getenv(ownReportEnv)
	if path == "" {
		return
	}
	out, err := json.MarshalIndent(r, "", "  ")
	testenv.Must(t, errors.Join(err, os.WriteFile(path, append(out, '\n'), 0o644)))
}

// row reads what one asker saw since a strike. cont is when the old host was let
// go on, zero if it was not stopped.
func (o *ownLab) row(trial string, a *asker, began time.Time, old int, cont time.Time) ownRow {
	to, gap, late := o.heard[a].handOver(began, old)
	row := ownRow{
		Driver: o.driver, Lease: ownLease.String(), Trial: trial, Asked: a.name, Old: old, New: to,
		Gap: gap.Milliseconds(), Late: late.Milliseconds(), Overlaps: overlaps(a.since(began.Add(-calm)), o.hold()),
	}
	if !cont.IsZero() {
		row.Onward = &onward{Heard: o.heard[a].after(cont, old).Milliseconds()}
		if last := lastBy(a.since(cont), old); !last.IsZero() {
			row.Onward.Asked = last.Sub(cont).Milliseconds()
		}
	}
	return row
}

// overlaps counts the answers of one host amid another's: of which one came
// before, or to the same question, and one after, with less between them than it
// takes until a door that was open elsewhere may open. On a busy machine an emulated leader may lose leadership a
// second time, which is none.
func overlaps(all []asked, within time.Duration) (n int) {
	for i, one := range all {
		for _, host := range one.by {
			if amid(all, i, host, within) {
				n++
			}
		}
	}
	return n
}

func amid(all []asked, i, host int, within time.Duration) bool {
	before := make(map[int]time.Time) // when another answered last, up to the i-th question
	for k := i; k >= 0 && all[i].sent.Sub(all[k].sent) < within; k-- {
		for _, other := range all[k].by {
			if _, seen := before[other]; !seen && other != host {
				before[other] = all[k].sent
			}
		}
	}
	for k := i; k < len(all) && all[k].sent.Sub(all[i].sent) < within; k++ {
		for _, other := range all[k].by {
			if at, was := before[other]; was && all[k].sent.Sub(at) < within {
				return true
			}
		}
	}
	return false
}

// judged writes down what both askers saw, and wants no overlap.
func (o *ownLab) judged(trial string, began time.Time, old int, cont time.Time) {
	o.t.Helper()
	for _, a := range []*asker{o.allowed, o.address} {
		o.alone(o.row(trial, a, began, old, cont))
	}
}

// alone wants no overlap in a row, and a new host.
func (o *ownLab) alone(row ownRow) {
	o.t.Helper()
	o.report.add(o.t, row)
	if row.Overlaps > 0 || row.New == 0 {
		o.t.Errorf("%s: %s: ask for %s: %d overlaps, new host %d; want none, and one", o.driver, row.Trial, row.Asked,
			row.Overlaps, row.New)
	}
}

// conceded records for how long a host that was let go on answered, with what a
// design concedes as the goal. For the address it is when the answer was heard that counts: by the
// number in a question for it nobody can tell which of several dozens it was.
func (o *ownLab) conceded(row ownRow, goal time.Duration) {
	o.t.Helper()
	row.Conceded = true
	o.report.add(o.t, row)
	took := row.Onward.Asked
	if row.Asked == o.address.name {
		took = row.Onward.Heard
	}
	if row.New == 0 {
		o.t.Errorf("%s: %s: ask for %s: no new host", o.driver, row.Trial, row.Asked)
	}
	name := strings.ReplaceAll(fmt.Sprintf("labtest.own_%s_%s_%s_late", o.driver, row.Trial, row.Asked), " ", "_")
	testenv.Took(o.t, name, time.Duration(took)*time.Millisecond, goal)
}

func (r *ownReport) add(t testing.TB, row ownRow) {
	t.Helper()
	r.Rows = append(r.Rows, row)
	t.Logf("%s of host %d: ask for %s: host %d after %d ms without an answer; the old one answered for %d ms; %d overlaps",
		row.Trial, row.Old, row.Asked, row.New, row.Gap, row.Late, row.Overlaps)
}
