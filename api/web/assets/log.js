// The newest lines of all peers' logs, by level and by the request that they belong to.

import { count, empty, h, table, time } from "./dom.js";
import { answered } from "./lists.js";
import { said } from "./names.js";

const levels = ["debug", "info", "warn", "error"];
const tones = { WARN: "tag warn", ERROR: "tag lost" };

// wantedLog is what the address asks for: #log?request=ID&level=warn.
function wantedLog() {
	const q = new URLSearchParams(location.hash.split("?")[1] || "");
	return { request: q.get("request") || "", level: levels.includes(q.get("level")) ? q.get("level") : "info" };
}

export const logPath = () => "v1/log?" + new URLSearchParams(wantedLog());

function want(what) {
	const w = { ...wantedLog(), ...what };
	location.hash = "log?" + new URLSearchParams(Object.entries(w).filter(([k, v]) => v && (k !== "level" || v !== "info")));
}

export const log = (data) => {
	const w = wantedLog();
	return [
		h("form", { class: "bar", onsubmit: (e) => { e.preventDefault(); want({ request: new FormData(e.target).get("request").trim() }); } },
			h("label", { class: "search" }, h("span", { class: "unseen" }, "Request ID"), h("input", { id: "request", name: "request", type: "search", placeholder: "Request ID, then Enter", value: w.request, maxlength: 100 })),
			levels.map((l) => h("button", { type: "button", class: "state", "aria-pressed": String(l === w.level), onclick: () => want({ level: l }) }, l))),
		answered(data, (page) => [
			page.hosts.filter((x) => x.error || x.missed).map((x) => h("p", { class: "hint", "data-key": x.id }, `${x.peer}: `, x.error ? said(x.error) : `${count(x.missed)} lines are not kept any more.`)),
			page.lines.length ? table("Lines of all peers' logs, the newest first", ["Time", "Peer", "Level", "Line", "Request"], page.lines.toReversed().map((l, i) => [l.time + l.peer + i, [
				time(l.time), l.peer, h("span", { class: tones[l.level] || "tag" }, l.level), h("span", { class: "mono" }, said(l.text)),
				l.request_id ? h("a", { class: "mono", href: "#log?request=" + encodeURIComponent(l.request_id) }, l.request_id) : "–"]]))
				: empty(w.request ? "No line of this request is kept." : "No such line is kept."),
			h("p", { class: "hint" }, h("code", null, "trivet watch --log"), " follows them in a terminal. Times are each host's own."),
		]),
	];
};
