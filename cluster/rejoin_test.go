package cluster

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// rejoins serves a cluster that was founded again, in incarnation 2.
func (f *fixture) rejoins(t *testing.T) (addr string, do *doer) {
	t.Helper()
	do = f.foundedAnew(t)
	mux := http.NewServeMux()
	mux.Handle("POST "+PathRejoin, NewReadmission(NewAdmission(admission.NewController(), do, f, time.Now, rand.Reader, slog.New(slog.DiscardHandler), nil)))
	return f.serveIn(t, "h1", 2, mux, nil).Addr().String(), do
}

// rejoiner is the host of a member before the founding.
func (f *fixture) rejoiner(t *testing.T, name string) Rejoiner {
	t.Helper()
	key, err := pki.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return Rejoiner{Joiner: joiner(name), Old: f.end(t, pki.PeerIdentity(clusterID, name, 1)).Credentials(), Key: key}
}

// refusedWith fails unless the cluster refused with a status and these words.
func refusedWith(t *testing.T, what string, err error, status int, words string) {
	t.Helper()
	var refused *JoinError
	if !errors.As(err, &refused) || refused.Status != status || !strings.Contains(refused.Message, words) {
		t.Errorf("%s: got %v, want %d with %q", what, err, status, words)
	}
}

// A former member rejoins with its old key and no token, under a new ID; a repeat
// with the same new key gets the same, another key nothing.
func TestRejoin(t *testing.T) {
	f := newFixture(t)
	addr, _ := f.rejoins(t)
	host := f.rejoiner(t, "h2")
	incarnation, err := host.Incarnation(t.Context(), addr)
	if err != nil || incarnation != 2 {
		t.Fatalf("the peer lives in incarnation %d, %v", incarnation, err)
	}
	first, err := host.Rejoin(t.Context(), addr, incarnation)
	if err != nil {
		t.Fatal(err)
	}
	m, ok := f.state.View().Member(first.Answer.ID)
	if !ok || m.Name != "h2" || m.Address != "h2.example:1" || first.Answer.ID == "h2" {
		t.Errorf("it became %+v, %v", m, ok)
	}
	if id := first.Credentials.Identity; id.Incarnation != 2 || id.Peer != first.Answer.ID {
		t.Errorf("its certificate is of %+v", id)
	}
	again, err := host.Rejoin(t.Context(), addr, incarnation)
	if err != nil || again.Answer.ID != first.Answer.ID {
		t.Errorf("rejoin-repeated: the same request again: %+v, %v", again, err)
	}
	thief := host
	if thief.Key, err = pki.NewKey(rand.Reader); err != nil {
		t.Fatal(err)
	}
	_, err = thief.Rejoin(t.Context(), addr, incarnation)
	refusedWith(t, "rejoin-stolen", err, http.StatusConflict, "with another key")
}

// behind is a peer whose reads are of before a rejoin: two requests that pass it at
// once both see the former member as one that has not rejoined.
type behind struct {
	*fixture
	view fsm.View
}

// Read implements JoinLog.
func (b behind) Read(context.Context) (fsm.View, error) { return b.view, nil }

// A request that is repeated while the first one is under way gets the same answer.
func TestRejoinRacesWithItsRepetition(t *testing.T) {
	f := newFixture(t)
	do := f.foundedAnew(t)
	before := behind{f, f.state.View()}
	mux := http.NewServeMux()
	mux.Handle("POST "+PathRejoin, NewReadmission(NewAdmission(admission.NewController(), do, before, time.Now, rand.Reader, slog.New(slog.DiscardHandler), nil)))
	addr := f.serveIn(t, "h1", 2, mux, nil).Addr().String()
	host := f.rejoiner(t, "h2")
	first, err := host.Rejoin(t.Context(), addr, 2)
	if err != nil {
		t.Fatal(err)
	}
	second, err := host.Rejoin(t.Context(), addr, 2)
	if err != nil || second.Answer.ID != first.Answer.ID {
		t.Errorf("rejoin-repeated: while the first is under way: %+v, %v", second, err)
	}
}

// Who may not rejoin.
func TestRejoinRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(t *testing.T, f *fixture, r *Rejoiner)
		status int
		words  string
	}{
		{"named lost", func(t *testing.T, f *fixture, r *Rejoiner) {
			r.Old = f.end(t, pki.PeerIdentity(clusterID, "h4", 1)).Credentials()
		}, http.StatusUnauthorized, "may not rejoin"},
		{"no member ever", func(t *testing.T, f *fixture, r *Rejoiner) {
			r.Old = f.end(t, pki.PeerIdentity(clusterID, "h77", 1)).Credentials()
		}, http.StatusUnauthorized, "may not rejoin"},
		{"of this incarnation", func(t *testing.T, f *fixture, r *Rejoiner) {
			r.Old = f.end(t, pki.PeerIdentity(clusterID, "h2", 2)).Credentials()
		}, http.StatusBadRequest, "earlier one"},
		{"an operator", func(t *testing.T, f *fixture, r *Rejoiner) {
			r.Old = f.end(t, pki.OperatorIdentity(clusterID, "h2")).Credentials()
		}, http.StatusBadRequest, "expected a peer"},
		{"another's certificate without its key", func(t *testing.T, f *fixture, r *Rejoiner) {
			old := *r.Old
			old.Key = r.Key
			r.Old = &old
		}, http.StatusBadRequest, pki.ErrProof.Error()},
		{"under another name", func(t *testing.T, f *fixture, r *Rejoiner) { r.Name = "h5" }, http.StatusConflict, "rejoins as that"},
		{"elsewhere", func(t *testing.T, f *fixture, r *Rejoiner) { r.Address = "192.0.2.1:7350" }, http.StatusConflict, "rejoins as that"},
		{"an old binary", func(t *testing.T, f *fixture, r *Rejoiner) { r.Version = 1 }, http.StatusBadRequest, "install the cluster's version"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			addr, _ := f.rejoins(t)
			r := f.rejoiner(t, "h2")
			c.change(t, f, &r)
			before := f.state.View().Members()
			_, err := r.Rejoin(t.Context(), addr, 2)
			refusedWith(t, "rejoin-refused", err, c.status, c.words)
			if after := f.state.View().Members(); len(after) != len(before) {
				t.Errorf("rejoin-refused: members are %v now", after)
			}
		})
	}
}

// A statement that was changed, or made for another incarnation, is worth nothing:
// who recorded one cannot use it.
func TestRejoinIsSignedAsAWhole(t *testing.T) {
	f := newFixture(t)
	addr, _ := f.rejoins(t)
	host := f.rejoiner(t, "h2")
	_, err := host.Rejoin(t.Context(), addr, 1)
	refusedWith(t, "another incarnation", err, http.StatusBadRequest, "this is incarnation 2")
	body, err := host.signed(2)
	if err != nil {
		t.Fatal(err)
	}
	var signed signedRejoin
	if err := json.Unmarshal(body, &signed); err != nil {
		t.Fatal(err)
	}
	signed.Statement = bytes.Replace(signed.Statement, []byte("h2.example:2"), []byte("h2.example:3"), 1)
	if body, err = json.Marshal(signed); err != nil {
		t.Fatal(err)
	}
	if status, text := f.postAs(t, addr, body); status != http.StatusBadRequest || !strings.Contains(text, pki.ErrProof.Error()) {
		t.Errorf("a changed statement: %d, %s", status, text)
	}
}

// postAs posts a body to PathRejoin as a stranger.
func (f *fixture) postAs(t *testing.T, addr string, body []byte) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+addr+PathRejoin, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := f.stranger(t, addr).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// Rejoin requests of one source are bounded before anything is verified, and too
// large ones are not read.
func TestRejoinsAreBounded(t *testing.T) {
	f := newFixture(t)
	addr, do := f.rejoins(t)
	entries, reads := do.index, f.reads
	host := f.rejoiner(t, "h4")
	limited := 0
	for range 50 {
		_, err := host.Rejoin(t.Context(), addr, 2)
		var refused *JoinError
		if errors.As(err, &refused) && refused.Status == http.StatusTooManyRequests {
			limited++
		}
	}
	if limited == 0 || do.index != entries || f.reads-reads > 50-limited {
		t.Errorf("of 50 requests %d were refused unseen, %d read the leader's state, %d became entries", limited, f.reads-reads, do.index-entries)
	}
	if status, _ := f.postAs(t, addr, bytes.Repeat([]byte("a"), maxJoinBody+1)); status != http.StatusBadRequest {
		t.Errorf("a body of %d bytes: %d", maxJoinBody+1, status)
	}
}

// A host asks which incarnation a peer lives in without showing its certificate,
// which the peer would refuse; what answers must be of its cluster.
func TestAskingForTheIncarnation(t *testing.T) {
	f, other := newFixture(t), newFixture(t)
	addr, _ := f.rejoins(t)
	host := other.rejoiner(t, "h2")
	if _, err := host.Incarnation(t.Context(), addr); !errors.Is(err, pki.ErrUnknownCA) {
		t.Errorf("a peer of another cluster's CA: %v", err)
	}
}
