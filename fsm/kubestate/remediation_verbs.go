package kubestate

import (
	"errors"
	"fmt"

	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/table"
	"github.com/trivet-ha/trivet/fsm/valid"
)

// BeginRemediation begins to act on a kube node, before anything is done. A duty's
// command. The Token of its result is the remediation's Intent. It ends with
// Conflict if one is open for the kube node, by its UID or by its name, and is
// Refused while failover is paused.
type BeginRemediation struct {
	Cluster      string `cbor:"1,keyasint"`
	Node         string `cbor:"2,keyasint"`
	UID          string `cbor:"3,keyasint"`
	BootID       string `cbor:"4,keyasint,omitempty"`
	ControlPlane bool   `cbor:"5,keyasint,omitempty"`
	Peer         string `cbor:"6,keyasint,omitempty"`
	Reason       string `cbor:"7,keyasint"`           // why it is taken for dead
	Millis       int64  `cbor:"8,keyasint,omitempty"` // wall clock, Unix ms
	SystemUUID   string `cbor:"9,keyasint,omitempty"` // of the machine; "" if its kubelet told none
}

// Validate implements Command.
func (c BeginRemediation) Validate() error {
	if c.Reason == "" {
		return errors.New("a remediation needs a reason")
	}
	if err := errors.Join(
		validKubeCluster(c.Cluster), valid.Text("name of a kube node", c.Node, 1, maxKubeName)); err != nil {
		return err
	}
	return errors.Join(validUID(c.UID), valid.Text("boot ID", c.BootID, 0, maxKubeBoot),
		valid.Text("UUID of a machine", c.SystemUUID, 0, maxSystemUUID), validStep(c.Peer, c.Reason, c.Millis))
}

func validStep(who, reason string, millis int64) error {
	return errors.Join(valid.Text("peer", who, 0, maxOperator), validReason(reason), valid.Millis(millis))
}

// Apply implements entry.Change.
func (c BeginRemediation) Apply(t Txn) entry.Result {
	intent, open := t.open.Get(kubeKey(c.Cluster, c.UID))
	if !open {
		intent, open = t.openName.Get(kubeKey(c.Cluster, c.Node))
	}
	pause, paused := t.FailoverPause(c.Cluster)
	switch {
	case open:
		return entry.Refuse(entry.Conflict, "remediation %v of kube node %s is open", intent, c.Node)
	case paused:
		return entry.Refuse(entry.Refused, "failover is %s", pause.told())
	}
	for t.remediations.Size() >= MaxRemediations { // those that ended first make room
		key, _, ok := t.ended.First()
		if !ok {
			return entry.Refuse(entry.TableFull, "%d remediations are open, which is the most", MaxRemediations)
		}
		t.expireRemediation(table.TailToken(key))
	}
	r := Remediation{
		Intent: t.Token, Cluster: c.Cluster, Node: c.Node, UID: c.UID, BootID: c.BootID, ControlPlane: c.ControlPlane,
		Began:      t.Now(),
		SystemUUID: c.SystemUUID,
	}
	t.storeStep(r, Step{State: RemIntent, Token: t.Token, At: t.Now(), Millis: c.Millis, Peer: c.Peer, Reason: c.Reason})
	return entry.Done()
}

// StepRemediation takes a remediation to its next state. A duty's command. It ends
// with Conflict if the state is not From any more, and with IllegalTransition if
// To may not follow. From fencing, stuck or an end to the same is a note. A step to fencing
// that names a Device announces one power-off command to it, before it is given.
type StepRemediation struct {
	Intent fencing.Token `cbor:"1,keyasint"`
	From   State         `cbor:"2,keyasint"`
	To     State         `cbor:"3,keyasint"`
	Peer   string        `cbor:"4,keyasint,omitempty"`
	Reason string        `cbor:"5,keyasint,omitempty"`
	Device string        `cbor:"6,keyasint,omitempty"` // for To fencing alone
	Millis int64         `cbor:"7,keyasint,omitempty"` // wall clock, Unix ms
}

// logVersionNotes is the log version that brought notes in remediations that have ended.
const logVersionNotes = 3

// Since is the log version that a member must know to read the command.
func (c StepRemediation) Since() int { return entry.SinceField(c.From.Ended(), logVersionNotes) }

// Validate implements Command.
func (c StepRemediation) Validate() error {
	if !c.From.known() || !c.To.known() {
		return fmt.Errorf("a step from state %d to state %d of a remediation", c.From, c.To)
	}
	if c.Device != "" && c.To != RemFencing {
		return fmt.Errorf("a step to %v tells a device nothing", c.To)
	}
	return errors.Join(valid.Text("device", c.Device, 0, maxDevice), validStep(c.Peer, c.Reason, c.Millis))
}

// Apply implements entry.Change.
func (c StepRemediation) Apply(t Txn) entry.Result {
	r, ok := t.remediations.Get(table.TokenKey(c.Intent))
	switch {
	case !ok:
		return noRemediation(c.Intent)
	case r.State != c.From:
		return entry.Refuse(entry.Conflict, "remediation %v of kube node %s is %v, not %v", c.Intent, r.Node, r.State, c.From)
	case !r.May(c.To):
		past := "" // what decides which states may follow
		switch {
		case r.WasOff:
			past = ": the machine was off"
		case r.Attempts == 0:
			past = ": no power-off was announced"
		}
		return entry.Refuse(entry.IllegalTransition, "remediation %v of kube node %s cannot go from %v to %v%s", c.Intent,
			r.Node, r.State, c.To, past)
	}
	t.storeStep(r, Step{State: c.To, Token: t.Token, At: t.Now(), Millis: c.Millis, Peer: c.Peer, Device: c.Device,
		Reason: c.Reason})
	return entry.Done()
}

func noRemediation(intent fencing.Token) entry.Result {
	return entry.Refuse(entry.NotFound, "there is no remediation %v", intent)
}

// storeStep stores a remediation after a step, notes its end, and records the step as an event.
func (t Txn) storeStep(r Remediation, s Step) {
	r = r.stepped(s)
	if r.State.Ended() && r.Expires == 0 { // a note prolongs nothing
		r.Expires = t.Now().Add(Keep)
	}
	t.putRemediation(r)
	e := eventring.Event{Topic: eventring.TopicRemediation, Action: s.State.String(), Peer: s.Peer, Millis: s.Millis}
	by := ""
	if s.Operator {
		e.Peer, by = "", s.Peer
	}
	e.Fields = eventring.Fields("cluster", r.Cluster, "kube_node", r.Node, "intent", r.Intent.String(), "device", s.Device,
		"reason", s.Reason, "by", by)
	t.RecordEvent(e)
}

// ReleaseRemediation is an operator's word on a remediation that is stuck: try to
// fence again, or cancel, also where the machine was off, which is theirs to know.
// It announces no power-off command. In one that has ended it is a note: what that one
// left behind holds no remediation any more.
type ReleaseRemediation struct {
	Intent fencing.Token `cbor:"1,keyasint"`
	To     State         `cbor:"2,keyasint"` // fencing or cancelled
	By     string        `cbor:"3,keyasint,omitempty"`
	Reason string        `cbor:"4,keyasint,omitempty"`
	Millis int64         `cbor:"5,keyasint,omitempty"` // wall clock, Unix ms
	// Ended says that the remediation has ended; To is fencing then. It needs log version 3.
	Ended bool `cbor:"6,keyasint,omitempty"`
}

// Since is the log version that a member must know to read the command.
func (c ReleaseRemediation) Since() int { return entry.SinceField(c.Ended, logVersionNotes) }

// Validate implements Command.
func (c ReleaseRemediation) Validate() error {
	if c.Ended && c.To != RemFencing {
		return fmt.Errorf("an operator releases what has ended to fencing, not to %v", c.To)
	}
	if c.To != RemFencing && c.To != RemCancelled {
		return fmt.Errorf("an operator releases a remediation to fencing or cancelled, not to %v", c.To)
	}
	return validStep(c.By, c.Reason, c.Millis)
}

// Apply implements entry.Change.
func (c ReleaseRemediation) Apply(t Txn) entry.Result {
	r, ok := t.remediations.Get(table.TokenKey(c.Intent))
	switch {
	case !ok:
		return noRemediation(c.Intent)
	case c.Ended && r.State.Ended():
		c.To = r.State
	case c.Ended, r.State != RemStuck:
		return entry.Refuse(entry.Conflict, "remediation %v of kube node %s is %v, not stuck", c.Intent, r.Node, r.State)
	}
	t.storeStep(r, Step{State: c.To, Token: t.Token, At: t.Now(), Millis: c.Millis, Peer: c.By, Operator: true,
		Reason: c.Reason})
	return entry.Done()
}
