// Who waits for whom: docs/waits.md.

import { h, time } from "./dom.js";
import { said } from "./names.js";

// sentence says what waits for what, since when and until when.
const sentence = (w, subject = w.subject) => [said(subject), w.count > 1 ? ` and ${w.count - 1} more wait for ` : " waits for ", said(w.waits_for),
	w.since ? ["; since ", time(w.since)] : null, w.until ? ["; until ", time(w.until), ": ", w.then] : "; " + w.then, "."];

// waiting is the list on the overview; what a warning says is not told twice.
export function waiting(s) {
	const all = s.waits || [], codes = (s.warnings || []).map((w) => w.code);
	if (!all.length) return null;
	return h("section", { "aria-labelledby": "wa" }, h("h2", { id: "wa" }, "Waiting"),
		h("ul", { class: "warnings" }, all.map((w) => h("li", { "data-key": w.kind + w.subject }, h("p", null, sentence(w)),
			codes.includes(w.warning) ? null : h("p", { class: "remedy" }, said(w.do))))),
		s.waits_not_listed ? h("p", { class: "hint" }, `${s.waits_not_listed} more.`) : null);
}

// waitsOf are the lines below the state of a machine in its drawer.
export function waitsOf(x) {
	const all = x && x.value && Array.isArray(x.value.waits) ? x.value.waits : [];
	return all.map((w) => h("div", { "data-key": w.kind + w.subject }, h("p", null, sentence(w, w.subject.startsWith("node ") ? "It" : w.subject)), w.finding ? null : h("p", { class: "hint" }, said(w.do))));
}
