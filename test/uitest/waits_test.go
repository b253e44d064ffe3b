//go:build e2e

package uitest

import (
	"net/http"
	"testing"

	sandbox "github.com/trivet-ha/trivet/test/sandbox/site"
)

// TestPageTellsWhoWaits introspects machines that never call: the overview and the drawer say what
// they wait for, and the overview no more when they have timed out.
func TestPageTellsWhoWaits(t *testing.T) {
	s := openSiteOf(t, sandbox.Options{Nodes: 3, Silent: 3})
	for _, node := range []string{"node1", "node2", "node3"} {
		resp, err := http.Post(s.Peers()[0].URL+"/v1/introspection/"+node, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusAccepted {
			t.Fatalf("start %s: %s", node, resp.Status)
		}
	}
	p := browse(t, s.front.URL+"/ui/")
	p.shows("section[aria-labelledby=wa]", "and 2 more wait for the machine, to boot its ramdisk")
	p.shows("section[aria-labelledby=wa]", "(node1) and 2 more")
	p.shows("section[aria-labelledby=wa]", "'trivet firewall explain de000000-0000-4000-8000-000000000001' ") // to paste
	p.picture("waits")
	p.eval(`location.hash = "machines"`)
	p.shows("#machines .row", "node")
	p.eval(`document.querySelector("#machines .row").click()`)
	p.shows("#drawer", "It waits for the machine, to boot its ramdisk")
	p.picture("waits-drawer")
	p.shows("#drawer .state", "error")
	p.press("Escape")
	p.eval(`location.hash = "overview"`)
	p.holds("nothing waits", `!document.querySelector("section[aria-labelledby=wa]")`)
	p.quiet(noData)
}
