package kubestate

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/table"
	"github.com/trivet-ha/trivet/fsm/valid"
)

// Bounds of pauses and holds of failover.
const (
	// MaxPause is the longest pause that ends by itself.
	MaxPause = 30 * 24 * time.Hour
	// MaxHold is the longest hold.
	MaxHold = 24 * time.Hour
	// MaxClusters is how many clusters may be paused one by one, and how
	// many may be held.
	MaxClusters = 64
	// MaxReason is the greatest length of a reason, in bytes.
	MaxReason = 1 << 10

	maxOperator = 253
)

// Reason makes a reason of a foreign text: it is cut to MaxReason
// bytes, and what is no text in it is replaced.
func Reason(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	return valid.Cut(text, MaxReason)
}

func validReason(reason string) error { return valid.Text("reason", reason, 0, MaxReason) }

// Pause says that an operator wants no remediation to begin.
type Pause struct {
	Cluster string     `cbor:"1,keyasint,omitempty"` // "": all, also those that come
	By      string     `cbor:"2,keyasint,omitempty"`
	Reason  string     `cbor:"3,keyasint,omitempty"`
	Since   entry.Time `cbor:"4,keyasint,omitempty"`
	Until   entry.Time `cbor:"5,keyasint,omitempty"` // cluster time; 0: until it is resumed
	Millis  int64      `cbor:"6,keyasint,omitempty"` // wall clock of Since, Unix ms, for display
}

// told says whose pause it is, and why.
func (p Pause) told() string {
	return fmt.Sprintf("paused by %s: %s", cmp.Or(p.By, "an operator"), cmp.Or(p.Reason, "no reason given"))
}

// endsBefore reports whether a pause ends while another one is still in force.
func (p Pause) endsBefore(other Pause) bool {
	return p.Until != 0 && (other.Until == 0 || p.Until < other.Until)
}

// PauseFailover begins or ends a pause: an operator's command. A pause takes the
// place of the one before, and ends with Conflict if it would end before that one. To
// end one that is none is a success.
type PauseFailover struct {
	Cluster string        `cbor:"1,keyasint,omitempty"` // "": the pause of all, and no other
	Paused  bool          `cbor:"2,keyasint,omitempty"`
	For     time.Duration `cbor:"3,keyasint,omitempty"` // at most MaxPause; 0: until it is resumed
	By      string        `cbor:"4,keyasint,omitempty"`
	Reason  string        `cbor:"5,keyasint,omitempty"`
	Millis  int64         `cbor:"6,keyasint,omitempty"` // wall clock, Unix ms
}

// Validate implements Command.
func (c PauseFailover) Validate() error {
	if c.For < 0 || c.For > MaxPause {
		return fmt.Errorf("a pause lasts up to %v, or until it is resumed, not %v", MaxPause, c.For)
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

// logVersionLonger is the log version from which on no order to pause ends, or shortens, the
// pause that is in force.
const logVersionLonger = 3

// Apply implements entry.Change.
func (c PauseFailover) Apply(t Txn) entry.Result {
	p := Pause{Cluster: c.Cluster, By: c.By, Reason: c.Reason, Since: t.Now(), Millis: c.Millis}
	if c.For > 0 {
		p.Until = t.Now().Add(c.For)
	}
	old, paused := t.pauses.Get([]byte(c.Cluster))
	switch {
	case !c.Paused:
		t.dropPause(c.Cluster)
		return entry.Done()
	case t.Version < logVersionLonger:
		t.dropPause(c.Cluster) // also if there is no room for the new one
		paused = false
	case paused && p.endsBefore(old):
		until := "until it is resumed"
		if old.Until != 0 {
			until = fmt.Sprintf("for another %v", old.Until.Sub(t.Now()).Round(time.Second))
		}
		return entry.Refuse(entry.Conflict, "failover is %s, %s: resume it before you pause it for less", old.told(), until)
	}
	if !paused && c.Cluster != "" && t.pauses.Size() >= MaxClusters {
		return entry.Refuse(entry.TableFull, "%d clusters are paused, which is the most; pause all of them at once",
			MaxClusters)
	}
	t.dropPause(c.Cluster)
	t.putPause(p)
	return entry.Done()
}

func (t Txn) putPause(p Pause) {
	t.pauses.Put([]byte(p.Cluster), p)
	if p.Until != 0 {
		t.Arm(p.Until, duePause, []byte(p.Cluster))
	}
}

func (t Txn) dropPause(cluster string) {
	p, _ := t.pauses.Get([]byte(cluster))
	t.pauses.Drop([]byte(cluster))
	t.Disarm(p.Until, duePause, []byte(cluster))
}

// Hold says that too many kube nodes of a cluster were down at once, and
// until when nothing is done about it.
type Hold struct {
	Cluster string     `cbor:"1,keyasint"`
	Reason  string     `cbor:"2,keyasint,omitempty"`
	Since   entry.Time `cbor:"3,keyasint,omitempty"` // of the first of a row
	Until   entry.Time `cbor:"4,keyasint"`           // cluster time
}

// HoldFailover holds back until a time after now. A duty's command. It makes no
// hold that is there shorter.
type HoldFailover struct {
	Cluster string        `cbor:"1,keyasint"`
	For     time.Duration `cbor:"2,keyasint"` // at most MaxHold
	Reason  string        `cbor:"3,keyasint,omitempty"`
}

// Validate implements Command.
func (c HoldFailover) Validate() error {
	if c.For <= 0 || c.For > MaxHold {
		return fmt.Errorf("a hold lasts up to %v, not %v", MaxHold, c.For)
	}
	return errors.Join(validKubeCluster(c.Cluster), validReason(c.Reason))
}

// Apply implements entry.Change.
func (c HoldFailover) Apply(t Txn) entry.Result {
	h, held := t.holds.Get([]byte(c.Cluster))
	switch {
	case !held && t.holds.Size() >= MaxClusters:
		return entry.Refuse(entry.TableFull, "%d clusters are held, which is the most", MaxClusters)
	case !held:
		h = Hold{Cluster: c.Cluster, Since: t.Now()}
	}
	t.Disarm(h.Until, dueHold, []byte(c.Cluster))
	h.Until, h.Reason = max(h.Until, t.Now().Add(c.For)), c.Reason
	t.putHold(h)
	return entry.Done()
}

func (t Txn) putHold(h Hold) {
	t.holds.Put([]byte(h.Cluster), h)
	t.Arm(h.Until, dueHold, []byte(h.Cluster))
}

// Adopt keeps what an operator of the running cluster has paused: to
// restore a snapshot is no order to switch machines off. What does not fit
// becomes a pause of all.
func (t Txn) Adopt(current Tables) {
	for _, p := range current.pauses.All() {
		if old, ok := t.pauses.Get([]byte(p.Cluster)); ok && (old.Until == 0 || p.Until != 0 && p.Until < old.Until) {
			continue
		} else if !ok && p.Cluster != "" && t.pauses.Size() >= MaxClusters {
			p = Pause{By: "trivet", Reason: "a restore met more paused clusters than fit", Since: t.Position.Now,
				Millis: p.Millis}
		}
		t.dropPause(p.Cluster)
		t.putPause(p)
	}
}

// DropOverdue ends what is over, after a leap of cluster time that no
// entry made.
func (t Txn) DropOverdue() {
	now := t.Position.Now
	for _, p := range t.pauses.All() {
		if p.Until != 0 && p.Until <= now {
			t.dropPause(p.Cluster)
		}
	}
	for key, h := range t.holds.All() {
		if h.Until <= now {
			t.holds.Drop(key)
			t.Disarm(h.Until, dueHold, key)
		}
	}
	for key := range t.ended.All() {
		if r, _ := t.remediations.Get(table.TokenKey(table.TailToken(key))); r.Expires <= now {
			t.dropRemediation(r)
		}
	}
}
