//go:build e2e

package uitest

import (
	"fmt"
	"testing"

	sandbox "github.com/trivet-ha/trivet/test/sandbox/site"
)

// TestMachineByKeyboard introspects one of 10,000 machines, from the search to the end,
// without a mouse.
func TestMachineByKeyboard(t *testing.T) {
	s := openSite(t, sandbox.MaxNodes)
	p := browse(t, s.front.URL+"/ui/")
	p.shows(".verdict", "One more host may be lost.")
	p.press("/")
	p.holds("the search has the focus", `document.activeElement.id === "search"`)
	p.shows("#machines .hint", "10,000 of 10,000 machines")
	p.writes("node777")
	p.shows("#machines .hint", "11 of 10,000 machines") // and node7770 to node7779
	p.press("ArrowDown")
	p.holds("the first row has the focus", `document.activeElement.classList.contains("row")`)
	name := p.eval(`document.activeElement.innerText`)
	p.press("Enter")
	p.shows("#drawer-title", name)
	p.shows("#drawer .state", "never introspected")
	p.tabTo("Start …")
	p.press("Enter")
	p.shows("#ask .command", "trivet introspection start "+name)
	p.picture("ask")
	p.tabTo("Cancel")
	p.press("Tab")
	p.press("Enter")
	p.holds("the dialog closes", `!document.getElementById("ask").open`)
	p.shows("#drawer .state", "finished")
	p.shows("#drawer .facts", "SimServer")
	p.shows("#drawer .verdicts", "does not boot here")
	p.shows("#drawer .gantt", "waiting")
	p.picture("drawer")
	p.press("Escape")
	p.holds("the drawer closes, and the row has the focus again",
		`!document.getElementById("drawer").open && document.activeElement.innerText === %q`, name)
	p.quiet(noData)
}

// TestManyMachines finds each machine by its names, and loads little.
func TestManyMachines(t *testing.T) {
	s := openSite(t, sandbox.MaxNodes)
	p := browse(t, s.front.URL+"/ui/#machines")
	p.shows("#machines .hint", "10,000 of 10,000 machines")
	const most = 300_000 // bytes from the address to the table
	sent := p.eval(
		`performance.getEntriesByType("resource").concat(performance.getEntriesByType("navigation")).reduce((n, e) => n + e.transferSize, 0)`)
	var bytes float64
	if _, err := fmt.Sscan(sent, &bytes); err != nil || bytes == 0 || bytes > most {
		t.Errorf("%s bytes were transferred, at most %d: %v", sent, most, err)
	}
	t.Logf("%.0f bytes transferred until 10,000 machines are there", bytes)
	find := func(text, want string) {
		t.Helper()
		p.eval(
			`(() => { const box = document.getElementById("search"); box.value = %q; box.dispatchEvent(new Event("input")); })()`,
			text)
		p.shows("#machines .hint", want)
	}
	find("NODE9999", "1 of 10,000")
	find("de000000-0000-4000-8000-000000004321", "1 of 10,000")
	find("52:54:de:26:ff:00", "1 of 10,000")
	find("no such machine", "0 of 10,000")
	p.shows("#machines .empty", "No machine matches.")
	find("", "10,000 of 10,000")
	p.eval(`[...document.querySelectorAll("th button")].find((b) => b.innerText.startsWith("Name")).click()`)
	p.shows("#machines tbody tr", "node1")
	p.eval(`[...document.querySelectorAll(".pager button")].find((b) => b.innerText === "Next").click()`)
	p.shows(".pager", "Page 2 of 200")
	p.picture("machines")
	p.quiet()
}

// noData is what the console shows where a machine has no record and no data yet: the
// browser tells each answer of 404.
const noData = "404"
