package cli

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/cli/term"
)

// oneRuleHost runs commands with one configuration, each on a bare host.
type oneRuleHost struct {
	t     *testing.T
	token string
	runs  int
}

// run returns the exit code, and what was said of the configuration: errors, and warnings.
func (h *oneRuleHost) run(yaml string, words ...string) (code int, errs, warnings []string) {
	h.t.Helper()
	h.runs++
	dir := filepath.Join(h.t.TempDir(), fmt.Sprint(h.runs))
	if err := os.Mkdir(dir, 0o700); err != nil {
		h.t.Fatal(err)
	}
	file := filepath.Join(dir, "t.yaml")
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		h.t.Fatal(err)
	}
	var talk bytes.Buffer
	p := &program{Terminal: &term.Terminal{In: strings.NewReader(""), Out: &talk, Err: &talk, Wall: time.Now,
		Random: rand.Reader,
		Env: []string{"TRIVET_CONFIG=" + file, "TRIVET_DATA_DIR=" + filepath.Join(dir, "d"),
			"TRIVET_SOCKET=" + filepath.Join(dir, "s"), "TRIVET_NAME=h1"}}}
	code = p.run(h.t.Context(), words)
	for line := range strings.Lines(strings.ReplaceAll(talk.String(), dir+"/", "")) {
		line = strings.TrimSpace(line)
		if said, ok := strings.CutPrefix(line, "trivet: error: "); ok {
			errs = append(errs, said)
		}
		if said, ok := strings.CutPrefix(line, "trivet: warning: t.yaml:"); ok {
			warnings = append(warnings, "t.yaml:"+said)
		}
	}
	slices.Sort(errs)
	slices.Sort(warnings)
	return code, errs, warnings
}

// oneRuleFiles are configurations of which each of several options has each of several values.
func oneRuleFiles() (files []string) {
	const head = "cluster: {listen: '127.0.0.1:7350'}\ngossip: {listen: '127.0.0.1:7351'}\n"
	for _, floating := range []string{"", "192.0.2.10", "2001:db8::10", "169.254.1.1", "fe80::1", "0.1.2.3", "224.0.0.5",
		"192.0.2.10/24"} {
		address := ""
		if floating != "" {
			address = fmt.Sprintf("floating_ip:\n  address: '%s'\n  interface: br-none\n", floating)
		}
		listens := []string{":5050", "0.0.0.0:5050", "[::]:5050", "192.0.2.1:5050", "[2001:db8::1]:5050", "127.0.0.1:5050",
			"localhost:5050", "192.0.2.10:5050", ":0", ":7350", "h1:5050"}
		if len(files) > 48 {
			listens = listens[:1] // what is wrong with an address does not depend on them
		}
		for _, listen := range listens {
			files = append(files, head+fmt.Sprintf("api:\n  auth_strategy: noauth\n  listen: '%s'\n", listen)+address)
		}
		for _, webhook := range []string{"via: floating-ip", "via: endpoints", "listen: '192.0.2.1:9443'",
			"via: endpoints\n  listen: '127.0.0.1:9443'", "listen: ':5050'"} {
			files = append(files, head+"api: {auth_strategy: noauth}\nhaconfig:\n  kubeconfigs: [a=/nothing]\n  "+webhook+"\n"+
				address)
		}
	}
	for _, other := range []string{
		"inspection: {processing: {processing_hooks: [scheduler, nosuch]}}",
		"failover: {mode: safe, kubeconfigs: [a=/x], fence_file: /f, pod_selector: 'a in'}",
		"failover: {mode: safe, kubeconfigs: [a=/x], fence_file: /f, min_healthy: 100%}",
		"inspection: {timeout: 60s, reboot_throttle: 60s}",
		"ironic: {endpoint: 'http://127.0.0.1:5050'}", "elector: {listen: [raft, 'lease:a']}",
		"firewall: {driver: iptables, match: chaddr}",
	} {
		files = append(files, head+"api: {auth_strategy: noauth}\n"+other+"\n")
	}
	return files
}

// TestOneRuleForAllCommands: 'config check', init and join refuse the same configurations with the
// same sentences. serve refuses what keeps a peer from starting; of pairs that are of no use
// it warns with the sentence with which the others refuse them, and so it does nothing else.
func TestOneRuleForAllCommands(t *testing.T) {
	h := &oneRuleHost{t: t, token: joinToken(t)}
	refused, taken, warned := 0, 0, 0
	for _, yaml := range oneRuleFiles() {
		code, said, _ := h.run(yaml, "config", "check")
		if code == 0 {
			if taken++; taken%6 != 1 {
				continue // to found a cluster is much work
			}
		}
		initCode, initSaid, _ := h.run(yaml, "init", "-q")
		joinCode, joinSaid, _ := h.run(yaml, "join", "127.0.0.1:1", "--token", h.token)
		_, serveSaid, serveWarned := h.run(yaml, "serve")
		if code == 0 {
			if initCode != 0 || joinCode != term.ExitFailed || len(joinSaid) != 1 ||
				!strings.Contains(joinSaid[0], "connection refused") || len(serveSaid) != 1 ||
				!strings.Contains(serveSaid[0], "no peer") {
				t.Errorf("check takes it, init ends with %d %q, join with %d %q, serve says %q:\n%s", initCode, initSaid, joinCode,
					joinSaid, serveSaid, yaml)
			}
			continue
		}
		refused++
		if code != term.ExitUsage || initCode != code || joinCode != code || !slices.Equal(initSaid, said) ||
			!slices.Equal(joinSaid, said) {
			t.Errorf("check ends with %d:\n%q\ninit with %d:\n%q\njoin with %d:\n%q\n%s", code, said, initCode, initSaid,
				joinCode, joinSaid, yaml)
		}
		for _, line := range said {
			// serve has them from the part that it starts
			byPart := strings.Contains(line, "processing_hooks") || strings.Contains(line, "pod_selector")
			switch {
			case slices.Contains(serveWarned, line):
				warned++
			case !slices.Contains(serveSaid, line) && !byPart:
				t.Errorf("check refuses %q; serve says\n%q\nand warns\n%q", line, serveSaid, serveWarned)
			}
		}
	}
	if t.Logf("%d configurations, %d refused, %d taken, %d warnings of serve", len(oneRuleFiles()), refused, taken,
		warned); refused < 40 || taken < 10 || warned < 20 {
		t.Error("the set does not try the rules")
	}
}

// joinToken is one of a cluster that no test starts.
func joinToken(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	var talk bytes.Buffer
	p := &program{Terminal: &term.Terminal{In: strings.NewReader(""), Out: &talk, Err: &talk, Wall: time.Now,
		Random: rand.Reader, Env: []string{
			"TRIVET_CONFIG=/dev/null", "TRIVET_DATA_DIR=" + root, "TRIVET_SOCKET=" + filepath.Join(root, "s")}}}
	if code := p.run(t.Context(),
		[]string{"init", "--name", "h0", "--cluster-listen", "127.0.0.1:7350", "--gossip-listen", "127.0.0.1:7351",
			"--api-listen", "127.0.0.1:5050"}); code != 0 {
		t.Fatalf("init: exit %d: %s", code, talk.String())
	}
	return tokenIn(t, talk.String())
}
