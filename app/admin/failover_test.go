package admin

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/failover"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// fakeKube is failover on one peer.
type fakeKube struct {
	name   string
	orders []PowerOrder
	err    error
}

func (k *fakeKube) Failover(context.Context) (Failover, error) {
	return Failover{Leader: k.name, Mode: "safe",
		Nodes: []KubeNode{{Cluster: "prod", Name: "w1", Would: "nothing", Why: []string{"it is healthy"}}}}, k.err
}

func (k *fakeKube) Simulate(_ context.Context, cluster, node, mode string) (Simulation, error) {
	if node != "w1" {
		return Simulation{}, &api.Error{Status: http.StatusNotFound, Code: api.CodeNotFound,
			Message: "no kube node is called " + node, Hint: "see 'trivet failover list'"}
	}
	return Simulation{Cluster: cluster, Node: node, Peer: k.name, Mode: mode, Would: true}, k.err
}

func (k *fakeKube) Power(_ context.Context, cluster, node string, order *PowerOrder) (FencePower, error) {
	if order != nil {
		k.orders = append(k.orders, *order)
	}
	return FencePower{Peer: k.name, ID: "id-" + k.name, Cluster: cluster, Node: node,
		Devices: []DevicePower{{Device: "bmc", Power: "on"}}}, k.err
}

// fakeLeading reaches a leader through the handler that peers meet; nil: this
// peer leads.
type fakeLeading struct {
	to  *fakeKube
	err error
}

func (l fakeLeading) AskLeader(_ context.Context, path string) ([]byte, bool, error) {
	if l.to == nil {
		return nil, l.err == nil, l.err
	}
	w := httptest.NewRecorder()
	(&Control{Kube: KubeControl{Here: l.to}}).PeerHandler().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	return w.Body.Bytes(), false, nil
}

// kubeAnswer sends one request to a peer's control interface and decodes what it
// is answered with, unless it is refused.
func kubeAnswer[T any](t *testing.T, c *Control, method, path, body string) (out T, refused *api.Error) {
	t.Helper()
	c.Logger = slog.New(slog.DiscardHandler)
	w := send(c.Handler(), method, path, body)
	if w.Code >= http.StatusBadRequest {
		var said api.ErrorBody
		if err := json.Unmarshal(w.Body.Bytes(), &said); err != nil || said.Error == nil {
			t.Fatalf("%s %s: %d %s: %v", method, path, w.Code, w.Body, err)
		}
		said.Error.Status = w.Code
		return out, said.Error
	}
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
		t.Fatalf("%s %s: %d %s: %v", method, path, w.Code, w.Body, err)
	}
	return out, nil
}

func TestOnlyTheLeaderJudges(t *testing.T) {
	own, leads := &fakeKube{name: "h2"}, &fakeKube{name: "h1"}
	for name, test := range map[string]struct {
		kube KubeControl
		want string // the peer that answers
		code string // of the refusal
	}{
		"this peer leads":                   {KubeControl{Here: own, AskLeader: fakeLeading{}.AskLeader}, "h2", ""},
		"another leads":                     {KubeControl{Here: own, AskLeader: fakeLeading{to: leads}.AskLeader}, "h1", ""},
		"another leads, and it is off here": {KubeControl{AskLeader: fakeLeading{to: leads}.AskLeader}, "h1", ""},
		"this peer leads, and it is off":    {KubeControl{AskLeader: fakeLeading{}.AskLeader}, "", api.CodeOff},
		"no leader": {
			KubeControl{Here: own, AskLeader: fakeLeading{
				err: &api.Error{Status: 503, Code: api.CodeNoLeader, Message: "no leader"}}.AskLeader}, "", api.CodeNoLeader},
	} {
		c := &Control{Kube: test.kube}
		f, refused := kubeAnswer[Failover](t, c, "GET", "/v1/failover", "")
		s, alike := kubeAnswer[Simulation](t, c, "GET", "/v1/failover/simulation/-/w1", "")
		if test.code != "" {
			if refused == nil || alike == nil || refused.Code != test.code || alike.Code != test.code {
				t.Errorf("%s: %v, %v, want %s", name, refused, alike, test.code)
			}
			continue
		}
		if refused != nil || alike != nil || f.Leader != test.want || s.Peer != test.want || len(f.Nodes) != 1 || !s.Would {
			t.Errorf("%s: %+v %v, %+v %v", name, f, refused, s, alike)
		}
	}
}

// A refusal keeps its meaning on the way through another peer.
func TestTheLeadersRefusalArrives(t *testing.T) {
	c := &Control{Kube: KubeControl{AskLeader: fakeLeading{to: &fakeKube{name: "h1"}}.AskLeader}}
	if s, refused := kubeAnswer[Simulation](
		t, c, "GET", "/v1/failover/simulation/prod/w1?mode=noobaa", ""); refused != nil || s.Mode != "noobaa" {
		t.Errorf("simulate-mode: %+v %v", s, refused)
	}
	if _, refused := kubeAnswer[Simulation](
		t, c, "GET", "/v1/failover/simulation/prod/w1?mode=bold", ""); refused == nil || refused.Code != api.CodeInvalid {
		t.Errorf("simulate-mode: one that is none: %v", refused)
	}
	_, refused := kubeAnswer[Simulation](t, c, "GET", "/v1/failover/simulation/prod/w9", "")
	if refused == nil || refused.Status != http.StatusNotFound || refused.Code != api.CodeNotFound || refused.Hint == "" ||
		!strings.Contains(refused.Message, "w9") {
		t.Errorf("%+v", refused)
	}
	if _, err := hear[Simulation]([]byte("<html>")); err == nil {
		t.Error("nonsense was believed")
	}
}

// fencedPeers are two other peers: one that answers and one that is silent.
func fencedPeers(_ context.Context, path string) []Answer {
	w := httptest.NewRecorder()
	(&Control{Kube: KubeControl{Here: &fakeKube{name: "old-name"}}}).PeerHandler().ServeHTTP(w,
		httptest.NewRequest("GET", path, nil))
	return []Answer{{Name: "h3", ID: "id-h3", Body: w.Body.Bytes()},
		{Name: "h1", ID: "id-h1", Err: errors.New("ask h1: connection refused")}}
}

func TestEveryPeerAsksTheFences(t *testing.T) {
	own := &fakeKube{name: "h2"}
	c := &Control{Kube: KubeControl{Here: own, Ask: fencedPeers}}
	if rows, refused := kubeAnswer[[]FencePower](t, c, "GET", "/v1/failover/power/prod/w1", ""); refused != nil ||
		len(rows) != 1 || rows[0].Peer != "h2" {
		t.Errorf("alone: %+v %v", rows, refused)
	}
	rows, refused := kubeAnswer[[]FencePower](t, c, "GET", "/v1/failover/power/prod/w1?all=1", "")
	if refused != nil || len(rows) != 3 || rows[0].Error != "ask h1: connection refused" || rows[1].Peer != "h2" ||
		rows[2].Peer != "h3" || rows[2].Node != "w1" || len(rows[2].Devices) != 1 {
		t.Errorf("all: %+v %v", rows, refused)
	}
	if len(own.orders) > 0 {
		t.Errorf("to ask switched something: %+v", own.orders)
	}
	if _, refused := kubeAnswer[[]FencePower](t, &Control{}, "GET", "/v1/failover/power/prod/w1", ""); refused == nil ||
		refused.Code != api.CodeOff {
		t.Errorf("failover is off: %v", refused)
	}
}

// No machine is switched by a slip: the order repeats the name.
func TestPowerIsSwitchedOnlyInSoManyWords(t *testing.T) {
	own := &fakeKube{name: "h2"}
	c := &Control{Kube: KubeControl{Here: own}}
	for _, body := range []string{`{}`, `{"power":"off"}`, `{"power":"off","confirm":"w2"}`,
		`{"power":"cycle","confirm":"w1"}`, `{"power":"","confirm":"w1"}`} {
		if _, refused := kubeAnswer[FencePower](t, c, "POST", "/v1/failover/power/prod/w1", body); refused == nil ||
			refused.Code != api.CodeInvalid {
			t.Errorf("%s: %v", body, refused)
		}
	}
	if len(own.orders) > 0 {
		t.Fatalf("switched: %+v", own.orders)
	}
	out, refused := kubeAnswer[FencePower](t, c, "POST", "/v1/failover/power/prod/w1",
		`{"power":"off","confirm":"w1","device":"bmc"}`)
	if refused != nil || out.Peer != "h2" || len(own.orders) != 1 ||
		own.orders[0] != (PowerOrder{Power: PowerOff, Device: "bmc", Confirm: "w1"}) {
		t.Errorf("%+v %v, orders %+v", out, refused, own.orders)
	}
}

// lead makes the log accept commands of a duty.
func (s *states) lead() fencing.Token {
	s.t.Helper()
	res, err := s.Do(context.Background(), "",
		fsm.Lead{Peer: "a", Boot: "00000000-0000-4000-8000-000000000009", Version: fsm.Version})
	if err != nil || res.Err() != nil {
		s.t.Fatal(err, res.Err())
	}
	return res.Token
}

// duty applies a command of the leader's.
func (s *states) duty(token fencing.Token, c fsm.Command) fencing.Token {
	s.t.Helper()
	data, err := fsm.Encode(fsm.Header{Token: token}, c)
	if err != nil {
		s.t.Fatal(err)
	}
	res := s.state.Apply(fsm.Entry{Index: s.next, Term: 1, Data: data})
	s.next++
	if res.Err() != nil {
		s.t.Fatal(res.Err())
	}
	return res.Token
}

func kubeLog(t *testing.T) (*states, *Control) {
	t.Helper()
	log := newStates(t)
	none := func() []string { return nil }
	return log, &Control{State: State{Log: log, Do: log, Rewritten: none, Waiting: none,
		Wall: func() time.Time { return time.UnixMilli(1_700_000_000_123) }}}
}

func TestPauseIsInTheLog(t *testing.T) {
	log, c := kubeLog(t)
	now, refused := kubeAnswer[[]FailoverPause](t, c, "POST", "/v1/failover/pause",
		`{"cluster":"prod","for":"2h","by":"ann","reason":"new switches"}`)
	if refused != nil || len(now) != 1 || now[0].Cluster != "prod" || now[0].EndsIn != "2h0m0s" ||
		now[0].Reason != "new switches" || !strings.HasPrefix(now[0].By, "ann (") || now[0].Since != "2023-11-14T22:13:20Z" {
		t.Errorf("%+v %v", now, refused)
	}
	if p, paused := log.View().FailoverPause("prod"); !paused || p.Until == 0 {
		t.Errorf("in the log: %+v %v", p, paused)
	}
	if now, refused = kubeAnswer[[]FailoverPause](t, c, "POST", "/v1/failover/pause", `{}`); refused != nil ||
		len(now) != 2 || now[0].Cluster != "" || now[0].EndsIn != "" {
		t.Errorf("all: %+v %v", now, refused)
	}
	for _, body := range []string{`{"for":"soon"}`, `{"for":"-1h"}`, `{"for":"0s"}`, `{"for":"9999h"}`,
		`{"cluster":"no good"}`, `{"until":"2h"}`} {
		if _, refused := kubeAnswer[[]FailoverPause](t, c, "POST", "/v1/failover/pause", body); refused == nil ||
			refused.Code != api.CodeInvalid {
			t.Errorf("%s: %v", body, refused)
		}
	}
	if now, refused = kubeAnswer[[]FailoverPause](t, c, "POST", "/v1/failover/resume", `{}`); refused != nil ||
		len(now) != 1 || now[0].Cluster != "prod" {
		t.Errorf("after resuming all: %+v %v", now, refused)
	}
	if now, refused = kubeAnswer[[]FailoverPause](
		t, c, "POST", "/v1/failover/resume", `{"cluster":"prod"}`); refused != nil || len(now) != 0 {
		t.Errorf("after resuming prod: %+v %v", now, refused)
	}
	if _, refused = kubeAnswer[[]FailoverPause](t, c, "POST", "/v1/failover/resume", `{"for":"1h"}`); refused == nil ||
		refused.Code != api.CodeInvalid {
		t.Errorf("resumed for a while: %v", refused)
	}
}

func TestRemediationsAreShownAndReleased(t *testing.T) {
	log, c := kubeLog(t)
	duty := log.lead()
	begin := func(uid, name string) fencing.Token {
		return log.duty(duty, kubestate.BeginRemediation{Cluster: "prod", Node: name, UID: uid, BootID: "b1", Peer: "a",
			Reason: "silent", Millis: 1_700_000_000_001})
	}
	first := begin("u1", "w1")
	log.duty(duty, kubestate.StepRemediation{Intent: first, From: kubestate.RemIntent, To: kubestate.RemStuck,
		Peer: "gone", Reason: "no device answers", Millis: 1_700_000_002_345})
	second := begin("u2", "w2")

	rows, refused := kubeAnswer[[]Remediation](t, c, "GET", "/v1/failover/remediations", "")
	if refused != nil || len(rows) != 2 || rows[0].ID != second || rows[1].ID != first {
		t.Fatalf("%+v %v", rows, refused)
	}
	got := rows[1]
	if got.State != "stuck" || !got.Open || got.Reason != "no device answers" || got.Began != "2023-11-14T22:13:20.001Z" ||
		got.Since != "2023-11-14T22:13:22.345Z" ||
		len(got.Steps) != 2 || got.Steps[0].State != "intent" || got.Steps[0].Peer != "a" || got.Steps[1].Peer != "gone" {
		t.Errorf("%+v", got)
	}
	if rows, _ = kubeAnswer[[]Remediation](t, c, "GET", "/v1/failover/remediations?limit=1", ""); len(rows) != 1 {
		t.Errorf("limit 1: %+v", rows)
	}
	for path, code := range map[string]string{"?limit=0": api.CodeInvalid, "?limit=x": api.CodeInvalid,
		"/77": api.CodeNotFound, "/x": api.CodeInvalid} {
		if _, refused := kubeAnswer[any](t, c, "GET", "/v1/failover/remediations"+path, ""); refused == nil ||
			refused.Code != code {
			t.Errorf("%s: %v, want %s", path, refused, code)
		}
	}
	path := "/v1/failover/remediations/" + first.String()
	if one, refused := kubeAnswer[Remediation](t, c, "GET", path, ""); refused != nil || one.Node != "w1" {
		t.Errorf("%+v %v", one, refused)
	}
	if _, refused := kubeAnswer[Remediation](t, c, "POST", path+"/release", `{"to":"off"}`); refused == nil ||
		refused.Code != api.CodeInvalid {
		t.Errorf("released to off: %v", refused)
	}
	one, refused := kubeAnswer[Remediation](t, c, "POST", path+"/release",
		`{"to":"cancelled","by":"ann","reason":"it is up"}`)
	if refused != nil || one.State != "cancelled" || one.Open || !one.Steps[2].Operator ||
		!strings.HasPrefix(one.Steps[2].Peer, "ann (") {
		t.Errorf("%+v %v", one, refused)
	}
	one, refused = kubeAnswer[Remediation](t, c, "POST", path+"/release", `{"to":"fencing"}`)
	if refused != nil || one.State != "cancelled" || one.Open || len(one.Steps) != 4 || !one.Steps[3].Operator {
		t.Errorf("release-ended: what was cancelled is let be fenced: %+v %v", one, refused)
	}
	if _, refused := kubeAnswer[Remediation](t, c, "POST", path+"/release", `{"to":"fencing"}`); refused == nil ||
		refused.Code != api.CodeConflict {
		t.Errorf("released twice: %v", refused)
	}
}

// TestNothingIsFencedByTheListOfBefore: an operator who mended the mapping of a machine and did not
// have it read again would have the wrong machine switched off once more.
func TestNothingIsFencedByTheListOfBefore(t *testing.T) {
	log, c := kubeLog(t)
	duty := log.lead()
	id := log.duty(duty, kubestate.BeginRemediation{Cluster: "prod", Node: "w1", UID: "u1", BootID: "b1", Peer: "a",
		Reason: "silent", Millis: 1})
	log.duty(duty, kubestate.StepRemediation{Intent: id, From: kubestate.RemIntent, To: kubestate.RemStuck,
		Peer: "a", Reason: "contradiction: ", Millis: 2})
	c.State.Rewritten = func() []string { return []string{"failover.fence_file"} }
	path := "/v1/failover/remediations/" + id.String() + "/release"
	if one, refused := kubeAnswer[Remediation](t, c, "POST", path, `{"to":"fencing"}`); refused == nil ||
		refused.Code != api.CodeConflict || !strings.Contains(refused.Hint, "systemctl reload trivet") {
		t.Errorf("list-of-before: %+v, %v", one, refused)
	}
	c.State.Waiting = c.State.Rewritten
	if one, refused := kubeAnswer[Remediation](t, c, "POST", path, `{"to":"fencing"}`); refused == nil ||
		refused.Code != api.CodeConflict || !strings.Contains(refused.Hint, "systemctl restart trivet") {
		t.Errorf("list-of-before: while it waits for a restart: %+v, %v", one, refused)
	}
	if one, refused := kubeAnswer[Remediation](t, c, "POST", path, `{"to":"cancelled"}`); refused != nil {
		t.Errorf("list-of-before: it is not ended either: %+v, %v", one, refused)
	}
}

// What a caller says of itself is bounded, and cannot end the log's bound.
func TestOperatorsNamesAreCut(t *testing.T) {
	_, c := kubeLog(t)
	now, refused := kubeAnswer[[]FailoverPause](t, c, "POST", "/v1/failover/pause",
		`{"by":"`+strings.Repeat("ä", 4000)+`"}`)
	if refused != nil || len(now) != 1 || len(now[0].By) > 253 {
		t.Errorf("%d bytes, %v", len(now[0].By), refused)
	}
}

// A bare name is no order where two clusters may have a kube node of that name, one of
// which was never seen.
func TestPowerOrderNamesItsCluster(t *testing.T) {
	defer func() {
		if went := recover(); went != nil {
			t.Errorf("cluster-of-order: without a cluster it went on: %v", went)
		}
	}()
	two := &KubeNodes{Clusters: make([]failover.Cluster, 2)}
	_, err := two.Power(t.Context(), AnyCluster, "w1", &PowerOrder{Power: PowerOff, Confirm: "w1"})
	if refused := api.Refusal(err); refused.Code != api.CodeConflict || refused.Hint != "write CLUSTER/NODE" {
		t.Errorf("cluster-of-order: %v", err)
	}
}
