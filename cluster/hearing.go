package cluster

import "time"

// Hearing is who is heard, as this peer knows at a moment.
type Hearing struct {
	// By is the server ID of the peer that hears: the leader's, or this peer's own
	// while it has no report of a leader.
	By string
	// Age is how old the answer is where that has to be said, else 0: after the
	// process was stopped.
	Age   time.Duration
	Since time.Time // of this process: nothing was heard before
	peers map[string]Heard
}

// Heard is one peer in a Hearing.
type Heard struct {
	// Live says that the newest contact was at most SilentAfter old when Hearing
	// was true.
	Live bool
	// Never says that By has not heard the peer at all; Silent is then the age of
	// this process.
	Never  bool
	Silent time.Duration // since the newest contact, up to now
	// Behind is how many entries of the leader's log the peer is not known to
	// have, where Matched.
	Behind  uint64
	Matched bool
	// Away says that this peer's own probes of it fail, also while the leader hears
	// the peer.
	Away bool
}

// Of returns how the peer with this ID is heard.
func (h Hearing) Of(id string) Heard {
	if heard, ok := h.peers[id]; ok {
		return heard
	}
	return Heard{Never: true, Silent: time.Since(h.Since)}
}

// Hearing returns who is heard at present.
func (c *Contacts) Hearing() Hearing {
	now := time.Now()
	h := Hearing{By: c.opts.Self, Since: c.started, peers: make(map[string]Heard)}
	rows, leads := c.led(now)
	l, known := c.opts.Log.Leader()
	c.mu.Lock()
	defer c.mu.Unlock()
	var stopped time.Duration // this process did not run, and could hear nothing
	if idle := now.Sub(c.awake); idle > StaleAfter {
		h.Age, stopped = idle, idle
	}
	for id, p := range c.own { // order-free: a map of them
		heard := Heard{Never: p.heard.Before(c.started), Silent: now.Sub(later(p.heard, c.started))}
		heard.Live = !heard.Never && heard.Silent-stopped <= SilentAfter
		h.peers[id] = heard
	}
	h.peers[c.opts.Self] = Heard{Live: true}
	var age time.Duration
	if report := c.own[l.ID]; !leads && known && report.report.Leading && now.Sub(report.heard) <= StaleAfter {
		rows, leads, age = report.report.Contacts, true, now.Sub(report.heard)
		h.By = l.ID
	}
	if !leads {
		c.away(h)
		return h
	}
	for _, row := range rows {
		if row.ID == h.By && row.ID != c.opts.Self {
			leader := h.peers[row.ID] // a leader does not hear itself; this peer does
			leader.Matched = true
			h.peers[row.ID] = leader
			continue
		}
		silent := time.Duration(row.SilentMS) * time.Millisecond
		heard := Heard{Never: row.SilentMS < 0, Silent: silent + age, Behind: row.Behind, Matched: row.Matched}
		heard.Live = !heard.Never && silent-stopped <= SilentAfter
		if heard.Never {
			heard.Silent = now.Sub(c.started)
		}
		h.peers[row.ID] = heard
	}
	c.away(h)
	return h
}

// away marks those whom this peer's own probes do not reach. The caller holds the
// lock.
func (c *Contacts) away(h Hearing) {
	for id, p := range c.own { // order-free: each on its own
		one := h.peers[id]
		one.Away = !p.failed.IsZero() && time.Since(later(p.heard, c.started)) > SilentAfter
		h.peers[id] = one
	}
}
