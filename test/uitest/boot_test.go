//go:build e2e

package uitest

import (
	"fmt"
	"strings"
	"testing"
)

// booting gives the page three machines in place of the peer's: one that is awaited and has
// findings, one that failed, and one that is finished; and one that nobody knows.
const booting = `(() => {
	const begin = Date.now(), at = (seconds) => new Date(begin - seconds * 1000).toISOString();
	const uuid = (n) => "de000000-0000-4000-8000-00000000000" + n;
	const mac = (n) => "52:54:00:ab:00:0" + n;
	const states = (n, ...all) => all.map(([seconds, action, text], i) => ({ id: n + "-" + i, index: i, seq: 0, time: at(seconds), kind: "introspection", action, peer: "peer1", node: uuid(n), text: text || "Introspection of node " + uuid(n) + ": " + action }));
	const step = (n, kind, from, to, count, text) => ({ time: at(from), until: at(to), count, peer: "peer1", kind, mac: mac(n), text });
	const asked = (n, from, to, count) => step(n, "asked", from, to, count, "asked for an address by DHCP, as PXE of architecture 7 (EFI x86-64), " + count + " times in " + (from - to) + "s");
	const offered = (n, from, to, count) => step(n, "offered", from, to, count, "was offered 192.0.2.6" + n + " by 192.0.2.2, to fetch snponly.efi, " + count + " times in " + (from - to) + "s");
	const machines = [
		{ n: 1, name: "node1", state: "waiting", started: 70, boot: { node: uuid(1), steps: [asked(1, 50, 38, 4), offered(1, 50, 38, 4),
			step(1, "offered", 49, 49, 1, "was offered 198.51.100.7 by another DHCP server, 198.51.100.1 from 52:54:00:fe:ed:01, without a boot file")],
			findings: [{ code: "foreign-server", text: "another DHCP server, 198.51.100.1 from 52:54:00:fe:ed:01, offered it 198.51.100.7, and it chose that", remedy: "switch that server off, or keep it from this network; 'trivet doctor --check raw-dhcp' looks for more" },
				{ code: "not-fetched", text: "it was given the name snponly.efi, and asked for no file since 2026-11-29T03:40:13Z", remedy: "UDP 69 and the ports that TFTP answers from must be open between the machine and this host; 'trivet doctor --check boot' fetches the files here" }] },
			events: states(1, [70, "starting"], [66, "waiting"]) },
		{ n: 2, name: "node2", state: "error", started: 900, ended: 300, error: "Introspection timeout", why: { finding: "it fetched snponly.efi 3 times, and began again each time", remedy: "its firmware does not run the loader, as with Secure Boot, or the loader does not find its network card: switch Secure Boot off, or try another loader (docs/pxe.md#firmware)" },
			boot: { node: uuid(2), dropped: 12, steps: [asked(2, 850, 790, 6), offered(2, 849, 790, 6), step(2, "leased", 845, 785, 3, "was given 192.0.2.62 by 192.0.2.2, to fetch snponly.efi, 3 times in 1m0s"),
				step(2, "fetched", 843, 780, 3, "fetched snponly.efi from 192.0.2.2, 3 times in 1m3s"), step(2, "unheard", 700, 690, 1, "was not heard: the leader changed"), step(2, "failed", 600, 590, 2, "was refused file ipxe.efi by 192.0.2.2: \"file not found\", 2 times in 10s"),
				step(2, "abandoned", 500, 500, 1, "broke off fetching snponly.efi from 192.0.2.2 after about 65536 bytes"), step(2, "spoke", 400, 310, 9, "spoke from 192.0.2.62, 9 times in 1m30s")],
				findings: [{ code: "loop", text: "it fetched snponly.efi 3 times, and began again each time", remedy: "its firmware does not run the loader, as with Secure Boot, or the loader does not find its network card: switch Secure Boot off, or try another loader (docs/pxe.md#firmware)" }] },
			events: states(2, [900, "starting"], [895, "waiting"], [300, "error", "Introspection of node " + uuid(2) + " failed: Introspection timeout"]) },
		{ n: 3, name: "node3", state: "finished", started: 400, ended: 180, boot: { node: uuid(3), findings: [], steps: [asked(3, 350, 346, 2), offered(3, 350, 346, 2), step(3, "leased", 345, 345, 1, "was given 192.0.2.63 by 192.0.2.2, to fetch snponly.efi"),
			step(3, "fetched", 344, 344, 1, "fetched snponly.efi from 192.0.2.2"), step(3, "fetched", 338, 300, 1, "fetched ironic-agent.initramfs from 192.0.2.2"), step(3, "spoke", 280, 200, 20, "spoke from 192.0.2.63, 20 times in 1m20s")] },
			events: states(3, [400, "starting"], [396, "waiting"], [190, "processing"], [180, "finished"]) },
	];
	const rows = machines.map((m) => ({ uuid: uuid(m.n), name: m.name, state: m.state, started_at: at(m.started), finished_at: m.ended ? at(m.ended) : undefined, error: m.error, why: m.why, macs: [mac(m.n), "52:54:00:ab:01:0" + m.n, "52:54:00:ab:02:0" + m.n], bmc: ["198.51.100.10" + m.n] }));
	const answers = {
		"api/machines": { total: 3, matching: 3, states: { waiting: 1, error: 1, finished: 1 }, page: 0, size: 50, rows, peer: "peer1" },
		"api/names": { names: Object.fromEntries(machines.map((m) => [uuid(m.n), m.name])) },
		"api/v1/firewall/heard": [{ peer: "peer1", id: "1", self: true, unread: 7, machines: [
			{ mac: "52:54:00:00:be:ef", first: at(90), last: at(9), asked: 14, firmware: "PXE of architecture 7 (EFI x86-64)", verdict: "drop", why: "on the blacklist: Ironic knows it as port 9a1e0000-0000-4000-8000-000000000001 of node " + uuid(3) },
			{ mac: "52:54:00:00:be:f0", first: at(60), last: at(3), asked: 2, firmware: "iPXE", relay: "198.51.100.254", verdict: "accept", why: "what no list names may boot while nodes are introspected", uuid: "4c4c4544-0000-4000-8000-00000000000a", offered: "198.51.100.1" }] },
			{ peer: "peer2", id: "2", machines: [], error: "nothing is recorded here: firewall.recorder is false, or there is no PXE filter" }],
	};
	for (const m of machines) {
		answers["api/v1/introspection/" + uuid(m.n) + "?"] = { uuid: uuid(m.n), state: m.state, error: m.error || null, started_at: at(m.started).slice(0, -1), finished_at: m.ended ? at(m.ended).slice(0, -1) : null };
		answers["api/v1/events?node=" + uuid(m.n)] = { events: m.events, last: "1-1-0" };
		answers["api/v1/firewall/explain/" + uuid(m.n)] = ["peer3", "peer1"].map((peer) => ({ peer, id: peer, mac: mac(m.n), verdict: peer === "peer1" ? "accept" : "drop", why: "the lease is in force here", steps: [{ verdict: "accept", reached: true, text: "on the whitelist: node " + uuid(m.n) }], boot: m.boot }));
	}
	const fetched = window.fetch;
	window.fetch = (url, o) => {
		for (const [path, value] of Object.entries(answers)) if (url.startsWith(path)) return Promise.resolve(new Response(JSON.stringify(value)));
		return fetched(url, o);
	};
	window.late = { ...states(1, [0, "processing", "The data of node " + uuid(1) + " arrived and is processed on peer1."])[0], id: "9-9-9" };
})()`

// openBooting shows these machines.
func openBooting(t *testing.T) *tab {
	t.Helper()
	s := openSite(t, 3)
	p := browse(t, "about:blank")
	p.do(p.Do(t.Context(), "Page.addScriptToEvaluateOnNewDocument", map[string]any{"source": booting}, nil))
	p.do(p.Navigate(t.Context(), s.front.URL+"/ui/#machines"))
	p.shows("#machines .hint", "3 of 3 machines")
	return p
}

// machine opens the drawer of a machine.
func (p *tab) machine(name string) {
	p.t.Helper()
	p.eval(`[...document.querySelectorAll(".row")].find((b) => b.innerText === %q).click()`, name)
	p.shows("#drawer-title", name)
}

// TestDrawerTellsTheBoot: what was heard of a boot stands on the axis of the states, each step
// with its sentence; why the machine has not called, with a remedy.
func TestDrawerTellsTheBoot(t *testing.T) {
	p := openBooting(t)
	p.sized(1280, 1500)
	for _, c := range []struct {
		name, state, finding, remedy, step string
		steps                              int
	}{
		{"node1", "waiting", "another DHCP server, 198.51.100.1", "switch that server off",
			"was offered 192.0.2.61 by 192.0.2.2, to fetch snponly.efi", 3},
		{"node2", "error", "it fetched snponly.efi 3 times", "try another one", "was refused file ipxe.efi", 8},
		{"node3", "finished", "", "", "fetched ironic-agent.initramfs", 6},
	} {
		p.machine(c.name)
		p.shows("#drawer .boots", c.step)
		if got := p.eval(`document.querySelectorAll("#drawer .boots li").length`); got != fmt.Sprint(c.steps) {
			t.Errorf("%s: %s steps are shown, want %d", c.name, got, c.steps)
		}
		if c.finding != "" {
			p.shows("#drawer .warnings", c.finding)
			p.shows("#drawer .warnings .remedy", c.remedy)
		} else if got := p.text("#drawer .warnings"); got != "" {
			t.Errorf("%s: findings of a finished machine: %s", c.name, got)
		}
		// A bar stands where its time is: the first step begins within the state waiting, and
		// the bars of what was heard lie between the ends of the axis.
		for what, expression := range map[string]string{
			"the first step begins after the state waiting": `document.querySelector("#drawer .boots .line span").getBoundingClientRect().left > document.querySelector("#drawer .gantt .s-waiting").getBoundingClientRect().left`,
			"all bars lie within their lines": `[...document.querySelectorAll("#drawer .gantt .line")].every((l) => {
				const a = l.getBoundingClientRect(), b = l.firstChild.getBoundingClientRect(); return b.left >= a.left - 1 && b.right <= a.right + 6 && b.width > 2; })`,
			"no address is broken": `[...document.querySelectorAll("#drawer .value")].filter((e) => e.offsetParent).every((e) => e.getClientRects().length === 1 && e.getBoundingClientRect().height < 30)`,
		} {
			if got := p.eval("%s", expression); got != "true" {
				t.Errorf("%s: %s: %s", c.name, what, got)
			}
		}
		p.picture("boot-" + c.state)
		p.press("Escape")
	}
	p.machine("node1")
	p.sized(390, 1500)
	p.shows("#drawer .boots", "was offered")
	p.picture("boot-phone")
	p.quiet(noData)
}

// TestDrawerClosesWithItsView: what lies over a view is closed when another is chosen.
func TestDrawerClosesWithItsView(t *testing.T) {
	p := openBooting(t)
	p.machine("node2")
	p.eval(`[...document.querySelectorAll("#drawer button")].find((b) => b.innerText.startsWith("Start")).click()`)
	p.holds("the question is open", `document.getElementById("ask").open`)
	p.eval(`location.hash = "members"`)
	p.shows("main", "peer3")
	p.holds("drawer and question are closed", `!document.querySelector("dialog[open]")`)
	p.quiet(noData)
}

// TestNamesStandBesideUUIDs: in the events, in the drawer and in the list of strangers.
func TestNamesStandBesideUUIDs(t *testing.T) {
	p := openBooting(t)
	const waiting = "de000000-0000-4000-8000-000000000001"
	p.machine("node1")
	p.eval(`document.querySelector("#drawer details").open = true`)
	p.shows("#drawer .events", "Introspection of node "+waiting+" (node1): starting")
	p.eval(`document.querySelector("#drawer .verdicts details").open = true`)
	p.shows("#drawer .verdicts", "on the whitelist: node "+waiting+" (node1)")
	p.press("Escape")
	p.eval(`location.hash = "heard"`)
	p.shows("main", "of node de000000-0000-4000-8000-000000000003 (node3)")
	p.shows("main", "52:54:00:00:be:ef")
	p.shows("main", "198.51.100.254")
	p.shows("main", "7 more messages were not read")
	p.picture("strangers")
	p.quiet(noData)
}

// TestColumnsOfFailedMachines: the list has the reason with its remedy, and the addresses.
func TestColumnsOfFailedMachines(t *testing.T) {
	p := openBooting(t)
	p.shows(".machines", "Introspection timeout")
	row := p.eval(`[...document.querySelectorAll(".machines tbody tr")].find((r) => r.innerText.includes("node2")).innerText`)
	for _, want := range []string{"it fetched snponly.efi 3 times", "try another one", "52:54:00:ab:00:02", "+1",
		"198.51.100.102"} {
		if !strings.Contains(row, want) {
			t.Errorf("the row of a failed machine lacks %q: %s", want, row)
		}
	}
	p.picture("failed-row")
	p.sized(390, 1100)
	p.picture("failed-row-phone")
	for what, expression := range map[string]string{
		"the navigation is whole":          `[...document.querySelectorAll("#nav a")].every((a) => { const r = a.getBoundingClientRect(); return r.left >= 0 && r.right <= innerWidth; })`,
		"the page is as wide as the phone": `document.documentElement.scrollWidth <= innerWidth`,
	} {
		if got := p.eval("%s", expression); got != "true" {
			t.Errorf("%s: %s", what, got)
		}
	}
	p.quiet(noData)
}

// TestBootsAreAccessible has axe-core judge what is shown of boots, in light and dark and on a
// phone.
func TestBootsAreAccessible(t *testing.T) {
	script := axe(t)
	p := openBooting(t)
	p.do(p.Do(t.Context(), "Page.setBypassCSP", map[string]any{"enabled": true}, nil)) // axe brings styles
	p.do(p.Do(t.Context(), "Page.reload", nil, nil))
	p.holds("the machines are there again", `document.querySelectorAll(".row").length === 3`)
	p.do(p.Eval(t.Context(), script+";0", nil))
	for _, dark := range []bool{false, true} {
		p.do(p.Dark(t.Context(), dark))
		for _, width := range []int{1280, 390} {
			p.sized(width, 1200)
			at := fmt.Sprintf("%d-dark-%v", width, dark)
			p.eval(`location.hash = "machines"`)
			p.shows("#machines .hint", "3 of 3 machines")
			p.judge("list-of-boots-" + at)
			for _, name := range []string{"node1", "node2", "node3"} {
				p.machine(name)
				p.shows("#drawer .boots", "was offered")
				p.judge("boot-" + name + "-" + at)
				p.picture("boot-" + name + "-" + at)
				p.press("Escape")
			}
			p.eval(`location.hash = "heard"`)
			p.shows("main", "52:54:00:00:be:ef")
			p.judge("strangers-" + at)
			p.picture("strangers-" + at)
		}
	}
	p.quiet(noData)
}
