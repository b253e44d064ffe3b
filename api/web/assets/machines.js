// Machines: how many are in which state, a table of them, and all about one.

import { clean, count, empty, h, patch, table, time } from "./dom.js";
import { Refused, get } from "./net.js";
import { learn, said } from "./names.js";
import { eventList } from "./timeline.js";
import { abort, changeable, reprocess, start } from "./actions.js";
import { bootOf, findings, gantt, stepsOf } from "./boot.js";
import { verdict } from "./pxe.js";
import { waitsOf } from "./waits.js";

// The states, in the order of an introspection.
const states = ["starting", "enrolling", "waiting", "processing", "reapplying", "aborting", "finished", "error", "never"];
const active = states.slice(0, 6);
const columns = [["name", "Name"], ["state", "State"], ["started", "Started"], ["finished", "Ended"], ["", "MACs"], ["error", "Error"]];
const raw = 200000; // characters of raw data that are shown
const listening = 5000; // ms between two looks at how an awaited machine boots

// parts are what the drawer shows, and where each is asked for.
const parts = {
	record: (id) => `v1/introspection/${id}?stale=1`, history: (id) => `v1/events?node=${id}`, explained: (id) => `v1/firewall/explain/${id}?all=1`,
	verdict: (id) => `v1/nodes/${id}/verdict?stale=1`, changes: (id) => `v1/nodes/${id}/changes?stale=1`, cabling: (id) => `v1/nodes/${id}/cabling?stale=1`,
	waits: (id) => `v1/nodes/${id}/waits?stale=1`, data: (id) => `v1/introspection/${id}/data?stale=1`,
};
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
			for (const r of answer.rows) learn(r.uuid, r.name);
			this.compare();
		} catch (err) {
			if (err instanceof Refused && err.status === 401) throw err;
			if (mine === this.asked) this.problem = err;
		}
	}

	// forget forgets what a user was shown.
	forget() { this.answer = this.open = this.problem = null; }

	// compare renews the drawer when its machine has changed in the table, or left it:
	// the peer may have no events.
	compare() {
		const m = this.open;
		if (!m) return;
		const row = this.answer.rows.find((r) => r.uuid === m.uuid);
		if (active.includes((row || m.row).state) && performance.now() - m.asked > listening) this.part(m, "explained"); // it may have gone on booting
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
					h("td", null, h("button", { class: "link row", onclick: () => this.showOne(m) }, m.name || m.uuid), m.name ? h("small", { class: "value" }, m.uuid) : null),
					h("td", null, h("span", { class: "state" }, h("span", { class: "dot s-" + m.state }), m.state), m.unexpected ? h("small", { class: "bad" }, "not as ordered") : null),
					h("td", null, time(m.started_at)), h("td", null, time(m.finished_at)),
					h("td", { class: "mono" }, (m.macs || []).slice(0, 2).map((mac) => [h("span", { class: "value" }, mac), " "]), (m.macs || []).length > 2 ? `+${m.macs.length - 2}` : "", (m.bmc || []).length ? h("small", null, "BMC ", m.bmc.map((b) => [h("span", { class: "value" }, b), " "])) : null),
					h("td", { class: "why" }, m.error ? [h("span", { class: "error" }, said(clean(m.error, 160))), m.why ? [m.why.finding ? h("p", null, said(clean(m.why.finding, 200))) : null, h("p", { class: "remedy" }, said(clean(m.why.remedy, 300)))] : null] : null)))))),
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
		if (this.open && e.node === this.open.uuid && (["introspection", "hardware", "boot"].includes(e.kind))) this.fill();
	}

	async showOne(m) {
		this.open = { uuid: m.uuid, name: m.name, row: m };
		const box = document.getElementById("drawer");
		patch(box);
		this.drawDrawer();
		box.onclose = () => { if (!box.open) this.open = null; }; // it is told late, when another may be open
		box.onclick = (e) => { if (e.target === box) box.close(); };
		if (!box.open) box.showModal();
		await this.fill();
	}

	// fill asks for all that the drawer shows; each part may fail by itself.
	async fill() {
		const m = this.open;
		if (!m || m.busy) return;
		m.busy = true;
		await Promise.all(Object.keys(parts).filter((name) => name !== "data" || this.app.user.role === "admin").map((name) => this.part(m, name)));
		m.busy = false;
	}

	async part(m, name) {
		m.asked = performance.now();
		try {
			m[name] = { value: await get(parts[name](encodeURIComponent(m.uuid))) };
		} catch (err) {
			m[name] = { error: err };
		}
		if (this.open === m) this.drawDrawer();
	}

	drawDrawer() {
		const m = this.open, box = document.getElementById("drawer");
		if (!m) return;
		const state = (m.record && m.record.value && m.record.value.state) || m.row.state;
		const admin = this.app.user.role === "admin";
		const boot = bootOf(m.explained && list(m.explained.value), this.app.status && this.app.status.leader);
		patch(box, h("header", null, h("div", null, h("h2", { id: "drawer-title" }, m.name || m.uuid), h("p", { class: "mono value" }, m.uuid)),
			h("button", { class: "quiet", "aria-label": "Close", onclick: () => box.close() }, "✕")),
		h("p", { class: "bar" }, h("span", { class: "state" }, h("span", { class: "dot s-" + state }), state === "never" ? "never introspected" : state),
			admin && !changeable(this.app.status) ? h("span", { class: "hint" }, "Without a quorum nothing can be changed.") : admin ? h("span", { class: "tools" },
				active.includes(state) ? h("button", { onclick: () => abort(this.app, m) }, "Abort …") : h("button", { onclick: () => start(this.app, m) }, "Start …"),
				state === "finished" || state === "error" ? h("button", { onclick: () => reprocess(this.app, m) }, "Reprocess …") : null) : null),
		waitsOf(m.waits), this.reason(m, state, boot),
		h("h3", null, "History"), this.history(m, boot),
		// Of a machine that sent nothing there is nothing to say.
		m.changes && m.changes.error && m.changes.error.status === 404 ? null : [h("h3", null, "As ordered"), this.verdict(m.verdict),
			h("h3", null, "Changes since the inspection before"), this.changes(m.changes),
			h("h3", null, "Cabling"), this.cabling(m.cabling)],
		h("h3", null, "Where it boots"), this.boot(m.explained),
		admin ? [h("h3", null, "Inventory"), this.inventory(m.data), h("details", null, h("summary", null, "Raw data"), this.rawData(m))] : null);
	}

	// reason says why a machine failed, or has not called, and what to do about it.
	reason(m, state, boot) {
		const error = m.record && m.record.value ? m.record.value.error : m.row.error;
		if (!error && !active.includes(state) && !boot) return null;
		const found = findings(boot);
		const why = error && !found && m.row.error && m.row.why;
		const remedy = why ? [why.finding ? h("p", null, said(why.finding)) : null, h("p", { class: "remedy" }, said(why.remedy))] : null;
		return [error ? h("div", { class: "problem" }, h("p", null, said(error)), remedy) : null,
			found ? [h("h3", null, error ? "Why it did not call" : "Why it has not called"), found] : null];
	}

	history(m, boot) {
		const events = m.history && m.history.value ? list(m.history.value.events) : [];
		const record = m.record && m.record.value;
		const steps = stepsOf(events, states);
		if (!steps.length && !boot && !m.record) return empty("Loading …");
		if (!steps.length && !boot && !record) return empty(m.record.error.status === 404 ? "No introspection of this machine is known." : m.record.error.message);
		// Of an old introspection the cluster has no events any more.
		const dates = steps.length || !record ? null : h("p", null, "Started ", time(record.started_at && record.started_at + "Z"), ", ended ", time(record.finished_at && record.finished_at + "Z"), ".");
		if (!steps.length && !boot) return dates;
		return [dates, gantt(steps, boot, (boot && boot.awaited) || active.includes((record && record.state) || m.row.state)), events.length ? h("details", null, h("summary", null, `${count(events.length)} events`), eventList(events.slice().reverse())) : null];
	}

	boot(x) {
		if (!x) return empty("Loading …");
		if (x.error) return empty(x.error.message);
		const hosts = [...new Set(list(x.value).filter((e) => e.verdict === "accept").map((e) => e.peer))];
		return [h("p", null, hosts.length ? ["It boots on ", h("b", null, hosts.join(", ")), "."] : list(x.value).every((e) => e.verdict === "drop") ? "It boots on no host." : "No host is known to let it boot."), h("ul", { class: "verdicts" }, list(x.value).map((e) => h("li", { "data-key": e.id + e.mac }, e.error ? [h("b", null, e.peer), " ", e.error]
			: h("details", null, h("summary", null, h("b", null, e.peer), " ", h("span", { class: "mono value" }, e.mac), " ", verdict(e.verdict, " here"), said(e.why)),
				h("ol", null, list(e.steps).map((st) => h("li", { class: st.reached ? null : "none" }, h("b", null, st.verdict), " ", said(st.text))))))))];
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
			list(v.cables).map((c) => [c.mac, [[text(c.interface), h("small", { class: "mono" }, said(text(c.mac)))], said(text(c.switch || c.switch_id)), text(c.port), text(c.vlan), c.link === "yes" ? ["up", h("small", null, c.speed_mbps ? `${clean(c.speed_mbps, 20)} Mbit/s` : "")] : c.link === "no" ? "down" : "–"]])) : empty("No interface was told."));
	}

	inventory(d) {
		if (!d) return empty("Loading …");
		if (d.error) return empty(d.error.status === 404 ? "No data is stored." : d.error.message);
		const doc = object(d.value), inv = object(doc.inventory), cpu = object(inv.cpu), memory = object(inv.memory), vendor = object(inv.system_vendor);
		const rowsOf = (all, cells) => list(all).map(object).map((x, i) => [i, cells(x)]);
		return [
			h("dl", { class: "facts" }, [["Vendor", vendor.manufacturer], ["Product", vendor.product_name], ["Serial", vendor.serial_number], ["CPU", cpu.model_name ? `${text(cpu.count)} × ${cpu.model_name}` : cpu.count],
				["Memory", typeof memory.physical_mb === "number" ? bytes(memory.physical_mb * 1048576) : bytes(memory.total)], ["BMC", inv.bmc_address], ["Boot mode", object(inv.boot).current_boot_mode]].map(([k, v]) => [h("dt", null, k), h("dd", null, said(text(v)))])),
			table("Disks", ["Name", "Size", "Model", "Serial", "Kind"], rowsOf(inv.disks, (x) => [text(x.name), bytes(x.size), text(x.model), text(x.serial), x.rotational === true ? "rotational" : x.rotational === false ? "solid state" : "–"]), null),
			table("Network interfaces", ["Name", "MAC", "IPv4", "Link"], rowsOf(inv.interfaces, (x) => [text(x.name), said(text(x.mac_address)), said(text(x.ipv4_address)), x.has_carrier === true ? "up" : x.has_carrier === false ? "down" : "–"]), null),
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
