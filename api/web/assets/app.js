// The frame of the page: which view is shown, what is polled, who is logged in, and
// how the connection stands.

import { clock, empty, h, patch, span } from "./dom.js";
import { Events, Refused, Unanswered, get, link, send, session, now } from "./net.js";
import { forget, names } from "./names.js";
import { overview } from "./overview.js";
import { Timeline } from "./timeline.js";
import { Machines } from "./machines.js";
import { doctor, kube, leases, members, rules } from "./lists.js";
import { log, logPath } from "./log.js";
import { heard } from "./pxe.js";

const every = 2000; // ms between two looks at the status
const rarely = 10000; // ms between two looks at what all hosts are asked for
const old = 5000; // ms after which what is shown is called old

const $ = (id) => document.getElementById(id);

// app is what the views share.
const app = {
	user: null, // as the session tells; null: nobody is logged in
	status: null, // newest
	timeline: new Timeline(),
	events: null,
	refresh: () => look(),
	notice,
};

const machines = new Machines(app);
const views = {
	overview: { title: "Overview", show: () => overview(app) },
	machines: { title: "Machines", load: () => machines.load(), show: () => machines.show() },
	heard: { title: "PXE", load: () => seldom("heard", "v1/firewall/heard?all=1"), show: () => heard(app, data.heard) },
	kube: { title: "Kube nodes", there: (s) => s.failover, load: () => remember("kube", "v1/failover"), show: () => kube(app, data.kube) },
	leases: { title: "Leases", there: (s) => s.leases, load: () => remember("leases", "v1/leases?stale=1"), show: () => leases(app, data.leases) },
	rules: { title: "Rules", load: () => remember("rules", "v1/rules?stale=1"), show: () => rules(app, data.rules), admin: true },
	members: { title: "Members", load: () => remember("members", "v1/members?stale=1"), show: () => members(app, data.members) },
	log: { title: "Log", load: () => seldom("log", logPath()), show: () => log(data.log), admin: true },
	doctor: { title: "Doctor", load: () => { examine(); }, show: () => doctor(app, data.doctor, examine), admin: true },
};

// data are the newest answers about a view, or why there are none.
const data = {};

async function remember(name, path, limit) {
	try {
		data[name] = { value: await get(path, limit) };
	} catch (err) {
		if (err instanceof Refused && err.status === 401) throw err;
		data[name] = { value: data[name] && data[name].value, error: err };
	}
}

// seldom remembers what makes every host work.
async function seldom(name, path) {
	const known = data[name];
	if (known && known.path === path && performance.now() - known.at < rarely) return;
	if (known && known.path !== path) delete data[name]; // it answers another question
	await remember(name, path);
	Object.assign(data[name], { path, at: performance.now() });
}

function current() {
	const name = location.hash.replace(/^#\/?/, "").split("?")[0];
	return views[name] ? name : "overview";
}

let examined = 0; // performance.now()

// examine asks for doctor's findings: an examination makes all hosts work, so that it
// is made when the view is opened, and when the user asks for it.
async function examine(again) {
	if (!again && data.doctor && performance.now() - examined < 300000) return;
	examined = performance.now();
	try {
		await remember("doctor", "findings", 20000);
	} finally {
		draw();
	}
}

let drawn = "";

function draw() {
	const name = current();
	document.title = `${views[name].title} · Trivet`;
	patch($("nav"), Object.entries(views).filter(([, v]) => app.user && (!v.admin || app.user.role === "admin") && (!v.there || app.status && v.there(app.status))).map(([key, v]) =>
		h("a", { href: "#" + key, "aria-current": key === name ? "page" : null, "data-key": key }, v.title, badge(key))));
	patch($("user"), app.user && app.user.strategy !== "noauth" ? [h("span", { class: "name" }, app.user.user), h("button", { class: "quiet", onclick: logOut }, "Log out")] : []);
	drawFreshness();
	if (!app.user) return;
	if (drawn !== name) patch($("main")); // another view begins empty
	drawn = name;
	patch($("main"), h("h1", { class: name === "overview" ? "unseen" : null }, views[name].title), views[name].show());
}

function badge(key) {
	if (key !== "overview" || !app.status) return null;
	const n = (app.status.warnings || []).length;
	return n ? h("span", { class: "badge", title: `${n} warnings` }, n, h("span", { class: "unseen" }, n === 1 ? " warning" : " warnings")) : null;
}

// drawFreshness says from which peer the status shown comes, and its own age.
function drawFreshness() {
	const el = $("freshness");
	const silent = link.answered ? performance.now() - link.answered : Infinity;
	const { asked, peer } = app.status ? app.shown : { asked: link.answered, peer: link.peer };
	const age = link.answered ? performance.now() - asked : Infinity;
	let state = "live", text = `live, from ${link.peer}`;
	if (link.lost && age === Infinity) [state, text] = ["lost", "no answer"];
	else if (!app.user && !link.lost) text = link.peer;
	else if (link.lost || age > old) [state, text] = ["lost", `no answer since ${clock(new Date(Date.now() - (link.lost ? silent : age)))}; as of ${span(age)} ago, from ${peer}`];
	else if (app.status && app.status.stale_for_ms > 0) [state, text] = ["stale", `as of ${span(app.status.stale_for_ms + age)} ago, from ${peer}`];
	el.className = "fresh " + state;
	// A screen reader is told when the state changes, not every second.
	el.setAttribute("aria-label", state === "live" ? `live, from ${link.peer}` : state === "stale" ? `stale, from ${link.peer}` : "no answer");
	patch(el, text);
}

// notice shows a sentence until it is dismissed, or for a while.
const notices = new Map();

function notice(key, tone, text, lasting = 0) {
	notices.set(key, { tone, text });
	drawNotices();
	if (lasting) setTimeout(() => { notices.delete(key); drawNotices(); }, lasting);
}

function drawNotices() {
	patch($("notices"), [...notices].map(([key, n]) => h("div", { class: "notice " + n.tone, "data-key": key },
		h("span", null, n.text), h("button", { class: "quiet", "aria-label": "Dismiss", onclick: () => { notices.delete(key); drawNotices(); } }, "✕"))));
}

let moved = null; // another peer answers, or one does again; it is told with the next status

link.changed = (peer, before, gap) => { moved = { peer, before: moved ? moved.before : before, gap, at: performance.now() }; };

// tellMoved says what happened to the connection, once the peer that answers knows what
// became of the one that did before: it counts as silent after a second.
function tellMoved() {
	if (!moved) return;
	const { peer, before, gap, at, reset } = moved;
	const was = app.status.peers.find((p) => p.name === before);
	if (peer !== before && was && was.live && performance.now() - at < 4000) return;
	moved = null;
	const missed = !reset && app.events && app.events.state === "live" ? "; nothing missed" : "";
	if (peer !== before) notice("link", "info", `${was && !was.live && was.silent_since ? `${before} was lost at ${clock(new Date(was.silent_since))}; ` : ""}${peer} answers now${missed}.`, 30000);
	else if (gap && new Date() - gap > 1500) notice("link", "info", `${peer} gave no answer from ${clock(gap)} to ${clock(new Date())}${missed}.`, 15000);
}

let looking = false;

async function look() {
	if (looking || !app.user) return;
	looking = true;
	try {
		const view = views[current()];
		const asked = performance.now();
		const [status] = await Promise.all([get("v1/status"), view.load ? view.load() : null]);
		[app.status, app.shown] = [status, { asked, peer: link.peer }];
		tellMoved();
	} catch (err) {
		if (err instanceof Refused && err.status === 401) await enter();
		else if (err instanceof Refused) notice("refused", "bad", err.message, 10000);
		else if (!(err instanceof Unanswered)) throw err;
	} finally {
		looking = false;
		draw();
	}
}

// enter finds out who the user is, and asks for credentials where that is needed.
async function enter() {
	try {
		app.user = await session();
	} catch (err) {
		app.user = null;
		if (err instanceof Refused && (err.status === 401 || err.status === 400)) {
			forgetUser();
			stopEvents();
			drawLogin();
		} else if (err instanceof Refused) {
			patch($("main"), empty(err.message, " ", err.hint));
		} else {
			patch($("main"), empty("No answer; trying again."));
		}
		drawFreshness();
		return;
	}
	if (app.user.role === "none") {
		patch($("main"), empty(`${app.user.user} has neither the role reader nor admin.`));
		patch($("user"), h("button", { class: "quiet", onclick: logOut }, "Log out"));
		app.user = null;
		return;
	}
	patch($("main"), empty("Loading …"));
	startEvents();
	await look();
}

function drawLogin(problem) {
	const byToken = document.documentElement.dataset.strategy === "keystone";
	const fields = byToken
		? [h("label", null, "Token of Keystone", h("input", { name: "token", type: "password", autocomplete: "off", required: true })),
			h("p", { class: "hint" }, "openstack token issue -f value -c id")]
		: [h("label", null, "User", h("input", { name: "user", autocomplete: "username", required: true })),
			h("label", null, "Password", h("input", { name: "password", type: "password", autocomplete: "current-password", required: true }))];
	closeDialogs(); // what they show is not for whoever sits there now
	patch($("nav"));
	patch($("user"));
	patch($("main"), h("form", { class: "login", onsubmit: logIn }, h("h1", null, "Log in"),
		h("p", { class: "hint" }, "With the credentials of the API."), fields,
		problem ? h("p", { class: "problem", role: "alert" }, problem) : null, h("button", { class: "primary" }, "Log in")));
	const first = $("main").querySelector("input");
	if (first && !$("main").contains(document.activeElement)) first.focus();
}

async function logIn(event) {
	event.preventDefault();
	const form = new FormData(event.target);
	try {
		await send("POST", "session", Object.fromEntries(form));
	} catch (err) {
		drawLogin(err instanceof Unanswered ? "No answer." : err.status === 401 ? "These credentials are not valid." : err.message);
		return;
	}
	await enter();
}

// forgetUser forgets what the user was shown: another one may log in here.
function forgetUser() {
	app.user = app.status = null;
	for (const name of Object.keys(data)) delete data[name];
	app.timeline.clear();
	machines.forget();
	forget();
}

async function logOut() {
	try {
		await send("DELETE", "session");
	} catch (err) {
		notice("logout", "bad", "The session has not ended: " + err.message);
		return;
	}
	forgetUser();
	stopEvents();
	await enter();
}

// closeDialogs closes what lies over a view that is left: the drawer, a question.
function closeDialogs() {
	for (const box of document.querySelectorAll("dialog[open]")) box.close();
}

names.told = () => { drawSoon(); machines.drawDrawer(); };

let soon = 0;

function startEvents() {
	if (app.events) return;
	app.events = new Events({
		event: (e) => {
			app.timeline.add(e);
			machines.heard(e);
			drawSoon();
			if (["leadership", "pxe", "floating-ip", "member", "warning"].includes(e.kind)) lookSoon();
		},
		reset: (why) => {
			if (moved) moved.reset = true;
			app.timeline.clear();
			notice("reset", "info", `Older events are not in the cluster any more${why.reason ? ": " + why.reason : ""}.`, 20000);
		},
		state: (to) => { app.timeline.state = to; drawSoon(); },
	});
	app.events.start();
}

function stopEvents() {
	if (app.events) app.events.stop();
	app.events = null;
}

// drawSoon draws once for all events that arrive within a frame.
function drawSoon() {
	if (soon) return;
	soon = requestAnimationFrame(() => { soon = 0; draw(); });
}

let next = 0;

function lookSoon() {
	clearTimeout(next);
	next = setTimeout(look, 100);
}

let searching = false; // the search takes the focus when its view is there

addEventListener("hashchange", () => {
	closeDialogs();
	draw();
	look();
	(searching && $("search") || $("main")).focus({ preventScroll: true });
	searching = false;
});
addEventListener("keydown", (e) => {
	const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(e.target.nodeName);
	if (e.key !== "/" || typing || e.ctrlKey || e.metaKey || e.altKey || document.querySelector("dialog[open]")) return;
	e.preventDefault();
	if ($("search")) return $("search").focus();
	searching = true;
	location.hash = "machines";
});
document.addEventListener("visibilitychange", () => { if (!document.hidden) look(); });

setInterval(() => {
	if (document.hidden) return;
	if (app.user) look();
	else if (link.lost || !link.answered) enter();
}, every);
setInterval(() => { if (!document.hidden) { drawFreshness(); app.timeline.tick(now()); } }, 1000);

enter();
