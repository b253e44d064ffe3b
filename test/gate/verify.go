package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// reports is where each target leaves its result.
const reports = "dist/verify"

// debian names the package that brings a program, where the name is another.
var debian = map[string]string{
	"ip": "iproute2", "nft": "nftables", "dhcpd": "isc-dhcp-server", "mkfs.ext4": "e2fsprogs", "fsfreeze": "util-linux",
	"losetup": "mount", "iptables-legacy": "iptables",
	"systemd-analyze": "systemd", "systemd-nspawn": "systemd-container", "dnsmasq": "dnsmasq-base",
	"promtool": "prometheus", "xz": "xz-utils",
	"dpkg-parsechangelog": "dpkg-dev", "openstack-inventory": "python3-openstacksdk", "fence_ipmilan": "fence-agents",
	"ipmi_sim": "openipmi", "ansible-playbook": "ansible-core",
}

// verify runs targets one after the other: those named, else those that the change
// touches, or all.
func verify(ctx context.Context, base string, names []string, all bool) int {
	commit, err := landed(ctx, base)
	if err != nil {
		return usage("%v", err)
	}
	changed, err := changedFiles(ctx, commit)
	if err != nil {
		return usage("%v", err)
	}
	chosen := affected(changed)
	if all {
		chosen = targets()
	}
	if len(names) > 0 {
		chosen = nil
		for _, name := range names {
			at := slices.IndexFunc(targets(), func(t target) bool { return t.name == name })
			if at < 0 {
				return usage("there is no target %q; 'make verify ALL=1' runs them all, 'make affected' lists those of a change",
					name)
			}
			chosen = append(chosen, targets()[at])
		}
	}
	if err := os.MkdirAll(reports, 0o755); err != nil {
		return usage("%v", err)
	}
	code := exitPassed
	for _, t := range chosen {
		v := &verification{target: t, base: commit, changed: changed, began: time.Now()}
		if !v.run(ctx) {
			code = exitChange
		}
		if err := v.report(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "error: report of", t.name+":", err)
			code = exitEnvironment
		}
	}
	return code
}

// verification is one run of a target.
type verification struct {
	target  target
	base    string
	changed []string
	began   time.Time
	tests   int
	failed  []string
}

func (v *verification) run(ctx context.Context) bool {
	fmt.Printf("\n== %s: %s\n", v.target.name, v.target.about)
	ctx, cancel := context.WithTimeout(ctx, targetLimit)
	defer cancel()
	if v.target.root && os.Getuid() != 0 {
		v.failed = append(v.failed, "it needs root: it sets up network namespaces and loop devices")
		return false
	}
	if err := install(ctx, v.target.needs); err != nil {
		v.failed = append(v.failed, err.Error())
		return false
	}
	for _, s := range v.target.steps {
		v.step(ctx, s)
	}
	return len(v.failed) == 0
}

func (v *verification) step(ctx context.Context, s step) {
	if s.command != nil {
		v.command(ctx, s.command)
		return
	}
	r := newResults(os.Stdout)
	g := goTest{limit: targetLimit, args: append([]string{"-tags", "e2e"}, s.tests...)}
	if os.Getuid() == 0 {
		g.env = []string{"CI=true"} // what a test needs is here: one that would skip fails
	}
	err := runTests(ctx, r, g)
	if err != nil {
		v.failed = append(v.failed, err.Error())
	}
	for _, f := range r.failures {
		v.failed = append(v.failed, f.what()+": "+f.First)
	}
	v.tests += r.tests
}

// command runs a command whose words BASE and CHANGED stand for the commit that has
// landed and for the packages that changed since.
func (v *verification) command(ctx context.Context, words []string) {
	packages := changedPackages(v.changed)
	if len(packages) == 0 && slices.Contains(words, "PKG=CHANGED") {
		fmt.Println("no package changed")
		return
	}
	args := slices.Clone(words[1:])
	for i := range args {
		args[i] = strings.ReplaceAll(strings.ReplaceAll(args[i], "BASE", v.base), "CHANGED", strings.Join(packages, " "))
	}
	cmd := exec.CommandContext(ctx, words[0], args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = killAfter
	var said lastLines
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		v.failed = append(v.failed, fmt.Sprintf("%s: %v: %s", strings.Join(words, " "), err, said.last()))
	}
}

// changedPackages names the packages with Go files among the changed ones that are
// still there.
func changedPackages(changed []string) (packages []string) {
	for _, file := range changed {
		dir := path.Dir(file)
		if strings.HasSuffix(file, ".go") && !touches([]string{dir}, ownModules) && !strings.Contains(dir, "testdata") {
			if found, err := filepath.Glob(filepath.Join(dir, "*.go")); err == nil && len(found) > 0 {
				packages = append(packages, "./"+dir)
			}
		}
	}
	slices.Sort(packages)
	return slices.Compact(packages)
}

// install brings in the Debian packages whose program is not here.
func install(ctx context.Context, programs []string) error {
	var missing []string
	for _, program := range programs {
		found := false
		for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/sbin") {
			if info, err := os.Stat(filepath.Join(dir, program)); err == nil && !info.IsDir() {
				found = true
			}
		}
		if name := debian[program]; !found && name != "" {
			missing = append(missing, name)
		} else if !found {
			missing = append(missing, program)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	for _, args := range [][]string{{"update", "-q"},
		append([]string{"install", "-q", "-y", "--no-install-recommends"}, missing...)} {
		cmd := exec.CommandContext(ctx, "apt-get", args...)
		// RUNLEVEL=1: some packages are wanted for their programs; no daemon starts.
		cmd.Env = append(os.Environ(), "RUNLEVEL=1", "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("install %s: %w: %s", strings.Join(missing, " "), err, out[max(0, len(out)-500):])
		}
	}
	return nil
}

// report writes dist/verify/TARGET.txt and prints it.
func (v *verification) report(ctx context.Context) error {
	commit, err := git(ctx, "describe", "--always", "--abbrev=12", "--dirty=+changes", "--exclude=*")
	if err != nil {
		commit = "unknown"
	}
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		load = []byte("unknown")
	}
	result := "passed"
	if len(v.failed) > 0 {
		result = "FAILED"
	}
	text := fmt.Sprintf("%-12s %s  commit %s  %.0f s  %d tests  load %s  %s\n", v.target.name, result, commit,
		time.Since(v.began).Seconds(), v.tests, strings.TrimSpace(string(load)), time.Now().UTC().Format(time.RFC3339))
	for _, line := range v.failed {
		text += "  FAIL  " + line + "\n"
	}
	fmt.Printf("\n%s", text)
	return os.WriteFile(filepath.Join(reports, v.target.name+".txt"), []byte(text), 0o644)
}

// lastLines passes on what is written to it and keeps the end.
type lastLines struct{ kept []byte }

func (l *lastLines) Write(p []byte) (int, error) {
	l.kept = append(l.kept, p...)
	l.kept = l.kept[max(0, len(l.kept)-maxLog):]
	return os.Stdout.Write(p)
}

// last is the first error in what was kept, else the last line.
func (l *lastLines) last() string {
	lines := strings.Split(strings.TrimSpace(string(l.kept)), "\n")
	for _, line := range lines {
		if strings.HasPrefix(line, "error: ") || strings.HasPrefix(line, "--- FAIL") {
			return line
		}
	}
	return lines[len(lines)-1]
}
