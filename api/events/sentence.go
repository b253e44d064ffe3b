package events

import (
	"fmt"
	"os"
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
	text := os.Expand(template(e), func(name string) string {
		switch name {
		case "peer":
			return e.Peer
		case "node":
			return e.Node
		case "action":
			return e.Action
		case "error", "reason":
			return strings.TrimSuffix(e.Fields[name], ".")
		}
		return e.Fields[name]
	})
	if text == "" {
		text = fmt.Sprintf("%v: %s", e.Topic, e.Action)
	}
	return text + "."
}

// template is the sentence of an event with ${peer}, ${node} and ${FIELD} in the places of what it has.
func template(e eventring.Event) string {
	text := sentences[e.Topic][e.Action]
	switch e.Topic {
	case eventring.TopicLeadership:
		switch e.Fields["previous"] {
		case "":
			return "${peer} became the leader"
		case e.Peer:
			return "${peer} became the leader again"
		}
		return "${peer} became the leader in place of ${previous}"
	case eventring.TopicMember:
		if e.Action == eventring.ActionConnected && e.Fields["restarted"] != "" {
			return "${peer} was restarted and is connected again"
		}
	case eventring.TopicIntrospection:
		switch {
		case e.Action == introspection.NodeWaiting.String() && e.Fields["cause"] == introspection.EventAdopt.String():
			return "Node ${node} called while it carries a workload, and its data is expected"
		case e.Action == introspection.NodeProcessing.String() && e.Peer != "":
			text += " on ${peer}"
		case e.Action == introspection.NodeError.String() && e.Fields["found"] != "":
			text += "; ${found} (${finding})"
		}
	case eventring.TopicRemediation:
		text = "Remediation of kube node ${cluster}/${kube_node}" // two clusters may have one of that name
		if e.Action == kubestate.RemIntent.String() {
			text += " began"
		} else {
			text += ": ${action}"
		}
		if e.Fields["device"] != "" {
			text += " by device ${device}"
		}
		if e.Fields["reason"] != "" {
			text += " (${reason})"
		}
	}
	return text
}

// sentences are those of the events that commands leave, by topic and action.
var sentences = map[eventring.Topic]map[string]string{
	eventring.TopicPXE: {
		eventring.ActionOpened: "${peer} opened the PXE service: machines can boot from this host",
		eventring.ActionClosed: "${peer} closed the PXE service",
		eventring.ActionLapsed: "The PXE service of ${peer} is over: that peer was lost, and its kernel closed it when the lease ran out",
	},
	eventring.TopicFloatingIP: {
		eventring.ActionTaken:    "${peer} took the floating IP ${address}",
		eventring.ActionReleased: "${peer} released the floating IP ${address}",
		eventring.ActionLapsed:   "${peer} does not have the floating IP ${address} any more: that peer was lost, and its time ran out",
	},
	eventring.TopicMember: {
		eventring.ActionJoined:    "${peer} joined the cluster, at ${address}",
		eventring.ActionRemoved:   "${peer} was removed from the cluster",
		eventring.ActionConnected: "${peer} is connected",
		eventring.ActionStopped:   "${peer} was stopped",
		eventring.ActionLost: fmt.Sprintf("${peer} was lost: its session was not renewed for %v",
			membership.SessionTTL),
		eventring.ActionMoved:            "${peer} has the address ${address} now",
		eventring.ActionMaintenanceBegan: "Maintenance of ${peer} began: it does not lead",
		eventring.ActionMaintenanceEnded: "Maintenance of ${peer} ended",
		eventring.ActionDemoted:          "${peer} is an observer now: it does not vote",
		eventring.ActionPromoted:         "${peer} votes now",
	},
	eventring.TopicIntrospection: {
		introspection.NodeStarting.String():   "Introspection of node ${node} began",
		introspection.NodeWaiting.String():    "Node ${node} boots; its ramdisk is expected",
		introspection.NodeProcessing.String(): "The data of node ${node} arrived and is processed",
		introspection.NodeFinished.String():   "Introspection of node ${node} finished",
		introspection.NodeError.String():      "Introspection of node ${node} failed: ${error}",
		introspection.NodeReapplying.String(): "The stored data of node ${node} is processed again",
		introspection.NodeEnrolling.String():  "Node ${node} was discovered and is enrolled",
		introspection.NodeAborting.String():   "Introspection of node ${node} is being aborted",
		eventring.ActionDeleted:               "The introspection record of node ${node} was deleted",
		eventring.ActionImported:              "The introspection record of node ${node} was imported",
	},
	eventring.TopicLease: {
		eventring.ActionGranted:   "Lease ${lease} was granted to ${holder}",
		eventring.ActionTakenOver: "Lease ${lease} was taken over by ${holder}, which held it before",
		eventring.ActionReleased:  "${holder} released lease ${lease}",
		eventring.ActionExpired:   "Lease ${lease} of ${holder} expired",
	},
	eventring.TopicRule: {
		eventring.ActionCreated:    "Introspection rule ${rule} was created",
		eventring.ActionDeleted:    "Introspection rule ${rule} was deleted",
		eventring.ActionAllDeleted: "All ${count} introspection rules were deleted",
	},
	eventring.TopicHardware: {
		eventring.ActionChanged:    "The hardware of node ${node} changed: ${changes}",
		eventring.ActionUnexpected: "The machine of node ${node} is not as ordered: ${differences}",
		eventring.ActionExpected:   "The machine of node ${node} does not differ from what was ordered any more",
	},
	eventring.TopicBoot: {
		eventring.ActionFound:   "The machine of node ${node} does not come up: ${found} (${finding})",
		eventring.ActionCleared: "What kept the machine of node ${node} from coming up is over (${finding})",
	},
}
