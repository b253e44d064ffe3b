package failover

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// JudgeOptions are the parts of a Judge.
type JudgeOptions struct {
	Cluster  string
	Peer     string // server ID of this peer
	Tracker  *Tracker
	Log      Log
	Fences   Fences
	Settings func() Settings // those that count now
	// Unread says why the devices of Fences are not those that their file has now, "" if they
	// are; nil: they always are.
	Unread func() string

	peers    *peerHosts
	trackers trackers // of all clusters
}

// Judge says which kube nodes of one cluster are held for dead and what forbids
// to act on them. It exists for one leadership and acts on nothing. All methods
// may be called concurrently.
type Judge struct {
	o JudgeOptions

	mu       sync.Mutex
	since    map[sign]time.Time // when each that is there was seen first
	verdicts []Verdict
	due      time.Duration          // as Due returns it
	storm    kubestate.HoldFailover // to be proposed; without a reason none
	places   []Place                // as of placed; nil before everything was seen
	placed   time.Time
}

// sign is one that has to last for the hold time, of one kube node.
type sign struct {
	uid  string
	kind signKind
}

type signKind uint8

const (
	signUnheard  signKind = 0 // a majority of the peers does not hear its kubelet
	signNotReady signKind = 1 // Kubernetes has given it up for long
	signWell     signKind = 2 // as far as Kubernetes can tell it works
)

// ownWord is for how long a kube node has to be well until it counts as alive beyond doubt
// though the peers do not hear its kubelet: a packet filter may keep them from its port.
const ownWord = 10 * time.Minute

// Verdict is the judgement on one kube node.
type Verdict struct {
	Node                    kubestate.Node
	LeaseAge                time.Duration // since its Lease was seen to change
	Silent, Answers, Voters int           // peers that do not hear its kubelet, do, and all
	// Suspect says that all signs are there, and that the peers' silence, or Kubernetes'
	// own word, has lasted for the hold time.
	Suspect bool
	// Act says that a remediation is to begin now. It is never set while one is
	// open.
	Act bool
	// Would names the action that the judge would take, or "nothing"; of an open
	// remediation, where it goes on or waits.
	Would string
	// Why has the reasons of Would: the one that decided first, then all others that
	// would have decided the same. Of a remediation that waits they are what holds it.
	Why         []string
	Remediation *kubestate.Remediation // the one that is open, nil if none
	// Rail names the guard rail that keeps a remediation from beginning, or what refused it; "" for none.
	Rail string
}

// Held reports whether a kube node is held for dead and left alone although no operator has asked for
// that, by a pause, a mark or the configuration.
func (v Verdict) Held() bool {
	// By these an operator leaves a kube node alone; never-ready is of a Node whose machine has never come.
	chosen := []string{"mode", pausedRail, optOutRail, "selected", "never-ready", plannedRail, "cancelled", dryRunRail}
	return v.Suspect && v.Remediation == nil && v.Rail != "" && !slices.Contains(chosen, v.Rail)
}

// nothing is the usual verdict.
const nothing = "nothing"

// NewJudge returns a judge that has not looked yet.
func NewJudge(o JudgeOptions) *Judge {
	return &Judge{o: o, due: noneDue, since: make(map[sign]time.Time)}
}

// Look judges every kube node, by name. The hold time is counted from one look to
// the next, so it is to be called twice a second. A kube node that may be acted on
// counts as being remedied for those that come after it in the same look.
func (j *Judge) Look() []Verdict {
	j.mu.Lock()
	defer j.mu.Unlock()
	f, v := j.facts()
	if j.last(f) {
		j.deepen(f, v)
	}
	verdicts := make([]Verdict, 0, len(f.nodes))
	for _, n := range f.nodes {
		verdict := f.judgeNode(n)
		if verdict.Act { // it counts as being remedied for those after it
			f.open = append(f.open, kubestate.Remediation{
				Cluster: f.cluster, Node: n.Name, UID: n.UID, BootID: n.BootID, ControlPlane: n.ControlPlane,
				State: kubestate.RemIntent,
			})
		}
		verdicts = append(verdicts, verdict)
	}
	if f.synced && len(f.nodes) > 0 && (j.placed.IsZero() || time.Since(j.placed) >= placeEvery) {
		j.places, j.placed = f.places(), time.Now()
	}
	j.storm, j.due, j.verdicts = f.storm(), f.due(), verdicts
	return slices.Clone(verdicts)
}

// Verdicts returns what the newest look found, nil before the first.
func (j *Judge) Verdicts() []Verdict {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.verdicts)
}

// Places says where each peer runs by the kube nodes of the cluster, in the order of the
// members; nil before all of them were seen, and where there are none.
func (j *Judge) Places() []Place {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.places)
}

// Due returns after what time the first kube node may become a suspect without any
// news, as of the newest look; a long time if none may.
func (j *Judge) Due() time.Duration {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.due
}

// Storm returns the command that begins or prolongs the time in which nothing is
// begun, if the newest look found that it is needed.
func (j *Judge) Storm() (c kubestate.HoldFailover, needed bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.storm, j.storm.Reason != ""
}

// Still says whether the signs against a kube node are all there at this moment,
// without the hold time and the guard rails, and in a sentence why or why not.
// False is no proof of life: while the API server is silent nothing is known, and
// it is false.
func (j *Judge) Still(uid string) (suspect bool, why string) {
	f, _ := j.facts()
	n := f.find(func(n *nodeFacts) bool { return n.UID == uid })
	if n == nil {
		return false, "the Node does not exist any more"
	}
	suspect, _, why = f.signs(n)
	return suspect, why
}

// refusals returns what guard rails say at this moment against taking the power of a
// kube node, by its UID: as a read of the storage showed it, or as the watch shows it if
// as is nil. The watch may be behind, and what it does not show cannot be judged.
func (j *Judge) refusals(uid string, as *Node, asked []rail) []refusal {
	f, v := j.facts()
	j.deepen(f, v)
	n := f.find(func(n *nodeFacts) bool { return n.UID == uid })
	if n == nil {
		return []refusal{{"not-watched", "the watch does not show this Node, so no guard rail can be asked"}}
	}
	if as != nil {
		n.Node = *as
	}
	return f.refusals(n, asked)
}

// Returned reports whether a kube node is alive beyond doubt: it is well, and a
// majority of the peers hears its kubelet, or it has been well for ownWord.
func (j *Judge) Returned(uid string) bool {
	well, doubt := j.returns(uid)
	return well && doubt == ""
}

// returns reports whether a kube node is well, and in a sentence what is waited for until
// that is beyond doubt, "" if nothing is.
func (j *Judge) returns(uid string) (well bool, doubt string) {
	f, _ := j.facts()
	n := f.find(func(n *nodeFacts) bool { return n.UID == uid })
	if n == nil || !f.well(n) {
		return false, ""
	}
	if n.majorityHeard() {
		return true, ""
	}
	j.mu.Lock()
	since, lasts := j.since[sign{uid, signWell}]
	j.mu.Unlock()
	if lasts && time.Since(since) >= ownWord {
		return true, ""
	}
	return true, fmt.Sprintf(
		"it is Ready and renews its Lease, but %s: a packet filter may keep the peers from %s; until most of them hear it, or it has been so for %v",
		n.votesText(), n.Kubelet, ownWord)
}

// Well reports whether a kube node works as far as Kubernetes can tell: it is Ready,
// and its Lease was seen to change lately. Its power is not taken, also if no peer
// hears it.
func (j *Judge) Well(uid string) bool {
	f, _ := j.facts()
	n := f.find(func(n *nodeFacts) bool { return n.UID == uid })
	return n != nil && f.well(n)
}

func (f *facts) well(n *nodeFacts) bool {
	return f.api.Answers && n.Ready == kubestate.ReadyTrue && f.renews(n)
}

// renews reports whether this leader saw the Lease of a kube node change within lease_age.
func (j *Judge) renews(uid string) bool {
	f, _ := j.facts()
	n := f.find(func(n *nodeFacts) bool { return n.UID == uid })
	return n != nil && f.renews(n)
}

func (f *facts) renews(n *nodeFacts) bool {
	return n.Renewed >= 0 && n.Renewed < f.settings.Detection.LeaseAge
}

// Simulate says what would be done if a kube node, named, died now and all signs
// of it were there, in a mode that need not be the one that is set. Act then means
// that a remediation would begin, or that NooBaa's pods would be deleted.
func (j *Judge) Simulate(node string, mode Mode) (Verdict, error) {
	f, v := j.facts()
	set := f.settings.Mode
	f.settings.Mode = mode
	j.deepen(f, v)
	n := f.find(func(n *nodeFacts) bool { return n.Name == node })
	if n == nil {
		return Verdict{}, fmt.Errorf("cluster %s has no kube node %q", f.cluster, node)
	}
	if mode == ModeNooBaa {
		return f.simulateNooBaa(n), nil
	}
	if set == ModeNooBaa { // it knows no device, and lacks none
		n.devices = []string{"by failover.fence_file, which mode noobaa does not read"}
	}
	return f.simulate(n), nil
}

// facts gathers what there is to know now. Kube nodes that only the log knows yet
// are among them until the list has been read.
func (j *Judge) facts() (*facts, fsm.View) {
	w := j.o.Tracker.Look()
	v, _ := j.o.Log.Changed()
	f := &facts{settings: j.o.Settings(), cluster: j.o.Cluster, synced: w.Synced, api: w.API}
	for _, n := range w.Nodes {
		f.nodes = append(f.nodes, &nodeFacts{WatchedNode: n})
	}
	if !w.Synced {
		for _, r := range v.KubeNodes(j.o.Cluster) {
			if f.find(func(n *nodeFacts) bool { return n.Name == r.Name }) != nil {
				continue
			}
			f.nodes = append(f.nodes, &nodeFacts{WatchedNode: WatchedNode{Renewed: -1, Known: -1, Node: Node{
				Name: r.Name, UID: r.UID, BootID: r.BootID, Ready: r.Ready, ControlPlane: r.ControlPlane, Kubelet: r.Probe,
			}}})
		}
		slices.SortStableFunc(f.nodes, func(a, b *nodeFacts) int { return cmp.Compare(a.Name, b.Name) })
	}
	f.readState(v, j.o.Peer, j.o.peers)
	return f, v
}

// deepen adds to facts what only matters of those that may be acted on, which is
// mostly none.
func (j *Judge) deepen(f *facts, v fsm.View) {
	f.remember(v)
	noteUnread(f, j.o.Unread)
	f.others = j.o.trackers.elsewhere(j.o.Cluster)
	for _, n := range f.nodes {
		for _, d := range j.o.Fences.For(MachineOf(j.o.Cluster, n.Node)) {
			n.devices = append(n.devices, d.Name())
		}
	}
}

// MachineOf says which machine a kube node of a cluster is.
func MachineOf(cluster string, n Node) Machine {
	return Machine{Cluster: cluster, Node: n.Name, SystemUUID: n.SystemUUID, Addresses: n.Addresses}
}

// machine says which machine a kube node is, and which kube node on another machine tells the same
// system UUID: such a UUID identifies neither.
func (j *Judge) machine(n Node) Machine {
	m, own := MachineOf(j.o.Cluster, n), marksOf(n.identity(), n.Addresses)
	if own.uuid == "" {
		return m
	}
	var sharing []string
	for _, r := range j.o.trackers.residents(func(string) bool { return true }) {
		if r.marks.uuid == own.uuid && !r.is(j.o.Cluster, n.UID) && own.same(r.marks) == "" {
			sharing = append(sharing, r.name())
		}
	}
	if len(sharing) > 0 {
		m.SharedWith = slices.Min(sharing)
	}
	return m
}

// last notes for how long the signs have lasted and reports whether all of some kube
// node are there. What the peers do not hear counts from when a majority did not, while
// the Lease grows older: its age is a time that has lasted already. Nothing lasts through
// a look at which the API server did not answer.
func (j *Judge) last(f *facts) (some bool) {
	now, before := time.Now(), j.since
	j.since = make(map[sign]time.Time, len(before))
	lasts := func(s sign) time.Duration {
		since, known := before[s]
		if !known {
			since = now
		}
		j.since[s] = since
		return now.Sub(since)
	}
	for _, n := range f.nodes {
		if !f.api.Answers || !f.synced {
			continue
		}
		if n.unheard() {
			n.unheardFor = lasts(sign{n.UID, signUnheard})
		}
		if f.notReadyLong(n) {
			n.lasting = lasts(sign{n.UID, signNotReady})
		}
		if f.well(n) {
			lasts(sign{n.UID, signWell})
		}
		suspect, quick, _ := f.signs(n)
		if quick {
			n.lasting = max(n.lasting, n.unheardFor)
		}
		if n.Shutdown.Proven { // it has lasted from one reading to the next
			n.lasting = max(n.lasting, f.settings.Detection.Hold)
		}
		some = some || suspect
	}
	return some
}

// judgeNode is the judgement on one kube node.
func (f *facts) judgeNode(n *nodeFacts) Verdict {
	v := Verdict{
		Node: f.shown(n), LeaseAge: n.LeaseAge, Silent: n.silent, Answers: n.answers, Voters: n.voters,
		Would: nothing, Remediation: n.remediation,
	}
	signs, _, why := f.signs(n)
	v.Suspect = signs && n.lasting >= f.settings.Detection.Hold
	switch {
	case n.remediation != nil:
		v.Would = fmt.Sprintf("its remediation goes on from %v", n.remediation.State)
		v.Why = []string{why}
	case !signs:
		v.Why = []string{why}
	case !v.Suspect:
		v.Why = []string{fmt.Sprintf("%s; this lasts for %v, and has to for %v (failover.hold)", why, rounded(n.lasting),
			f.settings.Detection.Hold)}
	default:
		f.weigh(n, &v, rails(), fmt.Sprintf("cordon, power off (%s), taint, delete its pods, wait for its volumes",
			strings.Join(n.devices, ", then ")))
		v.Why = append(v.Why, why)
	}
	return v
}

// weigh asks guard rails about a suspect. would is what is done unless one of them
// forbids it.
func (f *facts) weigh(n *nodeFacts, v *Verdict, asked []rail, would string) {
	dry := true
	for _, r := range asked {
		if s := r.forbids(f, n); s != "" {
			v.Why = append(v.Why, s)
			v.Rail = cmp.Or(v.Rail, r.name)
			dry = dry && r.name == dryRunRail
		}
	}
	v.Act = len(v.Why) == 0
	if dry {
		v.Would = would
	}
}

// shown is a kube node as it is now, with what the log adds.
func (f *facts) shown(n *nodeFacts) kubestate.Node {
	k := recordOf(f.cluster, n.Node)
	k.Changed, k.ChangedMillis = n.record.Changed, n.record.ChangedMillis
	return k
}

// simulate judges a kube node as if it had just been found dead.
func (f *facts) simulate(n *nodeFacts) Verdict {
	d := f.settings.Detection
	n.Leased, n.LeaseAge, n.lasting = true, max(n.LeaseAge, d.LeaseAge), max(n.lasting, d.Hold)
	n.silent, n.answers = n.voters, 0
	return f.judgeNode(n)
}

// deleteNooBaa is what the compatible mode does.
const deleteNooBaa = "delete NooBaa's pods with grace 0; power and volumes are left alone"

// held says what holds each action in the compatible mode, "" for nothing.
func (j *Judge) held() string {
	f, _ := j.facts()
	return cmp.Or(byPause(f, nil), byAPISilence(f, nil))
}

// simulateNooBaa is what the compatible mode does as soon as a kube node is not
// Ready: it looks at few rails, and at no sign of life.
func (f *facts) simulateNooBaa(n *nodeFacts) Verdict {
	v := Verdict{Node: f.shown(n), LeaseAge: n.LeaseAge, Silent: n.silent, Answers: n.answers, Voters: n.voters,
		Suspect: true, Would: nothing}
	few := []rail{{"api-silent", byAPISilence}, {"paused", byPause}, {"selected", bySelection}, {dryRunRail, byDryRun}}
	f.weigh(n, &v, few, deleteNooBaa)
	return v
}

// stormEvery is how much of a storm's cool-down may pass before it is prolonged:
// one entry in so long, not one a look.
const stormEvery = 30 * time.Second

// storm returns the command that holds back while too many are unhealthy and for
// the cool-down afterwards; without a reason none is needed.
func (f *facts) storm() kubestate.HoldFailover {
	cool := f.settings.Guard.StormCooldown
	names, allowed := f.count()
	switch {
	case f.settings.Mode != ModeSafe, cool <= 0, len(names) <= allowed:
		return kubestate.HoldFailover{}
	case !f.synced, byAPISilence(f, nil) != "", byAPIReturn(f, nil) != "":
		return kubestate.HoldFailover{} // what is seen now says nothing of the kube nodes
	case f.held && f.hold.Until.Sub(f.clock) > cool-min(stormEvery, cool/2):
		return kubestate.HoldFailover{}
	}
	return kubestate.HoldFailover{Cluster: f.cluster, For: cool, Reason: kubestate.Reason(f.tooMany(names, allowed))}
}
