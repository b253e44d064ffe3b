package fsm

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/trivet-ha/trivet/fsm/fencing"
)

// Refound begins a new history on an old state: after a restore, and after a
// recovery with fewer peers than a majority (docs/design.md#founding). It is not an entry;
// it rewrites a snapshot before raft sees it.
type Refound struct {
	// Index is the highest index that the log of this history may hold,
	// committed or not. The next entry comes after it.
	Index uint64
	// Uncommitted is how many entries at the end of the state are not proven to
	// have been committed. The old history may have had others in their places.
	Uncommitted uint64
	// UnixMillis is the wall clock of this host. It orders histories that know
	// nothing of each other; see firstToken.
	UnixMillis int64
	// NewIncarnation shuts out peers that live on in the old history. It is the wall
	// clock where that is greater than the next number: of two foundings that know
	// nothing of each other the later one shuts the earlier one out.
	NewIncarnation bool
	// Survivor, if set, is the only member left.
	Survivor string
	// Self is the survivor's record, where the state knows no member of that ID.
	Self Member
	// Former are the other peers of the old history that may still run or come
	// back: of [View.MayRun], those that were not named lost. Needs a Survivor.
	// What is not here is removed for good, and who was removed before stays so.
	Former []FormerMember
}

// Every founding begins its tokens above the later of two numbers, firstToken:
//
//   - the highest token of the histories it knows, plus unseenEntries: a
//     history may have gone on where this host did not see it;
//   - the wall clock times tokensPerMilli: a history of which the host knows
//     nothing, such as that of another recovery from the same backup, began
//     at its own clock, and has since granted fewer tokens than the clock
//     has counted.
//
// The first rule holds with any clocks. The second cannot: if two foundings know
// nothing of each other, only their clocks order them. Their tokens rise if the
// later founding's clock is ahead of the earlier one's, and by at least
// unseenEntries/tokensPerMilli (4 minutes 22 seconds) for each founding in the
// earlier history that followed another at once. With clocks that are wrong by up
// to a day each, two days between them always suffice.
//
// Tokens stay below 2^53, which JSON numbers hold exactly, until the year 2248.
const (
	tokensPerMilli = 1 << 10
	unseenEntries  = 1 << 28 // two days of 1,553 entries a second
	latestToken    = 1 << 53 // the clock never raises tokens above it
)

// Refound raises base above every token of the old history and takes away all
// grants under it: leadership, sessions, claims, leases, join tokens, turns,
// results of requests. A lease that was held is granted to no other holder before
// its old end. What is recorded stays. Requests that were claimed are free again.
// Who has a door open is not known any more, and the ports are no complete pull
// until the next one. Open remediations wait for an operator. Events and values of
// entries that are not proven to have been committed get names of the new history:
// under the name that they had, clients may have read something else.
func (s *State) Refound(r Refound) error {
	next := *s.now
	d := &next
	if err := errors.Join(d.admitSurvivor(r), r.checkFormers()); err != nil {
		return err
	}
	first, err := d.firstToken(r)
	if err != nil {
		return err
	}
	d.revokeAll()
	certain := d.position.Index - min(r.Uncommitted, d.position.Index)
	known := fencing.At(d.cluster.Base, certain)
	d.cluster.Base = first - r.Index
	d.position.Index = r.Index
	d.values.renumber(known, d.granted())
	if r.NewIncarnation {
		d.cluster.Incarnation = max(d.cluster.Incarnation+1, uint64(max(r.UnixMillis, 0)))
		d.events.renumber(certain, d.cluster.Incarnation)
	} else {
		d.events = eventRing{} // their IDs could come again
	}
	if r.Survivor != "" {
		before := d.peers
		d.keepMember(r.Survivor, len(r.Former) > 0)
		d.keepFormer(r.Former, before)
	}
	d.capSettings()
	d.holdRemediations(r.UnixMillis)
	d.forgetChanges() // they are numbered by the old history
	s.now = d
	return nil
}

// admitSurvivor makes the survivor a member, if it is none.
func (d *data) admitSurvivor(r Refound) error {
	switch {
	case r.Survivor == "" || d.peers.members.has([]byte(r.Survivor)):
		return nil
	case r.Self.ID != r.Survivor:
		return &Error{Code: NotFound, Message: fmt.Sprintf("peer %s is not a member of this cluster", r.Survivor)}
	case d.peers.removed.has([]byte(r.Survivor)):
		return &Error{Code: Conflict, Message: fmt.Sprintf("server ID %s is that of a removed peer and never used again", r.Survivor)}
	}
	if err := r.Self.validate(); err != nil {
		return err
	}
	d.peers.putMember(r.Self)
	return nil
}

// firstToken returns the number that every token of the new history is above.
func (d *data) firstToken(r Refound) (uint64, error) {
	clock := uint64(max(r.UnixMillis, 0))
	if clock > latestToken/tokensPerMilli {
		at := time.UnixMilli(r.UnixMillis).UTC().Format(time.RFC3339)
		return 0, &Error{Code: Refused, Message: fmt.Sprintf("the clock of this host says %s: set it; fencing tokens begin at the clock and never fall again", at)}
	}
	known, ok := sum(d.cluster.Base, max(r.Index, d.position.Index), unseenEntries)
	if !ok {
		return 0, &Error{Code: Refused, Message: "the tokens of 64 bits are used up"}
	}
	return max(known, clock*tokensPerMilli), nil
}

// sum adds and reports whether the sum, and as much again, fits.
func sum(terms ...uint64) (total uint64, ok bool) {
	for _, n := range terms {
		if total > math.MaxUint64/2-min(n, math.MaxUint64/2) {
			return 0, false
		}
		total += n
	}
	return total, true
}

// revokeAll takes away everything that was granted.
func (d *data) revokeAll() {
	d.lead = Leadership{}
	for _, c := range d.queue.claims.all() {
		d.giveBack(c) // before their sessions end: no worker failed
	}
	t := &txn{data: d}
	for _, session := range d.peers.sessions.all() {
		t.endSession(session.ID)
	}
	for _, j := range d.joins.all() {
		d.joins.drop([]byte(j.ID))
		d.disarm(j.Expires, dueJoin, []byte(j.ID))
	}
	held := d.leases
	d.leases, d.groups = newTable[Lease](), newGroups()
	for _, l := range held.all() {
		d.disarm(l.Expires, dueLease, []byte(l.Name))
		d.voidLease(l)
	}
	d.requests = newRequests()
	d.throttle = throttle{}
	d.doubtRelays()
	d.ports.pull = Pull{} // the ports may be of long ago
	d.doors = d.doors.doubt(doors{})
}

// voidLease keeps a lease from others until its end, since its holder, which does
// not learn of the founding, acts until then. Of two grants that two histories know
// the one that ends later counts.
func (d *data) voidLease(l Lease) {
	old, known := d.leases.get([]byte(l.Name))
	if l.Holder == "" || !d.peers.version2() || known && old.Expires >= l.Expires || !known && d.leases.size() >= MaxLeases {
		return
	}
	d.disarm(old.Expires, dueLease, []byte(l.Name))
	l.Void, l.Client = true, ""
	loadLease(d, l)
}

// adoptLeases adds those of another history, and drops what is over by the later of
// both clocks.
func (d *data) adoptLeases(l *data) {
	for _, other := range l.leases.all() {
		d.voidLease(other)
	}
	for key, lease := range d.leases.all() {
		if lease.Expires <= d.position.Now {
			d.disarm(lease.Expires, dueLease, key)
			d.leases.drop(key)
		}
	}
}

// keepMember leaves one member, which votes and leads against any earlier decision
// about it: there is no other. The rest are recorded as removed. With former
// members the state is one that only this version reads, so it is the survivor's.
func (d *data) keepMember(survivor string, formers bool) {
	d.peers.flags.drop([]byte(survivor))
	if m, _ := d.peers.members.get([]byte(survivor)); formers {
		m.Version = max(m.Version, Version)
		d.peers.putMember(m)
	}
	for _, m := range d.peers.members.all() {
		if m.ID != survivor {
			d.peers.dropMember(m.ID, d.granted())
		}
	}
}

// capSettings keeps the indices of settings within the new history.
func (d *data) capSettings() {
	for key, s := range d.settings.all() {
		s.Index = min(s.Index, d.position.Index)
		d.settings.put(key, s)
	}
}

// Adopt adds to a state, read from a snapshot, what another history, the one in
// the log of this host, has granted and forbidden: base, incarnation, token floor
// and clock become the greater of both, and what either history revoked, removed
// or paused stays so. If both are of one cluster, the gossip keys are those of the
// later history. If not, the cluster of this host goes on, with its ID and all its
// keys. Refound must follow.
func (s *State) Adopt(local View) {
	next := *s.now
	d, l := &next, local.d
	d.revokeAll()
	granted, incarnation := max(d.granted(), l.granted()), max(d.cluster.Incarnation, l.cluster.Incarnation)
	if d.cluster.ID == l.cluster.ID {
		d.adoptRights(l)
	} else {
		d.cluster, d.gossip, d.operators = l.cluster, l.gossip, l.operators
	}
	d.position.Index = max(d.position.Index, l.position.Index)
	d.cluster.Base = uint64(granted) - d.position.Index
	d.cluster.Incarnation = incarnation
	d.position.Now = max(d.position.Now, l.position.Now)
	d.position.Floor = max(d.position.Floor, l.position.Floor)
	d.position.Term = max(d.position.Term, l.position.Term)
	d.doors = d.doors.doubt(l.doors)
	d.adoptLeases(l)
	d.adoptPauses(l)
	d.dropOverdueRelays()
	d.dropOverdueFailover()
	s.now = d
}

// adoptRights keeps certificates void that either of two histories of one cluster
// has voided, and takes the gossip keys of the later one: an earlier key may have
// been replaced because it leaked.
func (d *data) adoptRights(l *data) {
	if l.granted() > d.granted() {
		d.gossip, d.cluster.GossipKey = l.gossip, l.cluster.GossipKey
	}
	d.adoptOperators(l.operators)
	former := make(map[string]FormerMember) // of the local history, with the addresses of both
	for key, f := range l.peers.former.all() {
		if other, known := d.mayRun(f.ID); known {
			f = f.With(other)
		}
		former[string(key)] = f
	}
	for key := range d.peers.former.all() { // that the local history has settled since
		if l.peers.removed.has(key) && !l.peers.former.has(key) {
			d.peers.former.drop(key)
		}
	}
	for key, r := range l.peers.removed.all() {
		if d.peers.removed.size() >= MaxRemoved {
			d.peers.removed.drop([]byte(d.peers.oldestRemoval()))
		}
		d.peers.members.drop(key)
		d.peers.flags.drop(key)
		d.peers.progress.drop(key)
		d.peers.removed.put(key, r)
	}
	for key := range l.peers.former.all() { // else Refound takes one for a peer that was named lost
		d.peers.former.put(key, former[string(key)])
	}
	d.peers.version = d.peers.leastVersion()
}
