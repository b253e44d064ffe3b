package api

import (
	"log/slog"
	"net/netip"
	"sync"
	"time"
)

// Bounds of the lines about requests that proved nothing and committed nothing, in
// each minute. Those that are not written one by one are counted by source: an
// attacker must not be able to push other lines out of the journal and out of the
// newest lines that go into a bundle.
const (
	unprovedEvery     = time.Minute
	unprovedPerSource = 20 // lines, one a request
	unprovedInAll     = 60 // of these; then counts alone
	unprovedNamed     = 16 // sources with a count of their own; one more line counts the rest
)

// unproved decides which requests without proof get a line of the audit, and writes
// one line a minute with the number of the others from each source. It may be used
// concurrently.
type unproved struct {
	logger *slog.Logger

	mu    sync.Mutex // guards the rest, which is of the current minute
	began time.Time
	lines int
	told  map[netip.Prefix]int // lines of a source; at most unprovedInAll sources
	left  map[netip.Prefix]*unwritten
	rest  unwritten // of sources that left has no room for
}

// unwritten counts requests that got no line of their own.
type unwritten struct {
	count  int
	who    string // of the newest, as status
	status int
}

func newUnproved(logger *slog.Logger) *unproved { return &unproved{logger: logger} }

// admit reports whether a request gets a line of its own; if not it is counted.
func (u *unproved) admit(source netip.Prefix, who string, status int) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	counting := u.rest.count > 0 || len(u.left) > 0
	if u.told == nil || !counting && now.Sub(u.began) >= unprovedEvery {
		u.begin(now)
	}
	if u.lines < unprovedInAll && u.told[source] < unprovedPerSource {
		u.lines++
		u.told[source]++
		return true
	}
	if !counting {
		time.AfterFunc(unprovedEvery-now.Sub(u.began), u.summarise) // once a minute at most; it waits for nothing
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

// begin starts the next minute; the caller holds the lock.
func (u *unproved) begin(now time.Time) {
	u.began, u.lines, u.rest = now, 0, unwritten{}
	u.told, u.left = make(map[netip.Prefix]int), make(map[netip.Prefix]*unwritten)
}

// summarise ends the minute and writes the counts.
func (u *unproved) summarise() {
	u.mu.Lock()
	left, rest := u.left, u.rest
	u.begin(time.Now())
	u.mu.Unlock()
	for source, of := range left {
		u.write(source.String(), *of)
	}
	if rest.count > 0 {
		u.write("others", rest)
	}
}

func (u *unproved) write(from string, of unwritten) {
	(&call{api: "public", caller: Caller{Name: of.who}, sender: from, repeated: of.count}).tell(u.logger, "", "", of.status)
}
