package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/failover"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/kubestate"
	"github.com/trivet-ha/trivet/internal/pace"
)

const (
	// nodeLimit bounds the question which machine a kube node is; without an
	// answer its name has to do.
	nodeLimit = 3 * time.Second
	// switchLimit is how long a machine may take to be as it was ordered to be.
	switchLimit = 30 * time.Second
	// switchLook is the time between two looks at it.
	switchLook = time.Second
)

// KubeNodes is failover as this peer sees it. It implements Kube.
type KubeNodes struct {
	*Here
	Controller *failover.Controller
	Clusters   []failover.Cluster
	Fences     failover.Fences
}

// Failover implements Kube.
func (k *KubeNodes) Failover(context.Context) (Failover, error) {
	s, v := k.Controller.Settings(), k.Store.View()
	out := Failover{
		Leader: k.Self.Name, Mode: string(s.Mode), DryRun: s.DryRun, Pauses: PausesOf(v), Clusters: []KubeCluster{},
		Nodes: []KubeNode{},
	}
	for _, c := range k.Clusters {
		w, leads := k.Controller.Watched(c.Name())
		if !leads {
			return out, notWatching()
		}
		row := KubeCluster{Name: c.Name(), Nodes: len(w.Nodes), Synced: w.Synced}
		if !w.API.Answers {
			row.Problem = fmt.Sprintf("the API server does not answer (%s)", cmp.Or(w.API.Why, "it was not asked yet"))
		} else if h, held := v.FailoverHold(c.Name()); held {
			row.Problem = fmt.Sprintf("too many were unhealthy; nothing is begun for %v more: %s",
				max(h.Until.Sub(v.Now()), 0).Round(time.Second), h.Reason)
		}
		out.Clusters = append(out.Clusters, row)
		for _, d := range k.Controller.Verdicts(c.Name()) {
			out.Nodes = append(out.Nodes, verdictOf(v, d))
		}
	}
	for _, p := range k.Controller.Places() {
		if p.Node != "" {
			out.Peers = append(out.Peers, PeerPlace{Peer: p.Peer, Node: p.Node, By: p.By})
		}
	}
	return out, nil
}

// notWatching is the refusal of a peer that leads no more, or not yet.
func notWatching() error {
	return &api.Error{Status: http.StatusServiceUnavailable, Code: api.CodeNoLeader,
		Message: "the peer that leads does not watch the clusters yet", Hint: "ask again in a second"}
}

func verdictOf(v fsm.View, d failover.Verdict) KubeNode {
	n := d.Node
	out := KubeNode{
		Cluster: n.Cluster, Name: n.Name, UID: n.UID, BootID: n.BootID, Ready: n.Ready.String(), ControlPlane: n.ControlPlane,
		Kubelet: n.Probe, Changed: wallTime(n.ChangedMillis),
		LeaseAgeMS: d.LeaseAge.Milliseconds(), Votes: Votes{Silent: d.Silent, Answers: d.Answers, Voters: d.Voters},
		HeldForDead: d.Suspect, Act: d.Act, Would: d.Would, Why: d.Why,
	}
	if d.Remediation != nil {
		r := RemediationOf(v, *d.Remediation)
		out.Remediation = &r
	}
	return out
}

// Simulate implements Kube.
func (k *KubeNodes) Simulate(ctx context.Context, cluster, node, mode string) (Simulation, error) {
	name, n, err := k.watched(cluster, node)
	if err != nil {
		return Simulation{}, err
	}
	settings, unread := k.Controller.Settings(), ""
	if settings.Mode == failover.ModeNooBaa && mode == string(failover.ModeSafe) {
		unread = "which fence devices reach it: mode noobaa does not read failover.fence_file"
	}
	settings.Mode = cmp.Or(failover.Mode(mode), settings.Mode)
	d, err := k.Controller.Simulate(name, node, settings.Mode)
	if err != nil {
		return Simulation{}, err
	}
	out := Simulation{Cluster: name, Node: node, Peer: k.Self.Name, Mode: string(settings.Mode), Would: d.Act, Why: d.Why,
		Devices: []string{}, Delete: []string{}}
	if settings.Mode == failover.ModeSafe {
		for _, device := range k.Fences.For(k.Controller.Machine(name, n)) {
			out.Devices = append(out.Devices, device.Name())
		}
	}
	out.Problem = cmp.Or(api.ErrorText(k.survey(ctx, k.cluster(name), settings, &out)), unread)
	return out, nil
}

// survey lists what would be moved.
func (k *KubeNodes) survey(ctx context.Context, c failover.Cluster, settings failover.Settings, out *Simulation) error {
	pods, err := c.Pods(ctx, out.Node)
	if err != nil {
		return fmt.Errorf("list its pods: %w", err)
	}
	var moved []failover.Pod
	everywhere := settings.Mode == failover.ModeNooBaa && settings.NooBaa.Namespace == ""
	for _, p := range pods {
		name := p.Namespace + "/" + p.Name
		if everywhere {
			settings.NooBaa.Namespace = p.Namespace
		}
		if why := settings.Keeps(p); why != "" {
			out.Keep = append(out.Keep, Kept{Pod: name, Why: why})
			continue
		}
		moved = append(moved, p)
		out.Delete = append(out.Delete, name)
	}
	if out.Volumes, err = c.Attachments(ctx, out.Node); err != nil {
		return fmt.Errorf("list its volumes: %w", err)
	}
	switch {
	case everywhere:
		return errors.New(
			"in which namespace NooBaa is: failover.noobaa_namespace is not written, and pods of every namespace are shown")
	case settings.Mode != failover.ModeSafe:
		return nil // it asks no budget
	}
	if out.Budgets, err = c.Disrupted(ctx, moved, false); err != nil {
		return fmt.Errorf("read the PodDisruptionBudgets: %w", err)
	}
	return nil
}

// watched finds a kube node that the leader sees.
func (k *KubeNodes) watched(cluster, node string) (name string, n failover.Node, err error) {
	var found []string
	for _, c := range k.Clusters {
		if cluster != AnyCluster && cluster != c.Name() {
			continue
		}
		w, leads := k.Controller.Watched(c.Name())
		if !leads {
			return "", n, notWatching()
		}
		for _, one := range w.Nodes {
			if one.Name == node {
				name, n = c.Name(), one.Node
				found = append(found, name)
			}
		}
	}
	return name, n, onlyOne(node, found)
}

// onlyOne refuses a name that several clusters have a kube node of, or none.
func onlyOne(node string, clusters []string) error {
	switch len(clusters) {
	case 1:
		return nil
	case 0:
		return &api.Error{Status: http.StatusNotFound, Code: api.CodeNotFound,
			Message: fmt.Sprintf("no kube node is called %q", node), Hint: "see 'trivet failover list'"}
	}
	return conflict("write CLUSTER/NODE", "clusters %v have a kube node called %q", clusters, node)
}

// Power implements Kube.
func (k *KubeNodes) Power(ctx context.Context, cluster, node string, order *PowerOrder) (FencePower, error) {
	if order != nil && cluster == AnyCluster && len(k.Clusters) > 1 {
		return FencePower{}, conflict("write CLUSTER/NODE",
			"several clusters are configured, and each may have a kube node called %q", node)
	}
	name, err := k.recorded(cluster, node)
	if err != nil {
		return FencePower{}, err
	}
	out := FencePower{Peer: k.Self.Name, ID: k.Self.ID, Cluster: name, Node: node, Devices: []DevicePower{}}
	m := failover.Machine{Cluster: name, Node: node}
	limited, cancel := context.WithTimeout(ctx, nodeLimit)
	n, err := k.cluster(name).Node(limited, node)
	cancel()
	switch {
	case errors.Is(err, failover.ErrGone):
		return out, onlyOne(node, nil)
	case err != nil:
		out.Note = fmt.Sprintf("the API server did not say which machine it is, so only its name is known: %v", err)
	default:
		m = k.Controller.Machine(name, n)
	}
	devices := k.Fences.For(m)
	if order != nil {
		return k.order(ctx, out, m, devices, *order)
	}
	m.AskOnly = true
	rows := make([][]DevicePower, len(devices))
	var asked sync.WaitGroup
	for i, d := range devices {
		asked.Go(func() { rows[i] = askMembers(ctx, d, m) })
	}
	asked.Wait()
	out.Devices = append(out.Devices, slices.Concat(rows...)...)
	return out, nil
}

// askMembers asks every member of a device, also after one says on: the machine is switched
// off only if each of them does as it is told.
func askMembers(ctx context.Context, d failover.Device, m failover.Machine) []DevicePower {
	members := failover.Members(d)
	rows := make([]DevicePower, len(members))
	var asked sync.WaitGroup
	for i, one := range members {
		asked.Go(func() { rows[i] = askPower(ctx, one, m) })
	}
	asked.Wait()
	on, off := failover.PowerOn.String(), failover.PowerOff.String()
	if runs := slices.ContainsFunc(rows, func(r DevicePower) bool { return r.Power == on }); runs {
		for i := range rows {
			if rows[i].Power == off {
				rows[i].Error = fmt.Sprintf("it is off while another member of %s is on: the machine lacks a supply; "+
					"'trivet failover test-fence %s/%s --on --device %s' switches it on", d.Name(), m.Cluster, m.Node, rows[i].Device)
			}
		}
	}
	return rows
}

// recorded finds the cluster of a kube node, also on a peer that watches none. The log has those
// alone that were Ready once.
func (k *KubeNodes) recorded(cluster, node string) (string, error) {
	var found []string
	for _, c := range k.Clusters {
		if cluster == c.Name() || cluster == AnyCluster && len(k.Clusters) == 1 {
			return c.Name(), nil // whether there is such a kube node the API server says
		}
		if cluster == AnyCluster &&
			slices.ContainsFunc(k.Store.View().KubeNodes(c.Name()), func(n kubestate.Node) bool { return n.Name == node }) {
			found = append(found, c.Name())
		}
	}
	if err := onlyOne(node, found); err != nil {
		return "", err
	}
	return found[0], nil
}

func askPower(ctx context.Context, d failover.Device, m failover.Machine) DevicePower {
	began := time.Now()
	power, err := d.Power(ctx, m)
	row := DevicePower{Device: d.Name(), Power: power.String(), Error: api.ErrorText(err),
		TookMS: time.Since(began).Milliseconds()}
	if err == nil {
		row.Note = failover.Uncompared(d, m)
	}
	return row
}

// inHand refuses to switch a machine that a remediation has in hand: that would take what
// it proved from under it. Once the last volume is detached nothing rests on the power any
// more, and the machine may be switched on: the remediation waits for that.
func inHand(v fsm.View, m failover.Machine, power string) error {
	for _, r := range v.Remediations() {
		if r.Cluster != m.Cluster || r.Node != m.Node || r.State == kubestate.RemDetached && power == PowerOn {
			continue
		}
		hint := "wait until it is detached: then 'trivet failover test-fence --on' switches the machine on; before that failover " +
			"switches it off again"
		switch {
		case r.State == kubestate.RemDetached:
			hint = "it waits until the machine is back; switch the machine on with 'trivet failover test-fence --on', and it ends"
		case r.State == kubestate.RemStuck:
			hint = "look at its reason, then end it or have it tried again: 'trivet failover release'"
		case power == PowerOff:
			hint = "wait until it has ended: it switches the machine off itself"
		}
		return conflict(hint, "remediation %v of %s is open (%v)", r.Intent, m.Node, r.State)
	}
	return nil
}

// order switches a machine by hand, unless a remediation has it in hand.
func (k *KubeNodes) order(ctx context.Context, out FencePower, m failover.Machine, devices []failover.Device,
	o PowerOrder) (FencePower, error) {
	if err := inHand(k.Store.View(), m, o.Power); err != nil {
		return out, err
	}
	for _, d := range slices.Clone(devices) {
		devices = append(devices, failover.Members(d)...)
	}
	at := slices.IndexFunc(devices, func(d failover.Device) bool { return o.Device == "" || d.Name() == o.Device })
	if at < 0 {
		return out, &api.Error{Status: http.StatusNotFound, Code: api.CodeNotFound,
			Message: fmt.Sprintf("%s has no such fence device", m.Node),
			Hint:    "see 'trivet failover test-fence' and failover.fence_file"}
	}
	d, began := devices[at], time.Now()
	command, want := d.On, failover.PowerOn
	if o.Power == PowerOff {
		command, want = d.Off, failover.PowerOff
	} else {
		m.AskOnly = true // to ask must not switch it off again
	}
	k.Logger.Warn("operator switches machine", "kube_cluster", m.Cluster, "kube_node", m.Node, "power", o.Power, "device",
		d.Name())
	row := DevicePower{Device: d.Name(), Power: failover.PowerUnknown.String()}
	if err := command(ctx, m); err != nil {
		row.Error = err.Error()
	} else {
		row = awaitPower(ctx, d, m, want)
		row.Done = o.Power
	}
	row.TookMS = time.Since(began).Milliseconds()
	out.Devices = append(out.Devices, row)
	return out, nil
}

// awaitPower looks at a machine until it is as it was ordered to be by each member of the
// device, or for switchLimit.
func awaitPower(ctx context.Context, d failover.Device, m failover.Machine, want failover.Power) DevicePower {
	ctx, cancel := context.WithTimeout(ctx, switchLimit)
	defer cancel()
	for {
		var row DevicePower
		late := slices.ContainsFunc(failover.Members(d), func(one failover.Device) bool {
			row = askPower(ctx, one, m)
			return row.Power != want.String()
		})
		if !late {
			row.Device = d.Name()
			return row
		}
		if !pace.Wait(ctx, switchLook) {
			row.Error = cmp.Or(row.Error, fmt.Sprintf("the command was taken, and after %v it says %s", switchLimit, row.Power))
			return row
		}
	}
}

// cluster finds one by its name, nil if there is none.
func (k *KubeNodes) cluster(name string) failover.Cluster {
	for _, c := range k.Clusters {
		if c.Name() == name {
			return c
		}
	}
	return nil
}
