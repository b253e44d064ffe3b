package events

import (
	"testing"

	"github.com/trivet-ha/trivet/fsm/eventring"
)

// Two clusters may have a kube node of one name: the sentence says which one it is.
func TestRemediationNamesItsCluster(t *testing.T) {
	for action, want := range map[string]string{
		"intent": "Remediation of kube node prod/w1 began by device bmc (it is dead).",
		"off":    "Remediation of kube node prod/w1: off by device bmc (it is dead).",
	} {
		e := eventring.Event{Topic: eventring.TopicRemediation, Action: action,
			Fields: eventring.Fields("cluster", "prod", "kube_node", "w1", "device", "bmc", "reason", "it is dead.")}
		if got := sentence(e); got != want {
			t.Errorf("sentence: %q, want %q", got, want)
		}
	}
}
