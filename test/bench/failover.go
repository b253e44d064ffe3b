package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// Kube nodes of the lab. Each strategy has its own, and the volume of its pod goes
// where one of these is; ours has two volumes that move at once.
const (
	theirNodes = 2
	ourNodes   = 7
	ourLanes   = 2
	// taintTrials bounds how often a strategy that comes to an end is tried for
	// comparison.
	taintTrials = 3
)

// leasePeriod is how often a kubelet renews its Lease.
const leasePeriod = 10 * time.Second

// failoverSetup bounds what comes before the first power-off, or between two.
const failoverSetup = 3 * time.Minute

//go:embed fence_agent.sh
var fenceAgent string

func failoverArea() Area {
	return Area{
		Name:    "failover",
		About:   "machines of a cluster of Kubernetes lose their power; three processes against other ways to move what they ran",
		Measure: measureFailover,
	}
}

// failoverRows are what is measured with power-offs.
var failoverRows = struct{ p50, p90, afterOff, ratio, violations row }{
	row{"failover.ready_elsewhere_p50", "s", AtMost(16)},
	row{"failover.ready_elsewhere_p90", "s", AtMost(20)},
	row{"failover.after_off_p90", "s", AtMost(1.5)},
	row{"failover.taint_only_ratio", "x", AtMost(1)},
	row{"failover.violations", "", AtMost(0)},
}

func measureFailover(ctx context.Context, b *Bench) error {
	g := &gateSite{bench: b}
	rows := failoverRows
	r, err := newRace(ctx, b)
	if err != nil {
		err = g.cannot(err, rows.p50, rows.p90, rows.afterOff, rows.ratio, rows.violations)
	} else {
		err = errors.Join(r.measure(ctx), r.close())
	}
	if ctx.Err() != nil {
		return err
	}
	idle := failoverIdleRows
	return errors.Join(err, g.cannot(measureFailoverIdle(ctx, b), idle.leaderRSS, idle.leaderCPU, idle.followerRSS,
		idle.followerCPU))
}

// kubeSite is a cluster of Kubernetes, and three peers that look after it.
type kubeSite struct {
	kube  *kubeLab
	fleet fleet
}

// newKubeSite starts both. Settings are those that differ from what is shipped.
func newKubeSite(ctx context.Context, b *Bench, name string, nodes int, settings map[string]string,
	flags ...string) (s *kubeSite, err error) {
	binary, err := b.Binary(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := b.Folder(name)
	if err != nil {
		return nil, err
	}
	k, err := newKubeLab(ctx, dir, append(flags, fmt.Sprintf("--nodes=%d", nodes))...)
	if err != nil {
		return nil, err
	}
	s = &kubeSite{kube: k}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	kubeconfig, err := k.trusted(ctx)
	if err != nil {
		return nil, err
	}
	fence, err := k.fence(nodes)
	if err != nil {
		return nil, err
	}
	all := map[string]string{
		"failover.mode": "safe", "failover.kubeconfigs": "lab=" + kubeconfig, "failover.fence_file": fence,
	}
	for key, value := range settings {
		all[key] = value
	}
	s.fleet, err = newFleet(ctx, binary, dir, all)
	return s, err
}

func (s *kubeSite) close() error { return errors.Join(s.fleet.end(), s.kube.end()) }

// fence writes the file of devices: the agent switches every machine.
func (k *kubeLab) fence(nodes int) (path string, err error) {
	agent := filepath.Join(k.dir, "fence-agent")
	if err := os.WriteFile(agent, []byte(fenceAgent), 0o700); err != nil {
		return "", fmt.Errorf("write the fence agent: %w", err)
	}
	var text strings.Builder
	fmt.Fprintf(&text,
		"devices:\n  - name: lab\n    type: agent\n    program: %s\n    options: {control: %q}\n    nodes:\n",
		agent, strings.TrimPrefix(k.control, "http://"))
	for n := range nodes {
		fmt.Fprintf(&text, "      node-%d: {machine: node-%d}\n", n+1, n+1)
	}
	path = filepath.Join(k.dir, "fence.yaml")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		return "", fmt.Errorf("write the file of devices: %w", err)
	}
	return path, nil
}

// race is the comparison of strategies, side by side in one cluster.
type race struct {
	*kubeSite
	bench       *Bench
	pods, nodes *kubeView
}

// lane is one strategy with kube nodes of its own, and a StatefulSet of one pod with
// a volume that only they may run.
type lane struct {
	name   string
	first  int // number of its first kube node
	nodes  int
	phases []time.Duration // of each trial: how long after a renewal of its Lease a machine loses its power
	// remedy is what is done when the kube node is not Ready; nil does nothing, for
	// it is somebody else's business.
	remedy func(ctx context.Context, pod kubeObject) error
	ours   bool
	took   Sample // from the power-off until the pod is ready elsewhere
	off    Sample // the part of it after the power-off was logged
	cut    int    // trials that were given up
}

func (l *lane) pod() string { return "race-" + l.name + "-0" }

func (l *lane) String() string {
	switch {
	case len(l.took) == 0 && l.cut == 0:
		return l.name + ": not tried"
	case l.cut > 0:
		return fmt.Sprintf("%s: not within the limit in %d of %d", l.name, l.cut, l.cut+len(l.took))
	}
	return fmt.Sprintf("%s: %v", l.name, l.took)
}

// newRace starts the cluster, and the peers with what is shipped but for how often
// one machine may die.
func newRace(ctx context.Context, b *Bench) (*race, error) {
	s, err := newKubeSite(ctx, b, "failover", 3*theirNodes+ourLanes*ourNodes, map[string]string{
		"failover.node_selector": "lane in (ours1,ours2)",
		"failover.node_rate":     "60", "failover.healthy_delay": "2s",
	})
	if err != nil {
		return nil, err
	}
	return &race{kubeSite: s, bench: b}, nil
}

// measure tries all strategies at the same time. One that fails does not keep the
// others from being measured.
func (r *race) measure(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if r.pods, err = r.kube.follow(ctx, "/api/v1/namespaces/default/pods"); err != nil {
		return err
	}
	if r.nodes, err = r.kube.follow(ctx, "/api/v1/nodes"); err != nil {
		return err
	}
	lanes := r.lanes(r.bench.PowerOffs)
	before, began := busyTime(), time.Now()
	var all errgroup.Group
	failed := make([]error, len(lanes))
	for i, l := range lanes {
		all.Go(func() error {
			if err := r.run(ctx, l); err != nil {
				failed[i] = fmt.Errorf("%s: %w", l.name, err)
				r.bench.Say("failover: %v", failed[i])
			}
			return nil
		})
	}
	failed = append(failed, all.Wait())
	return errors.Join(append(failed, r.report(ctx, lanes, busyShare(before, began)))...)
}

// busyTime is the processor time that everything on this machine has used; 0 if it
// cannot be looked at.
func busyTime() time.Duration {
	machine, err := cpuOfMachine()
	if err != nil {
		return 0
	}
	return machine
}

// busyShare says how busy the machine was since a moment: with the lab, the peers
// and whatever else runs.
func busyShare(before time.Duration, began time.Time) string {
	share := (busyTime() - before).Seconds() / (time.Since(began).Seconds() * float64(runtime.NumCPU()))
	return fmt.Sprintf("the machine was %.0f%% busy, the lab included", share*100)
}

// lanes returns the strategies. Ours share the trials.
func (r *race) lanes(trials int) []*lane {
	force := func(ctx context.Context, pod kubeObject) error {
		return r.kube.deletePod(ctx, pod)
	}
	taint := func(ctx context.Context, pod kubeObject) error {
		return r.kube.taint(ctx, pod.Spec.NodeName, true)
	}
	all := []*lane{
		{name: "stock", nodes: theirNodes, phases: phases(1, 0, 1)},
		{name: "force", nodes: theirNodes, phases: phases(1, 0, 1), remedy: force},
		{name: "taint", nodes: theirNodes, phases: phases(min(trials, taintTrials), 0, 1), remedy: taint},
	}
	for n := range ourLanes {
		all = append(all, &lane{name: fmt.Sprintf("ours%d", n+1), nodes: ourNodes, phases: phases(trials, n, ourLanes),
			ours: true})
	}
	first := 1
	for _, l := range all {
		l.first = first
		first += l.nodes
	}
	return all
}

// phases are the moments between two renewals at which a lane of so many takes its
// trials of all: one in the middle of each part of the period. Moments by chance would
// move the median of 30 by a second.
func phases(all, lane, lanes int) (own []time.Duration) {
	for n := lane; n < all; n += lanes {
		own = append(own, leasePeriod*time.Duration(2*n+1)/time.Duration(2*all))
	}
	return own
}

// report records the figures; what was measured before something failed counts. A
// trial of ours that was given up counts as long as that took.
func (r *race) report(ctx context.Context, lanes []*lane, busy string) error {
	var ours, off, taint Sample
	trials, cut, others := 0, 0, []string(nil)
	for _, l := range lanes {
		trials += len(l.took) + l.cut
		if l.ours {
			ours, off, cut = append(ours, l.took...), append(off, l.off...), cut+l.cut
			continue
		}
		others = append(others, l.String())
		if l.name == "taint" && l.cut == 0 {
			taint = l.took
		}
	}
	for range cut {
		ours = append(ours, r.bench.Cut)
	}
	g, rows := &gateSite{bench: r.bench}, failoverRows
	add := func(row row, value float64, raw string) { r.bench.Report.Add(row.name, value, row.unit, row.goal, raw) }
	switch {
	case len(ours) == 0:
		g.skip(errors.New("no power-off was measured"), rows.p50, rows.p90, rows.ratio)
	case len(taint) == 0:
		g.skip(errors.New("the taint alone came to no end"), rows.ratio)
	default:
		add(rows.ratio, ours.P50().Seconds()/taint.P50().Seconds(),
			fmt.Sprintf("%v to %v", short(ours.P50()), short(taint.P50())))
	}
	if len(ours) > 0 {
		add(rows.p50, ours.P50().Seconds(), "the median of these")
		add(rows.p90, ours.Quantile(0.9).Seconds(),
			fmt.Sprintf("%v, %d given up; in the same cluster at the same time, given up after %v: %s; %s",
				ours, cut, r.bench.Cut, strings.Join(others, "; "), busy))
	}
	if len(off) == 0 {
		g.skip(errors.New("no power-off was logged"), rows.afterOff)
	} else {
		add(rows.afterOff, off.Quantile(0.9).Seconds(), off.String())
	}
	n, err := r.kube.violations(ctx)
	if err != nil {
		g.skip(err, rows.violations)
		return err
	}
	add(rows.violations, float64(n), fmt.Sprintf("in %d power-offs, those of all strategies", trials))
	return nil
}

// run tries a strategy again and again. The pod's machine is the next to die.
func (r *race) run(ctx context.Context, l *lane) error {
	if err := r.prepare(ctx, l); err != nil {
		return err
	}
	for trial, phase := range l.phases {
		if err := r.lose(ctx, l, phase); err != nil {
			return fmt.Errorf("trial %d: %w", trial+1, err)
		}
	}
	return nil
}

// prepare makes the pod and waits until it is ready.
func (r *race) prepare(ctx context.Context, l *lane) error {
	for n := range l.nodes {
		label := map[string]any{"metadata": map[string]any{"labels": map[string]string{"lane": l.name}}}
		if err := r.kube.do(
			ctx, "PATCH", fmt.Sprintf("/api/v1/nodes/node-%d", l.first+n), typeMerge, label, nil); err != nil {
			return err
		}
	}
	if err := r.kube.do(ctx, "POST", "/apis/apps/v1/namespaces/default/statefulsets", typeJSON, statefulSet(l),
		nil); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, failoverSetup)
	defer cancel()
	_, err := r.await(ctx, l.pod()+" to be ready", r.pods, l.pod(),
		func(pod kubeObject) bool { return pod.ready() && pod.Spec.NodeName != "" })
	return err
}

// await waits for an object to be as is asked.
func (r *race) await(ctx context.Context, what string, view *kubeView, name string,
	ok func(kubeObject) bool) (o kubeObject, err error) {
	var stopped error
	err = until(ctx, what, func() bool {
		var there bool
		o, there, stopped = view.get(name)
		return stopped != nil || there && ok(o)
	})
	return o, errors.Join(err, stopped)
}

// lose takes the power of the pod's machine, so long after it renewed its Lease, and the
// time until the pod is ready on another; the machine is switched on again.
func (r *race) lose(ctx context.Context, l *lane, phase time.Duration) error {
	old, _, err := r.pods.get(l.pod())
	if err != nil {
		return err
	}
	victim := old.Spec.NodeName
	if err := r.renewed(ctx, victim, phase); err != nil {
		return err
	}
	began := time.Now()
	if err := r.kube.power(ctx, victim, "off"); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, r.bench.Cut)
	defer cancel()
	pod, err := r.moved(limited, l, old)
	switch {
	case err == nil:
		l.took = append(l.took, pod.seen.Sub(began))
		r.bench.Say("failover: %s: %s is ready on %s instead of %s after %v", l.name, l.pod(), pod.Spec.NodeName, victim,
			short(pod.seen.Sub(began)))
	case limited.Err() != nil && ctx.Err() == nil:
		l.cut++
		r.bench.Say("failover: %s: given up after %v", l.name, r.bench.Cut)
		err = nil
	}
	if err == nil && l.ours && pod.ready() {
		err = r.afterOff(ctx, l, victim, began, pod.seen)
	}
	return errors.Join(err, r.back(ctx, l, victim))
}

// moved does what the strategy does, and waits for the pod.
func (r *race) moved(ctx context.Context, l *lane, old kubeObject) (kubeObject, error) {
	victim := old.Spec.NodeName
	if l.remedy != nil {
		if _, err := r.await(ctx, victim+" not to be ready", r.nodes, victim,
			func(n kubeObject) bool { return !n.ready() }); err != nil {
			return kubeObject{}, err
		}
		if err := l.remedy(ctx, old); err != nil {
			return kubeObject{}, err
		}
	}
	return r.await(ctx, l.pod()+" to be ready elsewhere", r.pods, l.pod(), func(pod kubeObject) bool {
		return pod.Metadata.UID != old.Metadata.UID && pod.Spec.NodeName != victim && pod.ready()
	})
}

// back switches a machine on again, and waits until it takes pods.
func (r *race) back(ctx context.Context, l *lane, victim string) error {
	if err := r.kube.power(ctx, victim, "on"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, failoverSetup)
	defer cancel()
	if l.ours {
		return nil // enough others are left, and we clean up after ourselves
	}
	if l.remedy != nil {
		if err := r.kube.taint(ctx, victim, false); err != nil {
			return err
		}
	}
	_, err := r.await(ctx, victim+" to be ready", r.nodes, victim, kubeObject.ready)
	return err
}
