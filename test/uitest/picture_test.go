//go:build e2e

package uitest

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/trivet-ha/trivet/test/testwait"
)

// TestPicture makes the picture of the README: machines boot, and the leader is killed
// twice.
func TestPicture(t *testing.T) {
	const machines, most = 40, 200_000 // bytes of the picture
	s := openSite(t, machines)
	p := browse(t, s.front.URL+"/ui/")
	p.sized(1280, 1060)
	p.shows(".verdict", "One more host may be lost.")
	for n := range machines {
		resp, err := http.Post(fmt.Sprintf("%s/v1/introspection/node%d", s.Peers()[0].URL, n+1), "application/json", nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Body.Close(); resp.StatusCode != http.StatusAccepted {
			t.Fatalf("node%d: %s", n+1, resp.Status)
		}
	}
	for range 2 {
		p.holds("the timeline shows the present leader",
			`[...document.querySelectorAll("rect.k-pxe")].some((b) => b.ariaLabel && b.ariaLabel.endsWith(" on"))`)
		testwait.Elapse(t, limit/4, "bars of the timeline are as long as can be seen")
		s.killLeader(t)()
		p.shows(".verdict", "One more host may be lost.")
	}
	p.holds("the timeline shows the present leader",
		`[...document.querySelectorAll("rect.k-pxe")].some((b) => b.ariaLabel && b.ariaLabel.endsWith(" on"))`)
	p.shows(".headline", "Machines boot on")
	p.eval(`document.querySelectorAll("#notices button").forEach((b) => b.click())`)
	if png := p.picture("ui"); len(png) > most {
		t.Errorf("the picture has %d bytes, at most %d", len(png), most)
	}
}
