//go:build e2e

package uitest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/trivet-ha/trivet/test/testwait"
)

// TestHardwareOfAMachine shows what is not as ordered, what changed and where cards are
// plugged in.
func TestHardwareOfAMachine(t *testing.T) {
	s := openSite(t, 8)
	ask := func(method, path string, body []byte, want int) []byte {
		t.Helper()
		req, err := http.NewRequest(method, s.Peers()[0].URL+path, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		got, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != want {
			t.Fatalf("%s %s: %s %s %v", method, path, resp.Status, got, err)
		}
		return got
	}
	ends := func(node string) {
		t.Helper()
		testwait.UntilWithin(t, limit, node+" finishes", func() bool {
			return bytes.Contains(ask("GET", "/v1/introspection/"+node, nil, 200), []byte(`"state":"finished"`))
		})
	}
	for range 2 {
		for n := range 3 {
			ask("POST", fmt.Sprintf("/v1/introspection/node%d", n+1), nil, 202)
		}
		for n := range 3 {
			ends(fmt.Sprintf("node%d", n+1))
		}
	}
	var sent map[string]any
	if err := json.Unmarshal(ask("GET", "/v1/introspection/node1/data/unprocessed", nil, 200), &sent); err != nil {
		t.Fatal(err)
	}
	inventory := sent["inventory"].(map[string]any)
	disks := inventory["disks"].([]any)
	inventory["disks"] = disks[1:]
	body, err := json.Marshal(sent)
	if err != nil {
		t.Fatal(err)
	}
	ask("POST", "/v1/introspection/node1/data/unprocessed", body, 202)
	ends("node1")
	ask("PUT", "/v1/expectations/compute", []byte(fmt.Sprintf("name: compute\nnodes: [node1]\nparts:\n"+
		"- {kind: disk, number: %d}\n- {kind: cable, number: '>= 1', switch: 'leaf-*'}\n", len(disks))), 200)

	p := browse(t, s.front.URL+"/ui/#machines")
	p.shows("#machines .bar", "not as ordered\n1")
	p.eval(`[...document.querySelectorAll("#machines .bar button")].find((b) => b.innerText.startsWith("not as")).click()`)
	p.shows("#machines .hint", "1 of 8 machines")
	p.picture("unexpected")
	p.eval(`document.querySelector(".row").click()`)
	p.shows("#drawer .differences", fmt.Sprintf("compute: expected %d x disk, found %d", len(disks), len(disks)-1))
	p.shows("#drawer .changes", "went")
	p.shows("#drawer", "leaf-1")
	p.sized(1280, 1700)
	p.picture("hardware")
}
