// Names of nodes, which stand beside their UUIDs in every sentence, and addresses that
// stay whole at the end of a line.

import { clean, h } from "./dom.js";
import { get } from "./net.js";

const most = 4000; // names that are kept
const atOnce = 100; // that are asked for
const again = 120000; // ms after which a name is asked for again: nodes are renamed

// What gets a name: a UUID, but not within a command, which is there to be pasted.
const uuids = /'(?:trivet|baremetal|openstack|journalctl) [^']*'|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/gi;
// What is one word to a reader: a moment, a UUID, a MAC, an address of either family with its port or prefix.
const whole = /\d{4}-\d\d-\d\dT[\d:.]+Z|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\[?(?:[0-9a-f]{0,4}:){2,7}[0-9a-f]{0,4}(?:\]:\d+|\/\d+)?|\d{1,3}(?:\.\d{1,3}){3}(?::\d+|\/\d+)?|[0-9a-f]{2}(?:-[0-9a-f]{2}){5}/gi;

const known = new Map(); // by UUID: the name, "" for none, and when it was told
const wanted = new Set();
let asking = false, timer = 0;

// told draws again what is shown; app.js sets it.
export const names = { told: () => {} };

export function learn(uuid, name) {
	known.delete(uuid); // the newest stands last
	known.set(uuid, { name: name || "", at: performance.now() });
	if (known.size > most) known.delete(known.keys().next().value);
}

export function forget() {
	known.clear();
	wanted.clear();
}

function nameOf(id) {
	const uuid = id.toLowerCase(), k = known.get(uuid);
	if (!k || performance.now() - k.at > again) want(uuid);
	return k ? k.name : "";
}

function want(uuid) {
	if (wanted.size < most) wanted.add(uuid);
	if (!timer) timer = setTimeout(ask, 50); // for all that are drawn together
}

async function ask() {
	timer = 0;
	if (asking || !wanted.size) return;
	asking = true;
	const some = [...wanted].slice(0, atOnce);
	let wait = 50;
	try {
		const found = (await get("names?node=" + some.join())).names;
		let changed = false;
		for (const uuid of some) {
			const before = known.get(uuid);
			learn(uuid, found[uuid]);
			changed ||= (before ? before.name : "") !== (found[uuid] || "");
			wanted.delete(uuid);
		}
		if (changed) names.told();
	} catch {
		wait = 5000; // the sentences stand without names meanwhile
	} finally {
		asking = false;
		if (wanted.size && !timer) timer = setTimeout(ask, wait);
	}
}

// named is a sentence with the name of each node beside its UUID, unless it has it already.
export const named = (text) => String(text ?? "").replace(uuids, (id) => {
	const name = id[0] === "'" ? "" : nameOf(id);
	return name && !text.includes(name) ? `${id} (${name})` : id;
});

// said is such a sentence as elements, in which no address is broken.
export function said(text) {
	const all = clean(named(text)), out = [];
	let at = 0;
	for (const m of all.matchAll(whole)) {
		if (m[0].length < 6) continue; // a time of day, a ratio
		out.push(all.slice(at, m.index), h("span", { class: "value" }, m[0]));
		at = m.index + m[0].length;
	}
	return [...out, all.slice(at)];
}
