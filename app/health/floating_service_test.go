package health

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// TestSilentServiceAtTheFloatingIP: a service that does not answer at the floating IP is a
// warning after silentTries, not before, and not for the time in which the address moves.
func TestSilentServiceAtTheFloatingIP(t *testing.T) {
	var away error
	holder, asked := "h1 1", 0
	f := &FloatingServices{Holder: func() string { return holder }, Served: []Served{
		{What: "the API", URL: "http://192.0.2.10:5050/livez", Ask: func(context.Context) error { asked++; return away }},
		{What: "the webhook", URL: "https://192.0.2.10:9443/livez", Ask: func(context.Context) error { return nil }},
	}}
	look := func(times, want int) {
		t.Helper()
		for range times {
			f.askOnce(t.Context())
		}
		before := asked
		got := f.warnings("192.0.2.10")
		if asked != before {
			t.Error("a warning asks: status would wait for it")
		}
		if len(got) != want {
			t.Errorf("%d warnings, want %d: %+v", len(got), want, got)
		}
		for _, w := range got {
			if w.Code != "floating_ip_unanswered" ||
				w.Text != "the floating IP 192.0.2.10 is held, and the API does not answer there: connection refused" ||
				!strings.Contains(w.Remedy, "api.listen") {
				t.Errorf("%+v", w)
			}
		}
	}
	look(2*silentTries, 0) // it answers
	away = errors.New("connection refused")
	look(silentTries-1, 0)
	look(1, 1)
	look(1, 1)
	holder = "h2 2" // it has just moved
	look(0, 0)
	look(silentTries-1, 0)
	look(1, 1)
	holder = "" // no host has it: no question, and other lines say why
	before := asked
	look(2*silentTries, 0)
	if asked != before {
		t.Errorf("asked %d times while no host has the address", asked-before)
	}
	holder = "h2 2"
	look(silentTries, 1)
	away = nil
	look(1, 0)
	var none *FloatingServices
	if none.askOnce(t.Context()); len(none.warnings("")) > 0 || none.Facts(t.Context()) != nil {
		t.Error("without a floating IP there is something to say")
	}
}
