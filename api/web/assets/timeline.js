// The last hour: a lane for each peer with leadership, PXE service and floating IP on
// one axis, so that an overlap would be seen and a gap can be read off.

import { clock, empty, h, patch, s, span, time } from "./dom.js";
import { named, said } from "./names.js";
import { kinds, now } from "./net.js";

const keep = 4000; // events; the cluster keeps more
const newest = 40; // in the list
const ranges = [[60000, "1 min"], [300000, "5 min"], [900000, "15 min"], [3600000, "1 hour"]];

// tracks are the bars of a lane: which events begin one and which end it.
const tracks = [
	{ kind: "leadership", name: "leads", begin: ["acquired"], end: ["lost", "ended"] },
	{ kind: "pxe", name: "PXE service open", begin: ["opened"], end: ["closed", "lapsed"] },
	{ kind: "floating-ip", name: "has the floating IP", begin: ["taken", "acquired"], end: ["released", "lapsed"] },
];

const height = { track: 11, lane: 46, axis: 22 };

export class Timeline {
	constructor() {
		this.events = []; // by arrival, which is the order of the log
		this.seen = new Set();
		this.state = "connecting";
		this.range = 0; // as chosen; 0: as short as holds all events
		this.filter = "";
		this.chosen = null; // what was clicked
		this.status = null;
	}

	add(e) {
		if (!e || typeof e.id !== "string" || this.seen.has(e.id)) return;
		this.seen.add(e.id);
		this.events.push({ ...e, at: Date.parse(e.time) || 0 });
		if (this.events.length > keep) for (const gone of this.events.splice(0, keep / 4)) this.seen.delete(gone.id);
	}

	// clear forgets what the cluster counts no more.
	clear() {
		this.events = [];
		this.seen.clear();
		this.chosen = null;
	}

	of(node) { return this.events.filter((e) => e.node === node); }

	// bars are the spans of one track and peer that end within the range. A peer leads
	// until another does, or until it was lost.
	bars(track, peer, from, to) {
		const out = [];
		let open = null;
		const close = (at, e) => {
			// Of a peer that was lost the cluster knows when its time was over at the latest: from
			// the next leader on nobody saw it.
			if (open) out.push({ ...open, to: at, sure: e.action === "lapsed" && open.lost || at, events: [...open.events, e] });
			open = null;
		};
		for (const e of this.events) {
			if (e.kind === track.kind && e.peer === peer) {
				if (track.begin.includes(e.action)) {
					if (!open) open = { from: e.at, events: [e] };
				} else if (track.end.includes(e.action)) {
					if (open) close(e.at, e);
					else if (!out.length) out.push({ from, to: e.at, sure: e.at, events: [e] }); // it began before the first event
				}
			} else if (open && track.kind === "leadership" && (e.kind === "leadership" && track.begin.includes(e.action) || e.kind === "member" && e.peer === peer && ["lost", "stopped", "removed"].includes(e.action))) {
				close(e.at, e);
			} else if (open && e.kind === "leadership" && e.peer !== peer) {
				open.lost ||= e.at;
			}
		}
		if (open) out.push({ ...open, to, sure: to, open: true });
		return out.filter((b) => b.to >= from && b.from <= to);
	}

	marks(peer, from) {
		return this.events.filter((e) => e.at >= from && e.peer === peer && (e.kind === "remediation" || e.kind === "member" && ["lost", "stopped", "removed", "connected", "joined"].includes(e.action)));
	}

	show(status) {
		this.status = status;
		return h("section", { id: "timeline", "aria-labelledby": "t", "data-key": "timeline" }, this.inside());
	}

	tick() {
		const el = document.getElementById("timeline");
		if (el && this.state !== "off") patch(el, this.inside());
	}

	inside() {
		const title = h("h2", { id: "t" }, "Timeline");
		if (this.state === "off") {
			return [title, empty("No timeline: this peer has no event stream. The rest is read every 2 s.")];
		}
		const to = now().getTime();
		const range = this.range || (ranges.find(([ms]) => this.events.length && this.events[0].at > to - ms) || ranges[3])[0];
		const peers = this.status ? this.status.peers.map((p) => p.name) : [];
		return [
			h("div", { class: "bar" }, title, h("div", { class: "tools", role: "group", "aria-label": "Range" }, ranges.map(([ms, name]) =>
				h("button", { "aria-pressed": String(ms === range), onclick: () => { this.range = ms; this.tick(); } }, name)))),
			h("ul", { class: "legend" }, tracks.map((t) => h("li", { class: "k-" + t.kind }, t.name)), h("li", { class: "k-lost" }, "lost or stopped"), h("li", { class: "k-back" }, "connected"), h("li", { class: "k-remediation" }, "remediation")),
			this.drawing(peers, to - range, to), this.detail(), this.list(),
		];
	}

	drawing(peers, from, to) {
		const x = (at) => `${(100 * (Math.max(from, Math.min(to, at)) - from) / (to - from)).toFixed(3)}%`;
		const tall = peers.length * height.lane + height.axis;
		const step = (to - from) / 5;
		const ticks = [];
		for (let at = Math.ceil(from / step) * step; at < to; at += step) ticks.push(at);
		return h("div", { class: "lanes" },
			h("ul", { class: "names", "aria-hidden": "true" }, peers.map((p) => h("li", null, p))),
			s("svg", { class: "drawing", width: "100%", height: tall, role: "group", "aria-label": `Who led, opened the PXE service and had the floating IP in the last ${span(to - from)}` },
				ticks.map((at) => s("g", { class: "tick", "data-key": at }, s("line", { x1: x(at), x2: x(at), y1: 0, y2: tall - height.axis }), s("text", { x: x(at), y: tall - 6, "text-anchor": "middle" }, clock(new Date(at)).slice(-8, step < 60000 ? undefined : -3)))),
				peers.map((peer, lane) => s("g", { "data-key": peer },
					s("line", { class: "floor", x1: 0, x2: "100%", y1: (lane + 1) * height.lane - .5, y2: (lane + 1) * height.lane - .5 }),
					tracks.map((t, i) => this.bars(t, peer, from, to).map((b) => this.bar(t, peer, b, x, lane * height.lane + 5 + i * (height.track + 2)))),
					this.marks(peer, from).map((e) => this.mark(e, x, lane * height.lane))))));
	}

	bar(track, peer, b, x, y) {
		const late = b.sure < b.to;
		const label = `${peer} ${track.name} from ${clock(new Date(b.from))} ${b.open ? "on" : `to ${late ? clock(new Date(b.sure)) + " or, at the latest, " : ""}${clock(new Date(b.to))}, for ${span(b.sure - b.from)}`}`;
		const rect = (from, to, more) => s("rect", { x: x(from), y, width: Math.max(.15, parseFloat(x(to)) - parseFloat(x(from))).toFixed(3) + "%", height: height.track, rx: 3, ...more }, s("title", null, label));
		return [rect(b.from, b.sure, { class: "k-" + track.kind, "data-key": track.kind + b.events[0].id, ...this.button(label, b.events) }),
			late ? rect(b.sure, b.to, { class: "late k-" + track.kind, "data-key": "late" + b.events[0].id }) : null];
	}

	mark(e, x, y) {
		const back = e.action === "connected" || e.action === "joined";
		const label = `${named(e.text || e.action)} at ${clock(new Date(e.at))}`;
		return s("svg", { x: x(e.at), y: y + 2, overflow: "visible", "data-key": e.id, ...this.button(label, [e]) }, s("title", null, label),
			e.kind === "remediation" ? s("path", { class: "k-remediation", d: "M0 0l6 6-6 6-6-6z" }) : s("path", { class: back ? "k-back" : "k-lost", d: back ? "M0 0l6 9h-12z" : "M0 9l6-9h-12z" }));
	}

	button(label, events) {
		const choose = () => { this.chosen = { label, events }; this.tick(); };
		return { tabindex: 0, role: "button", "aria-label": label, onclick: choose, onkeydown: (e) => { if (e.key === "Enter" || e.key === " ") { e.preventDefault(); choose(); } } };
	}

	detail() {
		if (!this.chosen) return null;
		return h("div", { class: "chosen", role: "status" }, h("p", null, h("b", null, this.chosen.label), " ", h("button", { class: "quiet", "aria-label": "Close", onclick: () => { this.chosen = null; this.tick(); } }, "✕")), eventList(this.chosen.events));
	}

	list() {
		const shown = this.events.filter((e) => !this.filter || e.kind === this.filter).slice(-newest).reverse();
		return h("div", { class: "feed" }, h("div", { class: "bar" }, h("h3", null, "Newest events"),
			h("label", null, "Kind ", h("select", { onchange: (e) => { this.filter = e.target.value; this.tick(); } }, h("option", { value: "" }, "all"), kinds.map((k) => h("option", { value: k }, k))))),
			shown.length ? eventList(shown) : empty(this.state === "live" ? "No event yet." : "Loading …"));
	}
}

export const eventList = (events) => h("ol", { class: "events", tabindex: "0", "aria-label": "Events" }, events.map((e) => h("li", { "data-key": e.id },
	time(e.time), h("span", { class: "tag k-" + e.kind }, e.kind), h("span", { class: "text" }, said(e.text || `${e.action} ${e.peer || ""} ${e.node || ""}`)),
	e.node ? h("a", { href: "#machines?q=" + encodeURIComponent(e.node) }, "machine") : null)));
