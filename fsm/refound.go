package fsm

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/trivet-ha/trivet/fsm/doors"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/membership"
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
	Self membership.Member
	// Former are the other peers of the old history that may still run or come
	// back: of [membership.Tables.MayRun], those that were not named lost, and those that only
	// entries not proven committed removed. Needs a Survivor. What is not here is removed for good.
	Former []membership.FormerMember
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
// until the next one. Introspections and relays past their time by the wall clock end,
// with their requests and without a power command. Open remediations wait for an
// operator. Events and values of entries that are not proven to have been committed get
// names of the new history: under the name that they had, clients may have read
// something else.
func (s *State) Refound(r Refound) error {
	next := *s.now
	d := &next
	if err := errors.Join(membersOf(d.txn()).AdmitSurvivor(r.Survivor, r.Self),
		membership.CheckFormers(r.Survivor, r.Former)); err != nil {
		return err
	}
	first, err := d.firstToken(r)
	if err != nil {
		return err
	}
	d.revokeAll()
	nodesOf(d.txn()).Outdate(r.UnixMillis)
	relaysOf(d.txn()).Outdate(r.UnixMillis)
	certain := d.shared.Position.Index - min(r.Uncommitted, d.shared.Position.Index)
	known := fencing.At(d.shared.Cluster.Base, certain)
	d.shared.Cluster.Base = first - r.Index
	d.shared.Position.Index = r.Index
	leasesOf(d.txn()).Renumber(known, d.shared.Granted())
	if r.NewIncarnation {
		d.shared.Cluster.Incarnation = max(d.shared.Cluster.Incarnation+1, uint64(max(r.UnixMillis, 0)))
		d.shared.Events.Renumber(certain, d.shared.Cluster.Incarnation)
	} else {
		d.shared.Events = eventring.Ring{} // their IDs could come again
		deliveriesOf(d.txn()).Restart()
	}
	if r.Survivor != "" {
		membersOf(d.txn()).KeepOnly(r.Survivor, r.Former)
	}
	settingsOf(d.txn()).CapIndices()
	kubeOf(d.txn()).HoldRemediations(r.UnixMillis)
	d.forgetChanges() // they are numbered by the old history
	s.now = d
	return nil
}

// firstToken returns the number that every token of the new history is above.
func (d *data) firstToken(r Refound) (uint64, error) {
	clock := uint64(max(r.UnixMillis, 0))
	if clock > latestToken/tokensPerMilli {
		at := time.UnixMilli(r.UnixMillis).UTC().Format(time.RFC3339)
		return 0, &Error{Code: Refused,
			Message: fmt.Sprintf(
				"the clock of this host says %s: set it; fencing tokens begin at the clock and never fall again", at)}
	}
	known, ok := sum(d.shared.Cluster.Base, max(r.Index, d.shared.Position.Index), unseenEntries)
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
	d.shared.Lead = entry.Leadership{}
	t := d.txn()
	nodesOf(t).Revoke() // before the sessions end: no worker failed
	membersOf(t).Revoke()
	leasesOf(t).Revoke()
	d.requests = requests{}
	relaysOf(t).Doubt()
	portsOf(t).ForgetPull()
	doorsOf(t).Doubt(doors.Tables{})
	deliveriesOf(t).Doubt()
}

// Adopt adds to a state, read from a snapshot, what another history, the one in
// the log of this host, has granted and forbidden: base, incarnation, token floor
// and clock become the greater of both, and what either history revoked, removed
// or paused stays so. If both are of one cluster, the gossip keys are those of the
// later history. If not, the cluster of this host goes on, with its ID and all its
// keys. Refound must follow.
func (s *State) Adopt(local View) {
	next := *s.now
	d, l := &next, local.data
	d.revokeAll()
	t := d.txn()
	granted, incarnation := max(d.shared.Granted(), l.shared.Granted()),
		max(d.shared.Cluster.Incarnation, l.shared.Cluster.Incarnation)
	if d.shared.Cluster.ID == l.shared.Cluster.ID {
		if l.shared.Granted() > d.shared.Granted() { // an earlier key may have been replaced because it leaked
			membersOf(t).AdoptGossipKeys(l.memberTables)
			d.shared.Cluster.GossipKey = l.shared.Cluster.GossipKey
		}
		operatorsOf(t).Adopt(l.operatorTables)
		membersOf(t).Adopt(l.memberTables)
	} else {
		d.shared.Cluster, d.operatorTables = l.shared.Cluster, l.operatorTables
		membersOf(t).AdoptGossipKeys(l.memberTables)
	}
	d.shared.Position.Index = max(d.shared.Position.Index, l.shared.Position.Index)
	d.shared.Cluster.Base = uint64(granted) - d.shared.Position.Index
	d.shared.Cluster.Incarnation = incarnation
	d.shared.Position.Now = max(d.shared.Position.Now, l.shared.Position.Now)
	d.shared.Position.Floor = max(d.shared.Position.Floor, l.shared.Position.Floor)
	d.shared.Position.Term = max(d.shared.Position.Term, l.shared.Position.Term)
	doorsOf(t).Doubt(l.doorTables)
	leasesOf(t).Adopt(l.leaseTables)
	kubeOf(t).Adopt(l.kubeTables)
	relaysOf(t).DropOverdue()
	kubeOf(t).DropOverdue()
	s.now = d
}

// forgetChanges begins the memory of what changed in lists again with the present state.
func (d *data) forgetChanges() {
	portsOf(d.txn()).ForgetChanges()
	nodesOf(d.txn()).ForgetChanges()
}
