package events

import (
	"fmt"
	"strings"

	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/kubestate"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// sentence says in plain English what happened. Events that peers report bring their
// sentence; those of an action that this binary does not know get a plain one.
func sentence(e eventring.Event) string {
	if e.Text != "" {
		return e.Text
	}
	text := ""
	switch e.Topic {
	case eventring.TopicLeadership:
		text = leadershipSentence(e)
	case eventring.TopicPXE:
		text = pxeSentence(e)
	case eventring.TopicFloatingIP:
		text = addressSentence(e)
	case eventring.TopicMember:
		text = memberSentence(e)
	case eventring.TopicIntrospection:
		text = nodeSentence(e)
	case eventring.TopicLease:
		text = leaseSentence(e)
	case eventring.TopicRemediation:
		text = remediationSentence(e)
	case eventring.TopicRule:
		text = ruleSentence(e)
	case eventring.TopicHardware:
		text = hardwareSentence(e)
	case eventring.TopicBoot:
		text = bootSentence(e)
	}
	if text == "" {
		text = fmt.Sprintf("%v: %s", e.Topic, e.Action)
	}
	return text + "."
}

func leadershipSentence(e eventring.Event) string {
	switch previous := e.Fields["previous"]; previous {
	case "":
		return fmt.Sprintf("%s became the leader", e.Peer)
	case e.Peer:
		return fmt.Sprintf("%s became the leader again", e.Peer)
	default:
		return fmt.Sprintf("%s became the leader in place of %s", e.Peer, previous)
	}
}

func pxeSentence(e eventring.Event) string {
	switch e.Action {
	case eventring.ActionOpened:
		return fmt.Sprintf("%s opened the PXE service: machines can boot from this host", e.Peer)
	case eventring.ActionClosed:
		return fmt.Sprintf("%s closed the PXE service", e.Peer)
	case eventring.ActionLapsed:
		return fmt.Sprintf(
			"The PXE service of %s is over: that peer was lost, and its kernel closed it when the lease ran out", e.Peer)
	}
	return ""
}

func addressSentence(e eventring.Event) string {
	address := e.Fields["address"]
	switch e.Action {
	case eventring.ActionTaken:
		return fmt.Sprintf("%s took the floating IP %s", e.Peer, address)
	case eventring.ActionReleased:
		return fmt.Sprintf("%s released the floating IP %s", e.Peer, address)
	case eventring.ActionLapsed:
		return fmt.Sprintf("%s does not have the floating IP %s any more: that peer was lost, and its time ran out", e.Peer,
			address)
	}
	return ""
}

func memberSentence(e eventring.Event) string {
	switch e.Action {
	case eventring.ActionJoined:
		return fmt.Sprintf("%s joined the cluster, at %s", e.Peer, e.Fields["address"])
	case eventring.ActionRemoved:
		return fmt.Sprintf("%s was removed from the cluster", e.Peer)
	case eventring.ActionConnected:
		if e.Fields["restarted"] != "" {
			return fmt.Sprintf("%s was restarted and is connected again", e.Peer)
		}
		return fmt.Sprintf("%s is connected", e.Peer)
	case eventring.ActionStopped:
		return fmt.Sprintf("%s was stopped", e.Peer)
	case eventring.ActionLost:
		return fmt.Sprintf("%s was lost: its session was not renewed for %v", e.Peer, membership.SessionTTL)
	case eventring.ActionMoved:
		return fmt.Sprintf("%s has the address %s now", e.Peer, e.Fields["address"])
	case eventring.ActionMaintenanceBegan:
		return fmt.Sprintf("Maintenance of %s began: it does not lead", e.Peer)
	case eventring.ActionMaintenanceEnded:
		return fmt.Sprintf("Maintenance of %s ended", e.Peer)
	case eventring.ActionDemoted:
		return fmt.Sprintf("%s is an observer now: it does not vote", e.Peer)
	case eventring.ActionPromoted:
		return fmt.Sprintf("%s votes now", e.Peer)
	}
	return ""
}

// nodeSentence says what happened to a node's introspection.
func nodeSentence(e eventring.Event) string {
	on := ""
	if e.Peer != "" {
		on = " on " + e.Peer
	}
	switch e.Action {
	case introspection.NodeStarting.String():
		return fmt.Sprintf("Introspection of node %s began", e.Node)
	case introspection.NodeWaiting.String():
		if e.Fields["cause"] == introspection.EventAdopt.String() {
			return fmt.Sprintf("Node %s called while it carries a workload, and its data is expected", e.Node)
		}
		return fmt.Sprintf("Node %s boots; its ramdisk is expected", e.Node)
	case introspection.NodeProcessing.String():
		return fmt.Sprintf("The data of node %s arrived and is processed%s", e.Node, on)
	case introspection.NodeFinished.String():
		return fmt.Sprintf("Introspection of node %s finished", e.Node)
	case introspection.NodeError.String():
		text := fmt.Sprintf("Introspection of node %s failed: %s", e.Node, strings.TrimSuffix(e.Fields["error"], "."))
		if found := e.Fields["found"]; found != "" {
			text += fmt.Sprintf("; %s (%s)", found, e.Fields["finding"])
		}
		return text
	case introspection.NodeReapplying.String():
		return fmt.Sprintf("The stored data of node %s is processed again", e.Node)
	case introspection.NodeEnrolling.String():
		return fmt.Sprintf("Node %s was discovered and is enrolled", e.Node)
	case introspection.NodeAborting.String():
		return fmt.Sprintf("Introspection of node %s is being aborted", e.Node)
	case eventring.ActionDeleted:
		return fmt.Sprintf("The introspection record of node %s was deleted", e.Node)
	case eventring.ActionImported:
		return fmt.Sprintf("The introspection record of node %s was imported", e.Node)
	}
	return ""
}

func leaseSentence(e eventring.Event) string {
	name, holder := e.Fields["lease"], e.Fields["holder"]
	switch e.Action {
	case eventring.ActionGranted:
		return fmt.Sprintf("Lease %s was granted to %s", name, holder)
	case eventring.ActionTakenOver:
		return fmt.Sprintf("Lease %s was taken over by %s, which held it before", name, holder)
	case eventring.ActionReleased:
		return fmt.Sprintf("%s released lease %s", holder, name)
	case eventring.ActionExpired:
		return fmt.Sprintf("Lease %s of %s expired", name, holder)
	}
	return ""
}

func remediationSentence(e eventring.Event) string {
	node := e.Fields["cluster"] + "/" + e.Fields["kube_node"] // two clusters may have one of that name
	text := fmt.Sprintf("Remediation of kube node %s: %s", node, e.Action)
	if e.Action == kubestate.RemIntent.String() {
		text = fmt.Sprintf("Remediation of kube node %s began", node)
	}
	if device := e.Fields["device"]; device != "" {
		text += " by device " + device
	}
	if reason := e.Fields["reason"]; reason != "" {
		text += " (" + strings.TrimSuffix(reason, ".") + ")"
	}
	return text
}

func hardwareSentence(e eventring.Event) string {
	switch e.Action {
	case eventring.ActionChanged:
		return fmt.Sprintf("The hardware of node %s changed: %s", e.Node, e.Fields["changes"])
	case eventring.ActionUnexpected:
		return fmt.Sprintf("The machine of node %s is not as ordered: %s", e.Node, e.Fields["differences"])
	case eventring.ActionExpected:
		return fmt.Sprintf("The machine of node %s does not differ from what was ordered any more", e.Node)
	}
	return ""
}

func bootSentence(e eventring.Event) string {
	switch e.Action {
	case eventring.ActionFound:
		return fmt.Sprintf("The machine of node %s does not come up: %s (%s)", e.Node, e.Fields["found"], e.Fields["finding"])
	case eventring.ActionCleared:
		return fmt.Sprintf("What kept the machine of node %s from coming up is over (%s)", e.Node, e.Fields["finding"])
	}
	return ""
}

func ruleSentence(e eventring.Event) string {
	switch e.Action {
	case eventring.ActionCreated:
		return fmt.Sprintf("Introspection rule %s was created", e.Fields["rule"])
	case eventring.ActionDeleted:
		return fmt.Sprintf("Introspection rule %s was deleted", e.Fields["rule"])
	case eventring.ActionAllDeleted:
		return fmt.Sprintf("All %s introspection rules were deleted", e.Fields["count"])
	}
	return ""
}
