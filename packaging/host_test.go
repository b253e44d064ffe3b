//go:build e2e

package main

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/labtest"
	"github.com/trivet-ha/trivet/test/testenv"
)

// A host is slow where two cores are shared; a boot takes 2 s on an idle one.
const (
	bootLimit = time.Minute
	pollEvery = 100 * time.Millisecond
)

// TestPackages builds the packages twice, and takes them through the life they
// have on a host: installed, configured, upgraded, removed, purged.
func TestPackages(t *testing.T) {
	testenv.NeedRoot(t, "mmdebstrap", "systemd-nspawn", "nsenter", "rpm", "lintian", "rpmlint", "xz")
	t.Chdir("..")
	dist := buildTwice(t)
	root := labtest.DebianRoot(t)
	t.Run("lint", func(t *testing.T) { lint(t, dist) })
	t.Run("documents", func(t *testing.T) { documents(t, dist) })
	t.Run("chroot", func(t *testing.T) { inChroot(t, root, find(t, dist, "trivet_*.deb")) })
	t.Run("systemd", func(t *testing.T) { onHost(t, root, find(t, dist, "trivet_*.deb")) })
	t.Run("rpm", func(t *testing.T) { inRPMRoot(t, root, find(t, dist, "trivet-[0-9]*.rpm")) })
	t.Run("trivet-import", func(t *testing.T) { importer(t, root, dist) })
}

// buildTwice builds one architecture twice and demands equal bytes.
func buildTwice(t *testing.T) string {
	t.Helper()
	var dirs [2]string
	for i := range dirs {
		dirs[i] = t.TempDir()
		var list bytes.Buffer
		if err := run(t.Context(), dirs[i], []string{"amd64"}, false, &list); err != nil {
			t.Fatal(err)
		}
		t.Logf("build %d\n%s", i+1, &list)
	}
	var sums [2]string
	for i, dir := range dirs {
		text, err := os.ReadFile(filepath.Join(dir, sumsFile))
		if err != nil {
			t.Fatal(err)
		}
		sums[i] = string(text)
	}
	if sums[0] != sums[1] {
		t.Errorf("two builds differ:\n%s\n%s", sums[0], sums[1])
	}
	return dirs[0]
}

func find(t *testing.T, dir, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %v (%v)", pattern, found, err)
	}
	return found[0]
}

// command runs a command that has to succeed, and returns what it said.
func command(t *testing.T, words ...string) string {
	t.Helper()
	out, err := try(words...)
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(words, " "), err, out)
	}
	return out
}

func try(words ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8",
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// says demands parts of what was said.
func says(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("says nothing of %q:\n%s", part, text)
		}
	}
}

// place copies a package into a root and returns its path there.
func place(t *testing.T, dir, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "root", filepath.Base(path)), text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	return "/root/" + filepath.Base(path)
}

// firstChange is how the newest entry of the changelog begins.
func firstChange(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	_, entry, found := strings.Cut(string(text), "\n- ")
	if !found {
		t.Fatal("CHANGELOG.md has no entry")
	}
	return "- " + entry[:40]
}

// documents looks into both packages for what people read offline: the pages, a
// changelog, the licences of all that is linked in, and the bill of materials.
func documents(t *testing.T, dist string) {
	deb, rpm := find(t, dist, "trivet_*.deb"), find(t, dist, "trivet-[0-9]*.rpm")
	says(t, command(t, "dpkg-deb", "-c", deb), "./usr/share/doc/trivet/runbook.md",
		"./usr/share/doc/trivet/introduction.md",
		"./usr/share/doc/trivet/changelog.gz", "./usr/share/doc/trivet/third-party-licences.gz",
		"./usr/share/doc/trivet/trivet.cdx.json")
	says(t, command(t, "rpm", "-qpl", rpm), "/usr/share/doc/trivet/runbook.md", "/usr/share/doc/trivet/CHANGELOG.md",
		"/usr/share/licenses/trivet/LICENSE", "/usr/share/licenses/trivet/third-party-licences.gz",
		"/usr/share/doc/trivet/trivet.cdx.json")
	says(t, command(t, "rpm", "-qp", "--changelog", rpm), "The Trivet authors", firstChange(t))
	version := strings.TrimSpace(command(t, "dpkg-deb", "-f", deb, "Version"))
	if !strings.HasPrefix(filepath.Base(rpm), "trivet-"+version+"-") || strings.HasPrefix(version, "0.0.0") ||
		strings.ContainsAny(version, "()") {
		t.Errorf("the .deb is of version %q, the .rpm is %s", version, filepath.Base(rpm))
	}
}

func lint(t *testing.T, dist string) {
	for _, deb := range []string{"trivet_*.deb", "trivet-import_*.deb", "python3-tooz-trivet_*.deb"} {
		t.Log(command(t, "lintian", "--allow-root", "--fail-on", "error,warning", find(t, dist, deb)))
	}
	for _, rpm := range []string{"trivet-[0-9]*.rpm", "trivet-import-*.rpm"} {
		t.Log(command(t, "rpmlint", "--config", "packaging/rpm/rpmlint.toml", find(t, dist, rpm)))
	}
}

// importer installs the packages of trivet-import on hosts without Trivet, where they
// work and leave nothing.
func importer(t *testing.T, root, dist string) {
	dir := labtest.Overlay(t, root)
	deb := find(t, dist, "trivet-import_*.deb")
	path := place(t, dir, deb)
	if err := os.MkdirAll(filepath.Join(dir, "usr/share/licenses"), 0o755); err != nil { // as hosts with rpm have it
		t.Fatal(err)
	}
	before := tree(t, dir)
	says(t, command(t, "dpkg-deb", "-c", deb), "./usr/share/doc/trivet-import/migrate.md",
		"./usr/share/doc/trivet-import/third-party-licences.gz",
		"./usr/share/doc/trivet-import/trivet-import.cdx.json")
	command(t, "chroot", dir, "dpkg", "-i", path)
	says(t, command(t, "chroot", dir, "trivet-import", "--help"), "trivet-import database URL")
	command(t, "chroot", dir, "dpkg", "-P", "trivet-import")
	leftNothing(t, dir, before)

	rpm := func(args ...string) string {
		return command(t, append([]string{"rpm", "--root", dir, "--dbpath", "/var/lib/rpm"}, args...)...)
	}
	rpm("--initdb")
	rpm("-ivh", "--nodeps", find(t, dist, "trivet-import-*.rpm"))
	says(t, command(t, "chroot", dir, "trivet-import", "--help"), "trivet-import database URL")
	rpm("-e", "trivet-import")
	leftNothing(t, dir, before)
}

// inChroot installs where no systemd runs, as whoever builds an image does.
func inChroot(t *testing.T, root, deb string) {
	dir := labtest.Overlay(t, root)
	path := place(t, dir, deb)
	before := tree(t, dir)
	dpkg := func(args ...string) string {
		return command(t, append([]string{"chroot", dir, "dpkg"}, args...)...)
	}
	says(t, dpkg("-i", path), "trivet init")
	says(t, command(t, "chroot", dir, "stat", "-c", "%n %U:%G %a", "/etc/trivet", "/etc/trivet/trivet.yaml",
		"/var/lib/trivet"),
		"/etc/trivet root:trivet 750", "/etc/trivet/trivet.yaml root:trivet 640", "/var/lib/trivet trivet:trivet 700")
	says(t, command(t, "chroot", dir, "systemctl", "is-enabled", "trivet.service"), "enabled")
	says(t, command(t, "chroot", dir, "trivet", "version"), "trivet v")
	if out, err := try("chroot", dir, "/usr/libexec/trivet/configured"); err == nil {
		t.Errorf("passes for configured as it was installed: %s", out)
	}
	dpkg("-i", path) // an upgrade, to the scripts
	says(t, dpkg("-r", "trivet"), "Its state stays")
	if _, err := os.Stat(filepath.Join(dir, "etc/trivet/trivet.yaml")); err != nil {
		t.Error(err)
	}
	dpkg("-i", path)
	dpkg("-P", "trivet") // removed and purged at once
	leftNothing(t, dir, before)
}

// tree lists the files of a host, without what package managers write of
// everything.
func tree(t *testing.T, dir string) []string {
	t.Helper()
	var paths []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if os.IsNotExist(err) { // gone meanwhile
			return nil
		}
		name := strings.TrimPrefix(path, dir)
		switch {
		case err != nil:
			return err
		case slices.Contains([]string{"/proc", "/sys", "/run", "/dev", "/tmp", "/var/tmp", "/var/log", "/var/lib/dpkg",
			"/var/lib/rpm", "/root"}, name):
			return fs.SkipDir
		case strings.HasSuffix(name, "-") || name == "/etc/.pwd.lock": // /etc/passwd-
			return nil
		}
		paths = append(paths, name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// leftNothing demands that a purge left no file, user or group.
func leftNothing(t *testing.T, dir string, before []string) {
	t.Helper()
	known := make(map[string]bool)
	for _, path := range before {
		known[path] = true
	}
	for _, path := range tree(t, dir) {
		if !known[path] {
			t.Errorf("left behind: %s", path)
		}
	}
	for _, name := range []string{"etc/passwd", "etc/group", "etc/shadow", "etc/gshadow"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || strings.Contains(string(text), "trivet") {
			t.Errorf("%s still has trivet (%v)", name, err)
		}
	}
}

// inRPMRoot installs the other kind, with its scriptlets running.
func inRPMRoot(t *testing.T, root, path string) {
	dir := labtest.Overlay(t, root)
	rpm := func(args ...string) string {
		return command(t, append([]string{"rpm", "--root", dir, "--dbpath", "/var/lib/rpm"}, args...)...)
	}
	rpm("--initdb")
	says(t, rpm("-ivh", "--nodeps", path), "trivet init") // the root's useradd is no rpm's
	says(t, command(t, "chroot", dir, "stat", "-c", "%n %U:%G %a", "/etc/trivet", "/etc/trivet/trivet.yaml",
		"/var/lib/trivet"),
		"/etc/trivet root:trivet 750", "/etc/trivet/trivet.yaml root:trivet 640", "/var/lib/trivet trivet:trivet 700")
	says(t, command(t, "chroot", dir, "systemctl", "is-enabled", "trivet.service"), "enabled")
	says(t, command(t, "chroot", dir, "trivet", "version"), "trivet v")
	if out, err := try("rpm", "--root", dir, "--dbpath", "/var/lib/rpm", "-V", "--nodeps", "trivet"); err != nil {
		t.Errorf("what is installed is not what was packed: %v\n%s", err, out)
	}
	config := filepath.Join(dir, "etc/trivet/trivet.yaml")
	if err := os.WriteFile(config, []byte("name: h1\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	rpm("-U", "--nodeps", "--replacepkgs", path) // an upgrade, to the scriptlets
	if text, err := os.ReadFile(config); err != nil || string(text) != "name: h1\n" {
		t.Errorf("an upgrade left %q for the configuration (%v)", text, err)
	}
	says(t, command(t, "chroot", dir, "systemctl", "is-enabled", "trivet.service"), "enabled")
	says(t, rpm("-e", "trivet"), "stays shut", "trivet.yaml.rpmsave", "rm -rf --one-file-system /var/lib/trivet")
	for _, name := range []string{"var/lib/trivet", "etc/trivet/trivet.yaml.rpmsave"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Errorf("a removal keeps state and configuration: %v", err)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "etc/systemd/system/multi-user.target.wants/trivet.service")); err == nil {
		t.Error("the unit is still enabled after it was removed")
	}
}
