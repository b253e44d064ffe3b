// How a machine booted: the states of its introspection and what was heard of it, on one
// axis of time, and why it has not called.

import { clean, clock, h, span } from "./dom.js";
import { said } from "./names.js";
import { now } from "./net.js";

const most = 60; // steps that are shown; the state keeps 40
const list = (x) => Array.isArray(x) ? x.slice(0, most) : [];
const ends = ["finished", "error"];

// bootOf is what the leader heard of the boot, who hears more than its log has; another peer
// has what the log has.
export function bootOf(explained, leader) {
	const told = (explained || []).filter((e) => e && e.boot && typeof e.boot === "object");
	const best = told.find((e) => e.peer === leader) || told[0];
	return best ? best.boot : null;
}

// findings are why a machine has not called, each with its remedy.
export function findings(boot) {
	const all = list(boot && boot.findings).filter(Boolean);
	return all.length ? h("ul", { class: "warnings" }, all.map((f, i) => h("li", { class: i ? "warn" : "bad", "data-key": clean(f.code, 40) + i },
		h("p", null, h("code", null, f.code), " ", said(f.text)), h("p", { class: "remedy" }, said(f.remedy))))) : null;
}

// stepsOf are the states of the newest introspection in the events of one node.
export function stepsOf(events, states) {
	const steps = events.filter((e) => e.kind === "introspection" && states.includes(e.action)).map((e) => ({ ...e, at: Date.parse(e.time) || 0 }));
	let first = 0;
	steps.forEach((e, i) => { if (e.action === "starting" || e.action === "enrolling" || e.action === "reapplying") first = i; });
	return steps.slice(first);
}

// gantt draws the states, and below them the steps of the boot, from the first of all to the
// last, or to this moment while the machine is awaited.
export function gantt(states, boot, awaited) {
	const heard = list(boot && boot.steps).map((s) => ({ ...s, at: Date.parse(s.time) || 0, to: Date.parse(s.until) || Date.parse(s.time) || 0 })).filter((s) => s.at);
	if (!states.length && !heard.length) return null;
	const starts = [...states, ...heard].map((e) => e.at), last = Math.max(...states.map((e) => e.at), ...heard.map((s) => s.to));
	const from = Math.min(...starts), to = Math.max(from + 1, awaited ? now().getTime() : 0, last);
	const part = (ms) => `${(100 * Math.max(0, Math.min(1, ms / (to - from)))).toFixed(2)}%`;
	const line = (cls, at, end) => h("span", { class: "line", "aria-hidden": "true" }, h("span", { class: cls, style: { "margin-left": `min(${part(at - from)}, 100% - 5px)`, width: part(end - at) } }));
	return [
		states.length ? h("ol", { class: "gantt" }, states.map((e, i) => {
			const done = ends.includes(e.action), end = done ? e.at : i + 1 < states.length ? states[i + 1].at : to;
			return h("li", { "data-key": e.id }, h("span", { class: "step" }, e.action), line("s-" + e.action, e.at, end),
				h("span", { class: "number" }, done ? clock(new Date(e.at)) : span(end - e.at)), h("span", { class: "hint" }, e.peer || ""));
		})) : null,
		heard.length ? h("ol", { class: "gantt boots", "aria-label": "What was heard of its boot" }, heard.map((s, i) => h("li", { "data-key": `${s.kind} ${s.time} ${i}` },
			h("span", { class: "step" }, s.kind), line("b-" + clean(s.kind, 20).replace(/\W/g, ""), s.at, s.to),
			h("span", { class: "number" }, clock(new Date(s.at))), h("span", { class: "hint" }, s.peer || ""), h("p", null, said(s.text))))) : null,
		h("p", { class: "axis hint", "aria-hidden": "true" }, h("span", null, clock(new Date(from))), h("span", null, clock(new Date(to)))),
		boot && boot.dropped ? h("p", { class: "hint" }, `${boot.dropped} steps in the middle are not kept.`) : null,
	];
}
