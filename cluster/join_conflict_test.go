package cluster

import (
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// A joiner whose name or address a living member has is told which of the two,
// and what to do.
func TestJoinTaken(t *testing.T) {
	f := newFixture(t)
	do := &doer{f: f}
	mux := http.NewServeMux()
	mux.Handle("POST "+PathJoin,
		NewAdmission(admission.NewController(), do, f, time.Now, rand.Reader, slog.New(slog.DiscardHandler), nil))
	addr := f.serve(t, mux)
	if res, err := do.Do(t.Context(), "", membership.OpenSession{Peer: "h1", Boot: "b", Version: fsm.Version}); err !=
		nil || res.Err() != nil {
		t.Fatal(err, res.Err())
	}
	for _, c := range []struct{ name, address, want, hint string }{
		{"h1", "127.0.0.1:1", "the name h1 is taken: peer h1 at 127.0.0.1:7350 lives", "'trivet join --name NAME'"},
		{"h2", "127.0.0.1:7350", "the address 127.0.0.1:7350 is taken: peer h1 lives there", "--cluster-advertise"},
		{"h1", "127.0.0.1:7350", "peer h1 at 127.0.0.1:7350 lives: the name and the address are taken", "'trivet leave'"},
	} {
		j := Joiner{Name: c.name, Address: c.address, Gossip: "127.0.0.1:2", Version: fsm.Version, Wall: time.Now,
			Random: rand.Reader}
		_, err := j.Join(t.Context(), addr, f.token)
		var refused *JoinError
		if !errors.As(err, &refused) || refused.Status != http.StatusConflict || refused.Message != c.want ||
			!strings.Contains(refused.Hint, c.hint) {
			t.Errorf("%s at %s: %+v, want %q and %q", c.name, c.address, refused, c.want, c.hint)
		}
	}
}
