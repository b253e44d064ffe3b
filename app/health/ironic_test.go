package health

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/doctor"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// A peer without Ironic hands leadership to one that has it, and not to one
// that has not said yet.
func TestIronicElsewhere(t *testing.T) {
	state := fsm.New()
	index := uint64(0)
	apply := func(c fsm.Command) fencing.Token {
		t.Helper()
		index++
		data, err := fsm.Encode(fsm.Header{Time: fsm.Time(index) * fsm.Time(time.Millisecond)}, c)
		if err != nil {
			t.Fatal(err)
		}
		res := state.Apply(fsm.Entry{Index: index, Term: 1, Data: data})
		if err := res.Err(); err != nil {
			t.Fatal(err)
		}
		return res.Token
	}
	peer := func(name string) fencing.Token {
		apply(membership.PutMember{
			Member: membership.Member{ID: name, Name: name, Address: name + ":7351", Version: fsm.Version}})
		return apply(membership.OpenSession{Peer: name, Boot: "boot", Version: fsm.Version})
	}
	own, other := peer("h1"), peer("h2")
	apply(membership.RenewSession{Session: own, Applied: index})
	expect := func(want bool, when string) {
		t.Helper()
		if got := ironicElsewhere(state.View(), "h1"); got != want {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
	}
	expect(false, "the other has not said")
	apply(membership.RenewSession{Session: other, Applied: index, NoIronic: true})
	expect(false, "the other reaches no Ironic either")
	apply(membership.RenewSession{Session: other, Applied: index})
	expect(true, "the other reaches Ironic")
}

// silentIronic answers nothing.
type silentIronic struct{ Ironic }

func (silentIronic) Version(context.Context) (string, error) { return "", errors.New("away") }

// TestDoctorAsksKeystone: doctor's facts say what Keystone answers now, where callers show its tokens.
func TestDoctorAsksKeystone(t *testing.T) {
	r := &Reach{Ironic: silentIronic{}, Components: func() []doctor.Service { return nil },
		Receivers: func(context.Context) []doctor.Service { return nil }}
	if got := r.services(t.Context()); len(got) != 1 {
		t.Errorf("keystone-unasked: where no token counts: %+v", got)
	}
	for _, want := range []error{errors.New("connection refused"), nil} {
		asked := 0
		r.Keystone = func(ctx context.Context) error {
			if _, bounded := ctx.Deadline(); !bounded {
				t.Error("keystone-unasked: the question has no bound")
			}
			asked++
			return want
		}
		got := r.services(t.Context())
		if len(got) != 2 || got[1].What != "Keystone" || got[1].Error != api.ErrorText(want) || asked != 1 {
			t.Errorf("keystone-unasked: %+v after %d questions, want %v", got, asked, want)
		}
	}
}

// What does not fit is told of an Ironic that answers; one that is away, slow or refuses its
// user is an error of its own and no finding.
func TestInspectionProblems(t *testing.T) {
	var refuse atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := `{"nodes":[]}`
		switch r.URL.Path {
		case "/v1/", "/v1":
			answer = `{"version":{"version":"1.104"}}`
		case "/v1/drivers":
			answer = `{"drivers":[{"enabled_inspect_interfaces":["agent","no-inspect"]}]}`
		}
		if refuse.Load() {
			w.WriteHeader(http.StatusForbidden)
		}
		_, _ = w.Write([]byte(answer)) // a client that is gone asks no more
	}))
	defer server.Close()
	conf := config.Default()
	conf.Name, conf.Ironic.Endpoint = "h1", server.URL
	found, away := InspectionProblems(t.Context(), conf)
	if away != nil || len(found) != 1 || found[0].Severity != doctor.Warning ||
		!strings.Contains(found[0].Advice(), "firewall: {inspect_interfaces: [agent]}") {
		t.Errorf("today's Ironic with a file of before: %+v (%v)", found, away)
	}
	conf.Firewall.InspectInterfaces, conf.Inspection.ContinueInspection = []string{"agent"}, config.ContinueRelay
	if found, away = InspectionProblems(t.Context(), conf); away != nil || len(found) > 0 {
		t.Errorf("today's Ironic with its file: %+v (%v)", found, away)
	}
	refuse.Store(true)
	if found, away = InspectionProblems(t.Context(), conf); away == nil || len(found) > 0 {
		t.Errorf("a user who is refused: %+v (%v)", found, away)
	}
	server.Close()
	if found, away = InspectionProblems(t.Context(), conf); away == nil || len(found) > 0 {
		t.Errorf("an Ironic that is away: %+v (%v)", found, away)
	}
}
