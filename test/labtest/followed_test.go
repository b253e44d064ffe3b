//go:build e2e

package labtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/test/labtest/openstack"
)

// ironicFollowed lets a real Ironic inspect by an inspector that is not ours, and
// demands that the doors follow: a node's machine may boot from when Ironic
// inspects it to when that is over, also when the leader dies meanwhile.
func ironicFollowed(t *testing.T, ironic *openstack.Ironic) {
	successor := newSuccessor(t)
	ironic.Inspector.Aim(successor.addr)
	machines := ironic.Enroll(0, 2)
	for _, m := range machines {
		inspectsByInspector(t, ironic, m)
	}
	s := NewHosts(t).site(siteKind{ironic: ironic.Addr, driver: "nftables",
		env: []string{"TRIVET_FIREWALL_INSPECT_INTERFACES=inspector"}})
	s.Trio()
	s.follows(machines[0], "drop")

	ironic.Provision(machines[0], "inspect")
	ironic.WaitState(machines[:1], "inspect wait")
	began := time.Now()
	s.follows(machines[0], "accept")
	t.Logf("its machine may boot %v after Ironic inspects", time.Since(began).Round(10*time.Millisecond))
	s.follows(machines[1], "drop")

	s.WaitLeader().Kill9() // the next one knows from the log
	s.follows(machines[0], "accept")

	successor.finish(machines[0])
	ironic.WaitState(machines[:1], "manageable")
	began = time.Now()
	s.follows(machines[0], "drop")
	t.Logf("it may not %v after that is over", time.Since(began).Round(10*time.Millisecond))
}

// follows waits until the leader's rules end so for a machine.
func (s *SiteLab) follows(m openstack.Machine, verdict string) {
	s.t.Helper()
	s.Eventually(growLimit, fmt.Sprintf("the door's word for %s is %s", m.Name, verdict), func() error {
		leader, err := s.agreedLeader()
		if err != nil {
			return err
		}
		var rows []api.Explanation
		if err := leader.Call("GET", "/v1/firewall/explain/"+m.MAC, nil, &rows); err != nil {
			return err
		}
		if len(rows) != 1 || rows[0].Verdict != verdict {
			return fmt.Errorf("it is: %+v", rows)
		}
		if verdict == "accept" && !strings.Contains(rows[0].Why, "Ironic itself inspects") {
			return fmt.Errorf("it does not name Ironic: %s", rows[0].Why)
		}
		return nil
	})
}

// successor is an inspector that is not ours: it takes every start and says that
// nothing has ended until it is told.
type successor struct {
	addr string

	mu    sync.Mutex
	ended map[string]bool // by node
}

func newSuccessor(t *testing.T) *successor {
	s := &successor{ended: make(map[string]bool)}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.addr = strings.TrimPrefix(server.URL, "http://")
	return s
}

func (s *successor) finish(m openstack.Machine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended[m.UUID] = true
}

// ServeHTTP implements http.Handler.
func (s *successor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	node, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1/introspection/"), "/")
	s.mu.Lock()
	ended := s.ended[node]
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	var body any = map[string]any{"uuid": node, "finished": ended, "error": nil, "state": "waiting"}
	switch {
	case r.URL.Path == "/":
		link := []map[string]string{{"rel": "self", "href": "http://" + r.Host + "/v1"}}
		body = map[string]any{"versions": []map[string]any{{"id": "1.18", "status": "CURRENT", "links": link}}}
	case r.Method == http.MethodPost:
		w.WriteHeader(http.StatusAccepted)
	case rest == "data":
		body = map[string]any{"inventory": map[string]any{}}
	}
	_ = json.NewEncoder(w).Encode(body) // Ironic asks again
}
