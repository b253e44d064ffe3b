//go:build e2e

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/config"
)

// imageManifest is as much of an index, a manifest and a configuration as is judged.
type imageManifest struct {
	Manifests []struct {
		Digest      string
		Annotations map[string]string
		Platform    struct{ OS, Architecture string }
	}
	Config struct {
		Digest       string
		User         string
		Entrypoint   []string
		Cmd          []string
		Volumes      map[string]struct{}
		ExposedPorts map[string]struct{}
		Labels       map[string]string
	}
	Layers []struct{ Digest string }
}

// TestImage packs two trees twice, the second time with other times and modes: the
// archives are the same, each architecture has its own program, and what an engine is
// told fits the program's defaults.
func TestImage(t *testing.T) {
	dir := t.TempDir()
	var trees []string
	for _, arch := range []string{"amd64", "arm64"} {
		bin := filepath.Join(dir, arch, "usr/bin")
		if err := errors.Join(os.MkdirAll(bin, 0o755),
			os.WriteFile(filepath.Join(bin, "trivet"), []byte("program for "+arch), 0o600)); err != nil {
			t.Fatal(err)
		}
		trees = append(trees, arch+"="+filepath.Join(dir, arch))
	}
	first := packImage(t, filepath.Join(dir, "1.tar"), trees)
	later := time.Now().Add(time.Hour)
	program := filepath.Join(dir, "amd64/usr/bin/trivet")
	if err := errors.Join(os.Chtimes(program, later, later), os.Chmod(program, 0o777)); err != nil {
		t.Fatal(err)
	}
	second := packImage(t, filepath.Join(dir, "2.tar"), trees)
	if !bytes.Equal(first, second) {
		t.Error("reproducible: a second archive of the same files differs")
	}
	blobs := untar(t, bytes.NewReader(first))
	get := func(name string) (m imageManifest) {
		t.Helper()
		if err := json.Unmarshal(blobs[name].text, &m); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return m
	}
	blob := func(digest string) string { return "blobs/" + strings.Replace(digest, ":", "/", 1) }
	top := get("index.json")
	if len(top.Manifests) != 1 || top.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "v9-dev" {
		t.Fatalf("index.json names %+v", top.Manifests)
	}
	var found []string
	for _, m := range get(blob(top.Manifests[0].Digest)).Manifests {
		arch := m.Platform.Architecture
		found = append(found, m.Platform.OS+"/"+arch)
		manifest := get(blob(m.Digest))
		judgeImage(t, get(blob(manifest.Config.Digest)))
		packed, err := gzip.NewReader(bytes.NewReader(blobs[blob(manifest.Layers[0].Digest)].text))
		if err != nil || len(manifest.Layers) != 1 {
			t.Fatalf("%d layers: %v", len(manifest.Layers), err)
		}
		judgeLayer(t, untar(t, packed), arch)
	}
	if !slices.Equal(found, []string{"linux/amd64", "linux/arm64"}) {
		t.Errorf("images for %q", found)
	}
}

func packImage(t *testing.T, out string, trees []string) []byte {
	t.Helper()
	words := append([]string{"run", "-C", "container", "./image", "-out", out, "-version", "v9+dev",
		"-created", "1790000000"}, trees...)
	if said, err := exec.Command("go", words...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// judgeImage holds what an engine is told to the defaults of the program.
func judgeImage(t *testing.T, m imageManifest) {
	t.Helper()
	c, conf := m.Config, config.Default()
	if !regexp.MustCompile(`^[1-9]\d*:[1-9]\d*$`).MatchString(c.User) {
		t.Errorf("user %q: it runs as a user who is not root, by number", c.User)
	}
	if _, ok := c.Volumes[conf.DataDir]; !ok || len(c.Volumes) != 1 {
		t.Errorf("volumes %v", c.Volumes)
	}
	for _, address := range []string{conf.API.Listen, conf.Cluster.Listen, conf.Gossip.Listen} {
		if _, ok := c.ExposedPorts[address[strings.LastIndex(address, ":")+1:]+"/tcp"]; !ok {
			t.Errorf("ports %v lack that of %s", c.ExposedPorts, address)
		}
	}
	if !slices.Equal(append(c.Entrypoint, c.Cmd...), []string{"/usr/bin/trivet", "serve"}) {
		t.Errorf("it runs %q %q", c.Entrypoint, c.Cmd)
	}
	if !strings.HasSuffix(c.Labels["dev.trivet.bill-of-materials"], "/trivet.cdx.json") ||
		c.Labels["org.opencontainers.image.version"] != "v9+dev" {
		t.Errorf("labels %v", c.Labels)
	}
}

// judgeLayer: the program of its architecture without capabilities or other rights, the
// certificates of authorities, and no account of a name to which root would hand files.
func judgeLayer(t *testing.T, files map[string]tarFile, arch string) {
	t.Helper()
	program := files["usr/bin/trivet"]
	if string(program.text) != "program for "+arch || program.header.Mode != 0o755 || program.header.Uid != 0 {
		t.Errorf("%s: program %q, %+v", arch, program.text, program.header)
	}
	for name, f := range files { // order-free: each is judged by itself
		if len(f.header.PAXRecords) > 0 || f.header.Mode&0o6000 != 0 {
			t.Errorf("no capabilities: %s has %v and mode %o", name, f.header.PAXRecords, f.header.Mode)
		}
	}
	if n := bytes.Count(files["etc/ssl/certs/ca-certificates.crt"].text, []byte("BEGIN CERTIFICATE")); n < 100 {
		t.Errorf("%d certificates of authorities", n)
	}
	if _, ok := files["etc/passwd"]; ok {
		t.Error("with an account called trivet, init would hand files to it that root without CAP_DAC_OVERRIDE cannot read")
	}
	conf := config.Default()
	if h := files[strings.TrimPrefix(conf.DataDir, "/")+"/"].header; h.Mode != 0o700 || h.Uid != 950 {
		t.Errorf("data directory %+v", h)
	}
	if h := files[strings.TrimPrefix(filepath.Dir(conf.Socket), "/")+"/"].header; h.Uid != 950 {
		t.Errorf("directory of the socket %+v", h)
	}
}

// tarFile is a member of an archive.
type tarFile struct {
	header tar.Header
	text   []byte
}

func untar(t *testing.T, r io.Reader) map[string]tarFile {
	t.Helper()
	files := make(map[string]tarFile)
	for a := tar.NewReader(r); ; {
		h, err := a.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(a)
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name] = tarFile{*h, text}
	}
}
