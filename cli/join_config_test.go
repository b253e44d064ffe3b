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
	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/config"
)

// joinerHost is a host with a configuration file that joins h1.
type joinerHost struct {
	t    *testing.T
	h1   *voterAlone
	root string
	file string
}

// newJoiner is a host whose file has this text; the cluster gives settings, and is asked by meanwhile.
func newJoiner(t *testing.T, text string, settings map[string]string, meanwhile func(h *joinerHost)) *joinerHost {
	h := &joinerHost{t: t, root: t.TempDir(), h1: &voterAlone{led: true, admits: true}}
	h.file = filepath.Join(h.root, "trivet.yaml")
	h.write(text)
	h.h1.share = func() cluster.Shared {
		if meanwhile != nil {
			meanwhile(h)
		}
		return cluster.Shared{Settings: settings}
	}
	return h
}

func (h *joinerHost) write(text string) {
	if err := os.WriteFile(h.file, []byte(text), 0o600); err != nil {
		h.t.Error(err)
	}
}

// join joins, and returns what the file is then.
func (h *joinerHost) join(words ...string) (code int, says, text string) {
	h.t.Helper()
	var out, talk bytes.Buffer
	p := &program{Terminal: &term.Terminal{In: strings.NewReader(""), Out: &out, Err: &talk, Wall: time.Now,
		Random: rand.Reader, Env: []string{"TRIVET_CONFIG=" + h.file, "TRIVET_DATA_DIR=" + filepath.Join(h.root, "d"),
			"TRIVET_SOCKET=" + filepath.Join(h.root, "s"), "TRIVET_CLUSTER_LISTEN=127.0.0.1:7350",
			"TRIVET_GOSSIP_LISTEN=127.0.0.1:7351", "TRIVET_NAME=h2"}}}
	code = p.run(h.t.Context(), append([]string{"join", h.h1.serve(h.t), "--token", h.h1.token.String()}, words...))
	now, err := os.ReadFile(h.file)
	if err != nil {
		h.t.Fatal(err)
	}
	return code, talk.String(), string(now)
}

// isPeer reports whether the join made one.
func (h *joinerHost) isPeer() bool {
	_, err := os.Stat(filepath.Join(h.root, "d", "peer"))
	return err == nil
}

// TestJoinWithHalfOfAPair: what this host has and what the cluster gives is judged together.
func TestJoinWithHalfOfAPair(t *testing.T) {
	for name, c := range map[string]struct {
		text     string
		settings map[string]string
	}{
		"its files": {"api:\n  tls:\n    cert_file: /etc/trivet/h2.pem\n    key_file: /etc/trivet/h2.key\n",
			map[string]string{"api.tls.certificate": "files"}},
		"password of keystone": {"api:\n  keystone:\n    password_file: /etc/trivet/keystone\n",
			map[string]string{"api.auth_strategy": "keystone", "api.keystone.auth_url": "https://192.0.2.5:5000",
				"api.keystone.username": "trivet"}},
		"clusters of failover": {"failover:\n  kubeconfigs: [prod=/k]\n  fence_file: /f\n",
			map[string]string{"failover.mode": "safe"}},
	} {
		h := newJoiner(t, c.text, c.settings, nil)
		code, says, text := h.join()
		if code != 0 || !h.isPeer() {
			t.Errorf("half-of-a-pair: %s: exit %d:\n%s", name, code, says)
		}
		for _, value := range c.settings {
			if !strings.Contains(text, value) {
				t.Errorf("half-of-a-pair: %s: %s is not written:\n%s", name, value, text)
			}
		}
	}
}

// TestJoinGetsListsWhole: an item of a list may hold a comma.
func TestJoinGetsListsWhole(t *testing.T) {
	for _, item := range []string{"description:new machine, rack unknown", "description:see wiki, page:42"} {
		fields := fmt.Sprintf("inspection:\n  discovery:\n    enroll_node_fields: [%q]\n", item)
		first, err := config.Load(config.Sources{File: "f", Text: []byte(fields)})
		if err != nil {
			t.Fatal(err)
		}
		h := newJoiner(t, "# empty\n", first.Shared(), nil)
		code, says, text := h.join()
		second, err := config.Load(config.Sources{File: "f", Text: []byte(text)})
		got := second.Inspection.Discovery.EnrollNodeFields
		if code != 0 || err != nil || !slices.Equal(got, []string{item}) {
			t.Errorf("list-is-whole: %q: exit %d, %q (%v):\n%s", item, code, got, err, says)
		}
	}
}

// TestJoinWithoutUsers: the peer that is asked cannot read its file of users. The joiner has the rest, and
// says what is missing and where it belongs; a file that is here already is kept, and nothing is missing.
func TestJoinWithoutUsers(t *testing.T) {
	for _, here := range []bool{false, true} {
		h := newJoiner(t, "api:\n  listen: ':5050'\n", nil, nil)
		h.h1.share = func() cluster.Shared {
			return cluster.Shared{Settings: map[string]string{"raft.timing": "slow", "api.auth_strategy": "http_basic"},
				NoUsers: "open /share/users: permission denied"}
		}
		users := filepath.Join(h.root, "htpasswd")
		if here {
			if err := os.WriteFile(users, []byte("joe:x\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		code, says, text := h.join()
		for _, want := range []string{"timing: slow", "auth_strategy: http_basic", "http_basic_auth_user_file: " + users} {
			if code != 0 || !strings.Contains(text, want) {
				t.Errorf("join-without-users: exit %d, no %q:\n%s\n%s", code, want, text, says)
			}
		}
		if told := strings.Contains(says, "/share/users: permission denied"); told == here ||
			strings.Contains(says, "was kept") != here {
			t.Errorf("missing-users-are-told: here %v:\n%s", here, says)
		}
	}
}

// TestJoinOfAFileOfAnOddForm: what cannot be written is refused before the host is admitted, not after.
func TestJoinOfAFileOfAnOddForm(t *testing.T) {
	h := newJoiner(t, "raft: {log_store: bolt}\n", map[string]string{"raft.timing": "slow"}, nil)
	code, says, _ := h.join()
	if code != term.ExitUsage || h.isPeer() || !strings.Contains(says, "is of a form into which nothing can be written") ||
		!strings.Contains(says, "no peer was made here") {
		t.Errorf("judged-before: exit %d, a peer %v:\n%s", code, h.isPeer(), says)
	}
}

// TestJoinKeepsWhatIsWrittenMeanwhile: an operator writes into the file while the join waits for the cluster.
func TestJoinKeepsWhatIsWrittenMeanwhile(t *testing.T) {
	asked := 0
	h := newJoiner(t, "# empty\n", map[string]string{"raft.timing": "slow"}, func(h *joinerHost) {
		if asked++; asked == 2 { // the host is being admitted
			h.write("log:\n  level: debug\n")
		}
	})
	code, says, text := h.join()
	if code != 0 || asked != 2 || !strings.Contains(text, "level: debug") || !strings.Contains(text, "timing: slow") {
		t.Errorf("written-meanwhile: exit %d, asked %d times:\n%s\n%s", code, asked, says, text)
	}
}

// writingRandom is randomness during whose first read something is done.
type writingRandom func()

func (r *writingRandom) Read(p []byte) (int, error) {
	if *r != nil {
		(*r)()
		*r = nil
	}
	return rand.Read(p)
}

// TestInitKeepsWhatIsWrittenMeanwhile: what came into the file since it was read is not written over.
func TestInitKeepsWhatIsWrittenMeanwhile(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, "trivet.yaml")
	const theirs = "log:\n  level: debug\n"
	edit := writingRandom(func() { // the password of the first user is made: the file was read
		if err := os.WriteFile(file, []byte(theirs), 0o600); err != nil {
			t.Error(err)
		}
	})
	var out, talk bytes.Buffer
	p := &program{Terminal: &term.Terminal{In: strings.NewReader(""), Out: &out, Err: &talk, Wall: time.Now, Random: &edit,
		Env: []string{"TRIVET_CONFIG=" + file, "TRIVET_DATA_DIR=" + filepath.Join(root, "d")}}}
	words := []string{"init", "--name", "h1", "--cluster-listen", "127.0.0.1:7350", "--gossip-listen", "127.0.0.1:7351",
		"--api-listen", ":5050"}
	code := p.run(t.Context(), words)
	text, err := os.ReadFile(file)
	if code != term.ExitConflict || err != nil || string(text) != theirs {
		t.Errorf("written-meanwhile: exit %d (%v):\n%s\n%s", code, err, &talk, text)
	}
	for _, name := range []string{"htpasswd", "d/peer"} {
		if _, err := os.Stat(filepath.Join(root, name)); !os.IsNotExist(err) {
			t.Errorf("written-meanwhile: %s: %v", name, err)
		}
	}
	if code = p.run(t.Context(), words); code != 0 {
		t.Errorf("written-meanwhile: repeated: exit %d:\n%s", code, &talk)
	}
}
