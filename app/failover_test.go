package app

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/failover"
	"github.com/trivet-ha/trivet/fsm"
)

// Nothing is opened, and no file is looked for, while the mode is empty.
func TestFailoverThatIsOffCostsNothing(t *testing.T) {
	conf := config.Default()
	conf.Failover.Kubeconfigs = []string{"prod=/nowhere/kubeconfig"}
	conf.Failover.FenceFile = "/nowhere/fence.yaml"
	p := &Peer{opts: Options{Config: conf, Logger: slog.New(slog.DiscardHandler)}, core: new(Core)}
	if err := p.openKube(t.Context()); err != nil || p.kube.made != nil || len(p.opened.all) > 0 {
		t.Errorf("opened %+v: %v", p.kube, err)
	}
	if p.kubeControl().Here != nil || p.kubeWarnings(fsm.View{}) != nil || p.kubeNote() != "off" {
		t.Error("it is there")
	}
	r := prometheus.NewRegistry()
	p.kubeMetrics(r)
	if got, err := r.Gather(); err != nil || len(got) > 0 {
		t.Errorf("figures %v: %v", got, err)
	}
	p.opts.Config.Failover.Mode = config.FailoverSafe
	if err := p.openKube(t.Context()); err == nil || !strings.Contains(err.Error(), "failover.fence_file") {
		t.Errorf("no such file: %v", err)
	}
}

// What is not written anywhere is what failover itself ships.
func TestDefaultsOfTheConfigurationAreFailovers(t *testing.T) {
	got, err := kubeSettings(config.Default().Failover)
	if err != nil {
		t.Fatal(err)
	}
	want := failover.DefaultSettings()
	if got.Detection != want.Detection || got.Probe != want.Probe || got.Guard != want.Guard || got.Mode != want.Mode || got.DryRun != want.DryRun ||
		got.Remedy.Retries != want.Remedy.Retries || got.Remedy.RetryInterval != want.Remedy.RetryInterval || got.Remedy.Timeout != want.Remedy.Timeout ||
		got.Remedy.PowerOn != want.Remedy.PowerOn || got.Remedy.Pods != nil || got.Remedy.Nodes != nil || !slices.Equal(got.NooBaa.Exempt, want.NooBaa.Exempt) {
		t.Errorf("the configuration gives\n%+v\nfailover ships\n%+v", got, want)
	}
}

func TestSelectorsSelect(t *testing.T) {
	conf := config.Default().Failover
	conf.Filter = config.FailoverFilter{Namespaces: []string{"a", "b"}, PodSelector: "app=noobaa,tier!=cache", NodeSelector: "!spare"}
	s, err := kubeSettings(conf)
	if err != nil {
		t.Fatal(err)
	}
	label := func(pairs ...string) map[string]string {
		out := make(map[string]string)
		for i := 0; i < len(pairs); i += 2 {
			out[pairs[i]] = pairs[i+1]
		}
		return out
	}
	for _, test := range []struct {
		pod  failover.Pod
		want bool
	}{
		{failover.Pod{Namespace: "a", Labels: label("app", "noobaa")}, true},
		{failover.Pod{Namespace: "b", Labels: label("app", "noobaa", "tier", "db")}, true},
		{failover.Pod{Namespace: "a", Labels: label("app", "noobaa", "tier", "cache")}, false},
		{failover.Pod{Namespace: "a"}, false},
		{failover.Pod{Namespace: "c", Labels: label("app", "noobaa")}, false},
	} {
		if got := s.Remedy.Pods(test.pod); got != test.want {
			t.Errorf("%+v: %v", test.pod, got)
		}
	}
	if !s.Remedy.Nodes(failover.Node{}) || s.Remedy.Nodes(failover.Node{Labels: label("spare", "")}) {
		t.Error("the selector of kube nodes does not select")
	}
	conf.Filter = config.FailoverFilter{Namespaces: []string{"a"}}
	if s, err = kubeSettings(conf); err != nil || !s.Remedy.Pods(failover.Pod{Namespace: "a"}) || s.Remedy.Pods(failover.Pod{Namespace: "b"}) {
		t.Errorf("namespaces alone: %v", err)
	}
	for key, filter := range map[string]config.FailoverFilter{"failover.pod_selector": {PodSelector: "a in"}, "failover.node_selector": {NodeSelector: "=x"}} {
		conf.Filter = filter
		if _, err := kubeSettings(conf); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

func TestWarningsOfFailover(t *testing.T) {
	stuck := fsm.Remediation{Cluster: "prod", Node: "w1", State: fsm.RemStuck, Steps: []fsm.RemediationStep{{Reason: "no device answers"}}}
	under := fsm.Remediation{Cluster: "prod", Node: "w2", State: fsm.RemFencing, Steps: []fsm.RemediationStep{{}}}
	for _, test := range []struct {
		name string
		h    kubeHealth
		want []string // "code: part of the text"
	}{
		{"well", kubeHealth{mode: failover.ModeSafe, open: []fsm.Remediation{under}}, nil},
		{"unfenced", kubeHealth{mode: failover.ModeNooBaa}, []string{"failover_unfenced: noobaa"}},
		{"stuck", kubeHealth{mode: failover.ModeSafe, open: []fsm.Remediation{under, stuck}}, []string{"failover_stuck: prod/w1 is stuck: no device answers"}},
		{"paused", kubeHealth{pauses: []fsm.FailoverPause{{By: "ann"}, {Cluster: "prod"}}}, []string{"failover_paused: all clusters by ann", "failover_paused: prod by an operator"}},
		{"blind", kubeHealth{faults: map[string]string{"b": "x", "a": "y"}, silent: map[string]string{"c": "refused"}},
			[]string{"failover_no_vote: kubelets of a: y", "failover_no_vote: kubelets of b: x", "failover_api_silent: c does not answer: refused"}},
	} {
		got := test.h.warnings()
		if len(got) != len(test.want) {
			t.Errorf("%s: %+v", test.name, got)
			continue
		}
		for i, want := range test.want {
			code, part, _ := strings.Cut(want, ": ")
			if got[i].Code != code || !strings.Contains(got[i].Text, part) || got[i].Remedy == "" {
				t.Errorf("%s: %+v, want %s", test.name, got[i], want)
			}
		}
	}
}

func TestCallsAreCounted(t *testing.T) {
	f := newKubeFigures()
	d := countedFences{someFences{power: failover.PowerOn}, f}.For(failover.Machine{})[0]
	broken := countedFences{someFences{err: errors.New("no answer")}, f}.For(failover.Machine{})[0]
	ctx := t.Context()
	if power, err := d.Power(ctx, failover.Machine{}); power != failover.PowerOn || err != nil {
		t.Error(power, err)
	}
	if err := errors.Join(d.Off(ctx, failover.Machine{}), d.On(ctx, failover.Machine{})); err != nil {
		t.Error(err)
	}
	if err := broken.Off(ctx, failover.Machine{}); err == nil {
		t.Error("the error is lost")
	}
	for _, heard := range []failover.Heard{failover.HeardAlive, failover.HeardNothing, failover.HeardNothing} {
		countedProber{hearing(heard), f}.Knock(ctx, "")
	}
	r := prometheus.NewRegistry()
	r.MustRegister(f.fences, f.probes)
	want := map[string]float64{
		"bmc status ok": 1, "bmc off ok": 1, "bmc off failed": 1, "bmc on ok": 1, "alive": 1, "nothing": 2, "own_fault": 0,
	}
	if got := countersOf(t, r); !maps.Equal(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
}

// countersOf reads the counters of a registry: "device call result" → value.
func countersOf(t *testing.T, r *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]float64)
	for _, family := range families {
		for _, m := range family.GetMetric() {
			labels := make(map[string]string)
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			out[strings.TrimSpace(labels["device"]+" "+labels["call"]+" "+labels["result"])] = m.GetCounter().GetValue()
		}
	}
	return out
}

// hearing is a Knocker that always hears the same.
type hearing failover.Heard

func (h hearing) Knock(context.Context, string) failover.Heard { return failover.Heard(h) }

// someFences has one device for every machine.
type someFences struct {
	power failover.Power
	err   error
}

func (f someFences) For(failover.Machine) []failover.Device { return []failover.Device{oneDevice{f}} }

type oneDevice struct{ someFences }

func (d oneDevice) Name() string { return "bmc" }
func (d oneDevice) Power(context.Context, failover.Machine) (failover.Power, error) {
	return d.power, d.err
}
func (d oneDevice) Off(context.Context, failover.Machine) error { return d.err }
func (d oneDevice) On(context.Context, failover.Machine) error  { return d.err }
