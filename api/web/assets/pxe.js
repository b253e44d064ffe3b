// Who boots over the network, and who asks to and may not.

import { count, empty, h, table, time } from "./dom.js";
import { answered } from "./lists.js";
import { said } from "./names.js";

export function boots(pxe) {
	if (!pxe.guarded) return "PXE is not filtered: firewall.driver is noop.";
	if (!pxe.open_on.length) return `No machine boots: the PXE service is closed on every host${pxe.why ? " (" + pxe.why + ")" : ""}.`;
	return ["Machines boot on ", h("b", null, pxe.open_on.join(", ")), ", and on no other host, since ", time(pxe.since), "."];
}

// verdict says what becomes of a machine's requests.
export const verdict = (v, where = "") => [h("span", { class: v === "accept" ? "tag good" : "tag" }, v === "accept" ? "boots" + where : v === "drop" ? "does not boot" + where : "not known"), " "];

const shownMACs = 200; // of those that asked to boot

// heard lists the machines that ask to boot and are not under introspection: the answer to
// "it is powered on, and nothing comes".
export const heard = (app, data) => [app.status ? h("section", null, h("p", null, boots(app.status.pxe))) : null, h("h2", null, "Machines that asked to boot and are not under introspection"), answered(data, (peers) => {
	const all = peers.flatMap((p) => p.machines.map((m) => ({ ...m, peer: p.peer }))).sort((a, b) => a.last < b.last ? 1 : -1);
	const unread = peers.reduce((n, p) => n + (p.unread || 0), 0);
	return [
		peers.filter((p) => p.error).map((p) => h("p", { class: "hint", "data-key": p.peer }, `${p.peer}: `, said(p.error))),
		unread ? h("p", { class: "hint" }, `${count(unread)} more messages were not read: too many came at once.`) : null,
		all.length > shownMACs ? h("p", { class: "hint" }, `The newest ${count(shownMACs)} of ${count(all.length)}; `, h("code", null, "trivet firewall heard"), " shows all.") : null,
		all.length ? table("Machines that asked to boot", ["MAC", "Firmware", "Asked", "Last", "What becomes of it, and why", "Relay"], all.slice(0, shownMACs).map((m) => [m.peer + m.mac, [
			[h("a", { class: "value mono", href: "#machines?q=" + encodeURIComponent(m.mac) }, m.mac), m.uuid ? h("small", null, said(m.uuid)) : null], m.firmware, [`${count(m.asked)}×`, h("small", null, "on " + m.peer)], time(m.last),
			[verdict(m.verdict), said(m.why), m.offered ? h("small", null, "offered an address by ", said(m.offered)) : null], m.relay ? said(m.relay) : "–"]]))
			: empty("No such machine asked since the PXE service opened."),
	];
})];
