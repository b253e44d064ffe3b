// The views that are a table: kube nodes, leases, rules, members, doctor.

import { count, empty, h, span, table, time } from "./dom.js";
import { said } from "./names.js";
import { changeable, pause, resume } from "./actions.js";

// answered shows what there is, and says why there is nothing, or nothing newer.
export function answered(data, show) {
	if (!data) return empty("Loading …");
	const why = data.error ? h("p", { class: data.value ? "problem" : "empty" }, data.error.message, data.error.hint ? h("span", { class: "hint" }, " ", data.error.hint) : null) : null;
	return [why, data.value ? show(data.value) : null];
}

const mayPause = (app) => app.user.operator && changeable(app.status);

export const kube = (app, data) => answered(data, (f) => [
	h("p", { class: "bar" }, h("span", null, `Mode ${f.mode}${f.dry_run ? ", a dry run" : ""}, judged by ${f.leader}.`),
		mayPause(app) ? h("button", { onclick: () => pause(app) }, "Pause …") : null),
	(f.pauses || []).map((p) => h("p", { class: "notice warn", "data-key": "pause " + p.cluster }, h("span", null, `Paused${p.cluster ? " in " + p.cluster : ""} by ${p.by}${p.reason ? ": " + p.reason : ""}${p.ends_in ? ", for another " + p.ends_in : ", until it is resumed"}.`),
		mayPause(app) ? h("button", { onclick: () => resume(app, p.cluster) }, "Resume …") : null)),
	f.clusters.filter((c) => c.problem || !c.synced).map((c) => h("p", { class: "notice bad" }, `${c.name}: ${c.problem || "not read completely yet"}`)),
	f.nodes.length ? table("Kube nodes", ["Node", "Cluster", "Ready", "Lease age", "Kubelet", "What would be done", "Why not"], f.nodes.map((n) => [n.cluster + n.uid, [
		[h("b", null, n.name), n.control_plane ? h("small", null, "control plane") : null], n.cluster, n.ready, span(n.lease_age_ms), `${n.votes_answers} of ${n.voters} peers reach it`,
		[n.would, n.remediation ? h("small", null, `${n.remediation.state}: ${n.remediation.reason}`) : null], (n.why || []).map((w) => h("p", null, said(w)))]])) : empty("No kube node is watched."),
]);

export const leases = (app, data) => answered(data, (d) => d.leases.length ? [d.more ? h("p", { class: "hint" }, `The first ${count(d.leases.length)}; `, h("code", null, "trivet lease list"), " shows all.") : null, table("Leases", ["Name", "Holder", "Token", "Remaining", "Metadata"], d.leases.map((l) => [l.name,
	[h("b", null, l.name), l.holder || h("span", { class: "none" }, "free"), h("span", { class: "mono" }, l.token), l.holder ? `${span(l.remaining_ms)} of ${span(l.ttl_ms)}` : "–", l.metadata]]))] : empty("No lease is known."));

export const rules = (app, data) => answered(data, (d) => d.rules.length ? table("Rules", ["Description", "Scope", "UUID"], d.rules.map((r) => [r.uuid,
	[r.description || h("span", { class: "none" }, "no description"), r.scope || "–", h("span", { class: "mono" }, r.uuid)]])) : empty("There is no rule."));

const duties = (m) => [m.leader ? "leader" : m.voter ? "voter" : "observer", m.maintenance ? "in maintenance" : ""].filter(Boolean).join(", ");

export const members = (app, data) => answered(data, (all) => table("Members", ["Name", "Duty", "Contact", "Peers' address", "API", "Version", "Joined"], all.map((m) => [m.id, [
	[h("b", null, m.name), h("small", { class: "mono" }, m.id)], duties(m), m.live ? "live" : m.never_heard ? "not heard yet" : `silent for ${span(m.last_contact_ms)}`,
	h("span", { class: "mono" }, m.address), h("span", { class: "mono" }, m.api_address || "–"), m.version, time(m.joined_at)]])));

const rank = { error: "bad", warning: "warn", info: "" };

export const doctor = (app, data, examine) => answered(data, (d) => [
	h("p", { class: "bar" }, h("span", { class: "hint" }, `${count(d.hosts)} hosts examined at `, time(d.examined_at), "."), h("button", { onclick: () => examine(true) }, "Examine again")),
	d.findings.length ? h("ul", { class: "warnings" }, d.findings.map((f, i) => h("li", { class: rank[f.severity], "data-key": f.check + f.peer + i },
		h("p", null, h("b", null, f.severity), " ", h("code", null, f.check), " on ", (f.peers || [f.peer]).join(", ")), h("p", null, said(f.text)), (f.remedy || []).length ? h("pre", { class: "command", tabindex: "0" }, f.remedy.join("\n")) : null)))
		: empty("Nothing was found on any host."),
]);
