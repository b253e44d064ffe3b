//go:build e2e

package labtest

import (
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"github.com/trivet-ha/trivet/test/labtest/httpapi"
	"github.com/trivet-ha/trivet/test/testenv"
)

// GoldenProfile is the configuration under which a conversation was recorded,
// by the names of the original's options: those with a dot begin with their
// section.
type GoldenProfile map[string]any

// goldenUser and goldenPassword are who may use the API in the recordings that
// ask for somebody.
const goldenUser, goldenPassword = "admin", "secret"

// processingKeys are the options of a profile that stand in [processing],
// though it does not say so. The others without a section are in [DEFAULT].
func processingKeys() []string {
	return []string{"processing_hooks", "store_data", "node_not_found_hook"}
}

// conf writes the profile as the inspector.conf of a host whose way to Ironic
// is the address given, host:port.
func (g GoldenProfile) conf(ironic, users string) string {
	sections := map[string][]string{
		"DEFAULT": {"http_basic_auth_user_file = " + users},
		"ironic":  {"auth_type = none", "endpoint_override = http://" + ironic},
	}
	for _, key := range slices.Sorted(maps.Keys(g)) {
		value := g[key]
		if value == nil || key == "note" {
			continue
		}
		section, name, dotted := strings.Cut(key, ".")
		switch {
		case slices.Contains(processingKeys(), key):
			section, name = "processing", key
		case !dotted:
			section, name = "DEFAULT", key
		}
		sections[section] = append(sections[section], fmt.Sprintf("%s = %v", name, value))
	}
	var b strings.Builder
	for _, section := range slices.Sorted(maps.Keys(sections)) {
		fmt.Fprintf(&b, "[%s]\n%s\n", section, strings.Join(sections[section], "\n"))
	}
	return b.String()
}

// same reports whether two profiles are one configuration.
func (g GoldenProfile) same(other GoldenProfile) bool {
	return g.conf("", "") == other.conf("", "")
}

// goldenLab is three peers whose configuration is an imported inspector.conf.
type goldenLab struct {
	*SiteLab
	doors   map[*Peer]string
	users   string
	profile GoldenProfile // in force
}

// newGoldenLab prepares peers on loopback, where a configuration need not say
// who may use the API.
func newGoldenLab(s *SiteLab) *goldenLab {
	g := &goldenLab{SiteLab: s, doors: make(map[*Peer]string)}
	g.users = g.file("htpasswd", goldenUser+":"+hashed(s.t, goldenPassword)+"\n")
	s.furnish = func(p *Peer) {
		g.doors[p] = s.Tap.Door(p.Name, "127.0.0.1:0")
		p.Config = filepath.Join(s.dir, p.Name+".yaml")
		p.Env = append(p.Env, "TRIVET_API_TRUSTED_PROXIES=127.0.0.0/8") // the recorded requests come through one
		g.imports(p)
	}
	return g
}

func hashed(t testing.TB, password string) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	testenv.Must(t, err)
	return string(hash)
}

// basic is the header of a user.
func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

func (g *goldenLab) file(name, text string) string {
	g.t.Helper()
	path := filepath.Join(g.dir, name)
	testenv.Must(g.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// imports gives the peer the configuration that is in force, as a host gets it
// that moves away from the original. Nothing may be lost on the way.
func (g *goldenLab) imports(p *Peer) {
	g.t.Helper()
	conf := g.file(p.Name+".conf", g.profile.conf(g.doors[p], g.users))
	r := p.Import("config", conf)
	if r.Code != 0 {
		g.t.Fatalf("import of %s: exit %d\n%s", conf, r.Code, r.Err)
	}
	if r.Err != "" {
		g.t.Errorf("import of %s leaves behind:\n%s", conf, r.Err)
	}
	g.file(p.Name+".yaml", r.Out)
}

// configure puts a profile in force: the first starts the peers, another
// restarts them one after the other.
func (g *goldenLab) configure(profile GoldenProfile) {
	g.t.Helper()
	if g.profile.same(profile) && len(g.Peers) > 0 {
		return
	}
	g.profile = profile
	if len(g.Peers) == 0 {
		g.Trio()
		return
	}
	for _, p := range g.Peers {
		p.Stop()
		g.imports(p)
		p.Start()
		g.WaitLeader()
	}
	g.WaitVoters(len(g.Peers))
}

// forget removes what an earlier conversation left: rules, which apply to every
// node.
func (g *goldenLab) forget() {
	g.t.Helper()
	err := g.Anywhere(electLimit, "delete the rules", func(p *Peer) error { return g.call(p, "DELETE", "/v1/rules", nil) })
	testenv.Must(g.t, err)
}

// call asks a peer as a user who may do everything.
func (g *goldenLab) call(p *Peer, method, path string, out any) error {
	header := map[string]string{"Authorization": basic(goldenUser, goldenPassword)}
	return httpapi.Call(p.wire, p.API, method, path, header, nil, out)
}
