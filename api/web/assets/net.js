// What the page asks its peer, and what it knows of the connection.

const own = document.documentElement.dataset.version;

// link is how the connection stands. Views read it; app.js draws it.
export const link = {
	peer: document.documentElement.dataset.peer,
	answered: 0, // performance.now() of the newest answer
	lost: null, // Date of the first request without an answer
	offset: 0, // ms that the peer's clock is ahead of the browser's
	csrf: "",
	changed: () => {}, // the peer that answers is another one: called with its name and the one before
};

export const now = () => new Date(Date.now() + link.offset);

// Refused is an answer that says no.
export class Refused extends Error {
	constructor(status, body) {
		super((body && body.error && body.error.message) || `the peer answered ${status}`);
		this.status = status;
		this.hint = (body && body.error && body.error.hint) || "";
	}
}

// Unanswered is no answer.
export class Unanswered extends Error {}

const patience = 8000; // ms for an answer; a drill takes longer

// reload takes the page of the release that the peer serves now, at most once a
// minute: behind a floating IP peers of two releases may answer in turn.
function reload() {
	const last = Number(sessionStorage.getItem("reloaded") || 0);
	if (Date.now() - last < 60000) return;
	sessionStorage.setItem("reloaded", String(Date.now()));
	location.reload();
}

function heard(response) {
	const version = response.headers.get("X-Trivet-Page");
	if (version && version !== own) reload();
	const peer = response.headers.get("X-Trivet-Peer");
	const date = Date.parse(response.headers.get("Date"));
	if (!isNaN(date)) {
		const offset = date - Date.now(); // whole seconds: one less than the truth is as good
		if (Math.abs(offset - link.offset) > 1500) link.offset = Math.abs(offset) > 1500 ? offset : 0;
	}
	const before = link.peer;
	const gap = link.lost;
	link.answered = performance.now();
	link.lost = null;
	if (peer && (peer !== before || gap)) {
		link.peer = peer;
		link.changed(peer, before, gap);
	}
}

async function ask(method, path, body, limit = patience) {
	const headers = {};
	if (body !== undefined) headers["Content-Type"] = "application/json";
	if (method !== "GET") headers["X-Trivet-Csrf"] = link.csrf;
	let response, text;
	try {
		response = await fetch("api/" + path, {
			method, headers, body: body === undefined ? undefined : JSON.stringify(body),
			credentials: "same-origin", cache: "no-store", signal: AbortSignal.timeout(limit),
		});
		text = await response.text();
	} catch (err) {
		link.lost ||= new Date();
		throw new Unanswered(err.message);
	}
	heard(response);
	let value = null;
	try {
		value = text ? JSON.parse(text) : null;
	} catch {
		if (response.ok) throw new Refused(response.status, { error: { message: "the answer is not JSON" } });
	}
	if (!response.ok) throw new Refused(response.status, value);
	return value;
}

export const get = (path, limit) => ask("GET", path, undefined, limit);
export const send = (method, path, body, limit) => ask(method, path, body, limit);

export async function session() {
	const who = await get("session");
	link.csrf = who.csrf;
	return who;
}

export const kinds = ["leadership", "pxe", "floating-ip", "member", "introspection", "boot", "hardware", "lease", "remediation", "rule", "filter", "warning", "audit"];

// Events follows the event stream of the peer, over all peers that answer in turn: it
// goes on after the newest event that it has. on.event is told each event once, in
// the order of the log; on.state is told "off" where the peer has no events, "live"
// and "lost"; on.reset is told that older events do not count any more.
export class Events {
	constructor(on) {
		this.on = on;
		this.last = "";
		this.state = "connecting";
		this.wait = 250; // ms before the next try; doubled up to a bound
		this.refused = 0; // times in a row
	}

	async start() {
		try {
			// EventSource does not tell why it fails, and an older release has no such path.
			if (this.last) await get("v1/events?limit=1&after=" + encodeURIComponent(this.last));
			else await this.begin();
			this.refused = 0;
		} catch (err) {
			if (err instanceof Refused && (err.status === 404 || err.status === 403)) return this.set("off");
			// A position that is refused again and again is of a cluster that is no more.
			if (err instanceof Refused && this.last && ++this.refused > 4) this.forget({ reason: err.message });
			return this.again();
		}
		if (this.stopped) return;
		this.source = new EventSource("api/v1/events?after=" + encodeURIComponent(this.last));
		this.source.onopen = () => { this.wait = 250; this.set("live"); };
		this.source.onerror = () => this.again();
		for (const kind of kinds) this.source.addEventListener(kind, (e) => this.take(e));
		this.source.addEventListener("reset", (e) => {
			let why = {};
			try { why = JSON.parse(e.data); } catch { /* the reason is not shown */ }
			this.forget(why);
			this.again();
		});
	}

	// begin reads the newest events, and more of those that the timeline draws. What comes
	// between the two answers is in the second.
	async begin() {
		const lanes = await get("v1/events?limit=300&kind=leadership,pxe,floating-ip,member,remediation");
		const newest = await get("v1/events?limit=60");
		const all = new Map([...lanes.events, ...newest.events].map((e) => [e.id, e]));
		for (const e of [...all.values()].sort((a, b) => a.index - b.index || a.seq - b.seq)) this.on.event(e);
		this.last = newest.last;
	}

	take(e) {
		this.last = e.lastEventId;
		try { this.on.event(JSON.parse(e.data)); } catch { /* one that cannot be read is not shown */ }
	}

	forget(why) {
		this.last = "";
		this.refused = 0;
		this.on.reset(why);
	}

	again() {
		if (this.source) this.source.close();
		this.source = null;
		this.set("lost");
		clearTimeout(this.timer);
		if (!this.stopped) this.timer = setTimeout(() => this.start(), this.wait);
		this.wait = Math.min(this.wait * 2, 2000);
	}

	stop() {
		this.stopped = true;
		clearTimeout(this.timer);
		if (this.source) this.source.close();
	}

	set(state) {
		if (this.state === state) return;
		this.state = state;
		this.on.state(state);
	}
}
