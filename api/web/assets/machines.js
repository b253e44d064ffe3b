// Machines: how many are in which state, a table of them, and all about one.

import { clean, clock, count, empty, h, patch, span, table, time } from "./dom.js";
import { Refused, get } from "./net.js";
import { eventList } from "./timeline.js";
import { abort, reprocess, start } from "./actions.js";

// The states, in the order of an introspection.
const states = ["starting", "enrolling", "waiting", "processing", "reapplying", "aborting", "finished", "error", "never"];
const active = states.slice(0, 6);
const columns = [["name", "Name"], ["state", "State"], ["started", "Started"], ["finished", "Ended"], ["", "MACs"], ["error", "Error"]];
const raw = 200000; // characters of raw data that are shown
const rows = 200; // of one kind in an inventory

// proportions draws how many machines are in which state; choose is told a state.
export function proportions(counts, choose, chosen = []) {
	const there = states.filter((k) => counts && counts[k]);
	const total = there.reduce((n, k) => n + counts[k], 0);
	if (!total) return empty("Nothing was introspected yet.");
	return h("div", { class: "proportions" },
		h("div", { class: "stripe", "aria-hidden": "true" }, there.map((k) => h("span", { class: "s-" + k, style: { "flex-grow": String(counts[k]) }, "data-key": k }))),
		h("ul", null, there.map((k) => h("li", { "data-key": k }, h("button", { class: "state", "aria-pressed": String(chosen.includes(k)), onclick: () => choose(k) },
			h("span", { class: "dot s-" + k }), `${k === "never" ? "never introspected" : k} `, h("b", null, count(counts[k])))))));
}

const list = (x) => Array.isArray(x) ? x.slice(0, rows) : [];
const object = (x) => x && typeof x === "object" && !Array.isArray(x) ? x : {};
const text = (x) => x === undefined || x === null || x === "" ? "–" : typeof x === "object" ? JSON.stringify(x) : clean(x, 300);

function bytes(n) {
	if (typeof n !== "number" || !(n > 0)) return "–";
	const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
	const i = Math.min(units.length - 1, Math.floor(Math.log2(n) / 10));
	return `${(n / 1024 ** i).toFixed(n / 1024 ** i < 10 && i ? 1 : 0)} ${units[i]}`;
}

export class Machines {
	constructor(app) {
		this.app = app;
		this.want = { q: "", state: [], unexpected: false, sort: "started", desc: true, page: 0 };
		this.answer = null;
		this.problem = null;
		this.hash = "";
		this.asked = 0;
		this.open = null; // the machine in the drawer
	}

	// follow takes over what the address wants, once.
	follow() {
		if (this.hash === location.hash) return;
		this.hash = location.hash;
		const params = new URLSearchParams(location.hash.split("?")[1] || "");
		if (!params.size) return;
		this.want = { ...this.want, q: params.get("q") || "", state: (params.get("state") || "").split(",").filter(Boolean), unexpected: params.get("unexpected") === "1", page: 0 };
	}

	async load() {
		this.follow();
		const w = this.want, mine = ++this.asked;
		try {
			const answer = await get("machines?" + new URLSearchParams({ q: w.q, state: w.state.join(), unexpected: w.unexpected ? "1" : "0", sort: w.sort, desc: w.desc ? "1" : "0", page: String(w.page) }));
			if (mine !== this.asked) return;
			[this.answer, this.problem] = [answer, null];
			w.page = answer.page;
			this.compare();
		} catch (err) {
			if (err instanceof Refused && err.status === 401) throw err;
			if (mine === this.asked) this.problem = err;
		}
	}

	// compare renews the drawer when its machine has changed in the table, or left it:
	// the peer may have no events.
	compare() {
		const m = this.open;
		if (!m) return;
		const row = this.answer.rows.find((r) => r.uuid === m.uuid);
		if (row && row.state === m.row.state && row.started_at === m.row.started_at) return;
		if (row) m.row = row;
		this.fill();
	}

	change(what) {
		this.want = { ...this.want, page: 0, ...what };
		clearTimeout(this.timer);
		this.timer = setTimeout(() => this.load().then(() => this.draw(), () => this.app.refresh()), what.q === undefined ? 0 : 120);
		this.draw();
	}

	draw() {
		const el = document.getElementById("machines");
		if (el) patch(el, this.inside());
	}

	show() { return h("div", { id: "machines", "data-key": "machines" }, this.inside()); }

	inside() {
		const w = this.want, a = this.answer;
		const toggle = (k) => this.change({ state: w.state.includes(k) ? w.state.filter((x) => x !== k) : [...w.state, k] });
		return [
			a ? proportions(a.states, toggle, w.state) : empty("Loading …"),
			h("div", { class: "bar" },
				h("label", { class: "search" }, h("span", { class: "unseen" }, "Search by name, UUID, MAC or BMC address"),
					h("input", { id: "search", type: "search", placeholder: "Name, UUID, MAC or BMC address  ( / )", value: w.q, maxlength: 100, oninput: (e) => this.change({ q: e.target.value }), onkeydown: (e) => { if (e.key === "ArrowDown") this.move(e, 1); } })),
				a && (a.unexpected || w.unexpected) ? h("button", { class: "state", "aria-pressed": String(w.unexpected), onclick: () => this.change({ unexpected: !w.unexpected }) }, h("span", { class: "dot s-error" }), "not as ordered ", h("b", null, count(a.unexpected || 0))) : null,
				w.q || w.state.length || w.unexpected ? h("button", { class: "quiet", onclick: () => { const box = document.getElementById("search"); box.value = ""; this.change({ q: "", state: [], unexpected: false }); } }, "Clear filter") : null,
				h("span", { class: "hint", role: "status" }, a ? `${count(a.matching)} of ${count(a.total)} machines${a.unsearched ? `, ${count(a.unsearched)} not searched yet` : ""}` : "")),
			this.problem ? h("p", { class: "problem" }, this.problem.message) : null,
			a && a.names_problem ? h("p", { class: "hint" }, "Names may be old: " + a.names_problem) : null,
			a ? this.rows(a) : null,
		];
	}

	rows(a) {
		if (!a.rows.length) return empty(a.total ? "No machine matches." : "There is no machine.");
		const w = this.want;
		const head = ([key, name]) => h("th", { scope: "col", "aria-sort": key && key === w.sort ? (w.desc ? "descending" : "ascending") : null },
			key ? h("button", { onclick: () => this.change({ sort: key, desc: key === w.sort ? !w.desc : key === "started" || key === "finished" }) }, name, key === w.sort ? h("span", { "aria-hidden": "true" }, w.desc ? " ▾" : " ▴") : null) : name);
		const last = Math.max(0, Math.ceil(a.matching / a.size) - 1);
		return [
			h("div", { class: "scroll" }, h("table", { class: "machines" }, h("caption", { class: "unseen" }, "Machines"), h("thead", null, h("tr", null, columns.map(head))),
				h("tbody", { onkeydown: (e) => { if (e.key === "ArrowDown") this.move(e, 1); if (e.key === "ArrowUp") this.move(e, -1); } }, a.rows.map((m) => h("tr", { "data-key": m.uuid },
					h("td", null, h("button", { class: "link row", onclick: () => this.showOne(m) }, m.name || m.uuid), m.name ? h("small", null, m.uuid) : null),
					h("td", null, h("span", { class: "state" }, h("span", { class: "dot s-" + m.state }), m.state), m.unexpected ? h("small", { class: "bad" }, "not as ordered") : null),
					h("td", null, time(m.started_at)), h("td", null, time(m.finished_at)),
					h("td", { class: "mono" }, (m.macs || []).slice(0, 2).join(" "), (m.macs || []).length > 2 ? ` +${m.macs.length - 2}` : "", (m.bmc || []).length ? h("small", null, "BMC " + m.bmc.join(" ")) : null),
					h("td", { class: "error" }, clean(m.error || "", 160))))))),
			last ? h("nav", { class: "pager", "aria-label": "Pages" },
				h("button", { "aria-disabled": String(w.page === 0), onclick: () => w.page > 0 && this.change({ page: w.page - 1 }) }, "Previous"),
				h("span", null, `Page ${count(a.page + 1)} of ${count(last + 1)}`),
				h("button", { "aria-disabled": String(w.page >= last), onclick: () => w.page < last && this.change({ page: w.page + 1 }) }, "Next")) : null,
		];
	}

	// move takes the focus up or down the table.
	move(event, by) {
		const all = [...document.querySelectorAll("#machines .row")];
		const at = all.indexOf(document.activeElement);
		const next = all[at < 0 ? 0 : at + by];
		event.preventDefault();
		(next || (by < 0 && document.getElementById("search")) || all[at])?.focus();
	}

	heard(e) {
		if (this.open && e.node === this.open.uuid && (e.kind === "introspection" || e.kind === "hardware")) this.fill();
	}

	async showOne(m) {
		this.open = { uuid: m.uuid, name: m.name, row: m };
		const box = document.getElementById("drawer");
		patch(box);
		this.drawDrawer();
		box.onclose = () => { this.open = null; };
		box.onclick = (e) => { if (e.target === box) box.close(); };
		if (!box.open) box.showModal();
		await this.fill();
	}

	// fill asks for all that the drawer shows; each part may fail by itself.
	async fill() {
		const m = this.open;
		if (!m || m.busy) return;
		m.busy = true;
		const id = encodeURIComponent(m.uuid);
		const part = async (name, path) => {
			try {
				m[name] = { value: await get(path) };
			} catch (err) {
				m[name] = { error: err };
			}
			if (this.open === m) this.drawDrawer();
		};
		await Promise.all([
			part("record", `v1/introspection/${id}?stale=1`), part("history", `v1/events?node=${id}`), part("explained", `v1/firewall/explain/${id}?all=1`),
			part("verdict", `v1/nodes/${id}/verdict?stale=1`), part("changes", `v1/nodes/${id}/changes?stale=1`), part("cabling", `v1/nodes/${id}/cabling?stale=1`),
			this.app.user.role === "admin" ? part("data", `v1/introspection/${id}/data?stale=1`) : null,
		]);
		m.busy = false;
	}

	drawDrawer() {
		const m = this.open, box = document.getElementById("drawer");
		if (!m) return;
		const state = (m.record && m.record.value && m.record.value.state) || m.row.state;
		const admin = this.app.user.role === "admin";
		patch(box, h("header", null, h("div", null, h("h2", { id: "drawer-title" }, m.name || m.uuid), h("p", { class: "mono" }, m.uuid)),
			h("button", { class: "quiet", "aria-label": "Close", onclick: () => box.close() }, "✕")),
		h("p", { class: "bar" }, h("span", { class: "state" }, h("span", { class: "dot s-" + state }), state === "never" ? "never introspected" : state),
			admin ? h("span", { class: "tools" },
				active.includes(state) ? h("button", { onclick: () => abort(this.app, m) }, "Abort …") : h("button", { onclick: () => start(this.app, m) }, "Start …"),
				state === "finished" || state === "error" ? h("button", { onclick: () => reprocess(this.app, m) }, "Reprocess …") : null) : null),
		m.record && m.record.value && m.record.value.error ? h("p", { class: "problem" }, m.record.value.error) : null,
		h("h3", null, "History"), this.history(m),
		// Of a machine that sent nothing there is nothing to say.
		m.changes && m.changes.error && m.changes.error.status === 404 ? null : [h("h3", null, "As ordered"), this.verdict(m.verdict),
			h("h3", null, "Changes since the inspection before"), this.changes(m.changes),
			h("h3", null, "Cabling"), this.cabling(m.cabling)],
		h("h3", null, "Boot"), this.boot(m.explained),
		admin ? [h("h3", null, "Inventory"), this.inventory(m.data), h("details", null, h("summary", null, "Raw data"), this.rawData(m))] : null);
	}

	history(m) {
		const events = m.history && m.history.value ? list(m.history.value.events) : [];
		const record = m.record && m.record.value;
		const steps = stepsOf(events);
		if (!steps.length) {
			if (!m.record) return empty("Loading …");
			if (!record) return empty(m.record.error.status === 404 ? "No introspection of this machine is known." : m.record.error.message);
			return h("p", null, "Started ", time(record.started_at && record.started_at + "Z"), ", ended ", time(record.finished_at && record.finished_at + "Z"), ".");
		}
		return [gantt(steps), h("details", null, h("summary", null, `${count(events.length)} events`), eventList(events.slice().reverse()))];
	}

	boot(x) {
		if (!x) return empty("Loading …");
		if (x.error) return empty(x.error.message);
		const hosts = [...new Set(list(x.value).filter((e) => e.verdict === "accept").map((e) => e.peer))];
		return [h("p", null, hosts.length ? ["It boots on ", h("b", null, hosts.join(", ")), "."] : list(x.value).every((e) => e.verdict === "drop") ? "It boots on no host." : "No host is known to let it boot."), h("ul", { class: "verdicts" }, list(x.value).map((e) => h("li", { "data-key": e.id + e.mac }, e.error ? [h("b", null, e.peer), " ", e.error]
			: h("details", null, h("summary", null, h("b", null, e.peer), " ", h("span", { class: "mono" }, e.mac), " ", h("span", { class: "tag " + (e.verdict === "accept" ? "good" : "") }, e.verdict === "accept" ? "boots here" : e.verdict === "drop" ? "does not boot here" : "not known"), " ", e.why),
				h("ol", null, list(e.steps).map((st) => h("li", { class: st.reached ? null : "none" }, h("b", null, st.verdict), " ", st.text)))))))];
	}

	// told is the value of a part of the drawer, or what stands there instead.
	told(x, show) {
		if (!x) return empty("Loading …");
		if (x.error) return empty(x.error.status === 404 ? "No data is stored." : x.error.message);
		return show(x.value);
	}

	verdict(x) {
		return this.told(x, (v) => {
			const by = list(v.expectations).join(", ");
			if (!v.judged) return empty("It was not judged yet.");
			if (list(v.differences).length) return h("ul", { class: "differences" }, list(v.differences).map((d, i) => h("li", { "data-key": String(i) }, d)));
			return by ? h("p", null, h("span", { class: "tag good" }, "as ordered"), " by ", by, ".") : empty("No expectation is of this machine.");
		});
	}

	changes(x) {
		return this.told(x, (v) => {
			if (!v.compared) return empty("One inspection is stored; there is nothing to compare it with.");
			const all = list(v.changes);
			return all.length ? h("ul", { class: "changes" }, all.map((c, i) => h("li", { "data-key": String(i) }, c.text))) : empty("No hardware changed.");
		});
	}

	cabling(x) {
		return this.told(x, (v) => list(v.cables).length ? table("Cabling", ["Interface", "Switch", "Port", "VLAN", "Link"],
			list(v.cables).map((c) => [c.mac, [[text(c.interface), h("small", { class: "mono" }, text(c.mac))], text(c.switch || c.switch_id), text(c.port), text(c.vlan), c.link === "yes" ? ["up", h("small", null, c.speed_mbps ? `${clean(c.speed_mbps, 20)} Mbit/s` : "")] : c.link === "no" ? "down" : "–"]])) : empty("No interface was told."));
	}

	inventory(d) {
		if (!d) return empty("Loading …");
		if (d.error) return empty(d.error.status === 404 ? "No data is stored." : d.error.message);
		const doc = object(d.value), inv = object(doc.inventory), cpu = object(inv.cpu), memory = object(inv.memory), vendor = object(inv.system_vendor);
		const rowsOf = (all, cells) => list(all).map(object).map((x, i) => [i, cells(x)]);
		return [
			h("dl", { class: "facts" }, [["Vendor", vendor.manufacturer], ["Product", vendor.product_name], ["Serial", vendor.serial_number], ["CPU", cpu.model_name ? `${text(cpu.count)} × ${cpu.model_name}` : cpu.count],
				["Memory", typeof memory.physical_mb === "number" ? bytes(memory.physical_mb * 1048576) : bytes(memory.total)], ["BMC", inv.bmc_address], ["Boot mode", object(inv.boot).current_boot_mode]].map(([k, v]) => [h("dt", null, k), h("dd", null, text(v))])),
			table("Disks", ["Name", "Size", "Model", "Serial", "Kind"], rowsOf(inv.disks, (x) => [text(x.name), bytes(x.size), text(x.model), text(x.serial), x.rotational === true ? "rotational" : x.rotational === false ? "solid state" : "–"]), null),
			table("Network interfaces", ["Name", "MAC", "IPv4", "Link"], rowsOf(inv.interfaces, (x) => [text(x.name), text(x.mac_address), text(x.ipv4_address), x.has_carrier === true ? "up" : x.has_carrier === false ? "down" : "–"]), null),
		];
	}

	rawData(m) {
		if (!m.data || m.data.error) return empty("None.");
		const all = JSON.stringify(m.data.value, null, 2) || "";
		return [h("p", null, h("a", { href: `api/v1/introspection/${encodeURIComponent(m.uuid)}/data`, download: m.uuid + ".json" }, "Save the document"), all.length > raw ? ` (the first ${count(raw)} of ${count(all.length)} characters are shown)` : ""),
			h("pre", { tabindex: "0", "aria-label": "Raw data" }, ...pieces(all.slice(0, raw)))];
	}
}

// pieces cuts a long text into text nodes that clean leaves whole.
function pieces(all) {
	const out = [];
	for (let at = 0; at < all.length; at += 4000) out.push(all.slice(at, at + 4000));
	return out;
}

// stepsOf are the states of the newest introspection in the events of one node.
function stepsOf(events) {
	const steps = events.filter((e) => e.kind === "introspection" && states.includes(e.action)).map((e) => ({ ...e, at: Date.parse(e.time) || 0 }));
	let first = 0;
	steps.forEach((e, i) => { if (e.action === "starting" || e.action === "enrolling" || e.action === "reapplying") first = i; });
	return steps.slice(first);
}

function gantt(steps) {
	const from = steps[0].at, ended = ["finished", "error"].includes(steps[steps.length - 1].action);
	const to = Math.max(from + 1, ended ? steps[steps.length - 1].at : Date.now());
	const part = (ms) => `${(100 * ms / (to - from)).toFixed(2)}%`;
	return h("ol", { class: "gantt" }, steps.map((e, i) => {
		const end = i + 1 < steps.length ? steps[i + 1].at : to;
		const done = ["finished", "error"].includes(e.action);
		return h("li", { "data-key": e.id }, h("span", { class: "step" }, e.action), h("span", { class: "line", "aria-hidden": "true" }, h("span", { class: "s-" + e.action, style: { "margin-left": part(done ? Math.max(0, e.at - from - (to - from) / 100) : e.at - from), width: done ? "1%" : part(Math.max(0, end - e.at)) } })),
			h("span", { class: "number" }, done ? clock(new Date(e.at)) : span(end - e.at)), h("span", { class: "hint" }, e.peer || ""));
	}));
}
