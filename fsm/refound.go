package fsm

import (
	"fmt"
	"math"
	"time"
)

// Refound begins a new history on an old state: after a restore, and after a
// recovery with fewer peers than a majority (design §5.2). It is not an entry;
// it rewrites a snapshot before raft sees it.
type Refound struct {
	// Index is the highest index that the log of this history may hold,
	// committed or not. The next entry comes after it.
	Index uint64
	// UnixMillis is the wall clock of this host. It orders histories that know
	// nothing of each other; see firstToken.
	UnixMillis int64
	// NewIncarnation shuts out peers that live on in the old history.
	NewIncarnation bool
	// Survivor, if set, is the only member left: after a recovery.
	Survivor string
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
// The first rule holds whatever the clocks say. The second cannot: if two
// foundings know nothing of each other, only their clocks order them. Their
// tokens rise if the later founding's clock is ahead of the earlier one's, and
// by at least unseenEntries/tokensPerMilli (4 minutes 22 seconds) for each
// founding in the earlier history that followed another at once. With clocks
// that are wrong by up to a day each, two days between them always suffice.
//
// Tokens stay below 2^53, which JSON numbers hold exactly, until the year 2248.
const (
	tokensPerMilli = 1 << 10
	unseenEntries  = 1 << 28 // two days of 1,553 entries a second
	latestToken    = 1 << 53 // the clock never raises tokens above it
)

// Refound raises base above every token of the old history and takes away
// whatever was granted under it: leadership, sessions, claims, leases, join
// tokens, turns, results of requests. What is recorded stays. Requests that were
// claimed are free again. Who has a door open is not known any more, and the
// ports are no complete pull until the next one.
func (s *State) Refound(r Refound) error {
	next := *s.now
	d := &next
	if r.Survivor != "" && !d.peers.members.has([]byte(r.Survivor)) {
		return &Error{Code: NotFound, Message: fmt.Sprintf("peer %s is not a member of this cluster", r.Survivor)}
	}
	if err := r.checkFormers(); err != nil {
		return err
	}
	first, err := d.firstToken(r)
	if err != nil {
		return err
	}
	d.revokeAll()
	d.cluster.Base = first - r.Index
	d.position.Index = r.Index
	if r.NewIncarnation {
		d.cluster.Incarnation++
	}
	if r.Survivor != "" {
		before := d.peers
		d.keepMember(r.Survivor, len(r.Former) > 0)
		d.keepFormer(r.Former, before)
	}
	d.capSettings()
	d.forgetChanges() // they are numbered by the old history
	s.now = d
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
		d.giveBack(c) // before their sessions end: nobody failed
	}
	t := &txn{data: d}
	for _, session := range d.peers.sessions.all() {
		t.endSession(session.ID)
	}
	for _, j := range d.joins.all() {
		d.joins.drop([]byte(j.ID))
		d.disarm(j.Expires, dueJoin, []byte(j.ID))
	}
	for _, l := range d.leases.all() {
		d.disarm(l.Expires, dueLease, []byte(l.Name))
	}
	d.leases, d.groups = newTable[Lease](), newGroups()
	d.requests = newRequests()
	d.throttle = throttle{}
	d.doubtRelays()
	d.ports.pull = Pull{} // the ports may be of long ago
	d.doors = d.doors.doubt(doors{})
}

// keepMember leaves one member, which votes and leads whatever was decided of
// it: there is no other. The rest are recorded as removed. With former members
// the state is one that only this version reads, so it is the survivor's.
func (d *data) keepMember(survivor string, formers bool) {
	d.peers.standings.drop([]byte(survivor))
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

// Adopt makes a foreign state, read from a snapshot, that of the cluster whose
// present state is current: identity, keys, incarnation and members describe
// the hosts that run, and stay theirs. Base, token floor and clock become the
// greater of both, so that neither history's grants are valid again. Refound
// must follow.
func (s *State) Adopt(current View) error {
	theirs, ours := s.View().ClusterVersion(), current.ClusterVersion()
	if theirs > ours {
		return &Error{Code: Refused, Message: fmt.Sprintf("the snapshot is of log version %d, this cluster uses %d: upgrade every peer first", theirs, ours)}
	}
	next := *s.now
	d, c := &next, current.d
	d.revokeAll()
	granted := max(d.granted(), c.granted())
	d.cluster = c.cluster
	d.gossip, d.operators = c.gossip, c.operators // keys of these hosts, and who was refused here stays refused
	d.doors = d.doors.doubt(c.doors)
	d.peers.members, d.peers.standings, d.peers.version, d.peers.marks = c.peers.members, c.peers.standings, c.peers.version, c.peers.marks
	d.peers.former = c.peers.former
	d.peers.adoptRemoved(c.peers)
	d.position.Now = max(d.position.Now, c.position.Now)
	d.position.Floor = max(d.position.Floor, c.position.Floor)
	d.position.Index = max(d.position.Index, c.position.Index)
	d.cluster.Base = uint64(granted) - d.position.Index
	d.position.Term = max(d.position.Term, c.position.Term)
	d.adoptPauses(c)
	d.dropOverdueRelays()
	d.dropOverdueFailover()
	s.now = d
	return nil
}
