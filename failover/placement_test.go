package failover

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/fsm/kubestate"
)

const (
	bootB    = "b0000000-0000-4000-8000-00000000000b"
	bootElse = "b0000000-0000-4000-8000-0000000000ff"
	uuidB    = "4C4C4544-0051-3010-8052-B4C04F564432"
	swappedB = "44454c4c-5100-1030-8052-b4c04f564432"
	idB      = "0b00000000000000000000000000001b"
	vendors  = "03000200-0400-0500-0006-000700080009" // a placeholder
)

// mostly is every peer on a machine of its own, b on one that tells all marks.
func mostly(f *facts) *peerFacts {
	f.peers[1].machine = Identity{BootID: bootB, SystemUUID: uuidB, MachineID: idB}
	return &f.peers[1]
}

// placed changes the facts of a peer b that no address shows on the dead n0.
type placed struct {
	change func(f *facts, n *nodeFacts, b *peerFacts)
	want   string // a part of what the rail says; "" if it does not forbid
}

func placements() map[string]placed {
	const alive = "peer b runs on it and is alive: its session lives (it tells the same "
	return map[string]placed{
		"on no kube node": {func(*facts, *nodeFacts, *peerFacts) {}, ""},
		"the boot ID":     {func(_ *facts, n *nodeFacts, _ *peerFacts) { n.BootID = bootB }, alive + "boot ID)"},
		"without hyphens": {func(_ *facts, n *nodeFacts, b *peerFacts) {
			n.BootID, b.machine.BootID = bootB, strings.ReplaceAll(bootB, "-", "")
		}, alive + "boot ID)"},
		"booted, the kubelet not": {func(_ *facts, n *nodeFacts, _ *peerFacts) { n.BootID, n.MachineID = bootElse, idB },
			alive + "machine ID)"},
		"the UUID": {func(_ *facts, n *nodeFacts, _ *peerFacts) { n.SystemUUID = strings.ToLower(uuidB) },
			alive + "system UUID)"},
		"the other byte order": {func(_ *facts, n *nodeFacts, _ *peerFacts) { n.SystemUUID = swappedB },
			alive + "system UUID)"},
		"a placeholder": {func(_ *facts, n *nodeFacts, b *peerFacts) {
			n.SystemUUID, b.machine.SystemUUID = vendors, vendors
		}, ""},
		"cloned images": {func(f *facts, n *nodeFacts, _ *peerFacts) {
			n.MachineID, f.nodes[2].MachineID = idB, idB
		}, ""},
		"boards with one UUID, the peer on another": {func(f *facts, n *nodeFacts, _ *peerFacts) {
			n.SystemUUID, f.nodes[2].SystemUUID, f.nodes[2].BootID = uuidB, uuidB, bootB
		}, ""},
		"the name of another cluster's": {func(f *facts, n *nodeFacts, b *peerFacts) {
			b.hosts = append(b.hosts, n.Name)
			f.others.nodes = []resident{neighbour(Node{Name: n.Name, UID: "other", BootID: bootB})}
		}, ""},
		"an address of another cluster's": {func(f *facts, n *nodeFacts, b *peerFacts) {
			b.hosts = append(b.hosts, n.Addresses[0])
			f.others.nodes = []resident{neighbour(Node{Name: "x", UID: "other", BootID: bootB})}
		}, ""},
		"the machine in two clusters": {func(f *facts, n *nodeFacts, _ *peerFacts) {
			n.BootID, n.SystemUUID, n.MachineID = bootElse, uuidB, idB // of its last boot there
			f.others.nodes = []resident{neighbour(
				Node{Name: "x", UID: "other", BootID: bootB, SystemUUID: uuidB, MachineID: idB, Ready: kubestate.ReadyFalse})}
		}, alive + "boot ID)"},
		"not heard of late": {func(_ *facts, _ *nodeFacts, b *peerFacts) { b.mute = true },
			"peer b may run on it: it is alive, and it has not told the leader of late which machine it runs on"},
		"a dead one, not heard": {func(_ *facts, _ *nodeFacts, b *peerFacts) { b.mute, b.alive = true, false }, ""},
		"unresolved, on another kube node": {func(f *facts, _ *nodeFacts, b *peerFacts) {
			b.unknown, f.nodes[2].BootID = []string{"b.example"}, bootB
		}, ""},
		"unresolved, on none": {func(_ *facts, _ *nodeFacts, b *peerFacts) { b.unknown = []string{"b.example"} },
			"the leader cannot resolve b.example"},
		"a dead one next to it": {func(f *facts, n *nodeFacts, _ *peerFacts) {
			n.BootID = bootB
			f.peers[2].machine.BootID, f.peers[2].alive = bootB, false
		}, alive + "boot ID)"},
		"the leader": {func(f *facts, n *nodeFacts, _ *peerFacts) {
			f.peers[0].machine.BootID, n.BootID = bootElse, bootElse
		}, "peer a, which leads, runs on it (it tells the same boot ID)"},
		"a version that tells nothing": {func(_ *facts, n *nodeFacts, b *peerFacts) {
			b.machine = Identity{}
			n.MachineID = ""
		}, ""},
	}
}

func neighbour(n Node) resident {
	return resident{"lab", WatchedNode{Node: n}, marksOf(n.identity(), n.Addresses)}
}

// A peer is found on its kube node by what its machine tells, also where it is known by
// an address that the Node does not tell; and on no other by what two machines may have.
func TestPeersAreFoundByTheirMachines(t *testing.T) {
	for name, c := range placements() {
		t.Run(name, func(t *testing.T) {
			f := factsOf()
			c.change(f, f.nodes[0], mostly(f))
			if says := byOwnQuorum(f, f.nodes[0]); c.want == "" && says != "" || !strings.Contains(says, c.want) {
				t.Errorf("placement: the rail says %q, want %q", says, c.want)
			}
		})
	}
}

// The rail comes from what the peers told, through everything in between.
func TestLeaderKnowsWhatPeersTold(t *testing.T) {
	log := newCourt(t, 5, nil).log
	v, _ := log.Changed()
	peers := newPeerHosts(names{}, "a")
	peers.told = func(peer string) (Identity, bool) {
		return Identity{BootID: "boot-of-" + peer}, peer != "c"
	}
	f := factsOf()
	f.peers = nil
	f.readState(v, "a", peers)
	for _, p := range f.peers {
		if id := strings.TrimPrefix(p.name, "host-"); p.machine.BootID != "boot-of-"+id || p.mute != (id == "c") {
			t.Errorf("placement: of %s is known %+v, mute %v", p.name, p.machine, p.mute)
		}
	}
}

// Where peers run is told: the one that cannot be told apart from a kube node's machine
// is not said to run elsewhere.
func TestPlacesOfPeers(t *testing.T) {
	f := factsOf()
	for i, n := range f.nodes {
		n.MachineID = idB[:len(idB)-1] + string(rune('2'+i))
	}
	f.peers[0].machine = Identity{BootID: bootElse, MachineID: idB} // elsewhere
	f.peers[1].machine = Identity{BootID: "boot-3"}
	f.peers[2].machine = Identity{BootID: bootElse} // no machine ID to compare
	want := []Place{{Peer: "a"}, {Peer: "b", Node: "prod/n3", By: "boot ID", Unknown: true}, {Peer: "c", Unknown: true}}
	if got := f.places(); !slices.Equal(got, want) {
		t.Errorf("places: %+v, want %+v", got, want)
	}
	f.peers[0].mute, f.peers[2].alive = true, false // it may have moved; it is switched off at no cost
	want[0].Unknown, want[2].Unknown = true, false
	if got := f.places(); !slices.Equal(got, want) {
		t.Errorf("places: of a silent and of a dead one %+v, want %+v", got, want)
	}
	more := []Place{{Peer: "a", Node: "lab/x", By: "boot ID"}, {Peer: "b", Node: "lab/y", By: "name"}, {Peer: "c"},
		{Peer: "d"}}
	want = []Place{{Peer: "a", Node: "lab/x", By: "boot ID", Unknown: true},
		{Peer: "b", Node: "prod/n3", By: "boot ID", Unknown: true}, {Peer: "c"}, {Peer: "d"}}
	if merged := merge(f.places(), more); !slices.Equal(merged, want) {
		t.Errorf("places: of two clusters %+v, want %+v", merged, want)
	}
}

// A Node that a machine left behind, under its former name or in another cluster, looks
// dead; the machine lives under the other one.
func TestMachineThatLivesUnderAnotherNode(t *testing.T) {
	dead := Node{Name: "n0", UID: "uid-0", BootID: bootB, SystemUUID: uuidB, MachineID: idB,
		Addresses: []string{"10.0.0.1"}}
	for name, c := range map[string]struct {
		other Node
		want  string // what shows that it is one machine; "" if nothing does
	}{
		"another machine":    {Node{BootID: bootElse, Addresses: []string{"10.0.0.2"}}, ""},
		"the boot ID":        {Node{BootID: bootB}, "boot ID"},
		"renamed and booted": {Node{BootID: bootElse, SystemUUID: swappedB, MachineID: idB}, "system UUID and machine ID"},
		"one UUID of a maker": {
			Node{BootID: bootElse, SystemUUID: uuidB, MachineID: "1" + idB[1:], Addresses: []string{"10.0.0.2"}}, ""},
		"a cloned image": {Node{BootID: bootElse, SystemUUID: "5" + uuidB[1:], MachineID: idB}, ""},
		"an address of before": {
			Node{BootID: bootElse, SystemUUID: "5" + uuidB[1:], MachineID: "1" + idB[1:], Addresses: []string{"10.0.0.1"}}, ""},
		"installed again": {Node{BootID: bootElse, SystemUUID: uuidB, MachineID: "1" + idB[1:],
			Addresses: []string{"::ffff:10.0.0.1"}}, "system UUID and address"},
		"containers": {Node{BootID: bootB, SystemUUID: "5" + uuidB[1:], MachineID: "1" + idB[1:]}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, life := range livesOfTwins() {
				f := factsOf()
				f.nodes[0].Node, f.nodes[0].Renewed, f.nodes[0].LeaseTime = dead, life.own.Renewed, life.own.LeaseTime
				c.other.Name, c.other.UID, c.other.Ready = "renamed", "uid-x", life.other.Ready
				other := neighbour(c.other)
				other.Renewed, other.LeaseAge, other.LeaseTime, other.Leased = life.other.Renewed, life.other.LeaseAge,
					life.other.LeaseTime, true
				f.others.nodes = []resident{other}
				says, want := byTwin(f, f.nodes[0]), ""
				if c.want != "" && life.want != "" {
					want = "kube node lab/renamed " + life.want + " and has the same " + c.want +
						", so both are one machine: delete the Node that is not in use"
				}
				if says != want {
					t.Errorf("twin: of %+v the rail says %q, want %q", life, says, want)
				}
				if why := f.refusals(f.nodes[0], beforePowerOn()); (want != "") != (len(why) > 0) {
					t.Errorf("twin-power-on: of %+v a command to switch it on meets %v", life, why)
				}
			}
		})
	}
}

// twins are how two kube nodes of one machine live, and what is said of the other one.
type twins struct {
	own, other WatchedNode
	want       string
}

func livesOfTwins() []twins {
	node := func(ready kubestate.Ready, age, renewed time.Duration, at string) WatchedNode {
		return WatchedNode{Node: Node{Ready: ready}, LeaseAge: age, Renewed: renewed, LeaseTime: at}
	}
	const never, before, after = -1, "2026-01-02T03:04:05.000006Z", "2026-01-20T03:04:05.000000Z"
	silent, old := kubestate.ReadyUnknown, time.Hour
	dead := node(silent, old, never, before)
	return []twins{
		{dead, node(kubestate.ReadyTrue, time.Second, never, before), "is alive"},
		{dead, node(kubestate.ReadyFalse, time.Second, time.Second, after), "was alive later"},
		{dead, node(kubestate.ReadyTrue, 20*time.Second, 20*time.Second, after), "was alive later"},
		{dead, node(silent, old, old, "1970-01-02T03:04:05.000000Z"), "was alive later"},
		{dead, node(silent, old, never, after), "was alive later"},
		{dead, dead, "may have been alive later"},
		{dead, node(silent, old, never, ""), "may have been alive later"},
		{node(silent, old, time.Minute, before), node(silent, old, old, after), ""},
		{node(silent, old, time.Minute, before), node(silent, old, never, after), ""},
		{node(silent, old, never, after), node(silent, old, never, before), ""},
	}
}

// The Node in use of a machine with two is the one that is looked after, by its own marks: the
// other one neither switches it off while that one is ill, nor when it dies, under the
// leader that saw it alive or another one.
func TestMachineIsRemediedUnderTheNodeInUse(t *testing.T) {
	inWorld(t, 5, 2, func(w *world) {
		w.with(func() {
			p := &pc{name: "n0", on: true, boots: 1, runs: map[string]string{}}
			w.pcs["n0"] = p
			w.register(p)
			for _, n := range []string{"n0", "n1"} {
				w.nodes[n].SystemUUID, w.nodes[n].MachineID = uuidB, idB
			}
		})
		h := w.lead("h1", safe(), 0, 0)
		w.pass(time.Minute)
		w.cutPower("n0")
		w.pass(20 * time.Minute)
		w.sick("n1", true)
		w.pass(4 * time.Minute)
		w.sick("n1", false)
		w.pass(time.Minute)
		if len(w.remediations("n0"))+len(w.remediations("n1")) > 0 || w.count("off", "") > 0 {
			t.Fatalf("node-in-use: a machine was switched off that works under another Node\n%s", w.story())
		}
		w.cutPower("n1")
		w.pass(5 * time.Second)
		h.leave()
		w.pass(time.Minute)
		w.lead("h2", safe(), 0, 0)
		w.comesTo("n1", kubestate.RemDetached)
		w.pass(20 * time.Minute)
		if len(w.remediations("n0")) > 0 {
			t.Errorf("node-in-use: a dead machine is remedied under two Nodes\n%s", w.story())
		}
	})
}

// A machine that joins another cluster while its old Node is being remedied is found alive there
// before each command, as it is before a remediation begins.
func TestTwinInAnotherClusterIsAskedAgain(t *testing.T) {
	dead := Node{Name: "n0", UID: "uid-0", BootID: bootB}
	all := trackers{courtCluster: NewTracker(), "lab": NewTracker()}
	all[courtCluster].Node(dead)
	settings := defaultSettings()
	j := NewJudge(JudgeOptions{
		Cluster: courtCluster, Peer: "a", Tracker: all[courtCluster], Log: newCourtLog(t), Fences: oneDevice{},
		Settings: func() Settings { return settings }, peers: newPeerHosts(peersElsewhere{}, "a"), trackers: all,
	})
	all["lab"].allTold()
	asked := []rail{{"twin", byTwin}}
	for _, as := range []*Node{nil, &dead} {
		if got := j.refusals(dead.UID, as, asked); len(got) > 0 {
			t.Fatalf("twin: %v, and there is no other Node", got)
		}
	}
	all["lab"].Node(Node{Name: "n0-again", UID: "uid-1", BootID: bootB, Ready: kubestate.ReadyTrue})
	for _, as := range []*Node{nil, &dead} {
		got := j.refusals(dead.UID, as, asked)
		if len(got) != 1 || !strings.HasPrefix(got[0].why, "kube node lab/n0-again is alive") {
			t.Errorf("twin-again: before a command the rails say %v", got)
		}
	}
}

// A machine was moved to another cluster, and the leader changes while the API server of that
// one is away: until its kube nodes have been read, or again where this leader saw the machine
// alive lately, it is not switched off under its old Node.
func TestTwinInAClusterThatWasNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := Node{Name: "n0", UID: "uid-0", BootID: bootB}
		all := trackers{courtCluster: NewTracker(), "lab": NewTracker(), "old": NewTracker()}
		all[courtCluster].Node(own)
		all["old"].allTold()
		settings := defaultSettings()
		j := NewJudge(JudgeOptions{
			Cluster: courtCluster, Peer: "a", Tracker: all[courtCluster], Log: newCourtLog(t), Fences: oneDevice{},
			Settings: func() Settings { return settings }, peers: newPeerHosts(peersElsewhere{}, "a"), trackers: all,
		})
		says := func(when, want string) {
			t.Helper()
			got := j.refusals(own.UID, nil, []rail{{"twin", byTwin}})
			if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || !strings.HasPrefix(got[0].why, want)) {
				t.Errorf("unread: %s the rail says %v, want %q", when, got, want)
			}
		}
		const held = "kube nodes of cluster lab have not been read yet"
		all[courtCluster].Renewed(own.Name, Renewal{At: "1"})
		says("of a Lease that was never seen to change", held)
		all[courtCluster].Renewed(own.Name, Renewal{At: "2"})
		says("of one that was just renewed", "")
		time.Sleep(50 * time.Second) // in a bubble
		says("of one that has just died", "")
		time.Sleep(20 * time.Second) // in a bubble
		says("of one that may have been moved since", held)
		all["lab"].Node(Node{Name: "n0", UID: "uid-1", BootID: bootB, Ready: kubestate.ReadyTrue})
		says("of one that was found", "kube node lab/n0 is alive")
		all["lab"].NodeGone("n0", "uid-1")
		all["lab"].allTold()
		says("of one that was not found", "")
	})
}

// A UUID that two machines tell identifies neither, whichever clusters they are in; one
// machine may tell it twice.
func TestUUIDOfTwoMachines(t *testing.T) {
	all := trackers{"prod": NewTracker(), "lab": NewTracker()}
	own := Node{Name: "w1", UID: "1", BootID: bootB, SystemUUID: uuidB}
	all["prod"].Node(own)
	for _, n := range []struct {
		cluster string
		Node
		want string
	}{
		{"prod", Node{Name: "w2", UID: "2", BootID: bootElse, SystemUUID: "5" + uuidB[1:]}, ""},
		{"lab", Node{Name: "again", UID: "3", BootID: bootB, SystemUUID: uuidB}, ""},
		{"lab", Node{Name: "w1", UID: "4", BootID: bootElse, SystemUUID: swappedB}, "lab/w1"},
	} {
		all[n.cluster].Node(n.Node)
		judge := &Judge{o: JudgeOptions{Cluster: "prod", trackers: all}}
		if got := judge.machine(own).SharedWith; got != n.want {
			t.Errorf("shared-uuid: after %s/%s it is shared with %q, want %q", n.cluster, n.Name, got, n.want)
		}
	}
}

func TestUUIDs(t *testing.T) {
	for text, known := range map[string]bool{
		uuidB: true, swappedB: true, strings.ReplaceAll(uuidB, "-", ""): true, " " + uuidB + "\n": true,
		"00000000-0000-0000-0000-ac1f6b000001": true,
		"":                                     false, "Not Settable": false, "none": false, uuidB + "0": false,
		"G" + uuidB[1:]: false,
		vendors:         false, "00020003-0004-0005-0006-000700080009": false, "00000000-0000-0000-0000-000000000000": false,
		"FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF": false, "12345678-1234-5678-90AB-CDDEEFAABBCC": false,
		"78563412-3412-7856-90ab-cddeefaabbcc": false,
		"4C4C4544-0000-2010-8020-80C04F202020": false,
	} {
		if KnownUUID(text) != known || SameUUID(text, text) != known {
			t.Errorf("uuid: %q is known: %v, same as itself: %v, want %v", text, KnownUUID(text), SameUUID(text, text), known)
		}
	}
	if !SameUUID(uuidB, swappedB) || SameUUID(uuidB, "5"+uuidB[1:]) {
		t.Error("uuid: byte orders are told apart, or two UUIDs are not")
	}
	if got := UUIDSpellings(uuidB); !slices.Equal(got, []string{strings.ToLower(uuidB), swappedB}) ||
		UUIDSpellings(vendors) != nil {
		t.Errorf("uuid: spelled %q", got)
	}
}

// A device is told that the UUID of its machine is another machine's as well, before it
// gets a command; and the step says so.
func TestDeviceIsToldOfASharedUUID(t *testing.T) {
	inWorld(t, 5, 2, func(w *world) {
		w.with(func() { w.nodes["n1"].SystemUUID, w.nodes["n2"].SystemUUID = uuidB, swappedB })
		h := w.lead("h1", safe(), 0, 0)
		w.pass(time.Minute)
		w.cutPower("n1")
		w.comesTo("n1", kubestate.RemDetached)
		const says = "no UUID was compared: the kube node tells the same UUID as "
		h.mu.Lock()
		told := slices.Clone(h.told)
		h.mu.Unlock()
		if m := w.remediations("n1")[0]; len(told) == 0 || slices.Contains(told, "") ||
			!slices.ContainsFunc(m.Steps, func(s kubestate.Step) bool {
				return s.State == kubestate.RemOff && strings.Contains(s.Reason, says+told[0])
			}) {
			t.Errorf("shared-uuid: its devices were told of %q\n%s", told, w.story())
		}
	})
}
