//go:build e2e

package uitest

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/trivet-ha/trivet/api"
	sandbox "github.com/trivet-ha/trivet/test/sandbox/site"
)

// TestLogin: a user logs in, moves leadership, is logged in at another peer as well,
// and logs out.
func TestLogin(t *testing.T) {
	line, err := api.NewUser("root", "correct horse")
	if err != nil {
		t.Fatal(err)
	}
	users := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(users, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	s := openSiteOf(t, sandbox.Options{Nodes: 3, Users: users})
	p := browse(t, s.front.URL+"/ui/")
	p.shows("h1", "Log in")
	p.holds("the first field has the focus", `document.activeElement.name === "user"`)
	p.writes("root")
	p.press("Tab")
	p.writes("wrong")
	p.press("Enter")
	p.shows(".problem", "These credentials are not valid.")
	p.picture("login")
	p.eval(`(() => { const box = document.querySelector("input[name=password]"); box.focus(); box.select(); })()`)
	p.writes("correct horse")
	p.press("Enter")
	p.shows(".verdict", "One more host may be lost.")
	p.shows("#user", "root")
	leader := p.text(".tile.lead h3")
	at := slices.IndexFunc(s.Peers(), func(o sandbox.Peer) bool { return o.Name == leader })
	s.front.MoveTo(at) // leadership is moved by the leader; its peer has not seen this session yet
	next := s.Peers()[(at+1)%3].Name
	p.shows("#freshness", "live, from "+leader)
	p.picture("operator")
	p.eval(`[...document.querySelectorAll(".tile button")].find((b) => b.textContent === "Make leader " + %q).click()`,
		next)
	p.shows("#ask .command", "trivet transfer "+next)
	p.eval(`document.querySelector("#ask .primary").click()`)
	p.shows("#notices", next+" leads.")
	p.shows(".tile.lead h3", next)
	if got := p.eval(`document.cookie`); got != "" {
		t.Errorf("a script can read the cookie: %q", got)
	}
	p.eval(`document.querySelector("#user button").click()`)
	p.shows("h1", "Log in")
	p.quiet("401")
}
