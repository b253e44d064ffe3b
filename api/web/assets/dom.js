// Elements and text. Data reaches the document through text nodes and attributes
// alone: there is no innerHTML here, and the browser would refuse it.

const svgSpace = "http://www.w3.org/2000/svg";

// Characters that would move or hide others: controls but for the line break, marks
// of direction, and what has no width.
const hostile = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;
const longest = 4000; // characters of one text; raw data has its own bound

// clean makes a text harmless to look at: every hostile character is shown as one
// that stands for it, and what is too long is cut.
export function clean(value, limit = longest) {
	const text = String(value ?? "");
	const shown = text.length > limit ? text.slice(0, limit) + ` … (${text.length.toLocaleString("en")} characters)` : text;
	return shown.replace(hostile, "\ufffd");
}

function dispatch(event) {
	const handler = this.handlers && this.handlers[event.type];
	if (handler) handler.call(this, event);
}

function make(el, props, children) {
	for (const [name, value] of Object.entries(props || {})) {
		if (value === undefined || value === null || value === false) continue;
		if (name.startsWith("on")) {
			const type = name.slice(2);
			(el.handlers ||= {})[type] = value;
			el.addEventListener(type, dispatch);
		} else if (name === "style") {
			for (const [key, v] of Object.entries(value)) el.style.setProperty(key, v);
		} else if (name === "value" || name === "checked") {
			el[name] = value;
			el.given = name === "value";
		} else {
			el.setAttribute(name, value === true ? "" : clean(value));
		}
	}
	return append(el, children);
}

function append(to, children) {
	for (const child of children.flat(Infinity)) {
		if (child === undefined || child === null || child === false) continue;
		to.append(child instanceof Node ? child : document.createTextNode(clean(child)));
	}
	return to;
}

export const h = (tag, props, ...children) => make(document.createElement(tag), props, children);
export const s = (tag, props, ...children) => make(document.createElementNS(svgSpace, tag), props, children);

const keyOf = (node) => node.nodeType === 1 ? node.getAttribute("data-key") : null;
const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && keyOf(a) === keyOf(b);
const same = (a, b) => alike(a, b) && (b.nodeType !== 1 || keyOf(b) !== null || a.getAttribute("class") === b.getAttribute("class"));

// patch makes the children of old those that are given, and touches only what
// differs: focus, selection and what a screen reader reads stay where they are.
export function patch(old, ...children) {
	const fresh = append(document.createDocumentFragment(), children);
	const focused = document.activeElement;
	sync(old, [...fresh.childNodes]);
	// An element that was moved has lost the focus.
	if (focused !== document.activeElement && old.contains(focused)) focused.focus({ preventScroll: true });
}

function sync(parent, wanted) {
	let at = parent.firstChild;
	for (const node of wanted) {
		let found = at;
		while (found && !same(found, node)) found = found.nextSibling;
		if (!found && at && alike(at, node)) found = at;
		if (!found) {
			parent.insertBefore(node, at);
			continue;
		}
		if (found !== at) parent.insertBefore(found, at); else at = at.nextSibling;
		update(found, node);
	}
	while (at) {
		const next = at.nextSibling;
		at.remove();
		at = next;
	}
}

function update(old, fresh) {
	if (old.nodeType !== 1) {
		if (old.data !== fresh.data) old.data = fresh.data;
		return;
	}
	for (const { name } of [...old.attributes]) {
		// The user opens and closes details.
		if (name !== "style" && name !== "open" && !fresh.hasAttribute(name)) old.removeAttribute(name);
	}
	for (const { name, value } of fresh.attributes) {
		if (name !== "style" && name !== "open" && old.getAttribute(name) !== value) old.setAttribute(name, value);
	}
	if (old.style.cssText !== fresh.style.cssText) old.style.cssText = fresh.style.cssText;
	for (const type of Object.keys(fresh.handlers || {})) {
		if (!old.handlers || !(type in old.handlers)) old.addEventListener(type, dispatch);
	}
	old.handlers = fresh.handlers;
	// What the user has typed stays, unless the page gives a value.
	if (fresh.given && old !== document.activeElement && old.value !== fresh.value) old.value = fresh.value;
	sync(old, [...fresh.childNodes]);
}

// empty is what stands where there is nothing to show.
export const empty = (...text) => h("p", { class: "empty" }, ...text);

// Numbers and times for people.

export const count = (n) => Number(n).toLocaleString("en");

export function span(ms) {
	if (ms < 1000) return `${Math.max(0, Math.round(ms / 10) * 10)} ms`;
	const seconds = ms / 1000;
	if (seconds < 10) return `${seconds.toFixed(1)} s`;
	if (seconds < 120) return `${Math.round(seconds)} s`;
	if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
	if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
	return `${Math.round(seconds / 86400)} d`;
}

// clock shows a moment, with the day where it is not today.
export function clock(at) {
	const day = at.toDateString() === new Date().toDateString() ? "" : at.toISOString().slice(0, 10) + " ";
	return day + at.toTimeString().slice(0, 8);
}

export function time(moment) {
	const at = new Date(moment);
	if (!moment || isNaN(at)) return h("span", { class: "none" }, "–");
	return h("time", { datetime: at.toISOString(), title: at.toISOString() }, clock(at));
}

// table shows rows of a key and cells; its caption is seen where it says so.
export const table = (name, head, rows, caption = "unseen") => h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": name }, h("table", null, h("caption", { class: caption }, name),
	h("thead", null, h("tr", null, head.map((t) => h("th", { scope: "col" }, t)))), h("tbody", null, rows.map(([key, cells]) => h("tr", { "data-key": key }, cells.map((c) => h("td", null, c)))))));
