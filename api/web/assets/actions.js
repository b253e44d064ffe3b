// What the page can change. Each action shows the command that does the same, and
// asks first.

import { h, patch, table } from "./dom.js";
import { Unanswered, send } from "./net.js";

// changeable says whether the cluster takes changes: without a quorum it refuses each.
export const changeable = (status) => !!status && !!status.leader && status.quorum.writable;

const dialog = () => document.getElementById("ask");

// ask opens a dialog about one action and carries it out when the user says yes.
function ask(app, action) {
	const box = dialog();
	const options = {};
	let busy = false, problem = null, hint = "", result = null;
	const command = () => typeof action.command === "function" ? action.command(options) : action.command;
	const close = () => box.close();
	const run = async (event) => {
		event.preventDefault();
		if (busy) return;
		busy = true;
		problem = null;
		draw();
		try {
			const answer = await send(action.method, typeof action.path === "function" ? action.path(options) : action.path, action.body ? action.body(options) : undefined, action.limit);
			if (action.result) result = action.result(answer);
			else {
				close();
				app.notice("done", "good", action.done, 8000);
			}
			app.refresh();
		} catch (err) {
			problem = err instanceof Unanswered ? "No answer: it is not known whether this was done. Look at the state before you repeat it." : err.message;
			hint = err.hint || "";
		} finally {
			busy = false;
			if (box.open) draw();
		}
	};
	const draw = () => patch(box, h("form", { method: "dialog", onsubmit: run },
		h("h2", { id: "ask-title" }, action.title), (result ? [result] : [action.text.map((t) => h("p", null, t)),
			(action.options || []).map((o) => h("label", { class: "check" }, h("input", { type: "checkbox", onchange: (e) => { options[o.name] = e.target.checked; draw(); } }), " ", o.text)),
			h("p", { class: "hint" }, "The same on the command line:"), h("pre", { class: "command", tabindex: "0" }, command())]),
		problem ? h("p", { class: "problem", role: "alert" }, problem, hint ? h("span", { class: "hint" }, " ", hint) : null) : null,
		h("p", { class: "buttons" }, h("button", { type: "button", onclick: close }, result ? "Close" : "Cancel"),
			result ? null : h("button", { class: action.grave ? "primary grave" : "primary", "aria-disabled": busy ? "true" : null }, busy ? "Working …" : action.verb))));
	patch(box);
	draw();
	if (!box.open) box.showModal();
}

// word quotes an argument of a shell command where it needs it.
const word = (text) => /^[\w.:@%+=,/-]+$/.test(text) ? text : "'" + String(text).replaceAll("'", "'\\''") + "'";

const node = (m) => "v1/introspection/" + encodeURIComponent(m.uuid);
const called = (m) => m.name || m.uuid;

export const start = (app, m) => ask(app, {
	title: `Start an introspection of ${called(m)}`, verb: "Start", method: "POST", grave: true,
	text: ["The machine is set to boot from the network and switched off and on: whatever runs on it ends. This cannot be undone."],
	options: [{ name: "keep", text: "Leave boot device and power alone" }],
	path: (o) => node(m) + (o.keep ? "?manage_boot=false" : ""),
	command: (o) => `trivet introspection start ${word(called(m))}${o.keep ? " --manage-boot=false" : ""}`,
	done: `The introspection of ${called(m)} is started.`,
});

export const abort = (app, m) => ask(app, {
	title: `Abort the introspection of ${called(m)}`, verb: "Abort", method: "POST", grave: true, path: node(m) + "/abort",
	text: ["The introspection ends in error, and the machine is switched off if Trivet switched it on."],
	command: `trivet introspection abort ${word(called(m))}`, done: `The introspection of ${called(m)} is being aborted.`,
});

export const reprocess = (app, m) => ask(app, {
	title: `Process the data of ${called(m)} again`, verb: "Reprocess", method: "POST", path: node(m) + "/data/unprocessed",
	text: ["Hooks and rules work on the stored data again, and rules may change the node in Ironic. The machine is left alone."],
	command: `trivet introspection reprocess ${word(called(m))}`, done: `The data of ${called(m)} is processed again.`,
});

export const transfer = (app, peer) => ask(app, {
	title: `Make ${peer} the leader`, verb: "Transfer", method: "POST", path: "v1/transfer", body: () => ({ to: peer }), limit: 35000,
	text: ["The PXE service and the floating IP go along. Machines cannot boot for a moment."],
	command: `trivet transfer ${word(peer)}`, done: `${peer} leads.`,
});

export const maintain = (app, peer, on) => ask(app, {
	title: on ? `Put ${peer} into maintenance` : `End the maintenance of ${peer}`, verb: on ? "Put into maintenance" : "End maintenance",
	method: "PUT", path: "v1/maintenance", body: () => ({ peer, on }), limit: 35000,
	text: [on ? `${peer} goes on to vote, but neither leads nor introspects. If it leads, it hands leadership on.` : `${peer} may lead and introspect again.`],
	command: `trivet maintenance ${on ? "on" : "off"} ${word(peer)}`, done: on ? `${peer} is in maintenance.` : `${peer} is not in maintenance.`,
});

export const pause = (app) => ask(app, {
	title: "Pause failover of kube nodes", verb: "Pause for 2 h", method: "POST", path: "v1/failover/pause", body: () => ({ for: "2h", reason: "from the page" }),
	text: ["No remediation begins for two hours, in no cluster: the work of a node that dies stays where it is. Of what is under way a machine that is not off yet is not switched off; one that is off is finished."],
	command: "trivet failover pause --for 2h", done: "Failover is paused for two hours.",
});

// resume ends one pause: that of a cluster, or that of all.
export const resume = (app, cluster) => ask(app, {
	title: `End the pause of ${cluster || "all clusters"}`, verb: "Resume", method: "POST", path: "v1/failover/resume", body: () => ({ cluster }),
	text: ["A node that is dead now, and under no other pause, is remediated as soon as its signs have lasted long enough."],
	command: `trivet failover resume${cluster ? " --cluster " + word(cluster) : ""}`, done: `The pause of ${cluster || "all clusters"} has ended.`,
});

export const drill = (app) => ask(app, {
	title: "Rehearse a change of leader", verb: "Rehearse", method: "POST", path: "v1/drill", limit: 95000,
	text: ["Leadership moves to another peer, and all peers measure what was away for how long. It is refused while machines are introspected."],
	command: "trivet drill failover",
	result: (r) => [h("p", { role: "status" }, `Leadership went from ${r.old_leader} to ${r.new_leader}: ${r.ok ? "everything stayed within its bound." : "something took longer than its bound."}`),
		table("Drill", ["What", "Seen from", "Away", "Bound", ""], r.rows.map((row, i) => [i, [row.what, row.from, row.note || `${row.longest_ms} ms`, row.note ? "" : `${row.bound_ms} ms`, row.ok ? "ok" : h("b", null, "too long")]]))],
});
