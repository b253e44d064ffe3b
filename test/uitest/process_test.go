//go:build e2e

package uitest

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/test/floating"
	"github.com/trivet-ha/trivet/test/labtest"
	"github.com/trivet-ha/trivet/test/sandbox/simironic"
)

// trio is a cluster of three processes whose API asks for a password, and a simulated Ironic
// that knows one machine.
type trio struct {
	*labtest.Lab
	front *floating.Address
	users string // file of all peers
}

const (
	machineUUID = "de000000-0000-4000-8000-000000000001"
	password    = "correct horse"
)

func openTrio(t *testing.T) *trio {
	t.Helper()
	ironic := simironic.New(simironic.Options{})
	if err := ironic.Enroll(simironic.Enrolment{UUID: machineUUID, Name: "node1", BMC: "198.51.100.9",
		MACs: []string{"52:54:00:ab:00:01"}}); err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(ironic)
	t.Cleanup(func() {
		web.Close()
		ironic.Close()
	})
	c := &trio{Lab: labtest.New(t), users: filepath.Join(t.TempDir(), "users")}
	c.write(t, "root", "viewer")
	var urls []string
	for i, name := range []string{"alpha", "bravo", "charlie"} {
		p := c.Add(name)
		p.Env = append(p.Env, "TRIVET_IRONIC_ENDPOINT="+web.URL, "TRIVET_API_AUTH_STRATEGY=http_basic",
			"TRIVET_API_HTTP_BASIC_AUTH_USER_FILE="+c.users)
		if i == 0 {
			p.Must("init", p.Flags())
		} else {
			p.Join(c.WaitLeader())
		}
		p.Start()
		urls = append(urls, "http://"+p.API)
	}
	c.WaitVoters(3)
	var err error
	if c.front, err = floating.Open(urls); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.front.End)
	return c
}

// write gives every peer these users, all with one password.
func (c *trio) write(t *testing.T, users ...string) {
	t.Helper()
	var text []byte
	for _, user := range users {
		line, err := api.NewUser(user, password)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, line...)
	}
	next := c.users + ".next"
	if err := os.WriteFile(next, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, c.users); err != nil {
		t.Fatal(err)
	}
}

// others are the peers but for one.
func (c *trio) others(p *labtest.Peer) []*labtest.Peer {
	return slices.DeleteFunc(slices.Clone(c.Peers), func(o *labtest.Peer) bool { return o == p })
}

// visit logs in at the peer that the address is moved to.
func (c *trio) visit(t *testing.T, at *labtest.Peer, hash string) *tab {
	t.Helper()
	c.front.MoveTo(slices.Index(c.Peers, at))
	p := browse(t, c.front.URL+"/ui/"+hash)
	p.shows("h1", "Log in")
	p.writes("root")
	p.press("Tab")
	p.writes(password)
	p.press("Enter")
	p.shows("#user", "root")
	p.shows("#freshness", "live, from "+at.Name)
	p.eval(`window.opened = true`)
	return p
}

// stays fails the test if the page was loaded again, or somebody has to log in again.
func (p *tab) stays() {
	p.t.Helper()
	if p.eval(`window.opened`) != "true" || p.text("#user") == "" {
		p.t.Error("the page was reloaded, or its session has ended")
	}
}

// TestProcessOfTheLeaderIsKilled: the session goes on at the next peer, and the page tells what
// happened, without a gap in the events.
func TestProcessOfTheLeaderIsKilled(t *testing.T) {
	c := openTrio(t)
	leader := c.WaitLeader()
	p := c.visit(t, leader, "")
	p.shows(".verdict", "One more host may be lost.")
	p.shows(".tile.lead dl", "ms a write")
	leader.Kill9()
	p.shows("#notices", leader.Name+" was lost at")
	p.shows("#notices", "answers now")
	p.shows(".verdict", "No further host may be lost.")
	p.shows(".tile.lost h3", leader.Name)
	p.picture("process-killed")
	leader.Start()
	p.shows(".verdict", "One more host may be lost.")
	p.hasAllEvents()
	p.stays()
	p.quiet("net::ERR", "401", "503")
}

// TestLogOfThePeers: the lines of all processes stand in one view; a request's lines alone, and
// who is silent, are told.
func TestLogOfThePeers(t *testing.T) {
	c := openTrio(t)
	leader := c.WaitLeader()
	p := c.visit(t, leader, "#log")
	for _, peer := range c.Peers {
		p.shows("#main table", peer.Name)
	}
	req, err := http.NewRequest(http.MethodPost, "http://"+leader.API+"/v1/introspection/node1", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth("root", password)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	id := resp.Header.Get("X-Openstack-Request-Id")
	if resp.StatusCode != http.StatusAccepted || id == "" {
		t.Fatalf("start: %s, request %q", resp.Status, id)
	}
	p.eval(`document.getElementById("request").focus()`)
	p.writes(id)
	p.press("Enter")
	p.shows("#main table", id)
	p.holds("lines of this request alone",
		`[...document.querySelectorAll("#main tbody tr")].every((r) => r.lastChild.textContent === %q)`, id)
	p.picture("log-of-a-request")
	c.others(leader)[0].Kill9()
	p.eval(`location.hash = "log"`)
	p.shows("#main .hint", c.others(leader)[0].Name+":")
	p.stays()
	p.quiet("net::ERR", "401", "503")
}

// TestPageWithoutAQuorum: two processes of three are killed. The page shows what the last one
// knows, offers no change, and the peer refuses what is asked for all the same.
func TestPageWithoutAQuorum(t *testing.T) {
	c := openTrio(t)
	last := c.WaitLeader()
	p := c.visit(t, last, "")
	p.shows(".tiles", "Make leader")
	for _, other := range c.others(last) {
		other.Kill9()
	}
	p.shows(".verdict", "nothing can be changed")
	p.holds("no change is offered",
		`![...document.querySelectorAll("main button")].some((b) => /Make leader|Maintenance|Rehearse/.test(b.innerText))`)
	p.shows(".foot", "Without a quorum this page offers no changes.")
	const transfer = `fetch("api/session").then((r) => r.json()).then((who) => fetch("api/v1/transfer", { method: "POST", body: JSON.stringify({ to: %q }), headers: { "Content-Type": "application/json", "X-Trivet-Csrf": who.csrf } })).then((r) => r.json().then((a) => r.status + " " + JSON.stringify(a)))`
	if got := p.eval(transfer, c.others(last)[0].Name); got == "" || got[:3] != "409" {
		t.Errorf("leadership is handed on without a quorum: %s", got)
	} else {
		t.Logf("the peer refuses: %s", got)
	}
	p.picture("no-quorum")
	p.eval(`location.hash = "machines"`)
	p.shows(".row", "node1")
	p.eval(`document.querySelector(".row").click()`)
	p.shows("#drawer .bar", "Without a quorum nothing can be changed.")
	p.press("Escape")
	for _, other := range c.others(last) {
		other.Start()
	}
	p.eval(`location.hash = "overview"`)
	p.shows(".verdict", "One more host may be lost.")
	p.shows(".tiles", "Make leader")
	p.stays()
	p.quiet("net::ERR", "401", "404", "409", "503")
}

// TestStalePeer: the peer that answers hears of no leader, because the others stand still. The
// page says how old what it shows is, and is live again when they go on.
func TestStalePeer(t *testing.T) {
	c := openTrio(t)
	shown := c.Followers()[0]
	p := c.visit(t, shown, "")
	p.shows(".verdict", "One more host may be lost.")
	for _, other := range c.others(shown) {
		other.Pause()
	}
	p.shows("#freshness", "ago, from "+shown.Name)
	p.holds("a stale state is marked as one", `document.getElementById("freshness").className === "fresh stale"`)
	p.shows(".verdict", "No leader is known to this peer")
	p.picture("stale")
	for _, other := range c.others(shown) {
		other.Cont()
	}
	p.shows("#freshness", "live, from "+shown.Name)
	p.shows(".verdict", "One more host may be lost.")
	p.hasAllEvents()
	p.stays()
	p.quiet("net::ERR", "401", "503")
}

// TestUserIsRemoved: the session of a user who is removed meanwhile ends, in the middle of
// whatever is shown, and leaves nothing of it on the page.
func TestUserIsRemoved(t *testing.T) {
	c := openTrio(t)
	p := c.visit(t, c.WaitLeader(), "#machines")
	p.shows(".row", "node1")
	p.eval(`document.querySelector(".row").click()`)
	p.shows("#drawer-title", "node1")
	p.picture("removed-before")
	c.write(t, "viewer")
	p.shows("h1", "Log in")
	p.holds("the drawer is closed", `!document.querySelector("dialog[open]")`)
	p.holds("nothing of the session is left",
		`!document.querySelector("main").innerText.includes("node1") && !document.getElementById("nav").innerText`)
	p.picture("removed")
	p.eval(`document.querySelector("input[name=user]").focus()`)
	p.writes("viewer")
	p.press("Tab")
	p.writes(password)
	p.press("Enter")
	p.shows("#user", "viewer")
	p.holds("the drawer stays closed", `!document.querySelector("dialog[open]")`)
	p.quiet("401", "404")
}
