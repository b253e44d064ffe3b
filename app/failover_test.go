package app

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/app/health"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/failover"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector/ironic"
	"github.com/trivet-ha/trivet/raftstore"
)

// Nothing is opened, and no file is looked for, while the mode is empty.
func TestFailoverThatIsOffCostsNothing(t *testing.T) {
	conf := config.Default()
	conf.Failover.Kubeconfigs = []string{"prod=/nowhere/kubeconfig"}
	conf.Failover.FenceFile = "/nowhere/fence.yaml"
	p := &Peer{opts: Options{Config: conf, Logger: slog.New(slog.DiscardHandler)},
		core: &Core{Store: new(raftstore.Store)}, self: new(health.Self), serving: &serving{doorway: new(doorway)},
		opened: new(closers)}
	if err := p.kube.openFailover(p.opts, "h1", nil, p.opened); err != nil || p.kube.failover != nil ||
		len(p.opened.all) > 0 {
		t.Errorf("opened %+v: %v", p.kube.failover, err)
	}
	if off := p.kube.off; off == nil || len(off.Left) != 1 || off.Left[0].Name != "prod" || off.Settings.Idle() == "" {
		t.Errorf("left: what was begun before is ended in %+v", off)
	} else if _, _, err := off.Left[0].Open(); err == nil || !strings.Contains(err.Error(), "/nowhere/kubeconfig") {
		t.Errorf("left: opened a kubeconfig that is not there: %v", err)
	}
	if p.newAdmin().Kube.Here != nil {
		t.Error("it is there")
	}
	p.opts.Config.Failover.Mode = config.FailoverSafe
	if err := p.kube.openFailover(p.opts, "h1", nil, p.opened); err == nil ||
		!strings.Contains(err.Error(), "failover.fence_file") {
		t.Errorf("no such file: %v", err)
	}
}

// oneNode is an Ironic with one node, as fence devices use it.
type oneNode struct {
	fencedIronic
	state string
	away  error
}

// Node implements fencedIronic.
func (n oneNode) Node(context.Context, string) (ironic.Node, error) {
	return ironic.Node{Provision: n.state}, n.away
}

// The power of a machine with which Ironic or an introspection works is not taken; at rest, with a workload, or
// where nothing is known, it is.
func TestPowerIsNotTakenInTheMiddleOfWork(t *testing.T) {
	record := func(state introspection.NodeState, boots bool) introspection.Record {
		return introspection.Record{State: state, ManageBoot: boots}
	}
	for name, c := range map[string]struct {
		node oneNode
		log  introspection.Record
		want string // is in the reason; "": there is none
	}{
		"deployed":                 {oneNode{state: "active"}, introspection.Record{}, ""},
		"at rest":                  {oneNode{state: "manageable"}, introspection.Record{}, ""},
		"a failed cleaning":        {oneNode{state: "clean failed"}, introspection.Record{}, ""},
		"rescued":                  {oneNode{state: "rescue"}, introspection.Record{}, ""},
		"cleaned":                  {oneNode{state: "clean wait"}, introspection.Record{}, `in state "clean wait"`},
		"inspected by Ironic":      {oneNode{state: "inspect wait"}, introspection.Record{}, `in state "inspect wait"`},
		"flashed":                  {oneNode{state: "service wait"}, introspection.Record{}, `in state "service wait"`},
		"accepted":                 {oneNode{state: "manageable"}, record(introspection.NodeStarting, true), "(starting)"},
		"introspected":             {oneNode{state: "manageable"}, record(introspection.NodeWaiting, true), "(waiting)"},
		"introspected earlier":     {oneNode{state: "manageable"}, record(introspection.NodeFinished, true), ""},
		"introspected in vain":     {oneNode{state: "manageable"}, record(introspection.NodeError, true), ""},
		"its data is reapplied":    {oneNode{state: "manageable"}, record(introspection.NodeReapplying, true), ""},
		"introspected as it runs":  {oneNode{state: "manageable"}, record(introspection.NodeWaiting, false), ""},
		"deployed, introspected":   {oneNode{state: "active"}, record(introspection.NodeWaiting, true), ""},
		"Ironic does not answer":   {oneNode{away: errors.New("away")}, record(introspection.NodeWaiting, true), ""},
		"a state of later Ironics": {oneNode{state: "polishing"}, introspection.Record{}, ""},
		"Ironic has a capital":     {oneNode{state: "Cleaning"}, introspection.Record{}, `in state "Cleaning"`},
	} {
		u := machineUse{c.node, func(string) (introspection.Record, bool) { return c.log, true }}
		why, err := u.why(t.Context(), "u1")
		if (err != nil) != (c.node.away != nil) || (why == "") != (c.want == "") || !strings.Contains(why, c.want) {
			t.Errorf("in-use: %s: %q, %v; want %q", name, why, err, c.want)
		}
	}
}

// What is not written anywhere is what the tests of failover go by (its defaultSettings).
func TestDefaultsOfTheConfigurationAreFailovers(t *testing.T) {
	got, err := kubeSettings(config.Default().Failover)
	if err != nil {
		t.Fatal(err)
	}
	healthy, err := failover.ParseShare("51%")
	if err != nil {
		t.Fatal(err)
	}
	want := failover.Settings{
		Detection: failover.Detection{LeaseAge: 17 * time.Second, Hold: 2 * time.Second, NotReadyAfter: 5 * time.Minute},
		Probe:     failover.Probe{Interval: 2 * time.Second, Timeout: 2 * time.Second, Misses: 3},
		Guard: failover.Guard{MinHealthy: healthy, StormCooldown: 5 * time.Minute, NodeRate: 3,
			HealthyDelay: time.Minute},
		Remedy: failover.Remedy{Retries: 5, RetryInterval: time.Second, Timeout: 10 * time.Second},
		NooBaa: failover.NooBaa{Exempt: []string{"noobaa-db-pg-"}},
	}
	if got.Detection != want.Detection || got.Probe != want.Probe || got.Guard != want.Guard || got.Mode != want.Mode ||
		got.DryRun != want.DryRun ||
		got.Remedy.Retries != want.Remedy.Retries || got.Remedy.RetryInterval != want.Remedy.RetryInterval ||
		got.Remedy.Timeout != want.Remedy.Timeout ||
		got.Remedy.PowerOn != want.Remedy.PowerOn || got.Remedy.Pods != nil || got.Remedy.Nodes != nil ||
		!slices.Equal(got.NooBaa.Exempt, want.NooBaa.Exempt) {
		t.Errorf("the configuration gives\n%+v\nwant\n%+v", got, want)
	}
}

func TestSelectorsSelect(t *testing.T) {
	conf := config.Default().Failover
	conf.Filter = config.FailoverFilter{Namespaces: []string{"a", "b"}, PodSelector: "app=noobaa,tier!=cache",
		NodeSelector: "!spare"}
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
	if s, err = kubeSettings(conf); err != nil || !s.Remedy.Pods(failover.Pod{Namespace: "a"}) ||
		s.Remedy.Pods(failover.Pod{Namespace: "b"}) {
		t.Errorf("namespaces alone: %v", err)
	}
	for key, filter := range map[string]config.FailoverFilter{"failover.pod_selector": {PodSelector: "a in"},
		"failover.node_selector": {NodeSelector: "=x"}} {
		conf.Filter = filter
		if _, err := kubeSettings(conf); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
	}
}
