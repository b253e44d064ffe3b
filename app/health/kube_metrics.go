package health

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/trivet-ha/trivet/failover"
	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// KubeFigures count what failover does outside.
type KubeFigures struct {
	fences *prometheus.CounterVec // device, call, result
	probes *prometheus.CounterVec // result
	pods   *prometheus.CounterVec // cluster, result
}

// NewKubeFigures returns figures that count from 0.
func NewKubeFigures() *KubeFigures {
	f := &KubeFigures{
		fences: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "trivet", Name: "failover_fence_calls_total",
			Help: "Calls to fence devices: status, off or on, and whether they were answered (ok) or failed."},
			[]string{"device", "call", "result"}),
		probes: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "trivet", Name: "failover_probes_total",
			Help: "Questions to kubelets, by what was heard: alive, nothing, or own_fault where this host could not even ask."},
			[]string{"result"}),
		pods: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "trivet", Name: "failover_pod_deletions_total",
			Help: "Deletions of pods by this peer in each mode, and whether they were taken (ok) or failed."},
			[]string{"cluster", "result"}),
	}
	for _, heard := range []failover.Heard{failover.HeardAlive, failover.HeardNothing, failover.HeardOwnFault} {
		f.probes.WithLabelValues(heardText(heard)) // so that each is there from the start
	}
	return f
}

func heardText(h failover.Heard) string {
	switch h {
	case failover.HeardAlive:
		return "alive"
	case failover.HeardOwnFault:
		return "own_fault"
	}
	return "nothing"
}

// CountProbes returns p with its answers counted.
func (f *KubeFigures) CountProbes(p failover.KubeletProber) failover.KubeletProber {
	return countedProber{p, f}
}

// CountFences returns fences with the calls to their devices counted.
func (f *KubeFigures) CountFences(fences failover.Fences) failover.Fences {
	return countedFences{fences, f}
}

// examinedCluster is a cluster and the rights that it gives us.
type examinedCluster interface {
	failover.Cluster
	rightsExaminer
}

// CountDeletions returns c with its deletions of pods counted.
func (f *KubeFigures) CountDeletions(c examinedCluster) failover.Cluster {
	for _, result := range []string{"ok", "failed"} {
		f.pods.WithLabelValues(c.Name(), result) // so that each is there from the start
	}
	return countedCluster{c, f}
}

type countedCluster struct {
	examinedCluster
	figures *KubeFigures
}

// DeletePod implements failover.PodStore.
func (c countedCluster) DeletePod(ctx context.Context, p failover.Pod) error {
	err := c.examinedCluster.DeletePod(ctx, p)
	c.figures.pods.WithLabelValues(c.Name(), resultOf(err)).Inc()
	return err
}

func resultOf(err error) string { return label(err == nil, "ok", "failed") }

// countedProber counts what kubelets answer.
type countedProber struct {
	failover.KubeletProber
	figures *KubeFigures
}

// Knock implements failover.KubeletProber.
func (k countedProber) Knock(ctx context.Context, target string) failover.Heard {
	heard := k.KubeletProber.Knock(ctx, target)
	k.figures.probes.WithLabelValues(heardText(heard)).Inc()
	return heard
}

// countedFences counts the calls to each device.
type countedFences struct {
	failover.Fences
	figures *KubeFigures
}

// For implements failover.Fences.
func (f countedFences) For(m failover.Machine) []failover.Device {
	return f.figures.counted(f.Fences.For(m))
}

func (f *KubeFigures) counted(devices []failover.Device) []failover.Device {
	out := make([]failover.Device, len(devices))
	for i, d := range devices {
		out[i] = countedDevice{d, f}
	}
	return out
}

type countedDevice struct {
	failover.Device
	figures *KubeFigures
}

func (d countedDevice) count(call string, err error) {
	d.figures.fences.WithLabelValues(d.Name(), call, resultOf(err)).Inc()
}

// Power implements failover.Device.
func (d countedDevice) Power(ctx context.Context, m failover.Machine) (failover.Power, error) {
	power, err := d.Device.Power(ctx, m)
	d.count("status", err)
	return power, err
}

// Off implements failover.Device.
func (d countedDevice) Off(ctx context.Context, m failover.Machine) error {
	err := d.Device.Off(ctx, m)
	if !errors.As(err, new(failover.InUse)) { // no command was given
		d.count("off", err)
	}
	return err
}

// On implements failover.Device.
func (d countedDevice) On(ctx context.Context, m failover.Machine) error {
	err := d.Device.On(ctx, m)
	d.count("on", err)
	return err
}

// Members implements failover.Grouped.
func (d countedDevice) Members() []failover.Device {
	if _, several := d.Device.(failover.Grouped); !several {
		return []failover.Device{d}
	}
	return d.figures.counted(failover.Members(d.Device))
}

// Asks implements failover.Asker.
func (d countedDevice) Asks() bool {
	a, may := d.Device.(failover.Asker)
	return may && a.Asks()
}

// Uncompared implements failover.Comparer.
func (d countedDevice) Uncompared(m failover.Machine) string {
	if c, compares := d.Device.(failover.Comparer); compares {
		return c.Uncompared(m)
	}
	return "a device of its type knows none"
}

// register adds the figures of failover, unless it is off. What is in the log
// is the same on all peers; what is judged only the leader has.
func (k *Kube) register(f *Figures) {
	if k == nil {
		return
	}
	c := &kubeCollector{
		kube: k,
		remediations: kubeDesc("remediations",
			"Remediations that the log keeps, by state; recovered and cancelled have ended within 30 days.", "state"),
		paused: kubeDesc("paused", "1 while an operator has paused failover, in one cluster or in all."),
		nodes: kubeDesc("kube_nodes", "Kube nodes by verdict: well, held_for_dead, in_remediation. The leader has it.",
			"cluster", "verdict"),
		lease: kubeDesc("lease_age_max_seconds", "Age of the oldest Lease of a cluster's kube nodes. The leader has it.",
			"cluster"),
		answers: kubeDesc("api_server_answers", "1 while the API server answers the leader, which alone has it.", "cluster"),
		mute: kubeDesc("votes_withdrawn",
			"1 while this peer has no opinion of a cluster's kubelets, since it reaches too few of them.", "cluster"),
	}
	f.MustRegister(k.Figures.fences, k.Figures.probes, k.Figures.pods,
		&Scraped{[]*prometheus.Desc{c.remediations, c.paused, c.nodes, c.lease, c.answers, c.mute}, c.read})
}

func kubeDesc(name, help string, labels ...string) *prometheus.Desc {
	return Desc("failover_"+name, help, labels...)
}

// kubeCollector reads the figures when they are asked for.
type kubeCollector struct {
	kube                                              *Kube
	remediations, paused, nodes, lease, answers, mute *prometheus.Desc
}

func (k *kubeCollector) read(show Show) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		show(d, prometheus.GaugeValue, value, labels...)
	}
	v := k.kube.Log.View()
	states := make(map[kubestate.State]int)
	for _, r := range v.RemediationHistory(0) {
		states[r.State]++
	}
	for s := kubestate.RemIntent; s <= kubestate.RemStuck; s++ {
		gauge(k.remediations, float64(states[s]), s.String())
	}
	gauge(k.paused, BoolValue(len(v.FailoverPauses()) > 0))
	faults := k.kube.Prober.Faults()
	for _, c := range k.kube.Clusters {
		gauge(k.mute, BoolValue(faults[c.Name()] != ""), c.Name())
		k.judged(gauge, c.Name())
	}
}

// judged are the figures of a cluster that its leader has.
func (k *kubeCollector) judged(gauge func(*prometheus.Desc, float64, ...string), name string) {
	w, leads := k.kube.Controller.Watched(name)
	if !leads {
		return
	}
	gauge(k.answers, BoolValue(w.API.Answers), name)
	oldest, well, dead, open := 0.0, 0, 0, 0
	for _, d := range k.kube.Controller.Verdicts(name) {
		oldest = max(oldest, d.LeaseAge.Seconds())
		switch {
		case d.Remediation != nil:
			open++
		case d.Suspect:
			dead++
		default:
			well++
		}
	}
	gauge(k.lease, oldest, name)
	gauge(k.nodes, float64(well), name, "well")
	gauge(k.nodes, float64(dead), name, "held_for_dead")
	gauge(k.nodes, float64(open), name, "in_remediation")
}
