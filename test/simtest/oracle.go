package simtest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/fsm/fencing"
)

// Oracle sees what no peer can see: everything at once. It notes elections,
// proofs and grants, and names the assertion that a fault breaks.
type Oracle struct {
	mu          sync.Mutex
	faults      []string
	count       map[string]int // by assertion
	elections   []election
	proofs      []proof
	leaderships []tokenOf
	exits       []string
	ages        []aged
	doors       renewals
	histories   map[string]uint64 // incarnation by peer, of those founded again; see Found
	newest      map[uint64]uint64 // greatest term of each history
}

// election is the moment at which raft made a peer leader of a term.
type election struct {
	peer    string
	history uint64
	term    uint64
	at      time.Time
}

// proof is one Confirm that succeeded.
type proof struct {
	peer    string
	history uint64
	term    uint64
	t0      time.Time
}

// aged is what a leader was told: every proof of a leader of an earlier term began at this
// time or before.
type aged struct {
	peer    string
	history uint64
	term    uint64
	until   time.Time
	off     time.Duration // by how much clocks that differ in rate may have mistaken the age
}

// tokenOf is one leadership that began, in the order of its beginning.
type tokenOf struct {
	peer  string
	token fencing.Token
	at    time.Time
}

// maxFaults bounds what is kept of one assertion in a run that goes wrong all
// the time.
const maxFaults = 5

// broken notes a broken assertion; its text begins with the assertion's name.
func (o *Oracle) broken(format string, args ...any) {
	fault := fmt.Sprintf(format, args...)
	name, _, _ := strings.Cut(fault, ":")
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.count == nil {
		o.count = make(map[string]int)
	}
	if o.count[name]++; o.count[name] <= maxFaults {
		o.faults = append(o.faults, fault)
	}
}

// Faults returns the broken assertions so far.
func (o *Oracle) Faults() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]string(nil), o.faults...)
}

// foundedAgain forgets the elections of a history that is over: the terms of the
// next begin at the first. Tokens go on.
func (o *Oracle) foundedAgain() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.elections, o.proofs, o.ages, o.newest = nil, nil, nil, nil
}

func (o *Oracle) elected(peer string, term uint64, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.elections = append(o.elections, election{peer, o.histories[peer], term, at})
	o.sees(peer, term)
}

// proved notes that a Confirm of peer, whose leadership has this term, said
// that no later leader was elected before t0.
func (o *Oracle) proved(peer string, term uint64, t0 time.Time) {
	o.mu.Lock()
	o.proofs = append(o.proofs, proof{peer, o.histories[peer], term, t0})
	if term >= o.newest[o.histories[peer]] { // nothing later is known
		o.mu.Unlock()
		return
	}
	late := o.later(o.ages, o.proofs[len(o.proofs)-1:])
	var wrong *election
	for i := range o.elections {
		// Terms of another history say nothing: its peers are refused.
		if e := o.elections[i]; e.term > term && e.at.Before(t0) && e.history == o.histories[peer] {
			wrong = &e
			break
		}
	}
	o.mu.Unlock()
	o.tooLate(late)
	if wrong != nil {
		o.broken(
			"confirm-proves: %s (term %d) was told that no later leader was elected before %v, but %s was, in term %d, %v earlier",
			peer, term, t0.Format("15:04:05.000"), wrong.peer, wrong.term, t0.Sub(wrong.at))
	}
}

// told notes that the voters told peer, which leads in term, that every proof of an earlier
// term had begun by a time. Proofs that were made already are compared at once, later ones
// by proved.
func (o *Oracle) told(peer string, term uint64, until time.Time) {
	o.mu.Lock()
	a := aged{peer, o.histories[peer], term, until, time.Since(until) / 1_000_000 * 2 * clockRate}
	if n := len(o.ages); n > 0 && o.ages[n-1].term == term && o.ages[n-1].until.Equal(until) {
		o.mu.Unlock()
		return
	}
	o.ages = append(o.ages, a)
	o.sees(peer, term)
	o.forgetProofs()
	late := o.later(o.ages[len(o.ages)-1:], o.proofs)
	o.mu.Unlock()
	o.tooLate(late)
}

// sees notes that a term has begun; the lock is held.
func (o *Oracle) sees(peer string, term uint64) {
	if o.newest == nil {
		o.newest = make(map[uint64]uint64)
	}
	o.newest[o.histories[peer]] = max(o.newest[o.histories[peer]], term)
}

// proofsKept is how old a proof may be that a new leader may still be told of: the longest
// fault of a schedule, several times over.
const proofsKept = 10 * time.Minute

// forgetProofs drops proofs that are older than anything that a leader is told from now on;
// the lock is held.
func (o *Oracle) forgetProofs() {
	old := 0
	for old < len(o.proofs) && time.Since(o.proofs[old].t0) > proofsKept {
		old++
	}
	if old > len(o.proofs)/2 {
		o.proofs = slices.Clone(o.proofs[old:])
	}
}

// later says which proof contradicts what a leader was told, "" if none does; the lock is held.
func (o *Oracle) later(ages []aged, proofs []proof) string {
	for _, a := range ages {
		for _, p := range proofs {
			if p.term < a.term && p.history == a.history && p.t0.After(a.until.Add(a.off)) {
				return fmt.Sprintf(
					"%s (term %d) was told that no older proof began after %v, and one of %s (term %d) began %v later",
					a.peer, a.term, a.until.Format("15:04:05.000"), p.peer, p.term, p.t0.Sub(a.until))
			}
		}
	}
	return ""
}

func (o *Oracle) tooLate(late string) {
	if late != "" {
		o.broken("no-older-proof: %s", late)
	}
}

// began notes the token of a leadership whose duties start.
func (o *Oracle) began(peer string, token fencing.Token) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.leaderships = append(o.leaderships, tokenOf{peer, token, time.Now()})
}

// deposed returns how long before a moment the first leadership began that came
// after that of a token; 0 if none had.
func (o *Oracle) deposed(token uint64, at time.Time) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range o.leaderships {
		if uint64(r.token) > token && r.at.Before(at) {
			return at.Sub(r.at)
		}
	}
	return 0
}

// Leaderships returns how many leaderships began.
func (o *Oracle) Leaderships() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.leaderships)
}

func (o *Oracle) exited(peer string, code int, why error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.exits = append(o.exits, fmt.Sprintf("%s exited with %d: %v", peer, code, why))
}

// Exits returns which processes ended themselves, and why.
func (o *Oracle) Exits() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]string(nil), o.exits...)
}
