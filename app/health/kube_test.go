package health

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/trivet-ha/trivet/failover"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/kubestate"
)

func TestFailoverThatIsOffSaysNothing(t *testing.T) {
	var off *Kube
	if (kubeHealth{idle: failover.Settings{}.Idle()}).warnings() != nil || off.readyzLine() != "off" ||
		off.counts(fsm.View{}) != nil {
		t.Error("it is there")
	}
	r := &Figures{Registry: prometheus.NewRegistry()}
	off.register(r)
	if got, err := r.Gather(); err != nil || len(got) > 0 {
		t.Errorf("figures %v: %v", got, err)
	}
}

func TestWarningsOfFailover(t *testing.T) {
	stuck := kubestate.Remediation{Cluster: "prod", Node: "w1", State: kubestate.RemStuck,
		Steps: []kubestate.Step{{Reason: "no device answers"}}}
	under := kubestate.Remediation{Cluster: "prod", Node: "w2", State: kubestate.RemFencing, Steps: []kubestate.Step{{}}}
	for _, test := range []struct {
		name string
		h    kubeHealth
		want []string // "code: part of the text"
	}{
		{"well", kubeHealth{mode: failover.ModeSafe, named: []string{"prod"}, open: []kubestate.Remediation{under}}, nil},
		{"unfenced", kubeHealth{mode: failover.ModeNooBaa}, []string{"failover_unfenced: noobaa"}},
		{"left open by a mode", kubeHealth{idle: "this is a dry run", named: []string{"prod"},
			open: []kubestate.Remediation{under, {Cluster: "prod", Node: "w3", State: kubestate.RemDetached}}},
			[]string{
				"failover_left_open: 2 remediations are open and not carried out, and failover's taints stay on the Nodes until their machines are back, or for good where no cluster is named: prod/w2 and prod/w3 (this is a dry run)"}},
		{"left open in a cluster",
			kubeHealth{mode: failover.ModeSafe, named: []string{"dev"},
				open: []kubestate.Remediation{under, {Cluster: "dev", Node: "w3", State: kubestate.RemDetached}}},
			[]string{"failover_left_open: prod/w2 (failover.kubeconfigs does not name the cluster)"}},
		{"stuck", kubeHealth{mode: failover.ModeSafe, named: []string{"prod"}, open: []kubestate.Remediation{under, stuck}},
			[]string{"failover_stuck: prod/w1 is stuck: no device answers"}},
		{"paused", kubeHealth{pauses: []kubestate.Pause{{By: "ann"}, {Cluster: "prod"}}},
			[]string{"failover_paused: all clusters by ann", "failover_paused: prod by an operator"}},
		{"blind", kubeHealth{faults: map[string]string{"b": "x", "a": "y"}, silent: map[string]string{"c": "refused"}},
			[]string{"failover_no_vote: kubelets of a: y", "failover_no_vote: kubelets of b: x",
				"failover_api_silent: c does not answer: refused"}},
		{"held", kubeHealth{mode: failover.ModeSafe, held: []failover.Verdict{
			{Node: kubestate.Node{Cluster: "prod", Name: "w0"}},
			{Node: kubestate.Node{Cluster: "prod", Name: "w1"}, Suspect: true, Rail: "storm", Why: []string{"a storm", "other"}},
			{Node: kubestate.Node{Cluster: "prod", Name: "w2"}, Suspect: true, Rail: "storm", Why: []string{"a storm"}},
			{Node: kubestate.Node{Cluster: "prod", Name: "w3"}, Suspect: true, Rail: "paused", Why: []string{"a pause"}},
			{Node: kubestate.Node{Cluster: "dev", Name: "w1"}, Suspect: true, Rail: "no-device", Why: []string{"no device"}}}},
			[]string{"failover_held: kube node dev/w1 is held for dead, and its work is not moved: no device",
				"failover_held: kube node prod/w1 is held for dead, and its work is not moved: a storm; 1 more of prod"}},
		{"peers that may be anywhere", kubeHealth{unplaced: []string{"h1", "h3"}},
			[]string{"failover_unplaced_peers: of h1 and h3 it is not known that"}},
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

func TestPeersThatMayRunOnKubeNodes(t *testing.T) {
	on, off, unknown := failover.Place{Peer: "a", Node: "prod/w1", By: "boot ID"}, failover.Place{Peer: "b"},
		failover.Place{Peer: "c", Unknown: true}
	for _, test := range []struct {
		places []failover.Place
		want   string
	}{
		{nil, ""}, {[]failover.Place{off, off}, ""}, {[]failover.Place{unknown, on}, ""},
		{[]failover.Place{unknown, off}, "c"}, {[]failover.Place{unknown, unknown}, "c c"},
	} {
		if got := strings.Join(unplaced(test.places), " "); got != test.want {
			t.Errorf("unplaced: of %+v it warns of %q, want %q", test.places, got, test.want)
		}
	}
}

// someCluster takes each deletion, or none.
type someCluster struct {
	examinedCluster
	err error
}

func (someCluster) Name() string                                    { return "prod" }
func (c someCluster) DeletePod(context.Context, failover.Pod) error { return c.err }

func TestDeletionsAreCounted(t *testing.T) {
	f := NewKubeFigures()
	for _, err := range []error{nil, nil, errors.New("busy")} {
		c := f.CountDeletions(someCluster{err: err})
		if got := c.DeletePod(t.Context(), failover.Pod{}); !errors.Is(got, err) {
			t.Errorf("deletions: %v, want %v", got, err)
		}
		if _, examined := c.(rightsExaminer); !examined {
			t.Error("deletions: a cluster whose deletions are counted tells no missing rights")
		}
	}
	r := prometheus.NewRegistry()
	r.MustRegister(f.pods)
	got, err := r.Gather()
	if err != nil || len(got) != 1 || len(got[0].Metric) != 2 || got[0].Metric[0].Counter.GetValue() != 1 ||
		got[0].Metric[1].Counter.GetValue() != 2 {
		t.Errorf("deletions: counted %v, %v", got, err)
	}
}

// A pause of one cluster is not ended by the order to resume all.
func TestWarningsOfPausesNameTheirResume(t *testing.T) {
	got := kubeHealth{pauses: []kubestate.Pause{{By: "ann"}, {Cluster: "prod"}}}.warnings()
	for i, resume := range []string{"'trivet failover resume',", "'trivet failover resume --cluster prod',"} {
		if !strings.HasPrefix(got[i].Remedy, resume) {
			t.Errorf("pause-remedy: %s: %s, want %s", got[i].Text, got[i].Remedy, resume)
		}
	}
}

// asking is a device that asks its machine.
type asking struct{ failover.Device }

func (asking) Asks() bool { return true }

func TestCountedDeviceAsksAsBefore(t *testing.T) {
	if counted := (countedDevice{Device: asking{}}); !counted.Asks() {
		t.Error("asks: a device that is counted does not ask its machine any more")
	}
	if counted := (countedDevice{Device: someFences{}.For(failover.Machine{})[0]}); counted.Asks() {
		t.Error("asks: a device that may remember seems to ask its machine")
	}
}

func TestCallsAreCounted(t *testing.T) {
	f := NewKubeFigures()
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
	used := fmt.Errorf("bmc: %w", failover.InUse{Why: "it is introspected"})
	inUse := countedFences{someFences{err: used}, f}.For(failover.Machine{})[0]
	if err := inUse.Off(ctx, failover.Machine{}); err != used {
		t.Errorf("in-use: %v", err) // and counted as nothing
	}
	for _, heard := range []failover.Heard{failover.HeardAlive, failover.HeardNothing, failover.HeardNothing} {
		f.CountProbes(hearing(heard)).Knock(ctx, "")
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

// pair is a device of two members.
type pair struct{ failover.Device }

func (pair) Members() []failover.Device {
	return append(someFences{}.For(failover.Machine{}), someFences{}.For(failover.Machine{})...)
}

func TestCountedDeviceHasItsMembers(t *testing.T) {
	of := NewKubeFigures()
	for d, want := range map[failover.Device]int{pair{}: 2, someFences{}.For(failover.Machine{})[0]: 1} {
		members := failover.Members(countedDevice{d, of})
		if _, counted := members[0].(countedDevice); len(members) != want || !counted {
			t.Errorf("members: a device of %d that is counted has %d, counted: %v", want, len(members), counted)
		}
	}
}
