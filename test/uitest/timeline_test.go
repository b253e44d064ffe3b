//go:build e2e

package uitest

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// told is a story of events, in minutes before now, that the page is given in place
// of the peer's: the leader is killed, the next one opens the PXE service after a
// gap, and then, as it must never be, a second host opens its own.
const told = `(() => {
	const begin = Date.now();
	let index = 0;
	const event = (minutes, kind, action, peer, text) => ({
		id: "1-" + ++index + "-0", index, seq: 0, time: new Date(begin - minutes * 60000).toISOString(), kind, action, peer, node: "", text: text || peer + " " + action,
	});
	const events = [
		event(12, "leadership", "acquired", "peer1"), event(11.9, "pxe", "opened", "peer1"),
		event(6, "leadership", "acquired", "peer2"), event(5.6, "pxe", "lapsed", "peer1"), event(5.5, "member", "lost", "peer1"), event(5, "pxe", "opened", "peer2"),
		event(4, "member", "connected", "peer1"), event(3, "remediation", "fencing", "peer2", "w1 is switched off"),
		event(2, "pxe", "opened", "peer3"),
	];
	window.late = event(0, "warning", "raised", "peer2", "\u202e<img src=x onerror=alert(1)>\u0007");
	const fetched = window.fetch;
	window.fetch = (url, o) => url.startsWith("api/v1/events") ? Promise.resolve(new Response(JSON.stringify({ events, last: "1-9-0" }))) : fetched(url, o);
	window.EventSource = class extends EventTarget {
		constructor(url) { super(); window.stream = this; window.asked = url; setTimeout(() => this.onopen(), 0); }
		close() {}
		tell(e) { this.dispatchEvent(Object.assign(new MessageEvent(e.kind, { data: JSON.stringify(e), lastEventId: e.id }))); }
	};
})()`

// TestTimeline: a gap and an overlap can be seen, what happened can be read with the
// keyboard, and a hostile event is text.
func TestTimeline(t *testing.T) {
	s := openSite(t, 3)
	p := browse(t, "about:blank")
	p.do(p.Do(t.Context(), "Page.addScriptToEvaluateOnNewDocument", map[string]any{"source": told}, nil))
	p.do(p.Navigate(t.Context(), s.front.URL+"/ui/"))
	p.holds("the bars are drawn", `document.querySelectorAll("rect.k-pxe").length === 4`)
	if got := p.eval(`window.asked`); got != "api/v1/events?after=1-9-0" {
		t.Errorf("the stream begins with %s", got)
	}
	edges := func(kind string, n int) (left, right float64) {
		t.Helper()
		out := p.eval(
			`(() => { const b = document.querySelectorAll("rect.k-%s")[%d].getBoundingClientRect(); return b.left + " " + b.right; })()`,
			kind, n)
		if _, err := fmt.Sscan(out, &left, &right); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		return left, right
	}
	_, firstEnds := edges("pxe", 0)
	lateBegins, lateEnds := edges("pxe", 1) // how long it may have been open
	secondBegins, secondEnds := edges("pxe", 2)
	thirdBegins, _ := edges("pxe", 3)
	if math.Abs(lateBegins-firstEnds) > 2 || secondBegins-lateEnds < 20 || thirdBegins >= secondEnds-20 {
		t.Errorf(
			"the first ends at %.0f, at the latest at %.0f, the second is %.0f to %.0f, the third begins at %.0f: gap and overlap are not seen",
			firstEnds, lateEnds, secondBegins, secondEnds, thirdBegins)
	}
	if _, leads := edges("leadership", 0); math.Abs(leads-firstEnds) > 2 {
		t.Errorf("peer1, which was lost, leads until %.0f, its PXE service was open until %.0f", leads, firstEnds)
	}
	p.eval(`document.querySelector("rect.k-pxe").focus()`)
	p.press("Enter")
	p.shows(".chosen", "or, at the latest, ")
	p.shows(".chosen", "peer1 lapsed")
	p.picture("timeline")
	p.eval(`window.stream.tell(window.late)`)
	p.shows(".feed .events li", "<img src=x")
	if got := p.text(".feed .events .text"); !strings.HasPrefix(got, "\ufffd<img") || !strings.HasSuffix(got, ">\ufffd") {
		t.Errorf("a hostile event is shown as %q", got)
	}
	if got := p.eval(`document.querySelectorAll("img[src=x]").length`); got != "0" {
		t.Errorf("a hostile event became %s elements", got)
	}
	p.quiet()
}
