package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// release is one run of the program.
type release struct {
	out, work string              // directories: results, and everything else
	env       []string            // of the programs that it runs
	at        time.Time           // of everything in it
	version   string              // as the binary says, "v0.1.0"
	modules   map[string][]linked // in each program, by its name; both architectures have the same
}

// path is a place in the working directory.
func (r *release) path(words ...string) string {
	return filepath.Join(append([]string{r.work}, words...)...)
}

// cleanEnv is an environment in which a build does not depend on variables of the
// user.
func cleanEnv(env []string) []string {
	var clean []string
	for _, entry := range env {
		name, _, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, "TRIVET_") && name != "GOFLAGS" && name != "GOAMD64" && name != "GOARM64" &&
			name != "GOEXPERIMENT" {
			clean = append(clean, entry)
		}
	}
	return append(clean, "GOFLAGS=", "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=")
}

// output runs a program in the root of the repository and returns what it says
// on standard output; the error has the rest.
func (r *release) output(ctx context.Context, env []string, name string, args ...string) ([]byte, error) {
	var out, talk bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(append([]string{}, r.env...), env...)
	cmd.Stdout, cmd.Stderr = &out, &talk
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, talk.Bytes(), out.Bytes())
	}
	return out.Bytes(), nil
}

// date takes the time from SOURCE_DATE_EPOCH, or from the commit.
func (r *release) date(ctx context.Context) error {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		out, err := r.output(ctx, nil, "git", "log", "-1", "--format=%ct")
		if err != nil {
			return fmt.Errorf("when was this commit? Build in a clone, or set SOURCE_DATE_EPOCH: %w", err)
		}
		text = strings.TrimSpace(string(out))
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: seconds since 1970, not %.40q", text)
	}
	r.at = time.Unix(seconds, 0).UTC()
	return nil
}

// program has a package of its own, in both formats.
type program struct {
	name   string // in /usr/bin, and of the package
	source string // its package of Go
	config string // what nfpm reads, in this directory
	most   int64  // bytes of its binary
}

// trivet is the program that knows the version.
const trivet = "trivet"

// programs are all of them. A peer's memory begins with its binary, so that its size is
// bounded: a method that is looked up by name, deep in a library, makes the linker keep
// every method, which adds a sixth (docs/design.md#kept).
func programs() []program {
	return []program{
		{trivet, ".", "nfpm.yaml", 39.5e6},
		{"trivet-import", "./cli/trivet-import", "import.yaml", 24e6},
	}
}

// binaries builds the programs for an architecture, once.
func (r *release) binaries(ctx context.Context, arch string) error {
	for _, p := range programs() {
		path := r.path(arch, p.name)
		if _, err := os.Stat(path); err == nil {
			continue
		}
		// buildvcs: the version names the commit. A traceback needs neither symbols nor
		// DWARF; both would double the package.
		_, err := r.output(ctx, []string{"CGO_ENABLED=0", "GOOS=linux", "GOARCH=" + arch},
			"go", "build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w", "-o", path, p.source)
		if err == nil {
			err = bounded(path, p.most)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// identify learns from the binaries that run here which version they are, and what
// is linked into them.
func (r *release) identify(ctx context.Context) error {
	out, err := r.output(ctx, nil, r.path(runtime.GOARCH, trivet), "version", "-o", "name")
	if err != nil {
		return err
	}
	r.version = strings.TrimSpace(string(out))
	r.modules = make(map[string][]linked)
	for _, p := range programs() {
		if r.modules[p.name], err = r.linkedModules(ctx, r.path(runtime.GOARCH, p.name)); err != nil {
			return err
		}
	}
	return nil
}

// documents makes what the binary says of itself: pages, completions, and the
// configuration file of a fresh host.
func (r *release) documents(ctx context.Context, trivet string) error {
	dir := r.path("doc")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make documents: %w", err)
	}
	if _, err := r.output(ctx, nil, "go", "run", "-trimpath", "./packaging/man", dir, r.version,
		r.at.Format(time.DateOnly)); err != nil {
		return err
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*.[0-9]"))
	imports, err2 := filepath.Glob(filepath.Join(dir, "import", "*.[0-9]"))
	if err := errors.Join(err, err2); err != nil {
		return fmt.Errorf("make documents: %w", err)
	}
	for _, page := range append(pages, imports...) {
		text, err := os.ReadFile(page)
		if err != nil {
			return fmt.Errorf("compress: %w", err)
		}
		if err := errors.Join(writeCompressed(page+".gz", text), os.Remove(page)); err != nil {
			return err
		}
	}
	for name, words := range map[string][]string{
		"trivet.bash": {"completion", "bash"},
		"trivet.zsh":  {"completion", "zsh"},
		"trivet.fish": {"completion", "fish"},
		"trivet.yaml": {"config", "template"},
	} {
		text, err := r.output(ctx, nil, trivet, words...)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o644)
		}
		if err != nil {
			return fmt.Errorf("make %s: %w", name, err)
		}
	}
	if err := writePages(".", filepath.Join(dir, "pages")); err != nil {
		return err
	}
	return r.changelogs(dir)
}

// changelogs writes CHANGELOG.md as each package manager has it.
func (r *release) changelogs(dir string) error {
	text, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		return fmt.Errorf("changelog: %w", err)
	}
	sections, err := parseChangelog(string(text))
	if err != nil {
		return err
	}
	version := packageVersion(r.version)
	forRPM, err := rpmChangelog(sections, version, r.at)
	if err != nil {
		return err
	}
	if err := os.WriteFile(r.path("changelog.yaml"), forRPM, 0o644); err != nil {
		return fmt.Errorf("changelog: %w", err)
	}
	return writeCompressed(filepath.Join(dir, "changelog.gz"), []byte(debianChangelog(sections, version, r.at)))
}

// licences is where the licences of what a program contains lie.
func (r *release) licences(name string) string {
	return r.path("doc", name+"-licences.gz")
}

// nfpm makes a package of what config names; env are variables in it.
func (r *release) nfpm(ctx context.Context, config, format string, env ...string) error {
	env = append(env, "CGO_ENABLED=0", "SOURCE_DATE_EPOCH="+strconv.FormatInt(r.at.Unix(), 10),
		"PACKAGE_VERSION="+packageVersion(r.version), "PACKAGE_DOC="+r.path("doc"))
	_, err := r.output(ctx, env, "go", "tool", "-modfile=packaging/nfpm.mod", "nfpm", "package",
		"--config", config, "--packager", format, "--target", r.out+string(filepath.Separator))
	return err
}

// pack makes one package. Only rpm has the changelog in what nfpm reads, because nfpm
// would give the .deb one of the name that packages with a Debian revision have; and nfpm
// takes no variable for its path.
func (r *release) pack(ctx context.Context, p program, arch, format string) error {
	text, err := os.ReadFile(filepath.Join("packaging", p.config))
	if err != nil {
		return fmt.Errorf("configure nfpm: %w", err)
	}
	if format == "rpm" {
		text = fmt.Appendf(text, "\nchangelog: %q\n", r.path("changelog.yaml"))
	}
	config := r.path(p.name + "-" + format + ".yaml")
	if err := os.WriteFile(config, text, 0o644); err != nil {
		return fmt.Errorf("configure nfpm: %w", err)
	}
	err = r.nfpm(ctx, config, format, "PACKAGE_ARCH="+arch, "PACKAGE_BINARIES="+r.path(arch),
		"PACKAGE_BILL="+r.billPath(p.name, arch), "PACKAGE_LICENCES="+r.licences(p.name))
	if err != nil || format != "deb" {
		return err
	}
	return r.repack(ctx, filepath.Join(r.out, fmt.Sprintf("%s_%s_%s.deb", p.name, packageVersion(r.version), arch)), arch)
}

// billPath is where the bill of materials of a program lies.
func (r *release) billPath(name, arch string) string {
	return filepath.Join(r.out, fmt.Sprintf("%s_%s_linux_%s.cdx.json", name, packageVersion(r.version), arch))
}

// bill writes what a program is made of.
func (r *release) bill(name, arch string) error {
	text, err := billOf(r.path(arch, name), r.version, r.modules[name], r.at)
	if err == nil {
		err = os.WriteFile(r.billPath(name, arch), text, 0o644)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write bill of materials of %s for %s", name, arch), err)
	}
	return nil
}
