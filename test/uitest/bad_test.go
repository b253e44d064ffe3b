//go:build e2e

package uitest

import (
	"errors"
	"slices"
	"strings"
	"testing"

	sandbox "github.com/trivet-ha/trivet/test/sandbox/site"
	"github.com/trivet-ha/trivet/test/testwait"
)

// TestLeaderIsKilled: the page stays, says what happened, and goes on with the peer
// that answers.
func TestLeaderIsKilled(t *testing.T) {
	s := openSite(t, 20)
	p := browse(t, s.front.URL+"/ui/")
	p.shows(".verdict", "One more host may be lost.")
	leader := p.text(".tile.lead h3")
	s.front.MoveTo(slices.IndexFunc(s.Peers(), func(o sandbox.Peer) bool { return o.Name == leader }))
	p.shows("#freshness", "live, from "+leader)
	p.eval(`window.opened = true`)
	revive := s.killLeader(t)
	p.shows("#notices", leader+" was lost at")
	p.shows("#notices", "answers now")
	p.shows(".verdict", "No further host may be lost.")
	p.shows(".tile.lost h3", leader)
	p.shows(".tile.lost .services", "PXE service not known")
	p.picture("killed")
	revive()
	p.shows(".verdict", "One more host may be lost.")
	if p.eval(`window.opened`) != "true" {
		t.Error("the page was reloaded")
	}
	p.hasAllEvents()
	p.holds("the lane of the killed peer has a bar that ends",
		`!document.querySelector("rect.k-leadership").ariaLabel.endsWith(" on")`)
	p.shows("#notices", "nothing missed")
	p.picture("failover")
	p.quiet("net::ERR")
}

// hasAllEvents waits until the page lists the newest events as the peer tells them,
// without a gap or a repeat.
func (p *tab) hasAllEvents() {
	p.t.Helper()
	const compare = `fetch("api/v1/events?limit=40").then((r) => r.json()).then((page) => {
		const told = page.events.map((e) => e.text).reverse().join("\n"), shown = [...document.querySelectorAll(".feed .events .text")].map((e) => e.textContent).join("\n");
		return shown === told ? "same" : "the page lists " + JSON.stringify(shown) + ", the peer " + JSON.stringify(told);
	})`
	testwait.Within(p.t, limit, "the newest events on the page", func() error {
		if got := p.eval("%s", compare); got != "same" {
			return errors.New(got)
		}
		return nil
	})
}

// TestNoAnswer: a page whose peer is gone says so, keeps what it knows, and says how
// old that is.
func TestNoAnswer(t *testing.T) {
	s := openSite(t, 5)
	p := browse(t, s.front.URL+"/ui/")
	p.shows(".verdict", "One more host may be lost.")
	s.front.Config.Handler = nil
	s.front.CloseClientConnections()
	s.front.Listener.Close()
	p.shows("#freshness", "no answer since")
	p.shows(".verdict", "At ") // and not as if it were now
	p.shows(".verdict", ": One more host may be lost.")
	p.picture("no-answer")
}

// hostile gives the page a machine with names that attack it, in place of the peer's.
const hostile = `(() => {
	const bad = "<script>alert(1)<\/script>\u202egnp.exe\u0000\u001b[31m";
	const uuid = "00000000-0000-4000-8000-000000000001";
	const big = "x".repeat(1 << 20);
	const answers = {
		"api/machines": { total: 1, matching: 1, states: { finished: 1, [bad]: 1 }, page: 0, size: 50, rows: [{ uuid, name: bad, state: "finished", error: bad, macs: [bad], bmc: [bad] }], peer: "h1" },
		["api/v1/introspection/" + uuid + "/data"]: { inventory: { cpu: bad, memory: [bad], interfaces: [{ name: "__proto__", mac_address: bad }, null, 7], disks: { not: "a list" }, system_vendor: { manufacturer: bad, product_name: big } }, all_interfaces: null },
		["api/v1/introspection/" + uuid]: { uuid, state: "finished", error: bad, started_at: bad, finished_at: null },
		"api/v1/firewall/explain": [{ peer: bad, id: bad, mac: bad, verdict: bad, why: bad, steps: [{ verdict: bad, reached: true, text: bad }] }],
	};
	const fetched = window.fetch;
	window.fetch = (url, o) => {
		for (const [path, value] of Object.entries(answers)) if (url.startsWith(path)) return Promise.resolve(new Response(JSON.stringify(value)));
		return fetched(url, o);
	};
	window.alert = () => { window.attacked = true; };
})()`

// TestHostileMachine: names, errors and an inventory of any shape and length are text.
func TestHostileMachine(t *testing.T) {
	s := openSite(t, 3)
	p := browse(t, "about:blank")
	p.do(p.Do(t.Context(), "Page.addScriptToEvaluateOnNewDocument", map[string]any{"source": hostile}, nil))
	p.do(p.Navigate(t.Context(), s.front.URL+"/ui/#machines"))
	p.shows(".row", "<script>alert(1)</script>\ufffdgnp.exe\ufffd\ufffd[31m")
	p.eval(`document.querySelector(".row").click()`)
	p.shows("#drawer .facts", "(1,048,") // a megabyte is cut, and says how long it is
	p.shows("#drawer", "__proto__")
	p.shows("#drawer .verdicts", "<script>")
	p.picture("hostile")
	for what, expression := range map[string]string{
		"scripts of data": `document.querySelectorAll("main script, dialog script").length`,
		"an attack":       `window.attacked ? 1 : 0`,
		"hostile marks":   `/[\u202e\u0000\u001b]/.test(document.body.textContent) ? 1 : 0`,
		"width":           `document.documentElement.scrollWidth > innerWidth ? 1 : 0`,
	} {
		if got := p.eval("%s", expression); got != "0" {
			t.Errorf("%s: %s", what, got)
		}
	}
	if shown := p.text("#drawer"); strings.Count(shown, "x") > 5_000 {
		t.Errorf("%d characters of a megabyte are shown outside of the raw data", strings.Count(shown, "x"))
	}
	p.quiet(noData)
}
