package leases

import (
	"cmp"
	"fmt"
	"time"

	"github.com/trivet-ha/trivet/fsm/codec"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/valid"
)

// Bounds of leases. What is safe for the timing of a cluster may be narrower; the
// code that accepts a lease from outside checks that.
const (
	// MaxLeases is the greatest number of lease names.
	MaxLeases = 10_000
	// MinTTL and MaxTTL bound a ttl.
	MinTTL = time.Second
	// MaxTTL is a day.
	MaxTTL = 24 * time.Hour

	maxLeaseName = 253
	maxHolder    = 256
	maxMetadata  = 4096
)

// Lease is a named, expiring grant held by another program. It ends in cluster
// time. Its record stays when it is over, with an empty Holder, so that the
// token of its last grant can still be told from a greater one.
type Lease struct {
	Name    string        `cbor:"1,keyasint"`
	Holder  string        `cbor:"2,keyasint,omitempty"` // empty: free
	Token   fencing.Token `cbor:"3,keyasint"`           // of the newest grant
	TTL     time.Duration `cbor:"4,keyasint,omitempty"`
	Granted entry.Time    `cbor:"5,keyasint,omitempty"`
	Expires entry.Time    `cbor:"6,keyasint,omitempty"`
	// Client is the request ID that the grant was asked with, if the client
	// gave one: the same asked again is the same grant.
	Client   string `cbor:"7,keyasint,omitempty"`
	Metadata string `cbor:"8,keyasint,omitempty"`
	// Void says that it was granted before a founding: nothing is allowed under its
	// token, but its holder may act until Expires, and no other gets it before. Since
	// log version 2.
	Void bool `cbor:"9,keyasint,omitempty"`
}

// Remaining returns how long the lease lasts from a moment of cluster time,
// zero if it is free.
func (l Lease) Remaining(now entry.Time) time.Duration {
	if l.Holder == "" {
		return 0
	}
	return l.Expires.Sub(now)
}

// Answer is the Value of Grant and Renew, also of a Conflict:
// there it names the holder in the way.
type Answer struct {
	Holder    string        `cbor:"1,keyasint"`
	Token     fencing.Token `cbor:"2,keyasint"`
	Remaining time.Duration `cbor:"3,keyasint"`
}

func (t Txn) leaseAnswer(l Lease) []byte {
	return codec.Marshal(Answer{Holder: l.Holder, Token: l.Token, Remaining: l.Remaining(t.Now())})
}

// Grant acquires a free lease; the result's Token is the lease's. A
// held one is a Conflict, also for the same holder, who may be a restarted
// process that knows nothing of what its predecessor still does: with Takeover
// it gets a new token, which fences the predecessor. The same Header.Client
// asked again by the holder gets the same grant, its expiry unchanged.
type Grant struct {
	Name     string        `cbor:"1,keyasint"`
	Holder   string        `cbor:"2,keyasint"`
	TTL      time.Duration `cbor:"3,keyasint"`
	Metadata string        `cbor:"4,keyasint,omitempty"`
	Takeover bool          `cbor:"5,keyasint,omitempty"`
}

// Validate implements Command.
func (c Grant) Validate() error {
	if err := validLease(c.Name, c.Holder); err != nil {
		return err
	}
	if c.TTL < MinTTL || c.TTL > MaxTTL {
		return fmt.Errorf("a lease lasts %v to %v, not %v", MinTTL, MaxTTL, c.TTL)
	}
	return valid.Length("metadata", c.Metadata, 0, maxMetadata)
}

// validLease accepts names of DNS kind, so that one can be a Kubernetes name.
func validLease(name, holder string) error {
	return cmp.Or(validLeaseName(name), valid.Length("holder", holder, 1, maxHolder))
}

func validLeaseName(name string) error {
	if err := valid.Length("lease name", name, 1, maxLeaseName); err != nil {
		return err
	}
	if first, last := name[0], name[len(name)-1]; !isAlnum(first) || !isAlnum(last) {
		return fmt.Errorf("lease name %q does not begin and end with a letter or digit", name)
	}
	return valid.Chars("lease name", name, func(b byte) bool { return isAlnum(b) || b == '-' || b == '.' })
}

func isAlnum(b byte) bool { return 'a' <= b && b <= 'z' || '0' <= b && b <= '9' }

// Apply implements entry.Change.
func (c Grant) Apply(t Txn) entry.Result {
	old, known := t.leases.Get([]byte(c.Name))
	switch {
	case !known && t.leases.Size() >= MaxLeases:
		if !t.Version2() { // in the words of the version that all members have: the text is kept with the result
			return entry.Refuse(entry.TableFull, "%d leases exist, which is the most; delete one", MaxLeases)
		}
		return entry.Refuse(entry.TableFull,
			"%d leases exist, free ones with them, which is the most; have free ones forgotten: "+
				"'trivet lease forget NAME', or DELETE /v1/leases/NAME?record=1", MaxLeases)
	case old.Holder == c.Holder && old.Client != "" && old.Client == t.Header.Client && !old.Void:
		return entry.Result{Token: old.Token, Value: t.leaseAnswer(old)}
	case old.Holder != "" && !(old.Holder == c.Holder && c.Takeover):
		res := entry.Refuse(entry.Conflict, "lease %s is held by %s for another %v", c.Name, old.Holder,
			old.Remaining(t.Now()))
		res.Value = t.leaseAnswer(old)
		return res
	}
	t.groups.leave(c.Name) // of a predecessor that is taken over
	l := Lease{
		Name: c.Name, Holder: c.Holder, Token: t.Token, TTL: c.TTL, Granted: t.Now(),
		Expires: old.Expires, Client: t.Header.Client, Metadata: c.Metadata,
	}
	t.extendLease(&l)
	if old.Holder != "" {
		t.recordLease(eventring.ActionTakenOver, l)
	} else {
		t.recordLease(eventring.ActionGranted, l)
	}
	return entry.Result{Value: t.leaseAnswer(l)}
}

// extendLease stores a lease with a full ttl from now. Its former expiry is
// still in it.
func (t Txn) extendLease(l *Lease) {
	t.Disarm(l.Expires, dueLease, []byte(l.Name))
	l.Expires = t.Now().Add(l.TTL)
	t.Arm(l.Expires, dueLease, []byte(l.Name))
	t.leases.Put([]byte(l.Name), *l)
}

// freeLease ends a grant and keeps its token.
func (t Txn) freeLease(l Lease) Lease {
	t.groups.leave(l.Name)
	t.Disarm(l.Expires, dueLease, []byte(l.Name))
	l = Lease{Name: l.Name, Token: l.Token, Metadata: l.Metadata}
	t.leases.Put([]byte(l.Name), l)
	return l
}

// Renew extends a held lease by its ttl. One that is over is Expired and
// never revived; another's is a Conflict.
type Renew struct {
	Name   string        `cbor:"1,keyasint"`
	Holder string        `cbor:"2,keyasint"`
	Token  fencing.Token `cbor:"3,keyasint"`
}

// Validate implements Command.
func (c Renew) Validate() error { return validLease(c.Name, c.Holder) }

// Apply implements entry.Change.
func (c Renew) Apply(t Txn) entry.Result {
	l, res, ok := t.ownLease(c.Name, c.Holder, c.Token)
	if !ok {
		return res
	}
	t.extendLease(&l)
	return entry.Result{Value: t.leaseAnswer(l)}
}

// ownLease finds a lease that the holder still has under the token.
func (t Txn) ownLease(name, holder string, token fencing.Token) (Lease, entry.Result, bool) {
	l, known := t.leases.Get([]byte(name))
	switch {
	case !known:
		return l, entry.Refuse(entry.NotFound, "lease %s does not exist", name), false
	case l.Holder == "" && token <= l.Token:
		return l, entry.Refuse(entry.Expired, "lease %s is over; acquire it again", name), false
	case l.Void && token <= l.Token:
		return l, entry.Refuse(entry.Expired, "lease %s was granted before the cluster was founded again; acquire it again",
			name), false
	case l.Holder != holder || l.Token != token:
		res := entry.Refuse(entry.Conflict, "lease %s is not held by %s under token %v", name, holder, token)
		res.Value = t.leaseAnswer(l)
		return l, res, false
	}
	return l, entry.Result{}, true
}

// voidOf reports whether a lease waits for the end of this grant: its holder may say
// that it is over.
func (l Lease) voidOf(holder string, token fencing.Token) bool {
	return l.Void && l.Holder == holder && l.Token == token
}

// Release ends a grant before its time. The same again is a success. It is decided
// as the first release decided it, whose peers may apply the same entry; Step is
// what is proposed now.
type Release struct {
	Name   string        `cbor:"1,keyasint"`
	Holder string        `cbor:"2,keyasint"`
	Token  fencing.Token `cbor:"3,keyasint"`
}

// Validate implements Command.
func (c Release) Validate() error { return validLease(c.Name, c.Holder) }

// Apply implements entry.Change.
func (c Release) Apply(t Txn) entry.Result {
	l, res, ok := t.ownLease(c.Name, c.Holder, c.Token)
	ok = ok || l.voidOf(c.Holder, c.Token)
	if !ok && res.Code == entry.Expired && l.Token == c.Token {
		return entry.Done()
	}
	if !ok {
		return res
	}
	t.recordLease(eventring.ActionReleased, l)
	t.freeLease(l)
	return entry.Done()
}

// Delete removes the record of a free lease: an administrator's tidying.
// Tokens are never granted twice, so none is lost with it.
type Delete struct {
	Name string `cbor:"1,keyasint"`
}

// Validate implements Command.
func (c Delete) Validate() error { return validLeaseName(c.Name) }

// Apply implements entry.Change.
func (c Delete) Apply(t Txn) entry.Result {
	l, known := t.leases.Get([]byte(c.Name))
	switch {
	case !known:
		return entry.Refuse(entry.NotFound, "lease %s does not exist", c.Name)
	case l.Holder != "":
		return entry.Refuse(entry.Conflict, "lease %s is held by %s for another %v", c.Name, l.Holder, l.Remaining(t.Now()))
	}
	t.leases.Drop([]byte(c.Name))
	return entry.Done()
}

// loadLease restores one lease from a snapshot.
func loadLease(t Txn, l Lease) {
	t.leases.Put([]byte(l.Name), l)
	if l.Holder != "" {
		t.Arm(l.Expires, dueLease, []byte(l.Name))
	}
}

// recordLease records an event about a lease.
func (t Txn) recordLease(action string, l Lease) {
	ttl := ""
	if l.TTL > 0 {
		ttl = l.TTL.String()
	}
	t.RecordEvent(eventring.Event{Topic: eventring.TopicLease, Action: action,
		Fields: eventring.Fields("lease", l.Name, "holder", l.Holder, "token", l.Token.String(), "ttl", ttl)})
}
