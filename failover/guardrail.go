package failover

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// rail is one guard rail: a reason not to take the power of a kube node's machine, which
// holds against all signs. It is a pure function and returns a sentence that says
// what forbids and, where it helps, until when; "" if it does not.
type rail struct {
	name    string
	forbids func(f *facts, n *nodeFacts) string
}

// unless returns why something is forbidden, "" if it is allowed.
func unless(allowed bool, why string) string {
	if allowed {
		return ""
	}
	return why
}

// refusal is what one guard rail, or something like one, says against a command.
type refusal struct{ rail, why string }

// rails returns all guard rails. The first that forbids is the reason; all that do
// are told. Those that an operator has set come before those that count.
func rails() []rail {
	return []rail{
		{"mode", byMode},
		{"synced", bySync},
		{"api-silent", byAPISilence},
		{"api-back", byAPIReturn},
		{pausedRail, byPause},
		{optOutRail, byOptOut},
		{"selected", bySelection},
		// There is nothing to move of what has never worked, and its installation may be going on. The
		// log has whom a leader ever saw Ready.
		{"never-ready", func(_ *facts, n *nodeFacts) string { return unless(n.recorded, "it was never seen Ready") }},
		{"young", byYouth},
		{plannedRail, byPlannedWork},
		{"most-silent", byNumber},
		{"cut-off", byCutOff},
		{"storm", byStorm},
		{"control-plane", byControlPlane},
		{"etcd-quorum", byEtcdQuorum},
		{"own-quorum", byOwnQuorum},
		{"twin", byTwin},
		{"shared-address", bySharedAddress},
		{"node-rate", byNodeRate},
		{"healthy-delay", byHealthyDelay},
		{"cancelled", byCancel},
		{"contradicted", byContradiction},
		{unreadRail, byUnreadFences},
		{noDeviceRail, func(_ *facts, n *nodeFacts) string {
			return unless(len(n.devices) > 0,
				"no fence device is configured for it (failover.fence_file), so no peer can prove that it is off")
		}},
		{dryRunRail, byDryRun},
	}
}

const (
	pausedRail   = "paused"
	optOutRail   = "opt-out"
	plannedRail  = "planned"
	unreadRail   = "fences-unread"
	noDeviceRail = "no-device"
	// dryRunRail is the name of the last one: what it alone forbids would be done.
	dryRunRail = "dry-run"
)

// beforePower returns the guard rails that are asked before a remediation begins and
// again before each power-off command: minutes or days may lie between. That no device
// is configured makes an open remediation stuck instead.
func beforePower() []rail {
	return slices.DeleteFunc(rails(), func(r rail) bool { return r.name == noDeviceRail })
}

// whileOff returns those that are asked before a command to a machine that was off and
// is off still. What they protect is lost already, and its work is down until the
// command has proven it again; but a pause holds each command, and so does a list of devices that is not
// the one with which it was released.
func whileOff() []rail { return []rail{{pausedRail, byPause}, {unreadRail, byUnreadFences}} }

// beforePowerOn returns those by which an operator keeps every command from a machine:
// they may have opened it. What is planned counts however long it is not Ready, but for the
// shutdown in which it stayed on until its power was taken: that is over.
func beforePowerOn() []rail {
	return []rail{{pausedRail, byPause}, {optOutRail, byOptOut}, {plannedRail, func(_ *facts, n *nodeFacts) string {
		was := n.Node
		if n.remediation != nil && strings.Contains(n.remediation.Steps[0].Reason, stayedOn) {
			was.Stopping, was.Conditions = false, maps.Clone(was.Conditions)
			delete(was.Conditions, conditionShutdown)
		}
		return was.planned()
	}}, {"twin", byNodeInUse}} // the operator writes on the Node in use
}

// refusals returns what guard rails say against a kube node.
func (f *facts) refusals(n *nodeFacts, asked []rail) (out []refusal) {
	for _, r := range asked {
		if why := r.forbids(f, n); why != "" {
			out = append(out, refusal{r.name, why})
		}
	}
	return out
}

func byMode(f *facts, _ *nodeFacts) string {
	switch f.settings.Mode {
	case ModeSafe:
		return ""
	case ModeNooBaa:
		return "mode is noobaa: NooBaa's own rule decides, and nothing is fenced"
	}
	return "failover is off (failover.mode)"
}

func bySync(f *facts, _ *nodeFacts) string { return unless(f.synced, notSynced) }

func byAPISilence(f *facts, _ *nodeFacts) string { return unless(f.api.Answers, f.apiSilent()) }

// byAPIReturn waits until every kubelet has had the time to renew.
func byAPIReturn(f *facts, _ *nodeFacts) string {
	wait := f.settings.Detection.LeaseAge
	if f.api.Back < 0 || f.api.Back >= wait {
		return ""
	}
	return fmt.Sprintf("the API server of %s answers again for only %v; kubelets have %v to renew", f.cluster,
		rounded(f.api.Back), wait)
}

func byPause(f *facts, _ *nodeFacts) string {
	if !f.paused {
		return ""
	}
	var s strings.Builder
	s.WriteString("failover is paused")
	if f.pause.Cluster != "" {
		fmt.Fprintf(&s, " for cluster %s", f.pause.Cluster)
	}
	if f.pause.By != "" {
		fmt.Fprintf(&s, " by %s", f.pause.By)
	}
	if f.pause.Until != 0 {
		fmt.Fprintf(&s, " for another %v", rounded(max(0, f.pause.Until.Sub(f.clock))))
	} else {
		s.WriteString(" until it is resumed")
	}
	if f.pause.Reason != "" {
		fmt.Fprintf(&s, ": %s", f.pause.Reason)
	}
	return s.String()
}

// byOptOut holds each command while a mark on the Node asks for it.
func byOptOut(_ *facts, n *nodeFacts) string {
	return n.held()
}

func bySelection(f *facts, n *nodeFacts) string {
	return unless(f.settings.Remedy.looksAfter(n.Node), "failover.node_selector does not select it")
}

func byYouth(f *facts, n *nodeFacts) string {
	delay := f.settings.Guard.HealthyDelay
	if n.Known < 0 || n.Known >= delay {
		return ""
	}
	return fmt.Sprintf("it appeared only %v ago; looked after from %v on (failover.healthy_delay)", rounded(n.Known),
		delay)
}

// byPlannedWork waits for Kubernetes' own word where an operator or a program has
// marked a kube node: it is drained and restarted on purpose, and what could be
// moved quickly has been moved. A machine that was shut down and stays off is not restarted,
// unless a mark says that it is.
func byPlannedWork(f *facts, n *nodeFacts) string {
	if why := byShutdown(f, n); why != "" {
		return why
	}
	planned := n.planned()
	if n.Shutdown.Off {
		planned = n.restarts()
	}
	if planned == "" || f.notReadyLong(n) || f.foundNotReady(n) {
		return ""
	}
	planned += ", so it may be restarted on purpose"
	if f.settings.Detection.NotReadyAfter == 0 {
		return planned
	}
	return fmt.Sprintf("%s; then only Ready counts, after %v (failover.not_ready_after)", planned,
		f.settings.Detection.NotReadyAfter)
}

// byShutdown waits for a machine that shuts down, or restarts with its power on: while its kubelet ends the pods,
// and then for not_ready_after until the machine is off or has booted, but for no longer than shutdownLimit.
func byShutdown(f *facts, n *nodeFacts) string {
	silence := cmp.Or(f.settings.Detection.NotReadyAfter, shutdownLimit)
	switch {
	case !n.Shutdown.Said, n.Shutdown.Off, n.Shutdown.Lasts >= shutdownLimit, !n.Leased, n.LeaseAge >= silence:
	case n.shutsDown() && (f.renews(n) || n.majorityHeard()):
		return fmt.Sprintf("its kubelet reports that the machine is shutting down, and lives: it may end its pods for %v",
			shutdownLimit)
	case n.Shutdown.On && (n.shutsDown() || n.Ready == kubestate.ReadyUnknown):
		return fmt.Sprintf("its kubelet reported a shutdown, and the machine is on: it may restart, until its Lease is %v old",
			silence)
	}
	return ""
}

// byNodeRate counts the remediations before the one that is open, if one is.
func byNodeRate(f *facts, n *nodeFacts) string {
	began, most := 0, f.settings.Guard.NodeRate
	for _, r := range f.history {
		open := n.remediation != nil && n.remediation.Intent == r.Intent
		if r.Node == n.Name && !open && f.clock.Sub(r.Began) < time.Hour {
			began++
		}
	}
	if began < most {
		return ""
	}
	return fmt.Sprintf("%d remediations of it began within the last hour, %d may (failover.node_rate)", began, most)
}

// bySharedAddress begins nothing while a kubelet is heard at an address that another Node, which is well, has as its
// own, as a virtual one that has moved there: it would pass for a sign of life of the machine that is off, and its
// device for a liar. Where no peer hears it, the address says nothing of either.
func bySharedAddress(f *facts, n *nodeFacts) string {
	other := f.find(func(o *nodeFacts) bool { return o.UID != n.UID && f.well(o) && o.has(n.Kubelet) })
	if other == nil || n.answers == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d peers hear a kubelet at %s, which is an address of Node %s, too: it may be that one's; "+
		"start the kubelet with --node-ip, so that the Node tells an address of its own", n.answers, n.voters, n.Kubelet,
		other.Name)
}

// has reports whether a Node tells the address of a kubelet as one of its own.
func (n Node) has(kubelet string) bool {
	return slices.ContainsFunc(hosts(kubelet), func(host string) bool { return slices.Contains(n.Addresses, host) })
}

func byHealthyDelay(f *facts, n *nodeFacts) string {
	delay := f.settings.Guard.HealthyDelay
	for _, r := range f.history {
		if ago := f.clock.Sub(r.Since); r.Node == n.Name && r.State == kubestate.RemRecovered && ago < delay {
			return fmt.Sprintf("it recovered only %v ago; the next remediation may begin after %v (failover.healthy_delay)",
				rounded(ago), delay)
		}
	}
	return ""
}

func byDryRun(f *facts, _ *nodeFacts) string {
	return unless(!f.settings.DryRun, "this is a dry run (failover.dry_run)")
}
