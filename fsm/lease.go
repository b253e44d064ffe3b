package fsm

import (
	"time"

	"github.com/trivet-ha/trivet/fsm/fencing"
)

var leaseDomain = domain{
	verbs: []row{
		verb(50, "grant lease", applyGrantLease),
		verb(51, "renew lease", applyRenewLease),
		verb(52, "release lease", applyReleaseLease),
		verb(53, "delete lease", applyDeleteLease),
		verb(120, "step leases", applyStepLeases).from(2),
	},
	sections: []section{
		many('e', "leases", func(d *data) table[Lease] { return d.leases }, loadLease),
	},
	check: checkLeases,
	ends: []ending{
		{dueLease, func(t *txn, id []byte) { t.endLease(string(id)) }, func(d *data, expect expectation) {
			for key, l := range d.leases.all() {
				if l.Holder != "" {
					expect(l.Expires, key)
				}
			}
		}},
	},
}

// leaseTables are what the cluster lends, and what holders keep and form under it.
type leaseTables struct {
	leases table[Lease] // by name
	values valueStore
	groups groups
}

// Bounds of leases. What is safe for the timing of a cluster may be narrower; the
// code that accepts a lease from outside checks that.
const (
	// MaxLeases is the greatest number of lease names.
	MaxLeases = 10_000
	// MinLeaseTTL and MaxLeaseTTL bound a ttl.
	MinLeaseTTL = time.Second
	// MaxLeaseTTL is a day.
	MaxLeaseTTL = 24 * time.Hour

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
	Granted Time          `cbor:"5,keyasint,omitempty"`
	Expires Time          `cbor:"6,keyasint,omitempty"`
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
func (l Lease) Remaining(now Time) time.Duration {
	if l.Holder == "" {
		return 0
	}
	return l.Expires.Sub(now)
}

// LeaseAnswer is the Value of GrantLease and RenewLease, also of a Conflict:
// there it names the holder in the way.
type LeaseAnswer struct {
	Holder    string        `cbor:"1,keyasint"`
	Token     fencing.Token `cbor:"2,keyasint"`
	Remaining time.Duration `cbor:"3,keyasint"`
}

func (t *txn) leaseAnswer(l Lease) []byte {
	return marshal(LeaseAnswer{Holder: l.Holder, Token: l.Token, Remaining: l.Remaining(t.now())})
}

// GrantLease acquires a free lease; the result's Token is the lease's. A
// held one is a Conflict, also for the same holder, who may be a restarted
// process that knows nothing of what its predecessor still does: with Takeover
// it gets a new token, which fences the predecessor. The same Header.Client
// asked again by the holder gets the same grant, its expiry unchanged.
type GrantLease struct {
	Name     string        `cbor:"1,keyasint"`
	Holder   string        `cbor:"2,keyasint"`
	TTL      time.Duration `cbor:"3,keyasint"`
	Metadata string        `cbor:"4,keyasint,omitempty"`
	Takeover bool          `cbor:"5,keyasint,omitempty"`
}

// Validate implements Command.
func (c GrantLease) Validate() error {
	if err := validLease(c.Name, c.Holder); err != nil {
		return err
	}
	if c.TTL < MinLeaseTTL || c.TTL > MaxLeaseTTL {
		return invalid("a lease lasts %v to %v, not %v", MinLeaseTTL, MaxLeaseTTL, c.TTL)
	}
	return within("metadata", c.Metadata, 0, maxMetadata)
}

// validLease accepts names of DNS kind, so that one can be a Kubernetes name.
func validLease(name, holder string) error {
	if err := validLeaseName(name); err != nil {
		return err
	}
	return within("holder", holder, 1, maxHolder)
}

func validLeaseName(name string) error {
	if err := within("lease name", name, 1, maxLeaseName); err != nil {
		return err
	}
	if first, last := name[0], name[len(name)-1]; !isAlnum(first) || !isAlnum(last) {
		return invalid("lease name %q does not begin and end with a letter or digit", name)
	}
	return only("lease name", name, func(b byte) bool { return isAlnum(b) || b == '-' || b == '.' })
}

func isAlnum(b byte) bool { return 'a' <= b && b <= 'z' || '0' <= b && b <= '9' }

func applyGrantLease(t *txn, c GrantLease) Result {
	old, known := t.leases.get([]byte(c.Name))
	switch {
	case !known && t.leases.size() >= MaxLeases:
		return t.noRoomForLeases()
	case old.Holder == c.Holder && old.Client != "" && old.Client == t.header.Client && !old.Void:
		return Result{Token: old.Token, Value: t.leaseAnswer(old)}
	case old.Holder != "" && !(old.Holder == c.Holder && c.Takeover):
		res := refuse(Conflict, "lease %s is held by %s for another %v", c.Name, old.Holder, old.Remaining(t.now()))
		res.Value = t.leaseAnswer(old)
		return res
	}
	t.groups.leave(c.Name) // of a predecessor that is taken over
	l := Lease{
		Name: c.Name, Holder: c.Holder, Token: t.token, TTL: c.TTL, Granted: t.now(),
		Expires: old.Expires, Client: t.header.Client, Metadata: c.Metadata,
	}
	t.extendLease(&l)
	if old.Holder != "" {
		t.recordLease(ActionTakenOver, l)
	} else {
		t.recordLease(ActionGranted, l)
	}
	return Result{Value: t.leaseAnswer(l)}
}

// noRoomForLeases says it in the words of the version that all members have, since the
// text is kept with the result.
func (t *txn) noRoomForLeases() Result {
	if !t.peers.version2() {
		return refuse(TableFull, "%d leases exist, which is the most; delete one", MaxLeases)
	}
	return refuse(TableFull, "%d leases exist, free ones with them, which is the most; have free ones forgotten: "+
		"'trivet lease forget NAME', or DELETE /v1/leases/NAME?record=1", MaxLeases)
}

// extendLease stores a lease with a full ttl from now. Its former expiry is
// still in it.
func (t *txn) extendLease(l *Lease) {
	t.disarm(l.Expires, dueLease, []byte(l.Name))
	l.Expires = t.now().Add(l.TTL)
	t.arm(l.Expires, dueLease, []byte(l.Name))
	t.leases.put([]byte(l.Name), *l)
}

// freeLease ends a grant and keeps its token.
func (t *txn) freeLease(l Lease) Lease {
	t.groups.leave(l.Name)
	t.disarm(l.Expires, dueLease, []byte(l.Name))
	l = Lease{Name: l.Name, Token: l.Token, Metadata: l.Metadata}
	t.leases.put([]byte(l.Name), l)
	return l
}

// RenewLease extends a held lease by its ttl. One that is over is Expired and
// never revived; another's is a Conflict.
type RenewLease struct {
	Name   string        `cbor:"1,keyasint"`
	Holder string        `cbor:"2,keyasint"`
	Token  fencing.Token `cbor:"3,keyasint"`
}

// Validate implements Command.
func (c RenewLease) Validate() error { return validLease(c.Name, c.Holder) }

func applyRenewLease(t *txn, c RenewLease) Result {
	l, res, ok := t.ownLease(c.Name, c.Holder, c.Token)
	if !ok {
		return res
	}
	t.extendLease(&l)
	return Result{Value: t.leaseAnswer(l)}
}

// ownLease finds a lease that the holder still has under the token.
func (t *txn) ownLease(name, holder string, token fencing.Token) (Lease, Result, bool) {
	l, known := t.leases.get([]byte(name))
	switch {
	case !known:
		return l, refuse(NotFound, "lease %s does not exist", name), false
	case l.Holder == "" && token <= l.Token:
		return l, refuse(Expired, "lease %s is over; acquire it again", name), false
	case l.Void && token <= l.Token:
		return l, refuse(Expired, "lease %s was granted before the cluster was founded again; acquire it again", name), false
	case l.Holder != holder || l.Token != token:
		res := refuse(Conflict, "lease %s is not held by %s under token %v", name, holder, token)
		res.Value = t.leaseAnswer(l)
		return l, res, false
	}
	return l, Result{}, true
}

// voidOf reports whether a lease waits for the end of this grant: its holder may say
// that it is over.
func (l Lease) voidOf(holder string, token fencing.Token) bool {
	return l.Void && l.Holder == holder && l.Token == token
}

// ReleaseLease ends a grant before its time. The same again is a success. It is decided
// as the first release decided it, whose peers may apply the same entry; LeaseStep is
// what is proposed now.
type ReleaseLease struct {
	Name   string        `cbor:"1,keyasint"`
	Holder string        `cbor:"2,keyasint"`
	Token  fencing.Token `cbor:"3,keyasint"`
}

// Validate implements Command.
func (c ReleaseLease) Validate() error { return validLease(c.Name, c.Holder) }

func applyReleaseLease(t *txn, c ReleaseLease) Result {
	l, res, ok := t.ownLease(c.Name, c.Holder, c.Token)
	ok = ok || l.voidOf(c.Holder, c.Token)
	if !ok && res.Code == Expired && l.Token == c.Token {
		return done()
	}
	if !ok {
		return res
	}
	t.recordLease(ActionReleased, l)
	t.freeLease(l)
	return done()
}

// DeleteLease removes the record of a free lease: an administrator's tidying.
// Tokens are never granted twice, so none is lost with it.
type DeleteLease struct {
	Name string `cbor:"1,keyasint"`
}

// Validate implements Command.
func (c DeleteLease) Validate() error { return validLeaseName(c.Name) }

func applyDeleteLease(t *txn, c DeleteLease) Result {
	l, known := t.leases.get([]byte(c.Name))
	switch {
	case !known:
		return refuse(NotFound, "lease %s does not exist", c.Name)
	case l.Holder != "":
		return refuse(Conflict, "lease %s is held by %s for another %v", c.Name, l.Holder, l.Remaining(t.now()))
	}
	t.leases.drop([]byte(c.Name))
	return done()
}

// loadLease restores one lease from a snapshot.
func loadLease(d *data, l Lease) {
	d.leases.put([]byte(l.Name), l)
	if l.Holder != "" {
		d.arm(l.Expires, dueLease, []byte(l.Name))
	}
}

// endLease frees a lease whose time is over.
func (t *txn) endLease(name string) {
	if l, ok := t.leases.get([]byte(name)); ok {
		t.recordLease(ActionExpired, l)
		t.freeLease(l)
	}
}
