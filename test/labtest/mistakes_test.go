//go:build e2e

package labtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// mistakesEnv, set to 1, has TestTenMistakes write the golden files anew.
const mistakesEnv = "TRIVET_UPDATE_MISTAKES"

// mistakesDir holds a file for each mistake, with what trivet answers.
const mistakesDir = "../../cli/testdata/mistakes"

// mistakesSite is three hosts with the package on them, whose operator makes
// mistakes.
type mistakesSite struct {
	*pagesSite
	seen map[string]bool // golden files that were compared
}

// TestTenMistakes makes on three packaged hosts the mistakes that are likeliest
// in the first hour, and compares every answer with a golden file, so that a
// change of a message shows in review. The order is that of an installation:
// each mistake is mended before the next.
func TestTenMistakes(t *testing.T) {
	m := &mistakesSite{pagesSite: newPagesSite(t, buildPackage(t)), seen: make(map[string]bool)}
	ahead := m.clockAhead()
	for _, name := range []string{"h1", "h2", "h3"} {
		h := m.host(name)
		h.Must("sh", "-c", "dpkg -i /root/trivet_*.deb && systemctl disable --now dnsmasq")
	}
	m.beforeTheFirstStart()
	m.whileOthersJoin(ahead)
	m.whileTheClusterRuns()
	m.floatingIP()
	found, err := filepath.Glob(filepath.Join(mistakesDir, "*.golden"))
	testenv.Must(t, err)
	for _, path := range found {
		if name := strings.TrimSuffix(filepath.Base(path), ".golden"); !m.seen[name] {
			t.Errorf("%s belongs to no mistake: remove it", path)
		}
	}
}

const rightInit = "trivet init --firewall-interface br-pxe --ironic-endpoint http://192.0.2.5:6385 --floating-ip-address 192.0.2.10 --floating-ip-interface br-pxe"

// beforeTheFirstStart are those of a host without a cluster. It leaves h1 as the
// first peer.
func (m *mistakesSite) beforeTheFirstStart() {
	h := m.host("h1")
	m.compare("wrong-interface", h,
		"trivet init --firewall-interface br-prov --ironic-endpoint http://192.0.2.5:6385 --floating-ip-address 192.0.2.10 --floating-ip-interface br-prov")
	h.Must("sh", "-c",
		"rm -rf /var/lib/trivet/peer /etc/trivet/htpasswd && dpkg -i --force-confmiss,confnew /root/trivet_*.deb && trivet config template > /etc/trivet/trivet.yaml")
	h.Must("sh", "-c", rightInit)
	other := (&Host{net: m.net, number: pagesNumber("h1")}).listenTCP(":5050")
	m.compare("port-5050-taken", h, "runuser -u trivet -- trivet serve 2>&1 | grep '^trivet: '")
	testenv.Must(m.t, other.Close())
	h.Must("systemctl", "start", "trivet")
}

// whileOthersJoin are those of hosts that join. It leaves three peers.
func (m *mistakesSite) whileOthersJoin(ahead string) {
	first, h := m.host("h1"), m.host("h2")
	join := func(words, token string) string {
		return "trivet join 192.0.2.1" + words + " --token-file - <<END\n" + token + "\nEND"
	}
	short := strings.TrimSpace(first.Must("trivet", "token", "create", "-q", "--ttl", "1s"))
	eventually(m.t, growLimit, "the token expires", func() error {
		var all []struct{ ID string }
		if err := json.Unmarshal([]byte(first.Must("trivet", "token", "list", "-o", "json")), &all); err != nil ||
			len(all) > 1 {
			return fmt.Errorf("%d tokens are listed (%v)", len(all), err)
		}
		return nil
	})
	m.compare("expired-token", h, join("", short))

	first.Must("nft",
		"table inet site { chain input { type filter hook input priority 0; iifname br-pxe tcp dport 7350 drop; }; }")
	m.compare("port-7350-blocked", h, join("", m.token("h2")))
	first.Must("nft", "delete", "table", "inet", "site")

	m.compare("duplicate-name", h, join(" --name h1", m.token("h2")))
	h.Place(ahead)
	h.Must("chmod", "755", "/root/trivet-ahead")
	m.compare("clock-off", h, strings.Replace(join("", m.token("h2")), "trivet", "/root/trivet-ahead", 1))

	for _, name := range []string{"h2", "h3"} {
		m.host(name).Must("sh", "-c", join("", m.token(name)))
		m.host(name).Must("systemctl", "start", "trivet")
	}
	testenv.Must(m.t, m.settle(growLimit))
	m.compare("joined-twice", h, join("", m.token("h2")))
	m.compare("clock-off-running", h, m.runAhead(h)...)
	testenv.Must(m.t, m.settle(growLimit))
}

// runAhead runs the host's peer with a clock that is an hour ahead, and returns
// what the operator asks then. The clock is right again when it is asked next.
func (m *mistakesSite) runAhead(h *System) []string {
	h.Must("sh", "-c",
		"cp -a /usr/bin/trivet /root/trivet-right && cp /root/trivet-ahead /usr/bin/trivet.new && mv /usr/bin/trivet.new /usr/bin/trivet && systemctl restart trivet")
	m.until(h, "trivet status", "clock_skew")
	h.Must("sh", "-c", "mv /root/trivet-right /usr/bin/trivet")
	return []string{"trivet status 2>/dev/null | grep -A1 '(clock_skew)'", "trivet doctor --check clock",
		"systemctl restart trivet"}
}

// whileTheClusterRuns are those that doctor and status find.
func (m *mistakesSite) whileTheClusterRuns() {
	h := m.host("h1")
	m.compare("no-dnsmasq", h, "trivet doctor --check dhcp --check boot")

	change := func(script string) {
		h.Must("sh", "-c", "cp -a /etc/trivet/trivet.yaml /root/right.yaml && "+script+" && systemctl reload trivet")
	}
	back := func() {
		h.Must("sh", "-c", "cp -a /root/right.yaml /etc/trivet/trivet.yaml && systemctl reload trivet")
	}
	change("sed -i 's,http://192.0.2.5:6385,http://192.0.2.5:6386,' /etc/trivet/trivet.yaml")
	m.until(h, "trivet status", "ironic_away")
	m.compare("wrong-ironic-url", h, "trivet status 2>/dev/null | grep -A1 '(ironic_away)'",
		"trivet doctor --check services")
	back()

	m.lockedIronic()
	change(
		"printf 'ironic:\\n  endpoint: http://192.0.2.7:6385\\n  auth_type: http_basic\\n  username: trivet\\n  password_file: /etc/trivet/ironic-password\\n' > /root/ironic.yaml && " +
			"sed '/^ironic:/,/^[^ #]/{/^ironic:/d;/^ /d}' /root/right.yaml > /etc/trivet/trivet.yaml && cat /root/ironic.yaml >> /etc/trivet/trivet.yaml && " +
			"(umask 027; echo wrong > /etc/trivet/ironic-password; chgrp trivet /etc/trivet/ironic-password)")
	m.compare("wrong-password", h, "trivet doctor --check services")
	back()
}

// floatingIP are those of the floating IP, on all hosts and on one.
func (m *mistakesSite) floatingIP() {
	h := m.host("h3")
	h.Must("sh", "-c",
		"cp -a /etc/trivet/trivet.yaml /root/right.yaml && sed -i '/^floating_ip:/,/^[^ ]/s/interface: .*/interface: br-none/' /etc/trivet/trivet.yaml && systemctl restart trivet")
	m.until(h, "trivet status", "floating_ip")
	m.compare("floating-ip-absent", h, "trivet status 2>/dev/null | grep -A1 '(floating_ip)'",
		"trivet doctor --check floating-ip")
	h.Must("sh", "-c", "cp -a /root/right.yaml /etc/trivet/trivet.yaml && systemctl restart trivet")
	testenv.Must(m.t, m.settle(growLimit))

	for _, name := range []string{"h1", "h2", "h3"} { // nobody holds it, while another machine takes it
		m.host(name).Must("systemctl", "stop", "trivet")
	}
	m.plug(10)
	for _, name := range []string{"h1", "h2", "h3"} {
		m.start(m.host(name))
	}
	if leader := m.leader(); leader != m.host("h1") {
		leader.Must("trivet", "transfer", "h1")
	}
	leader := m.host("h1")
	m.until(leader, "trivet status", "address_conflict")
	m.compare("floating-ip-taken", leader, "trivet status 2>/dev/null | grep -A1 '(address_conflict)'",
		"trivet doctor --check floating-ip")
}

// start starts the peer of a host on which it was stopped. A container may still
// be removing the service's control group; then systemd tries again by itself.
func (m *mistakesSite) start(h *System) {
	m.t.Helper()
	_, _ = h.Try("systemctl", "start", "trivet") // the next look says whether it runs
	testwait.Within(m.t, growLimit, m.named(h)+" runs", func() error {
		if !active(h) {
			return fmt.Errorf("trivet.service is not active")
		}
		return nil
	})
}

// leader is the host whose peer leads.
func (m *mistakesSite) leader() (found *System) {
	m.t.Helper()
	eventually(m.t, growLimit, "a leader", func() error {
		for name, h := range m.hosts {
			if s, err := h.status(); err == nil && s.Leader == name {
				found = h
				return nil
			}
		}
		return fmt.Errorf("no peer says that it leads")
	})
	return found
}

// until waits until a command's output has a word.
func (m *mistakesSite) until(h *System, command, word string) {
	m.t.Helper()
	testwait.Within(m.t, growLimit, fmt.Sprintf("%q says %s", command, word), func() error {
		if out, err := h.Try("sh", "-c", command); !strings.Contains(out, word) {
			return fmt.Errorf("%v: %s", err, out)
		}
		return nil
	})
}

func (m *mistakesSite) named(h *System) string {
	for name, other := range m.hosts {
		if other == h {
			return name
		}
	}
	m.t.Fatal("it is no host of this site")
	return ""
}

// lockedIronic answers at 192.0.2.7 as an Ironic does that takes nobody's
// password.
func (m *mistakesSite) lockedIronic() {
	m.t.Helper()
	refuse := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", `Basic realm="Baremetal API"`)
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"error": {"message": "Incorrect username or password", "code": 401}}`)
	}
	m.plug(7).serve("192.0.2.7:6385", http.HandlerFunc(refuse))
}

// clockAhead builds trivet with a wall clock that is an hour ahead: hosts in
// containers have the clock of this machine.
func (m *mistakesSite) clockAhead() (path string) {
	m.t.Helper()
	root, err := filepath.Abs("../..")
	testenv.Must(m.t, err)
	ahead, err := hourAhead(testenv.GetFile(m.t, root, clockSource))
	testenv.Must(m.t, err)
	path = filepath.Join(m.t.TempDir(), "trivet-ahead")
	m.t.Setenv("CGO_ENABLED", "0") // its host is another than this one
	overlaid(m.t, path, map[string]string{filepath.Join(root, clockSource): ahead})
	return path
}

// compare runs commands on a host as its operator would, and compares what they
// print, and how they end, with a golden file.
func (m *mistakesSite) compare(name string, h *System, commands ...string) {
	m.t.Helper()
	m.seen[name] = true
	var got strings.Builder
	for _, command := range commands {
		out, err := h.Try("sh", "-c", "cd /root && ("+command+"\n) </dev/null")
		code, bad := exitCode(err)
		if bad != nil {
			m.t.Fatalf("%s: %v", command, bad)
		}
		fmt.Fprintf(&got, "%s# %s\n%s(exit code %d)\n", m.named(h), everyRun(command), everyRun(out), code)
	}
	path := filepath.Join(mistakesDir, name+".golden")
	if os.Getenv(mistakesEnv) == "1" {
		testenv.Must(m.t, os.MkdirAll(mistakesDir, 0o755))
		testenv.Must(m.t, os.WriteFile(path, []byte(got.String()), 0o644))
		return
	}
	want, err := os.ReadFile(path)
	if err != nil || string(want) != got.String() {
		m.t.Errorf("%s (%v): if the new text is better, run this test with %s=1.\nIt has\n%s\ntrivet says\n%s", path, err,
			mistakesEnv, want, got.String())
	}
}

// everyRun takes out of a text what differs from run to run.
func everyRun(text string) string {
	for _, r := range []struct{ find, put string }{
		{`trivet1\.[A-Za-z0-9._-]+`, pagesToken},
		{`has the password \S+,`, "has the password …,"},
		{`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`, "UUID"},
		{`(?i)\b(?:[0-9a-f]{2}:){5}[0-9a-f]{2}\b`, "MAC"},
		{`\b1h0m\d+(?:\.\d+)?s`, "1h0m0s"},
		{`\b59m5\d(?:\.\d+)?s`, "1h0m0s"},
		{`192\.0\.2\.(\d+):\d{5}\b`, "192.0.2.$1:PORT"},
		{`\d{4}-\d{2}-\d{2}T\S+`, "TIME"},
		{`trivet\.yaml:\d+`, "trivet.yaml:LINE"},
		{`; then the call was ended: context deadline exceeded`, ""}, // or its last try, if that was over before
		{`process \d+`, "process PID"},
		{`(a program of the user with ID \d+), \S+`, "$1"}, // the unit of this test
	} {
		text = regexp.MustCompile(r.find).ReplaceAllString(text, r.put)
	}
	return text
}
