// What one wants to know first: can one more host be lost, where do machines boot,
// and what is wrong.

import { clock, count, empty, h, span, time } from "./dom.js";
import { said } from "./names.js";
import { link } from "./net.js";
import { changeable, maintain, transfer, drill } from "./actions.js";
import { proportions } from "./machines.js";
import { boots } from "./pxe.js";
import { waiting } from "./waits.js";

export function overview(app) {
	const status = app.status;
	if (!status) return empty("Loading …");
	return [headline(status), warnings(status), tiles(app, status), waiting(status), introspected(status), app.timeline.show(status), clusterActions(app, status)];
}

const slowDisk = 75; // ms, a quarter of a heartbeat: docs/pxe.md#the-lease

const hosts = (n) => n === 1 ? "One more host" : `${n} more hosts`;

// verdict is the state of the cluster in one sentence.
function verdict(s) {
	const q = s.quorum;
	if (!s.leader) return ["bad", "No leader is known to this peer: nothing can be changed."];
	if (!q.writable) return ["bad", "There is no quorum: nothing can be changed."];
	if (q.can_lose > 0) return [s.health === "degraded" ? "warn" : "good", `${hosts(q.can_lose)} may be lost.`];
	if (q.voters < 3) return ["warn", `No host may be lost: the cluster has ${q.voters} ${q.voters === 1 ? "voter" : "voters"}.`];
	return ["bad", "No further host may be lost."];
}

function headline(s) {
	const [tone, text] = verdict(s);
	const q = s.quorum;
	// What was true when the peer answered last is not told as if it were now.
	const before = link.lost ? `At ${clock(link.lost)}: ` : "";
	return h("section", { class: "headline " + (before ? "aged" : tone), "aria-label": "Verdict" },
		h("p", { class: "verdict", role: "status" }, before, text),
		h("p", null, `${q.live} of ${q.voters} voters live, ${q.need} needed. `, s.leader ? [h("b", null, s.leader), " leads since ", time(s.leader_since), `, term ${s.term}. `] : null,
			boots(s.pxe), s.floating_ip ? [" ", address(s.floating_ip)] : null));
}

function address(f) {
	return f.holder ? [`The floating IP ${f.address} is on `, h("b", null, f.holder), "."] : `The floating IP ${f.address} is on no host: ${f.why || "not taken"}.`;
}

function warnings(s) {
	const all = s.warnings || [];
	if (!all.length) return null;
	return h("section", { "aria-labelledby": "w" }, h("h2", { id: "w" }, "Warnings"),
		h("ul", { class: "warnings" }, all.map((w) => h("li", { class: w.severity === "degraded" ? "bad" : "warn", "data-key": w.code + (w.hosts || []).join() },
			h("p", null, h("b", null, w.severity === "degraded" ? "Degraded" : "Advice"), " ", h("code", null, w.code), (w.hosts || []).length ? ` on ${w.hosts.join(", ")}` : ""),
			h("p", null, said(w.text)), h("p", { class: "remedy" }, said(w.remedy))))));
}

function tiles(app, s) {
	const releases = new Set(s.peers.map((p) => p.version));
	return h("section", { "aria-labelledby": "p" }, h("h2", { id: "p" }, "Peers"), h("div", { class: "tiles" }, s.peers.map((p) => tile(app, s, p, releases.size > 1))));
}

function role(p) {
	if (!p.live) return ["lost", "silent"];
	if (p.maintenance) return ["warn", "maintenance"];
	if (p.leader) return ["lead", "leader"];
	if (p.observer || !p.voter) return ["", "observer"];
	return ["", "follower"];
}

function contact(p) {
	if (p.live) return `live${p.last_contact_ms > 0 ? `, ${span(p.last_contact_ms)} ago` : ""}${p.unreachable ? ", but not reached from here" : ""}`;
	return p.never_heard ? "not heard yet" : `silent for ${span(p.last_contact_ms)}`;
}

function tile(app, s, p, mixed) {
	const [tone, name] = role(p);
	const open = s.pxe.open_on.includes(p.name), holds = s.floating_ip && s.floating_ip.holder === p.name;
	return h("article", { class: "tile " + tone, "data-key": p.id, "aria-label": `Peer ${p.name}` },
		h("header", null, h("h3", null, p.name), h("span", { class: "tag " + tone }, name)),
		h("p", { class: "services" }, s.pxe.guarded ? h("span", { class: open ? "service on" : "service" }, "PXE service ", open ? "open" : p.live ? "closed" : "not known") : null,
			s.floating_ip ? h("span", { class: holds ? "service on" : "service" }, holds ? "floating IP" : p.live ? "no floating IP" : "floating IP not known") : null),
		h("dl", null, row("Contact", contact(p)), row("Applied up to", p.applied_index ? count(p.applied_index) : "–"), row("Lag", p.lag < 0 ? "–" : p.lag === 0 ? "none" : `${count(p.lag)} ${p.lag === 1 ? "entry" : "entries"}`),
			p.log_write_ms > 0 ? row("Disk", `${p.log_write_ms < 10 ? p.log_write_ms.toFixed(1) : Math.round(p.log_write_ms)} ms a write`, p.log_write_ms > slowDisk) : null,
			p.leader ? row("Term", s.term) : null, Math.abs(p.clock_skew_ms) > 100 ? row("Clock", `${span(Math.abs(p.clock_skew_ms))} ${p.clock_skew_ms > 0 ? "ahead" : "behind"}`) : null,
			row("Version", p.version || "–", mixed), p.refuses_to_lead ? row("Does not lead", p.refuses_to_lead) : null),
		app.user.operator && changeable(s) ? h("p", { class: "tools" }, p.live && p.voter && !p.leader && !p.maintenance ? h("button", { onclick: () => transfer(app, p.name) }, "Make leader", h("span", { class: "unseen" }, " ", p.name)) : null,
			h("button", { onclick: () => maintain(app, p.name, !p.maintenance) }, p.maintenance ? "End maintenance" : "Maintenance", h("span", { class: "unseen" }, " ", p.name))) : null);
}

const row = (name, value, marked) => [h("dt", null, name), h("dd", { class: marked ? "marked" : null }, value)];

function introspected(s) {
	return h("section", { "aria-labelledby": "i" }, h("h2", { id: "i" }, "Introspections"), proportions(s.introspections, (state) => { location.hash = "machines?state=" + state; }));
}

function clusterActions(app, s) {
	const lists = [];
	if (s.failover) lists.push(h("li", null, h("a", { href: "#kube" }, "Kube nodes"), `: mode ${s.failover.mode}, ${s.failover.open} remediations open, ${s.failover.stuck} stuck${s.failover.paused ? ", paused" : ""}`));
	if (s.leases) lists.push(h("li", null, h("a", { href: "#leases" }, "Leases"), `: ${count(s.leases.held)} held, of ${count(s.leases.known)}`));
	return h("section", { class: "foot" }, lists.length ? h("ul", null, lists) : null,
		app.user.operator ? h("p", null, changeable(s) ? h("button", { onclick: () => drill(app) }, "Rehearse a change of leader …") : h("span", { class: "hint" }, "Without a quorum this page offers no changes.")) : null,
		h("p", { class: "hint" }, `Cluster ${s.cluster_id}, log applied up to ${count(s.applied_index)}, ${s.version}`));
}
