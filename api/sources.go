package api

import (
	"log/slog"
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
)

// CallbackLimit bounds the callbacks of one source: an IPv4 address, or a /64,
// which is what one machine has of IPv6. Sources on this host are not counted:
// no machine boots here, and a proxy that does not say whom it speaks for speaks
// for all of them.
type CallbackLimit struct {
	Rate  int // a second, for as long as it likes; 0: no limit
	Burst int // at once
	// Refused, if set, is told of each callback that must come again.
	Refused func()
}

// Bounds of what is kept of sources.
const (
	maxSources = 4096             // more share what one may have
	sweepEvery = 10 * time.Second // those that came long ago are forgotten

	// maxOfSource is how many bytes of documents one source may hold here at
	// once: whoever sends as slowly as it may leaves as much to all others.
	maxOfSource = maxDocuments / 2
)

// sources counts callbacks by where they come from. It may be used concurrently.
type sources struct {
	interval time.Duration // between two callbacks of a source that never stops
	slack    time.Duration // by how much a source may be ahead of that
	opened   time.Time
	logger   *slog.Logger
	told     func() // of each callback that must come again

	mu    sync.Mutex
	known map[netip.Prefix]*source
	crowd *source       // of all for whom there is no room
	swept time.Duration // since opened
}

// source is what is kept of one: the moment until which it has used up its
// rate, which makes a token bucket of one number.
type source struct {
	name    netip.Prefix
	due     time.Duration // since opened
	visits  int           // callbacks under way
	refused bool          // and that was logged
	held    atomic.Int64  // bytes
}

func newSources(l CallbackLimit, logger *slog.Logger) *sources {
	s := &sources{opened: time.Now(), logger: logger, known: make(map[netip.Prefix]*source), crowd: &source{name: netip.PrefixFrom(netip.IPv6Unspecified(), 0)}, told: l.Refused}
	if s.told == nil {
		s.told = func() {}
	}
	if l.Rate > 0 {
		s.interval = time.Second / time.Duration(l.Rate)
		s.slack = s.interval * time.Duration(max(l.Burst, 1)-1)
	}
	return s
}

// enter lets a callback in, and then leave must be called with what it returns;
// or it says after how long the sender may try again.
func (s *sources) enter(sender netip.Addr) (visitor *source, wait time.Duration) {
	if !sender.IsValid() || sender.IsLoopback() {
		return nil, 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Since(s.opened)
	from := s.find(networkOf(sender), now)
	if wait = from.due - s.slack - now; wait > 0 {
		if !from.refused {
			s.logger.Warn("callback rate limit exceeded, answering 503", "source", from.name)
		}
		from.refused = true
		return nil, wait
	}
	if from.due <= now {
		from.due, from.refused = now, false
	}
	from.due += s.interval
	from.visits++
	return from, 0
}

// leave ends a visit.
func (s *sources) leave(visitor *source) {
	if visitor == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	visitor.visits--
}

// find returns a source, for the first time perhaps. mu is held.
func (s *sources) find(name netip.Prefix, now time.Duration) *source {
	if from, ok := s.known[name]; ok {
		return from
	}
	if now >= s.swept+sweepEvery {
		s.swept = now
		for name, from := range s.known {
			if from.visits == 0 && from.due <= now {
				delete(s.known, name)
			}
		}
	}
	if len(s.known) >= maxSources {
		return s.crowd
	}
	from := &source{name: name}
	s.known[name] = from
	return from
}

func networkOf(a netip.Addr) netip.Prefix {
	bits := 32
	if a.Is6() {
		bits = 64
	}
	network, err := a.Prefix(bits)
	if err != nil {
		return netip.PrefixFrom(a, a.BitLen()) // not reached: the bits fit the address
	}
	return network
}

// bounded keeps a source from taking what all others need. Whoever comes too
// often, or with too much at once, gets 503 and is told when to come again:
// never a 4xx, which the ramdisk takes for final, so that its machine would
// fail for what its neighbours did.
func (s *sources) bounded(proxies []netip.Prefix, next func(echo.Context, *source) error) echo.HandlerFunc {
	return func(c echo.Context) error {
		sender, _ := senderOf(c.Request(), proxies)
		visitor, wait := s.enter(sender)
		if wait > 0 {
			s.told()
			hush(c) // the log has a line of the source; one of each callback would fill it
			c.Response().Header().Set(echo.HeaderRetryAfter, strconv.Itoa(int(math.Ceil(wait.Seconds()))))
			return refuse(http.StatusServiceUnavailable, "Too many callbacks are coming from %s; try again", networkOf(sender))
		}
		defer s.leave(visitor)
		return next(c, visitor)
	}
}
