package cluster

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
	"github.com/trivet-ha/trivet/raftstore"
	"github.com/trivet-ha/trivet/raftstore/logerr"
)

// inTerm is a voter that is in a term, and acknowledged an older leader a while ago.
type inTerm struct {
	term uint64
	age  time.Duration
}

// ServeAge implements Voter.
func (v inTerm) ServeAge(term uint64) (time.Duration, error) {
	switch {
	case term > v.term:
		return 0, logerr.ErrBusy
	case term < v.term:
		return 0, logerr.ErrNotLeader
	}
	return v.age, nil
}

// A voter answers members in the term of their question, and only the voter itself does.
func TestVotersTellMembersTheirAges(t *testing.T) {
	f := newFixture(t)
	routes := NewRoutes(&served{view: f.state.View(), leads: true}, admission.NewController())
	routes.Members(admission.Request, "GET "+PathAge, AgeHandler(inTerm{7, 1234567 * time.Nanosecond}))
	addr := f.serve(t, routes)
	member := NewForwarder(f.access(t, pki.PeerIdentity(clusterID, "h1", 1)))
	defer member.Close()
	removed := NewForwarder(f.access(t, pki.PeerIdentity(clusterID, "gone", 1)))
	defer removed.Close()
	var wrong *pki.WrongPeerError
	for _, c := range []struct {
		what  string
		asker *Forwarder
		voter string
		term  uint64
		fails func(error) bool
	}{
		{"in its term", member, "h1", 7, func(err error) bool { return err != nil }},
		{"before its term", member, "h1", 8, func(err error) bool { return !errors.Is(err, logerr.ErrBusy) }},
		{"after its term", member, "h1", 6, func(err error) bool { return !errors.Is(err, logerr.ErrNotLeader) }},
		{"at another's address", member, "h9", 7, func(err error) bool { return !errors.As(err, &wrong) }},
		{"by a removed peer", removed, "h1", 7, func(err error) bool { return !errors.Is(err, ErrNotMember) }},
	} {
		age, err := c.asker.Age(t.Context(), raftstore.Server{ID: c.voter, Address: ServerAddress(c.voter, addr)}, c.term)
		if c.fails(err) || err == nil && age != 1234567*time.Nanosecond {
			t.Errorf("voters-tell-members: %s: %v, %v", c.what, age, err)
		}
	}
	ask := f.asker(t, routes, "h1")
	for path, want := range map[string]int{
		"?term=7": http.StatusOK, "?term=6": statusNotLeader, "?term=8": statusBusy,
		"": http.StatusBadRequest, "?term=": http.StatusBadRequest, "?term=-1": http.StatusBadRequest,
		"?term=18446744073709551616": http.StatusBadRequest,
	} {
		if code := ask(http.MethodGet, PathAge+path); code != want {
			t.Errorf("voters-tell-members: GET %s is answered %d, want %d", path, code, want)
		}
	}
	if code := f.asker(t, routes, "")(http.MethodGet, PathAge+"?term=7"); code != http.StatusUnauthorized {
		t.Errorf("voters-tell-members: a stranger is answered %d", code)
	}
}

// An answer that is no age is an error.
func TestAnAnswerOfAnotherLengthIsNoAge(t *testing.T) {
	f := newFixture(t)
	for _, answer := range []string{"", "7", "123456789"} {
		addr := f.serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(answer)) }))
		forward := NewForwarder(f.access(t, pki.PeerIdentity(clusterID, "h1", 1)))
		defer forward.Close()
		if age, err := forward.Age(
			t.Context(), raftstore.Server{ID: "h1", Address: ServerAddress("h1", addr)}, 7); err == nil {
			t.Errorf("the answer %q is taken for an age of %v", answer, age)
		}
	}
}
