package failover

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// factsOf returns facts under which the first of five kube nodes, a worker, is
// dead beyond doubt and nothing forbids to act.
func factsOf() *facts {
	s := defaultSettings()
	s.Mode = ModeSafe
	f := &facts{
		settings: s, cluster: courtCluster, synced: true, clock: fsm.Time(10 * time.Hour),
		api: APIState{Answers: true, Back: -1},
		peers: []peerFacts{
			{name: "a", hosts: []string{"192.0.2.1"}, self: true, alive: true},
			{name: "b", hosts: []string{"192.0.2.2"}, alive: true},
			{name: "c", hosts: []string{"192.0.2.3"}, alive: true},
		},
	}
	for i := range 5 {
		n := &nodeFacts{WatchedNode: WatchedNode{Node: modelNodeNamed(i), Leased: true, Known: -1, Renewed: time.Second},
			recorded: true, answers: 3, voters: 3, devices: []string{"bmc"}}
		f.nodes = append(f.nodes, n)
	}
	f.nodes[0].die(f)
	return f
}

func (n *nodeFacts) die(f *facts) {
	n.LeaseAge, n.Renewed, n.lasting = f.settings.Detection.LeaseAge, f.settings.Detection.LeaseAge,
		f.settings.Detection.Hold
	n.silent, n.answers = n.voters, 0
}

// isControlPlane makes control-plane nodes.
func (f *facts) isControlPlane(nodes ...int) {
	for _, i := range nodes {
		f.nodes[i].ControlPlane = true
	}
}

// railCase has the facts on which a guard rail forbids, alone, and its sentence.
type railCase struct {
	change func(f *facts, n *nodeFacts)
	says   string
}

func railCases() map[string]railCase {
	cases := nodeRailCases()
	maps.Copy(cases, clusterRailCases())
	return cases
}

func nodeRailCases() map[string]railCase {
	return map[string]railCase{
		"mode": {func(f *facts, _ *nodeFacts) { f.settings.Mode = ModeOff }, "failover is off (failover.mode)"},
		"api-back": {
			func(f *facts, _ *nodeFacts) { f.api.Back = 4 * time.Second },
			"the API server of prod answers again for only 4s; kubelets have 17s to renew",
		},
		"opt-out": {
			func(_ *facts, n *nodeFacts) { n.Annotations = map[string]string{AnnotationOptOut: "true"} },
			"its annotation trivet.dev/failover-disabled is true",
		},
		"selected": {
			func(f *facts, _ *nodeFacts) { f.settings.Remedy.Nodes = func(n Node) bool { return n.Name != "n0" } },
			"failover.node_selector does not select it",
		},
		"never-ready": {func(_ *facts, n *nodeFacts) { n.recorded = false }, "it was never seen Ready"},
		"young": {
			func(_ *facts, n *nodeFacts) { n.Known = 20 * time.Second },
			"it appeared only 20s ago; looked after from 1m0s on (failover.healthy_delay)",
		},
		"planned": {
			func(_ *facts, n *nodeFacts) { n.Unschedulable = true },
			"it is cordoned, so it may be restarted on purpose; then only Ready counts, after 5m0s (failover.not_ready_after)",
		},
		"node-rate": {
			func(f *facts, n *nodeFacts) {
				for i := range 3 {
					f.history = append(f.history,
						kubestate.Remediation{Node: n.Name, State: kubestate.RemRecovered,
							Began: f.clock.Add(-time.Duration(i+2) * 10 * time.Minute), Since: f.clock.Add(-20 * time.Minute)})
				}
			},
			"3 remediations of it began within the last hour, 3 may (failover.node_rate)",
		},
		"healthy-delay": {
			func(f *facts, n *nodeFacts) {
				f.history = []kubestate.Remediation{
					{Node: n.Name, State: kubestate.RemRecovered, Began: f.clock.Add(-10 * time.Minute),
						Since: f.clock.Add(-30 * time.Second)}}
			},
			"it recovered only 30s ago; the next remediation may begin after 1m0s (failover.healthy_delay)",
		},
		"cancelled": {
			func(f *facts, n *nodeFacts) {
				ended := endedOf(n, f.clock, kubestate.Step{State: kubestate.RemCancelled, Operator: true, Peer: "ann"})
				n.cancelled = &ended
			},
			"remediation 9 of it was cancelled by ann 2h0m0s ago, and it was not well since: 'trivet failover release n0 --to fencing' lets it be fenced before",
		},
		"contradicted": {
			func(f *facts, n *nodeFacts) {
				found := contradiction + "device bmc says off, and its kubelet answers"
				f.history = []kubestate.Remediation{endedOf(n, f.clock, kubestate.Step{State: kubestate.RemStuck, Reason: found},
					kubestate.Step{State: kubestate.RemStuck, Reason: kubestate.HeldByFounding},
					kubestate.Step{State: kubestate.RemCancelled})}
			},
			"its device was found out in remediation 9 (device bmc says off, and its kubelet answers): look at its mapping with 'trivet failover test-fence n0'; once it is right, 'trivet failover release n0 --to fencing' lets it be used again",
		},
		unreadRail: {
			func(f *facts, n *nodeFacts) {
				f.history = []kubestate.Remediation{endedOf(n, f.clock,
					kubestate.Step{State: kubestate.RemStuck, Reason: contradiction + "device bmc says off, and its kubelet answers"},
					kubestate.Step{State: kubestate.RemFencing, Operator: true}, kubestate.Step{State: kubestate.RemCancelled})}
				noteUnread(f, func() string { return "its host has not read the list" })
			},
			"its host has not read the list",
		},
		"no-device": {
			func(_ *facts, n *nodeFacts) { n.devices = nil },
			"no fence device is configured for it (failover.fence_file), so no peer can prove that it is off",
		},
		"dry-run": {func(f *facts, _ *nodeFacts) { f.settings.DryRun = true }, "this is a dry run (failover.dry_run)"},
	}
}

// endedOf is a remediation of a kube node that was cancelled two hours ago.
func endedOf(n *nodeFacts, now fsm.Time, steps ...kubestate.Step) kubestate.Remediation {
	ago := now.Add(-2 * time.Hour)
	return kubestate.Remediation{Intent: 9, Node: n.Name, UID: n.UID, State: kubestate.RemCancelled, Began: ago,
		Since: ago, Steps: steps}
}

func clusterRailCases() map[string]railCase {
	return map[string]railCase{
		"paused": {
			func(f *facts, _ *nodeFacts) {
				f.paused, f.pause = true,
					kubestate.Pause{Cluster: "prod", By: "eve", Reason: "upgrade", Until: f.clock.Add(time.Minute)}
			},
			"failover is paused for cluster prod by eve for another 1m0s: upgrade",
		},
		"most-silent": {
			func(f *facts, _ *nodeFacts) {
				f.nodes[1].silent, f.nodes[1].answers, f.nodes[2].Ready = 2, 1, kubestate.ReadyFalse
			},
			"3 of 5 kube nodes are unhealthy together (n0, n1, n2), at most 2 may be (failover.min_healthy, failover.max_unhealthy): the fault may be elsewhere",
		},
		"storm": {
			func(f *facts, _ *nodeFacts) {
				f.held, f.hold = true, kubestate.Hold{Until: f.clock.Add(3 * time.Minute)}
			},
			"too many kube nodes were unhealthy together; nothing is begun for another 3m0s (failover.storm_cooldown)",
		},
		"cut-off": {
			func(f *facts, n *nodeFacts) {
				for _, m := range []*nodeFacts{n, f.nodes[1]} {
					m.Ready, m.silent, m.answers = kubestate.ReadyUnknown, 1, 2
					m.NotReady, m.LeaseAge = f.settings.Detection.NotReadyAfter, f.settings.Detection.NotReadyAfter
				}
			},
			"2 kube nodes do not reach the API server (n0, n1), and most peers hear their kubelets: the fault is in the network, not in the machines",
		},
		"control-plane": {
			func(f *facts, _ *nodeFacts) {
				f.isControlPlane(0, 1, 2, 3, 4)
				f.open = []kubestate.Remediation{{Node: "n4", UID: "uid-4", ControlPlane: true}}
			},
			"a remediation of n4 is open, and of control-plane nodes there is one at a time",
		},
		"etcd-quorum": {
			func(f *facts, _ *nodeFacts) { f.isControlPlane(0, 1, 2); f.nodes[1].Ready = kubestate.ReadyUnknown },
			"without it 1 of 3 control-plane nodes are healthy, and etcd needs 2",
		},
		"own-quorum": {
			func(_ *facts, n *nodeFacts) { n.Addresses = []string{"::ffff:192.0.2.2"} },
			"peer b runs on it and is alive: its session lives",
		},
		"shared-address": {
			func(f *facts, n *nodeFacts) {
				n.Kubelet, f.nodes[1].Addresses = "192.0.2.9:10250", []string{"192.0.2.21", "192.0.2.9"}
				n.silent, n.answers = 2, 1
			},
			"1 of 3 peers hear a kubelet at 192.0.2.9:10250, which is an address of Node n1, too: it may be that one's; start the kubelet with --node-ip, so that the Node tells an address of its own",
		},
		"twin": {
			func(f *facts, n *nodeFacts) { f.nodes[3].BootID = n.BootID },
			"kube node prod/n3 is alive and has the same boot ID, so both are one machine: delete the Node that is not in use",
		},
	}
}

func TestEveryGuardRailForbidsAlone(t *testing.T) {
	f := factsOf()
	if v := f.judgeNode(f.nodes[0]); !v.Act || !v.Suspect || !strings.HasPrefix(v.Would, "cordon, power off (bmc)") {
		t.Fatalf("without anything that forbids: %+v", v)
	}
	cases := railCases()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := factsOf()
			c.change(f, f.nodes[0])
			v := f.judgeNode(f.nodes[0])
			if v.Act || !v.Suspect {
				t.Errorf("%s-forbids: act %v, suspect %v", name, v.Act, v.Suspect)
			}
			if len(v.Why) != 2 || v.Why[0] != c.says {
				t.Errorf("%s-forbids: it says\n\t%s\nwant first, and besides only what makes it a suspect,\n\t%s", name,
					strings.Join(v.Why, "\n\t"), c.says)
			}
			if (v.Would == nothing) == (name == dryRunRail) {
				t.Errorf("would: %q", v.Would)
			}
			wanted := []string{"mode", "paused", "opt-out", "selected", "never-ready", "planned", "cancelled", "dry-run"}
			if v.Held() == slices.Contains(wanted, name) {
				t.Errorf("held: by %s it is told to be left alone: %v", name, v.Held())
			}
		})
	}
	for _, r := range rails() {
		if _, tested := cases[r.name]; !tested && r.name != "synced" && r.name != "api-silent" {
			t.Errorf("guard rail %s has no case", r.name)
		}
	}
}

// Two guard rails are behind the signs, which come to nothing by themselves then.
func TestSilenceIsNoSuspicion(t *testing.T) {
	f := factsOf()
	f.synced = false
	if v := f.judgeNode(f.nodes[0]); v.Suspect || v.Why[0] != notSynced || bySync(f, f.nodes[0]) != notSynced {
		t.Errorf("before the list is read: %+v", v)
	}
	f = factsOf()
	f.api = APIState{Why: "connection refused", Silence: 12 * time.Second, Back: -1}
	const says = "the API server of prod is silent for 12s (connection refused): no kubelet can renew its Lease, so no age counts"
	if v := f.judgeNode(f.nodes[0]); v.Suspect || v.Why[0] != says || byAPISilence(f, f.nodes[0]) != says {
		t.Errorf("while the API server is silent: %+v", v)
	}
}

func TestGuardRailsInDetail(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(f *facts, n *nodeFacts)
		act    bool
	}{
		{"two of five", func(f *facts, _ *nodeFacts) { f.nodes[1].die(f) }, true},
		{"nodes in remediation are unhealthy", func(f *facts, _ *nodeFacts) {
			f.nodes[1].remediation, f.nodes[2].remediation = &kubestate.Remediation{}, &kubestate.Remediation{}
		}, false},
		{"max_unhealthy alone", func(f *facts, _ *nodeFacts) {
			f.settings.Guard.MinHealthy, f.settings.Guard.MaxUnhealthy = Share{}, percent(39)
			f.nodes[1].die(f)
		}, false},
		{"no bound at all", func(f *facts, _ *nodeFacts) {
			f.settings.Guard.MinHealthy = Share{}
			for _, n := range f.nodes[1:] {
				n.die(f)
			}
		}, true},
		{"the only kube node", func(f *facts, _ *nodeFacts) { f.nodes = f.nodes[:1] }, false},
		{"one of three", func(f *facts, _ *nodeFacts) { f.nodes = f.nodes[:3] }, true},
		{"one of two", func(f *facts, _ *nodeFacts) { f.nodes = f.nodes[:2] }, false},
		{"control plane of three", func(f *facts, _ *nodeFacts) { f.isControlPlane(0, 1, 2) }, true},
		{"control plane of two", func(f *facts, _ *nodeFacts) { f.isControlPlane(0, 1) }, false},
		{"the only control-plane node", func(f *facts, _ *nodeFacts) { f.isControlPlane(0) }, false},
		{"a worker beside a control-plane node", func(f *facts, _ *nodeFacts) {
			f.isControlPlane(4)
			f.open = []kubestate.Remediation{{Node: "n4", UID: "uid-4", ControlPlane: true}}
		}, true},
		{"the host of the leader", func(_ *facts, n *nodeFacts) { n.Addresses = []string{"192.0.2.1"} }, false},
		{"the host of a dead peer",
			func(f *facts, n *nodeFacts) { n.Addresses, f.peers[2].alive = []string{"192.0.2.3"}, false }, true},
		{"the host of a dead peer that is needed", func(f *facts, n *nodeFacts) {
			n.Addresses = []string{"192.0.2.3"}
			f.peers[1].alive, f.peers[2].alive = false, false
		}, false},
		{"cordoned and given up by Kubernetes", func(_ *facts, n *nodeFacts) {
			n.Unschedulable, n.Ready, n.NotReady = true, kubestate.ReadyUnknown, 5*time.Minute
		}, true},
		{"remedied long ago", func(f *facts, n *nodeFacts) {
			for range 5 {
				f.history = append(f.history,
					kubestate.Remediation{Node: n.Name, State: kubestate.RemRecovered, Began: f.clock.Add(-2 * time.Hour),
						Since: f.clock.Add(-2 * time.Hour)})
			}
		}, true},
		{"mode noobaa", func(f *facts, _ *nodeFacts) { f.settings.Mode = ModeNooBaa }, false},
		{"paused everywhere", func(f *facts, _ *nodeFacts) { f.paused = true }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := factsOf()
			c.change(f, f.nodes[0])
			if v := f.judgeNode(f.nodes[0]); v.Act != c.act || !v.Suspect {
				t.Errorf("%+v, want act %v", v, c.act)
			}
		})
	}
}

func TestSigns(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(f *facts, n *nodeFacts)
		suspect bool
		says    string
	}{
		{"dead", func(*facts, *nodeFacts) {}, true,
			"its Lease has not changed for 17s, and 3 of 3 peers do not hear its kubelet"},
		{"a majority", func(_ *facts, n *nodeFacts) { n.silent = 2 }, true, "2 of 3 peers do not hear"},
		{
			"no majority", func(_ *facts, n *nodeFacts) { n.silent = 1 }, false,
			"its Lease has not changed for 17s, but 1 of 3 peers do not hear its kubelet; it takes 2 to hold it for dead",
		},
		{"half is no majority", func(_ *facts, n *nodeFacts) { n.silent, n.voters = 2, 4 }, false, "it takes 3"},
		{"no peer votes", func(_ *facts, n *nodeFacts) { n.silent, n.answers = 0, 0 }, false,
			"no peer has an opinion of its kubelet"},
		{"no peer can ask", func(_ *facts, n *nodeFacts) { n.silent, n.answers, n.Kubelet = 0, 0, "" }, false,
			"no peer knows where its kubelet listens"},
		{
			"the Lease changes", func(_ *facts, n *nodeFacts) { n.LeaseAge = 16 * time.Second }, false,
			"3 of 3 peers do not hear its kubelet, but its Lease is 16s old; it is held for dead from 17s on (failover.lease_age)",
		},
		{"no Lease", func(_ *facts, n *nodeFacts) { n.Leased = false }, false, "it has no Lease"},
		{"not Ready when this peer came",
			func(_ *facts, n *nodeFacts) { n.Late, n.LeaseAge, n.Ready = true, 0, kubestate.ReadyUnknown }, true,
			"it was not Ready then"},
		{
			"in remediation when this peer came", func(_ *facts, n *nodeFacts) {
				n.remediation, n.LeaseAge, n.Renewed = &kubestate.Remediation{BootID: n.BootID}, 0, -1
			}, true, "a remediation is open",
		},
		{
			"in remediation, and it gave a sign of life", func(_ *facts, n *nodeFacts) {
				n.remediation, n.LeaseAge, n.Renewed = &kubestate.Remediation{BootID: n.BootID}, 0, time.Second
			}, false, "its Lease is 0s old",
		},
		{
			"in remediation, and it was started again", func(_ *facts, n *nodeFacts) {
				n.remediation, n.LeaseAge, n.Renewed = &kubestate.Remediation{BootID: "before"}, 0, -1
			}, false, "its Lease is 0s old",
		},
		{
			"given up by Kubernetes", func(_ *facts, n *nodeFacts) {
				n.silent, n.Ready, n.NotReady = 0, kubestate.ReadyUnknown, 5*time.Minute
			}, true, "Ready is Unknown for 5m0s (failover.not_ready_after is 5m0s)",
		},
		{
			"not yet given up", func(_ *facts, n *nodeFacts) {
				n.silent, n.LeaseAge, n.Ready, n.NotReady = 0, 0, kubestate.ReadyFalse, 4*time.Minute
			}, false, "Ready is False for 4m0s; held for dead from 5m0s on (failover.not_ready_after)",
		},
		{
			"Ready alone never counts", func(f *facts, n *nodeFacts) {
				f.settings.Detection.NotReadyAfter, n.silent, n.LeaseAge, n.Ready, n.NotReady = 0, 0, 0, kubestate.ReadyFalse,
					time.Hour
			}, false, "which alone never counts",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := factsOf()
			n := f.nodes[0]
			c.change(f, n)
			suspect, _, why := f.signs(n)
			if suspect != c.suspect || !strings.Contains(why, c.says) {
				t.Errorf("suspect %v: %s\nwant %v: %s", suspect, why, c.suspect, c.says)
			}
		})
	}
	f := factsOf()
	if _, _, why := f.signs(f.nodes[1]); why != "it is Ready, its Lease is 0s old, and 3 of 3 peers hear its kubelet" {
		t.Errorf("of a healthy node it says: %s", why)
	}
}

func TestSimulate(t *testing.T) {
	f := factsOf()
	if v := f.simulate(f.nodes[1]); !v.Act || !v.Suspect || v.Node.Name != "n1" {
		t.Errorf("a second of five: %+v", v)
	}
	f = factsOf()
	f.nodes[1].die(f)
	if v := f.simulate(f.nodes[2]); v.Act || !strings.HasPrefix(v.Why[0], "3 of 5 kube nodes") || v.Would != nothing {
		t.Errorf("a third of five: %+v", v)
	}
	f.settings.DryRun = true
	f.nodes[1] = factsOf().nodes[1]
	if v := f.simulate(f.nodes[2]); v.Act || v.Would == nothing {
		t.Errorf("in a dry run: %+v", v)
	}
}

func TestShares(t *testing.T) {
	for _, c := range []struct {
		text           string
		all            int
		least, most    int
		refused, unset bool
	}{
		{text: "51%", all: 5, least: 3, most: 2}, {text: "51%", all: 3, least: 2, most: 1},
		{text: "51%", all: 1, least: 1, most: 0},
		{text: "2", all: 5, least: 2, most: 2}, {text: "100%", all: 4, least: 4, most: 4}, {text: "0", all: 4},
		{text: "", unset: true}, {text: "101%", refused: true}, {text: "-1", refused: true}, {text: "5001", refused: true},
		{text: "half", refused: true},
	} {
		s, err := ParseShare(c.text)
		if (err != nil) != c.refused || s.IsZero() != (c.unset || c.refused) {
			t.Errorf("%q: %+v, %v", c.text, s, err)
		}
		if err == nil && (s.AtLeast(c.all) != c.least || s.AtMost(c.all) != c.most || s.String() != c.text) {
			t.Errorf("%q of %d: at least %d, at most %d, %q", c.text, c.all, s.AtLeast(c.all), s.AtMost(c.all), s)
		}
	}
}

// In a cluster of one or two kube nodes the shipped min_healthy lets none be lost, and
// the operator who simulates a loss is told.
func TestFewKubeNodesAreNamed(t *testing.T) {
	for nodes, row := range map[int]struct{ forbids, names string }{
		1: {"of one kube node nothing can be moved", "51%"},
		2: {"failover.min_healthy: 1", "51%"},
		3: {},
	} {
		f := factsOf()
		f.nodes = f.nodes[:nodes]
		v := f.simulate(f.nodes[0])
		why := strings.Join(v.Why, "; ")
		if v.Act != (nodes == 3) || !strings.Contains(why, row.forbids) || !strings.Contains(why, row.names) ||
			nodes < 3 && !strings.Contains(why, "nothing is ever done") {
			t.Errorf("few-nodes: of %d: act %v: %s", nodes, v.Act, why)
		}
	}
}

// TestSimulateNooBaa has what forbids the compatible mode to act, and what does not.
func TestSimulateNooBaa(t *testing.T) {
	f := factsOf()
	f.nodes[1].die(f)
	f.nodes[2].devices = nil
	if v := f.simulateNooBaa(f.nodes[2]); !v.Act || v.Would == nothing {
		t.Errorf("simulate-noobaa: a third of five, without a device: %+v", v)
	}
	f.settings.DryRun = true
	if v := f.simulateNooBaa(f.nodes[2]); v.Act || v.Would == nothing || len(v.Why) != 1 {
		t.Errorf("simulate-noobaa: in a dry run: %+v", v)
	}
	f.settings.DryRun, f.paused = false, true
	if v := f.simulateNooBaa(f.nodes[2]); v.Act || v.Would != nothing {
		t.Errorf("simulate-noobaa: paused: %+v", v)
	}
}

// A kube node whose device was found out waits for the list of the leader's host once it was released, also for one
// that was off, until a device was believed again; no other one does.
func TestReleasedByAListThatTheLeaderHasNotRead(t *testing.T) {
	found := kubestate.Step{State: kubestate.RemStuck, Reason: contradiction + "device bmc says off, and it answers"}
	failed := kubestate.Step{State: kubestate.RemStuck, Reason: "device bmc: no answer"}
	released := kubestate.Step{State: kubestate.RemFencing, Operator: true}
	for name, row := range map[string]struct {
		steps []kubestate.Step
		node  string
		want  int
	}{
		"released":           {[]kubestate.Step{found, released}, "n0", 1},
		"tried since":        {[]kubestate.Step{found, released, {State: kubestate.RemFencing, Device: "bmc"}}, "n0", 1},
		"believed since":     {[]kubestate.Step{found, released, {State: kubestate.RemOff}}, "n0", 0},
		"another kube node":  {[]kubestate.Step{found, released}, "n1", 0},
		"it was not":         {[]kubestate.Step{found}, "n0", 0},
		"its device was not": {[]kubestate.Step{failed, released}, "n0", 0},
	} {
		f := factsOf()
		f.history = []kubestate.Remediation{{Node: row.node, State: kubestate.RemFencing, Steps: row.steps}}
		noteUnread(f, func() string { return "not read" })
		if got := f.refusals(f.nodes[0], whileOff()); len(got) != row.want {
			t.Errorf("unread-fences: %s: %v", name, got)
		}
	}
}
