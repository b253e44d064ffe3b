//go:build e2e

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/client"
	"github.com/trivet-ha/trivet/test/sandbox/site"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// TestDocumentedCalls runs every block of docs/api.md against three peers.
func TestDocumentedCalls(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts three peers")
	}
	text, err := os.ReadFile("../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	names, settle := liveSite(t)
	blocks := regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$").FindAllStringSubmatch(string(text), -1)
	if len(blocks) < 5 {
		t.Fatalf("only %d blocks", len(blocks))
	}
	for _, block := range blocks {
		settle(t) // what the block before left behind goes on without it
		t.Run(block[1], func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "main."+block[1])
			if err := os.WriteFile(file, []byte(names.Replace(block[2])), 0o600); err != nil {
				t.Fatal(err)
			}
			runBlock(t, block[1], file, names.Replace("TRIVET_SERVER=http://h1:5050"))
		})
	}
}

// runBlock runs a file in its directory as its language wants it. The server stands for
// the socket of the host, which a block asks that names no server.
func runBlock(t *testing.T, language, file, server string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute) // the first build of a client takes a while
	defer cancel()
	var cmd *exec.Cmd
	switch language {
	case "sh":
		cmd = exec.CommandContext(ctx, "bash", "-euo", "pipefail", file)
		cmd.Dir, cmd.Env = filepath.Dir(file), append(os.Environ(), server)
		needs(t, "curl", "--version")
	case "go":
		cmd = exec.CommandContext(ctx, "go", "run", file)
	case "python":
		const python = "/usr/bin/python3" // Debian's, which has Debian's openstacksdk
		needs(t, python, "-c", "import openstack")
		cmd = exec.CommandContext(ctx, python, file)
		cmd.Dir = filepath.Dir(file)
	default:
		t.Fatalf("a block of %s", language)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, out)
	} else {
		t.Logf("%s", out)
	}
}

// needs skips the test where a tool is missing, unless it must not be.
func needs(t *testing.T, tool string, args ...string) {
	t.Helper()
	if err := exec.Command(tool, args...).Run(); err != nil {
		testenv.Missing(t, "%s %v: %v", tool, args, err)
	}
}

// liveSite runs three peers until the test ends. It returns what puts their
// addresses, and a node that was introspected, in the place of the document's,
// and what waits until nothing is under way.
func liveSite(t *testing.T) (names *strings.Replacer, settle func(*testing.T)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	site, err := site.New(ctx, site.Options{Nodes: 3, Tell: t.Logf, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := site.Run(running)
		ended <- err
	}()
	t.Cleanup(func() {
		stop()
		if err := errors.Join(testwait.Receive(t, ended, "the sandbox ends"), site.Close()); err != nil &&
			!errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	peers := site.Peers()
	c, err := client.New(client.Options{Servers: []string{peers[0].URL, peers[1].URL, peers[2].URL}})
	if err != nil {
		t.Fatal(err)
	}
	node := allFinished(ctx, t, c)
	resp, err := http.Get(peers[2].URL + "/v1/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var document struct{ OpenAPI string }
	if err := json.NewDecoder(resp.Body).Decode(&document); err != nil || document.OpenAPI != "3.1.0" {
		t.Errorf("the document of the API: %+v, %v", document, err)
	}
	names = strings.NewReplacer("http://h1:5050", peers[0].URL, "http://h2:5050", peers[1].URL, "http://h3:5050",
		peers[2].URL, "node-1", node)
	return names, func(t *testing.T) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		c.Wait(ctx, time.Second) // a reapply that was accepted has begun by then
		allFinished(ctx, t, c)
	}
}

// allFinished waits until all nodes of the site are done and returns one.
func allFinished(ctx context.Context, t *testing.T, c *client.Client) string {
	t.Helper()
	for {
		var done []string
		for i, err := range c.List(ctx, client.ListOptions{States: []string{client.StateFinished}}) {
			if err != nil {
				t.Fatal(err)
			}
			done = append(done, i.UUID)
		}
		if len(done) == 3 {
			return done[0]
		}
		if !c.Wait(ctx, 100*time.Millisecond) {
			t.Fatalf("only %d nodes are finished", len(done))
		}
	}
}
