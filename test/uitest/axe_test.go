//go:build e2e

package uitest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// The release of axe-core that judges the page, and its hash in the registry of npm.
const (
	axeRelease = "4.14.1"
	axeHash    = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
)

// axe returns the script of axe-core. npm fetches it once into the user's cache; it is
// part of no binary and of no commit.
func axe(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "trivet-test")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "axe-core-"+axeRelease+".tgz")
	packed, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		fetch := exec.CommandContext(t.Context(), "npm", "pack", "--silent", "axe-core@"+axeRelease)
		fetch.Dir = dir
		if out, err := fetch.CombinedOutput(); err != nil {
			testenv.Missing(t, "npm pack axe-core: %v: %s", err, out)
		}
		packed, err = os.ReadFile(path)
	}
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha512.Sum512(packed); base64.StdEncoding.EncodeToString(sum[:]) != axeHash {
		t.Fatalf("%s is not what was reviewed; remove it", path)
	}
	plain, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	for archive := tar.NewReader(plain); ; {
		head, err := archive.Next()
		if err != nil {
			t.Fatalf("%s: axe.min.js: %v", path, err)
		}
		if head.Name == "package/axe.min.js" {
			script, err := io.ReadAll(archive)
			if err != nil {
				t.Fatal(err)
			}
			return string(script)
		}
	}
}

// TestAccessible has axe-core judge every view, in light and dark and on a phone.
func TestAccessible(t *testing.T) {
	script := axe(t)
	s := openSite(t, 60)
	p := browse(t, "about:blank")
	p.do(p.Do(t.Context(), "Page.setBypassCSP", map[string]any{"enabled": true}, nil)) // axe brings styles
	p.do(p.Do(t.Context(), "Page.addScriptToEvaluateOnNewDocument", map[string]any{"source": told}, nil))
	p.do(p.Navigate(t.Context(), s.front.URL+"/ui/"))
	p.shows(".verdict", "may be lost")
	p.do(p.Eval(t.Context(), script+";0", nil))
	views := []struct{ name, hash, selector, text, then string }{
		{"overview", "#overview", ".lanes", "peer1",
			`document.querySelector("rect.k-pxe").dispatchEvent(new MouseEvent("click"))`},
		{"machines", "#machines", "#machines .hint", "60 of 60", ""},
		{"drawer", "#machines", "#machines .hint", "60 of 60", `document.querySelector(".row").click()`},
		{"dialog", "#machines", "#machines .hint", "60 of 60",
			`document.querySelector(".row").click(); [...document.querySelectorAll("#drawer button")].find((b) => b.innerText.startsWith("Start")).click()`},
		{"pxe", "#heard", "main", "Machines that asked to boot", ""},
		{"rules", "#rules", "main", "no rule", ""}, {"members", "#members", "main", "peer3", ""},
		{"doctor", "#doctor", "main", "3 hosts examined", ""},
	}
	for _, dark := range []bool{false, true} {
		p.do(p.Dark(t.Context(), dark))
		for _, width := range []int{1280, 390} {
			p.sized(width, 900)
			for _, v := range views {
				p.eval(`location.hash = %q`, v.hash)
				p.shows(v.selector, v.text)
				if v.then != "" {
					p.eval("{%s}", v.then)
				}
				name := fmt.Sprintf("%s-%d-light", v.name, width)
				if dark {
					name = fmt.Sprintf("%s-%d-dark", v.name, width)
				}
				p.judge(name)
				p.picture(name)
				p.eval(`document.querySelectorAll("dialog[open]").forEach((d) => d.close())`)
			}
		}
	}
	p.quiet(noData)
}

// judge fails the test for each rule that the page breaks.
func (p *tab) judge(name string) {
	p.t.Helper()
	var found []struct {
		ID, Help string
		Nodes    []struct {
			HTML, FailureSummary string
		}
	}
	testwait.Within(p.t, limit, "axe judges "+name, func() error {
		var text string
		if err := p.Eval(p.t.Context(), `axe.run().then((r) => JSON.stringify(r.violations))`, &text); err != nil {
			return err
		}
		return json.Unmarshal([]byte(text), &found)
	})
	for _, v := range found {
		for _, n := range v.Nodes {
			p.t.Errorf("%s: %s: %s\n\t%.300s\n\t%s", name, v.ID, v.Help, n.HTML, n.FailureSummary)
		}
	}
}
