package fsm

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/table"
	"github.com/trivet-ha/trivet/fsm/valid"
)

var failoverDomain = domain{
	Verbs: []entry.Verb[*txn]{
		entry.NewVerb(104, "pause failover", applyPauseFailover).From(2),
		entry.NewVerb(106, "hold failover", applyHoldFailover).ByLeader().From(2),
	},
	Sections: []entry.Section[*txn]{
		entry.Many('p', "pauses", func(d *txn) table.Of[FailoverPause] { return d.failover.pauses }, func(d *txn, p FailoverPause) { d.putPause(p) }),
		entry.Many('h', "holds", func(d *txn) table.Of[FailoverHold] { return d.failover.holds }, func(d *txn, h FailoverHold) { d.putHold(h) }),
	},
	Check: checkPauses,
	Ends: []entry.Ending[*txn]{
		{Class: duePause, End: func(t *txn, id []byte) { t.failover.pauses.Drop(id) }, Due: func(d *txn, expect entry.Expectation) {
			for key, f := range d.failover.pauses.All() {
				if f.Until != 0 {
					expect(f.Until, key)
				}
			}
		}},
		{Class: dueHold, End: func(t *txn, id []byte) { t.failover.holds.Drop(id) }, Due: func(d *txn, expect entry.Expectation) {
			for key, h := range d.failover.holds.All() {
				expect(h.Until, key)
			}
		}},
	},
}

// Classes of deadlines: what ends a pause, and a hold.
const (
	duePause entry.Class = 'p'
	dueHold  entry.Class = 'h'
)

// Bounds of pauses and holds of failover.
const (
	// MaxFailoverPause is the longest pause that ends by itself.
	MaxFailoverPause = 30 * 24 * time.Hour
	// MaxFailoverHold is the longest hold.
	MaxFailoverHold = 24 * time.Hour
	// MaxFailoverClusters is how many clusters may be paused one by one, and how
	// many may be held.
	MaxFailoverClusters = 64
	// MaxFailoverReason is the greatest length of a reason, in bytes.
	MaxFailoverReason = 1 << 10

	maxOperator = 253
)

// kubeTables are the kube nodes, and the zones of namespaces.
type kubeTables struct {
	failover failover
	zones    table.Of[ZoneChoice] // by UID of the namespace
}

// failover holds what the log knows of the clusters whose kube nodes are watched.
type failover struct {
	nodes        table.Of[KubeNode]      // cluster, UID
	votes        table.Of[KubeBallot]    // cluster, UID, session
	votesOf      table.Of[table.None]    // session, cluster, UID
	remediations table.Of[Remediation]   // intent
	open         table.Of[fencing.Token] // cluster, UID: the intent of the one that is open
	openName     table.Of[fencing.Token] // cluster, name: the same
	ended        table.Of[table.None]    // end of retention, intent
	pauses       table.Of[FailoverPause] // cluster; "" is all
	holds        table.Of[FailoverHold]  // cluster
}

func newFailover() failover {
	return failover{
		nodes: table.New[KubeNode](), votes: table.New[KubeBallot](), votesOf: table.New[table.None](),
		remediations: table.New[Remediation](), open: table.New[fencing.Token](), openName: table.New[fencing.Token](), ended: table.New[table.None](),
		pauses: table.New[FailoverPause](), holds: table.New[FailoverHold](),
	}
}

// FailoverReason makes a reason of a foreign text: it is cut to MaxFailoverReason
// bytes, and what is no text in it is replaced.
func FailoverReason(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	if len(text) <= MaxFailoverReason {
		return text
	}
	const more = "…"
	at := MaxFailoverReason - len(more)
	for !utf8.RuneStart(text[at]) {
		at--
	}
	return text[:at] + more
}

func validReason(reason string) error { return valid.Text("reason", reason, 0, MaxFailoverReason) }

// FailoverPause says that an operator wants no remediation to begin.
type FailoverPause struct {
	Cluster string `cbor:"1,keyasint,omitempty"` // "": all, also those that come
	By      string `cbor:"2,keyasint,omitempty"`
	Reason  string `cbor:"3,keyasint,omitempty"`
	Since   Time   `cbor:"4,keyasint,omitempty"`
	Until   Time   `cbor:"5,keyasint,omitempty"` // cluster time; 0: until it is resumed
	Millis  int64  `cbor:"6,keyasint,omitempty"` // wall clock of Since, Unix ms, for display
}

// PauseFailover begins or ends a pause: an operator's command. A pause takes the
// place of the one before. To end one that is none is a success.
type PauseFailover struct {
	Cluster string        `cbor:"1,keyasint,omitempty"` // "": the pause of all, and no other
	Paused  bool          `cbor:"2,keyasint,omitempty"`
	For     time.Duration `cbor:"3,keyasint,omitempty"` // at most MaxFailoverPause; 0: until it is resumed
	By      string        `cbor:"4,keyasint,omitempty"`
	Reason  string        `cbor:"5,keyasint,omitempty"`
	Millis  int64         `cbor:"6,keyasint,omitempty"` // wall clock, Unix ms
}

// Validate implements Command.
func (c PauseFailover) Validate() error {
	if c.For < 0 || c.For > MaxFailoverPause {
		return fmt.Errorf("a pause lasts up to %v, or until it is resumed, not %v", MaxFailoverPause, c.For)
	}
	if !c.Paused && c.For != 0 {
		return fmt.Errorf("what is resumed is not paused for %v", c.For)
	}
	if c.Cluster != "" {
		if err := validKubeCluster(c.Cluster); err != nil {
			return err
		}
	}
	return errors.Join(valid.Text("operator", c.By, 0, maxOperator), validReason(c.Reason), valid.Millis(c.Millis))
}

func applyPauseFailover(t *txn, c PauseFailover) Result {
	t.dropPause(c.Cluster)
	if !c.Paused {
		return entry.Done()
	}
	if c.Cluster != "" && t.failover.pauses.Size() >= MaxFailoverClusters {
		return entry.Refuse(TableFull, "%d clusters are paused, which is the most; pause all of them at once", MaxFailoverClusters)
	}
	p := FailoverPause{Cluster: c.Cluster, By: c.By, Reason: c.Reason, Since: t.Now(), Millis: c.Millis}
	if c.For > 0 {
		p.Until = t.Now().Add(c.For)
	}
	t.putPause(p)
	return entry.Done()
}

func (d *data) putPause(p FailoverPause) {
	d.failover.pauses.Put([]byte(p.Cluster), p)
	if p.Until != 0 {
		d.shared.Arm(p.Until, duePause, []byte(p.Cluster))
	}
}

func (d *data) dropPause(cluster string) {
	p, _ := d.failover.pauses.Get([]byte(cluster))
	d.failover.pauses.Drop([]byte(cluster))
	d.shared.Disarm(p.Until, duePause, []byte(cluster))
}

// paused returns the pause that a cluster is under: that of all before its own.
func (d *data) paused(cluster string) (FailoverPause, bool) {
	if p, ok := d.failover.pauses.Get(nil); ok {
		return p, true
	}
	return d.failover.pauses.Get([]byte(cluster))
}

// FailoverHold says that too many kube nodes of a cluster were down at once, and
// until when nothing is done about it.
type FailoverHold struct {
	Cluster string `cbor:"1,keyasint"`
	Reason  string `cbor:"2,keyasint,omitempty"`
	Since   Time   `cbor:"3,keyasint,omitempty"` // of the first of a row
	Until   Time   `cbor:"4,keyasint"`           // cluster time
}

// HoldFailover holds back until a time after now. A duty's command. It makes no
// hold that is there shorter.
type HoldFailover struct {
	Cluster string        `cbor:"1,keyasint"`
	For     time.Duration `cbor:"2,keyasint"` // at most MaxFailoverHold
	Reason  string        `cbor:"3,keyasint,omitempty"`
}

// Validate implements Command.
func (c HoldFailover) Validate() error {
	if c.For <= 0 || c.For > MaxFailoverHold {
		return fmt.Errorf("a hold lasts up to %v, not %v", MaxFailoverHold, c.For)
	}
	return errors.Join(validKubeCluster(c.Cluster), validReason(c.Reason))
}

func applyHoldFailover(t *txn, c HoldFailover) Result {
	h, held := t.failover.holds.Get([]byte(c.Cluster))
	switch {
	case !held && t.failover.holds.Size() >= MaxFailoverClusters:
		return entry.Refuse(TableFull, "%d clusters are held, which is the most", MaxFailoverClusters)
	case !held:
		h = FailoverHold{Cluster: c.Cluster, Since: t.Now()}
	}
	t.Disarm(h.Until, dueHold, []byte(c.Cluster))
	h.Until, h.Reason = max(h.Until, t.Now().Add(c.For)), c.Reason
	t.putHold(h)
	return entry.Done()
}

func (d *data) putHold(h FailoverHold) {
	d.failover.holds.Put([]byte(h.Cluster), h)
	d.shared.Arm(h.Until, dueHold, []byte(h.Cluster))
}

// adoptPauses keeps what an operator of the running cluster has paused: to
// restore a snapshot is no order to switch machines off. What does not fit
// becomes a pause of all.
func (d *data) adoptPauses(current *data) {
	for _, p := range current.failover.pauses.All() {
		if old, ok := d.failover.pauses.Get([]byte(p.Cluster)); ok && (old.Until == 0 || p.Until != 0 && p.Until < old.Until) {
			continue
		} else if !ok && p.Cluster != "" && d.failover.pauses.Size() >= MaxFailoverClusters {
			p = FailoverPause{By: "trivet", Reason: "a restore met more paused clusters than fit", Since: d.shared.Position.Now, Millis: p.Millis}
		}
		d.dropPause(p.Cluster)
		d.putPause(p)
	}
}

// dropOverdueFailover ends what is over, after a leap of cluster time that no
// entry made.
func (d *data) dropOverdueFailover() {
	now := d.shared.Position.Now
	for _, p := range d.failover.pauses.All() {
		if p.Until != 0 && p.Until <= now {
			d.dropPause(p.Cluster)
		}
	}
	for key, h := range d.failover.holds.All() {
		if h.Until <= now {
			d.failover.holds.Drop(key)
			d.shared.Disarm(h.Until, dueHold, key)
		}
	}
	for key := range d.failover.ended.All() {
		if r, _ := d.failover.remediations.Get(table.TokenKey(table.TailToken(key))); r.Expires <= now {
			d.dropRemediation(r)
		}
	}
}
