package health

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/firewall"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/doors"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// hostStory is a host of which a test says what it sees, from one look to the next.
type hostStory struct {
	t     *testing.T
	state *fsm.State
	host  *HostEvents
	now   time.Time
	told  []eventring.Report
}

func newHostStory(t *testing.T) *hostStory {
	t.Helper()
	state, err := fsm.Founded(fsm.Found{
		ClusterID: "6f2f1c9e-3f6b-4a52-9f0e-0a4c5d3b2a10", CACert: []byte("-----BEGIN CERTIFICATE-----\n"),
		CAKey:     []byte("-----BEGIN PRIVATE KEY-----\n"),
		GossipKey: []byte(strings.Repeat("k", 32)),
		Member:    membership.Member{ID: "a", Name: "h1", Address: "h1:7350", Version: fsm.Version},
	}, time.UnixMilli(1_700_000_000_000))
	if err != nil {
		t.Fatal(err)
	}
	s := &hostStory{t: t, state: state, now: time.UnixMilli(1_700_000_000_000)}
	s.host = &HostEvents{name: "h1", raised: make(map[string]api.Warning), report: func(e eventring.Report) {
		if err := e.Validate(); err != nil {
			t.Errorf("event %q cannot be recorded: %v", e.Text, err)
		}
		s.told = append(s.told, e)
	}}
	return s
}

// commit applies a command of the present leadership, if there is one.
func (s *hostStory) commit(c fsm.Command) fencing.Token {
	s.t.Helper()
	v := s.state.View()
	data, err := fsm.Encode(fsm.Header{Token: v.Leadership().Token}, c)
	if err != nil {
		s.t.Fatal(err)
	}
	res := s.state.Apply(fsm.Entry{Index: v.Index() + 1, Term: 1, Data: data})
	if res.Code != fsm.OK {
		s.t.Fatal(res.Message)
	}
	return res.Token
}

// look has the host look after so much time.
func (s *hostStory) look(after time.Duration, led bool, g firewall.GuardStatus) {
	s.now = s.now.Add(after)
	s.host.reportChanges(hostFacts{now: s.now, led: led, guard: g, view: s.state.View()})
}

func (s *hostStory) want(what string, want ...string) {
	s.t.Helper()
	var got []string
	for _, e := range s.told {
		got = append(got, e.Topic.String()+" "+e.Action)
	}
	s.told = nil
	if !slices.Equal(got, want) {
		s.t.Errorf("%s: told is %q, want %q", what, got, want)
	}
}

// A PXE service that was closed without a quorum is told once the peer is back, with
// the time it happened, and so is that it heard of no leader. What the log has is not
// told again.
func TestClosingWithoutAQuorumIsTold(t *testing.T) {
	s := newHostStory(t)
	token := s.commit(fsm.Lead{Peer: "a", Boot: "1"})
	s.commit(doors.PassOpen{})
	s.look(0, true, firewall.GuardStatus{Open: true, Token: token})
	closed := s.now.Add(time.Second)
	s.look(time.Second, false, firewall.GuardStatus{Since: closed, Why: "leadership is not proven"})
	s.look(time.Minute, false, firewall.GuardStatus{Since: closed})
	s.want("without a leader")
	s.look(time.Minute, true, firewall.GuardStatus{Since: closed})
	told := slices.Clone(s.told)
	s.want("back", "leadership contact-lost", "pxe closed-alone")
	for _, e := range told {
		if e.Millis != closed.UnixMilli() {
			t.Errorf("%s %s is told to have happened at %d, not at %d", e.Topic, e.Action, e.Millis, closed.UnixMilli())
		}
	}
	token = s.commit(fsm.Lead{Peer: "a", Boot: "1"})
	s.commit(doors.PassOpen{})
	s.look(time.Second, true, firewall.GuardStatus{Open: true, Token: token})
	s.commit(doors.PassClosed{})
	s.look(time.Second, true, firewall.GuardStatus{Since: s.now})
	s.look(time.Minute, true, firewall.GuardStatus{Since: s.now})
	s.want("in good order")
}

// A closing of a moment is not told; one that lasts is, and that it is over.
func TestClosingsOfOneLeadership(t *testing.T) {
	s := newHostStory(t)
	token := s.commit(fsm.Lead{Peer: "a", Boot: "1"})
	s.commit(doors.PassOpen{})
	open := firewall.GuardStatus{Open: true, Token: token, Since: s.now}
	s.look(0, true, open)
	s.look(time.Second, true, firewall.GuardStatus{Token: token, Since: s.now.Add(time.Second)})
	s.look(time.Second, true, open)
	s.look(time.Minute, true, open)
	s.want("a moment")
	s.look(time.Second, true,
		firewall.GuardStatus{Token: token, Since: s.now.Add(time.Second), Why: "the rules are not there"})
	s.look(time.Minute, true, firewall.GuardStatus{Token: token, Since: s.now})
	s.want("it lasts", "pxe closed-alone")
	s.look(time.Second, true, open)
	s.want("it is over", "pxe opened-again")
}

func TestWarningsAndDriftAreTold(t *testing.T) {
	s := newHostStory(t)
	full := api.Warning{Code: "disk_low", Text: "the disk is nearly full", Remedy: "make room"}
	s.host.survey(s.now, []api.Warning{full})
	s.host.survey(s.now, []api.Warning{full, {Code: "drift"}})
	s.want("raised", "warning raised", "warning raised")
	s.host.survey(s.now, []api.Warning{{Code: "drift"}})
	s.want("cleared", "warning cleared")
	s.host.reportChanges(hostFacts{now: s.now, led: true, view: s.state.View(), drift: 1, drifted: s.now})
	s.host.reportChanges(hostFacts{now: s.now, led: true, view: s.state.View(), drift: 1, drifted: s.now})
	s.want("drift", "filter drifted")
}
