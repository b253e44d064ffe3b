package admin

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/fsm/ironicports"
	"github.com/trivet-ha/trivet/test/memlog"
)

// explaining is the control interface of h2, where node has two MACs.
func explaining(t *testing.T, names api.Names, others *fakeOthers) http.Handler {
	t.Helper()
	log := memlog.New(t)
	ports := ironicports.PutPorts{Complete: true,
		Ports: []ironicports.Port{{ID: "p1", MAC: "52:54:00:00:00:01", Node: node},
			{ID: "p2", MAC: "52:54:00:00:00:02", Node: node}}}
	if res, err := log.DoAsLeader(ports); err != nil || res.Err() != nil {
		t.Fatalf("%v, %v", res, err)
	}
	return (&Control{Host: filtering("h2", others, log.View, names)}).Handler()
}

// TestExplainTakesAnyName: a MAC, the UUID of a node, or its name.
func TestExplainTakesAnyName(t *testing.T) {
	for ref, macs := range map[string]int{"52:54:00:00:00:01": 1, "52-54-00-00-00-01": 1, node: 2,
		strings.ToUpper(node): 2, "node-1": 2} {
		others := &fakeOthers{names: []string{"h1"}}
		w := send(explaining(t, fakeNames{}, others), "GET", "/v1/firewall/explain/"+ref+"?all=1", "")
		var rows []api.Explanation
		if err := json.Unmarshal(w.Body.Bytes(), &rows); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%s: %d %s: %v", ref, w.Code, w.Body, err)
		}
		if len(rows) != 2*macs {
			t.Errorf("%s: %d rows, want %d: %+v", ref, len(rows), 2*macs, rows)
		}
		for _, x := range rows {
			if x.Node != node || x.NodeName != "node-1" || x.NodeProblem != "" {
				t.Errorf("%s: row of %s is of node %q, %q (%s)", ref, x.Peer, x.Node, x.NodeName, x.NodeProblem)
			}
		}
	}
}

// TestExplainWithoutIronic: only a name needs it; for the rest its name is
// missing, and why is said.
func TestExplainWithoutIronic(t *testing.T) {
	h := explaining(t, fakeNames{away: true}, &fakeOthers{})
	for ref, want := range map[string]int{"52:54:00:00:00:01": http.StatusOK, node: http.StatusOK,
		"node-1": http.StatusServiceUnavailable} {
		w := send(h, "GET", "/v1/firewall/explain/"+ref, "")
		if w.Code != want {
			t.Errorf("%s: %d %s, want %d", ref, w.Code, w.Body, want)
		}
		if want != http.StatusOK && !strings.Contains(w.Body.String(), `"code":"failed"`) {
			t.Errorf("%s: not the code of a failure: %s", ref, w.Body)
		}
		if want == http.StatusOK &&
			(!strings.Contains(w.Body.String(), `"node":"`+node) ||
				!strings.Contains(w.Body.String(), `"node_problem":"Ironic did not tell`)) {
			t.Errorf("%s: %s", ref, w.Body)
		}
	}
	h = explaining(t, fakeNames{}, &fakeOthers{})
	for ref, want := range map[string]int{"nobody": http.StatusNotFound,
		"00000000-0000-4000-8000-00000200000f": http.StatusNotFound, "52:54:00": http.StatusBadRequest} {
		if w := send(h, "GET", "/v1/firewall/explain/"+ref, ""); w.Code != want {
			t.Errorf("%s: %d %s, want %d", ref, w.Code, w.Body, want)
		}
	}
}
