package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// PathRights is where a member says what it knows of the peer whose server ID
// follows.
const PathRights = "/peer/v1/rights/"

// Values of asking the other members about a peer.
const (
	// inquiryLimit bounds an inquiry. A host that is down does not answer, and an
	// election waits for it if no leader was heard for currentFor; a busy host
	// that knows of a removal must have the time to say so.
	inquiryLimit = 2 * time.Second
	// verdictFor is how long the outcome of an inquiry counts.
	verdictFor = 10 * time.Second
	// failureFor is how long a question counts that failed at once: it cost nothing, and the
	// network of this host may just be coming up.
	failureFor = time.Second
	// maxVerdicts bounds the peers whose verdicts are remembered. Only holders of
	// a certificate of this cluster are asked about.
	maxVerdicts = 4 * membership.MaxMembers
)

// errNotOneOfUs refuses a peer of which no record exists here.
var errNotOneOfUs = errors.New("the other members say that the peer is not a member")

// errNoAsker: there is no way to ask others.
var errNoAsker = errors.New("members cannot be asked")

// Asker returns what a member answers to a GET of path; *Forwarder has one.
type Asker func(ctx context.Context, m membership.Member, path string) ([]byte, error)

// Rights is what a member knows of a peer.
type Rights struct {
	Member  bool `json:"member"`
	Removed bool `json:"removed"`
	// Current says that the state of the member that answers is current: only
	// then does it mean anything that the peer is not a member.
	Current bool `json:"current"`
	// Applied is the peer's Progress; zero: none is known.
	Applied fencing.Token `json:"applied,omitempty"`
}

// RightsHandler answers inquiries of members.
func (a *Access) RightsHandler(log Served) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.URL.Path[len(PathRights):]
		v := log.View()
		_, member := v.Member(id)
		removed := a.whyRemoved(id) != nil
		w.Header().Set("Content-Type", "application/json")
		// A caller that went away asks again.
		_ = json.NewEncoder(w).Encode(
			Rights{Member: member, Removed: removed, Current: a.current.holds(), Applied: v.Progress(id)})
	})
}

// inquiry asks the other members about a peer that this one cannot judge: its
// own state does not know the peer, or may be old. It closes the gap between a
// removal and the moment at which a peer that was down or cut off applies it:
// until then its own state calls the removed peer a member.
//
// No answer is no objection: a leader that the others elected while this peer
// was away must not need any peer but itself to reach it. One word against a
// peer is enough, and counts for verdictFor: the peer that says it may be the
// removed one, and is asked no more when this peer's state has arrived.
type inquiry struct {
	ask atomic.Pointer[Asker]

	mu       sync.Mutex
	verdicts map[string]*verdict // by server ID
}

// verdict is what an inquiry found. Only the request that has the turn asks, so that
// requests which come together share one inquiry. It is no mutex: in a bubble of testing/synctest time
// passes while a goroutine waits for a channel, and the inquiry waits for time to pass.
type verdict struct {
	turn chan struct{} // capacity 1
	at   time.Time     // zero: never
	err  error
	// counts is how long, of an inquiry among members; final says that it does not change any more.
	counts time.Duration
	final  bool
}

func newInquiry() *inquiry { return &inquiry{verdicts: make(map[string]*verdict)} }

func (q *inquiry) verdict(id string) *verdict {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.verdicts) >= maxVerdicts {
		clear(q.verdicts)
	}
	v, ok := q.verdicts[id]
	if !ok {
		v = &verdict{turn: make(chan struct{}, 1)}
		q.verdicts[id] = v
	}
	return v
}

// askMembers asks the members about a peer and returns why it is refused, nil if none
// objects.
func (q *inquiry) askMembers(id string, members []membership.Member) error {
	known := q.verdict(id)
	known.turn <- struct{}{} // an inquiry takes inquiryLimit at most
	defer func() { <-known.turn }()
	if known.at.IsZero() || time.Since(known.at) > known.counts {
		known.counts, known.err = q.inquire(id, members)
		known.at = time.Now()
	}
	return known.err
}

// inquire asks all members at once, and returns how long the outcome counts: not for verdictFor
// where a question failed before its time, for that member may object. Silence does, since each
// question would hold up an election again.
func (q *inquiry) inquire(id string, members []membership.Member) (counts time.Duration, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), inquiryLimit)
	defer cancel()
	type answer struct {
		Rights
		failed bool // at once
	}
	answers := make(chan answer, len(members))
	for _, m := range members { // at most membership.MaxMembers
		go func() {
			r, err := q.rights(ctx, m, id) // no answer is no objection
			answers <- answer{r, err != nil && ctx.Err() == nil}
		}()
	}
	counts = verdictFor
	denied, vouched := false, false
	for range members {
		r := <-answers // each ends with ctx
		if r.Removed {
			return verdictFor, fmt.Errorf("%w: %s", ErrRemovedPeer, id)
		}
		vouched = vouched || r.Member && r.Current
		denied = denied || !r.Member && r.Current
		if r.failed {
			counts = failureFor
		}
	}
	if denied && !vouched {
		return counts, fmt.Errorf("%w: %s", errNotOneOfUs, id)
	}
	return counts, nil
}

// rights returns what one member knows of a peer.
func (q *inquiry) rights(ctx context.Context, m membership.Member, id string) (r Rights, err error) {
	ask := q.ask.Load()
	if ask == nil || *ask == nil {
		return r, errNoAsker
	}
	answer, err := (*ask)(ctx, m, PathRights+url.PathEscape(id))
	if err == nil {
		err = json.Unmarshal(answer, &r)
	}
	if err != nil {
		return Rights{}, fmt.Errorf("ask %s what it knows of peer %s: %w", m.Name, id, err)
	}
	return r, nil
}
