package cluster

import (
	"context"
	"encoding/json"
	"maps"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/internal/pace"
	"github.com/trivet-ha/trivet/raftstore"
)

// Values of contact between peers.
const (
	// SilentAfter is how old the newest contact with a peer may be before the peer
	// counts as silent. A leader sends heartbeats at most 200 ms apart, with
	// raft.timing normal 60.
	SilentAfter = time.Second
	// StaleAfter is the age from which an answer about others must name its age.
	StaleAfter = 1500 * time.Millisecond
	// ContactEvery is how often a peer probes each other one. A peer that dies is
	// silent to the leader after SilentAfter, and every peer has heard of that one
	// interval later.
	ContactEvery = 400 * time.Millisecond
	// stoppedAfter is how long Run may not have run before the process counts as having
	// been stopped: less than SilentAfter by more than the age of a contact in time.
	stoppedAfter = 2 * ContactEvery
	// contactLimit bounds one probe.
	contactLimit = time.Second
)

// Contact is what a leader knows of one server. All times end with the report
// that carries it.
type Contact struct {
	ID       string `json:"id"`
	SilentMS int64  `json:"silent_ms"` // age of the newest acknowledged request; negative: none so far
	Matched  bool   `json:"matched"`   // Behind is known
	Behind   uint64 `json:"behind"`    // entries of the leader's log that the server is not known to have
}

// Report is the answer to one probe.
type Report struct {
	Leading  bool            `json:"leading,omitempty"`
	Contacts []Contact       `json:"contacts,omitempty"` // of a leader, one for each server
	Host     json.RawMessage `json:"host,omitempty"`     // what the peer says about its own host
	Machine  Machine         `json:"machine,omitzero"`
}

// Prober asks another peer for its Report. Any answer of that peer, also one that
// does not know the question, is a Report; an error means that it did not answer.
type Prober interface {
	Probe(ctx context.Context, m membership.Member) (Report, error)
}

// Followed is the part of the log from which Contacts learns who leads, who is a
// member, and which requests followers acknowledged. *raftstore.Store is one.
type Followed interface {
	View() fsm.View
	Leader() (raftstore.Server, bool)
	Progress() (all []raftstore.Progress, last uint64, err error)
}

// ContactOptions are the parts of Contacts.
type ContactOptions struct {
	Self   string // server ID
	Log    Followed
	Prober Prober
	// Machine is what this peer tells of its machine.
	Machine Machine
	// Returned, if set, is called when a peer answers again; failed is when the
	// newest probe without an answer ended. It must not block.
	Returned func(id string, failed time.Time)
}

// Contacts knows which peers are heard: on the leader from the requests that they
// acknowledge, on a follower from the leader's reports, and without a leader from
// the probes that this peer sends itself. All methods may be called concurrently,
// and none of them waits.
type Contacts struct {
	opts    ContactOptions
	started time.Time

	mu      sync.Mutex
	awake   time.Time // when Run last ran: it does not while the process is stopped
	resumed time.Time // when Run went on after a stop; zero: there was none
	own     map[string]probed
	leading fencing.Token        // of the newest leadership of this peer that was seen
	before  map[string]time.Time // when each peer was heard before that leadership
}

// probed is the outcome of the newest probes of one peer.
type probed struct {
	heard  time.Time // send time of the newest probe with an answer
	failed time.Time // end of the newest probe without one; zero after an answer
	report Report    // of heard
}

// NewContacts returns a table that Run fills.
func NewContacts(o ContactOptions) *Contacts {
	now := time.Now()
	return &Contacts{opts: o, started: now, awake: now, own: make(map[string]probed), before: make(map[string]time.Time)}
}

// Run probes every other member until ctx ends, each in a goroutine of its own: a
// peer that hangs delays no probe of another. It returns when all have ended.
func (c *Contacts) Run(ctx context.Context) {
	probing := make(map[string]context.CancelFunc) // by server ID; as many as there are members
	var work sync.WaitGroup
	defer work.Wait()
	for range pace.Every(ctx, ContactEvery/2) {
		members := make(map[string]bool)
		for _, m := range c.opts.Log.View().Members() {
			if m.ID == c.opts.Self {
				continue
			}
			members[m.ID] = true
			if probing[m.ID] == nil {
				life, stop := context.WithCancel(ctx)
				probing[m.ID] = stop
				work.Go(func() { c.probeMember(life, m.ID) })
			}
		}
		for id, stop := range probing { // order-free: each on its own
			if !members[id] {
				stop()
				delete(probing, id)
			}
		}
		c.tick(members)
	}
	for _, stop := range probing { // order-free: ctx has ended them all
		stop()
	}
}

// tick notes that this process runs, forgets those who are members no more, and
// sees when a leadership of this peer has begun.
func (c *Contacts) tick(members map[string]bool) {
	all, _, err := c.opts.Log.Progress()
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.resumed, c.awake = c.resumedAt(now), now
	maps.DeleteFunc(c.own, func(id string, _ probed) bool { return !members[id] })
	if err == nil && all != nil {
		c.begun(c.opts.Log.View().Leadership().Token)
	}
}

// probeMember probes one member until ctx ends.
func (c *Contacts) probeMember(ctx context.Context, id string) {
	for range pace.Every(ctx, ContactEvery) {
		if m, ok := c.opts.Log.View().Member(id); ok { // its address may be another now
			c.probe(ctx, m)
		}
	}
}

func (c *Contacts) probe(ctx context.Context, m membership.Member) {
	limited, cancel := context.WithTimeout(ctx, contactLimit)
	defer cancel()
	sent := time.Now()
	report, err := c.opts.Prober.Probe(limited, m)
	if ctx.Err() != nil {
		return
	}
	c.mu.Lock()
	before := c.own[m.ID]
	now := probed{heard: sent, report: report}
	if err != nil {
		now = before
		now.failed = time.Now()
	}
	c.own[m.ID] = now
	c.mu.Unlock()
	if err == nil && !before.failed.IsZero() && c.opts.Returned != nil {
		c.opts.Returned(m.ID, before.failed)
	}
}

// begun keeps who was heard before this leadership of ours: its first
// acknowledgements are yet to come. The caller holds the lock.
func (c *Contacts) begun(token fencing.Token) {
	if token == c.leading {
		return
	}
	c.leading = token
	clear(c.before)
	for id, p := range c.own { // order-free: a copy
		c.before[id] = p.heard
	}
}

// Report returns what this peer answers to a probe, with what it reports about its own host.
func (c *Contacts) Report(host json.RawMessage) Report {
	r := Report{Machine: c.opts.Machine, Host: host}
	r.Contacts, r.Leading = c.led(time.Now())
	return r
}

// led returns what a leader hears of each server, ok false where this peer does
// not lead.
func (c *Contacts) led(now time.Time) (rows []Contact, ok bool) {
	all, last, err := c.opts.Log.Progress()
	if err != nil {
		return nil, false
	}
	token := c.opts.Log.View().Leadership().Token
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begun(token)
	for _, p := range all {
		row := Contact{ID: p.ID, Matched: p.Matched > 0, Behind: last - min(p.Matched, last)}
		if p.ID != c.opts.Self {
			row.SilentMS = -1 // it was not heard at all
			if heard := later(now.Add(-p.Silent), c.before[p.ID]); !heard.Before(c.started) {
				row.SilentMS = now.Sub(later(heard, c.resumedAt(now))).Milliseconds()
			}
		}
		rows = append(rows, row)
	}
	return rows, true
}

// resumedAt returns when this process went on after it was stopped: no peer could be
// heard before. The caller holds the lock.
func (c *Contacts) resumedAt(now time.Time) time.Time {
	if now.Sub(c.awake) > stoppedAfter { // Run has not noticed yet
		return now
	}
	return c.resumed
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Answers returns what the peer with this ID last said about its host and how long
// ago; ok is false if it has not answered within StaleAfter.
func (c *Contacts) Answers(id string) (host json.RawMessage, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.own[id]
	if p.heard.IsZero() || time.Since(p.heard) > StaleAfter {
		return nil, false
	}
	return p.report.Host, true
}

// Machine is what a peer tells of the machine that it runs on: the same as a kubelet
// tells of its own, so that the leader finds the peers that run on kube nodes. What a
// peer cannot read is "".
type Machine struct {
	BootID     string `json:"boot_id,omitempty"` // of the kernel that runs; no two machines have one
	SystemUUID string `json:"system_uuid,omitempty"`
	MachineID  string `json:"machine_id,omitempty"` // machine-id(5)
}

// MachineOf returns what a peer last told of its machine, also when it has been silent
// since; an older version tells nothing. heard is false if it has answered no probe for
// as long as a session lasts: its next process may run on another machine.
func (c *Contacts) MachineOf(id string) (m Machine, heard bool) {
	if id == c.opts.Self {
		return c.opts.Machine, true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.own[id]
	return p.report.Machine, !p.heard.IsZero() && time.Since(p.heard) <= membership.SessionTTL
}
