package api

import (
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// Bounds of the lines about requests that proved nothing and committed nothing. Those
// that are not written one by one are counted by source: an attacker must not be able to
// push other lines out of the journal and out of the newest lines that go into a bundle.
const (
	unprovedEvery     = time.Minute
	unprovedPerSource = 10 // lines at once, one a request, and as many again each minute
	unprovedInAll     = 30 // of these; then counts alone
	unprovedNamed     = 16 // sources with a count of their own; one more line counts the rest
)

// unproved decides which requests without proof get a line of the audit, and writes
// one line a minute with the number of the others from each source. It may be used
// concurrently.
type unproved struct {
	logger *slog.Logger
	lines  *admission.Rates

	mu   sync.Mutex                  // guards the rest, which is of the current minute
	left map[netip.Prefix]*unwritten // at most unprovedNamed
	rest unwritten                   // of sources that left has no room for
}

// unwritten counts requests that got no line of their own.
type unwritten struct {
	count  int
	who    string // of the newest, as status
	status int
}

func newUnproved(logger *slog.Logger) *unproved {
	pace := func(lines int) admission.Pace {
		return admission.Pace{Rate: float64(lines) / unprovedEvery.Seconds(), Burst: lines}
	}
	return &unproved{logger: logger, left: make(map[netip.Prefix]*unwritten),
		lines: admission.NewRates(pace(unprovedPerSource), pace(unprovedInAll))}
}

// admit reports whether a request gets a line of its own; if not it is counted.
func (u *unproved) admit(source netip.Prefix, who string, status int) bool {
	if _, ok := u.lines.Take(source, 0); ok {
		return true
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.rest.count == 0 && len(u.left) == 0 {
		time.AfterFunc(unprovedEvery, u.summarise) // once a minute at most; it waits for nothing
	}
	to := u.left[source]
	switch {
	case to == nil && len(u.left) < unprovedNamed:
		to = new(unwritten)
		u.left[source] = to
	case to == nil:
		to = &u.rest
	}
	to.count++
	to.who, to.status = who, status
	return false
}

// summarise ends the minute and writes the counts.
func (u *unproved) summarise() {
	u.mu.Lock()
	left, rest := u.left, u.rest
	u.left, u.rest = make(map[netip.Prefix]*unwritten), unwritten{}
	u.mu.Unlock()
	for source, of := range left {
		u.write(source.String(), *of)
	}
	if rest.count > 0 {
		u.write("others", rest)
	}
}

func (u *unproved) write(from string, of unwritten) {
	(&call{api: "public", caller: Caller{Name: of.who}, sender: from, repeated: of.count}).logCall(u.logger, "", "",
		of.status)
}
