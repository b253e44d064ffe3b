package pxe

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/config"
	hostfacts "github.com/trivet-ha/trivet/doctor/host"
	"github.com/trivet-ha/trivet/firewall/pxe"
	"github.com/trivet-ha/trivet/firewall/pxe/install"
	"github.com/trivet-ha/trivet/internal/portholder"
	"github.com/trivet-ha/trivet/internal/program"
)

// installBoot makes this host the boot server that was computed.
func installBoot(ctx context.Context, t *term.Terminal, peer term.Peer, on *install.Host, conf config.Config,
	f pxeFlags, server pxe.Server) error {
	boot, err := bootOf(ctx, t, peer, conf, f.boot)
	if err != nil {
		return err
	}
	// Before the host is looked at: a mistake in the words is no fault of it.
	if _, err := server.Config(); err != nil {
		return badBoot(err)
	}
	if _, err := boot.Script(); err != nil {
		return badBoot(err)
	}
	h, err := bootHost(on, f.dry)
	if err != nil {
		return err
	}
	if err := f.kept.refuse(server, f.force); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	report, err := h.Install(ctx, install.Plan{Server: server, Boot: boot, Force: f.force, Flags: f.kept.next})
	if err != nil {
		return bootFailure(err)
	}
	if err := printBoot(t, report, f.dry); err != nil || f.dry {
		return err
	}
	t.Say("when it is done on every host: 'trivet doctor'; to take it back: 'trivet dnsmasq-config --uninstall'")
	return nil
}

func uninstallBoot(ctx context.Context, t *term.Terminal, on *install.Host, f pxeFlags) error {
	h, err := bootHost(on, f.dry)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	report, err := h.Uninstall(ctx, f.root, f.force)
	if err != nil {
		return bootFailure(err)
	}
	if len(report.Changes)+len(report.Warnings) == 0 {
		t.Say("nothing is installed here")
	}
	return printBoot(t, report, f.dry)
}

// bootHost is the host that --install changes, or with dry only looks at.
func bootHost(on *install.Host, dry bool) (install.Host, error) {
	if on != nil {
		h := *on
		h.Dry = dry
		return h, nil
	}
	if os.Geteuid() != 0 {
		return install.Host{}, term.Fail(term.ExitNotAuthorised, "run it as root, for instance with sudo",
			"dnsmasq-config: only root may change %s and dnsmasq", pxe.ConfFile)
	}
	return install.Host{Dry: dry, Run: runCommand, Fetch: hostfacts.Fetch, Bind: install.Bind,
		Holders: func(at netip.AddrPort) ([]portholder.Holder, error) { return portholder.Of("udp", at) }}, nil
}

// runCommand runs a command of the system, in English. dnsmasq lies where PATH may
// not look.
func runCommand(ctx context.Context, name string, args ...string) (string, error) {
	path, err := program.Find(name)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = program.Environ()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func bootFailure(err error) error {
	var changed *install.ChangedError
	var taken *install.TakenError
	switch {
	case errors.As(err, &changed):
		hint := fmt.Sprintf(
			"compare: 'trivet dnsmasq-config | diff %s -', for the script with --boot-script; --force replaces or removes it",
			pxe.ConfFile)
		return term.Fail(term.ExitConflict, hint, "dnsmasq-config: nothing was done: %w", err)
	case errors.As(err, &taken):
		hint := "stop that program, then repeat it"
		if taken.Unit != "" {
			hint = "'systemctl disable --now " + taken.Unit + "' if this host needs it no more, then repeat it"
		}
		return term.Fail(term.ExitConflict, hint, "dnsmasq-config: nothing was done: %w", err)
	case errors.Is(err, install.ErrMissing):
		return term.Fail(term.ExitNotFound,
			"Debian, Ubuntu: 'apt install dnsmasq ipxe'; Fedora, RHEL: 'dnf install dnsmasq ipxe-bootimgs-x86'; then repeat it",
			"dnsmasq-config: nothing was done: %w", err)
	}
	return term.Fail(term.ExitFailed, "", "dnsmasq-config: %w", err)
}

// printBoot shows what was changed, or as a diff what would be; what is missing goes to
// people.
func printBoot(t *term.Terminal, r install.Report, dry bool) error {
	err := t.Show(r, func() error {
		if dry { // the steps that would be taken, and what they would make of each path
			var steps strings.Builder
			for _, c := range r.Changes {
				if c.Act != "unchanged" && c.Act != "left out" && c.Act != "kept" {
					fmt.Fprintln(&steps, strings.TrimRight(c.Act+" "+c.Object+" "+c.Note, " "))
				}
			}
			for _, e := range append([]install.Edit{{Path: "steps", After: steps.String()}}, r.Edits...) {
				if err := t.PrintDiff(e.Path, e.Before, e.After); err != nil {
					return err
				}
			}
			return nil
		}
		for _, c := range r.Changes {
			if t.Quiet && c.Act == "unchanged" {
				continue
			}
			fmt.Fprintln(t.Out, strings.TrimRight(fmt.Sprintf("%-9s  %s %s", c.Act, c.Object, c.Note), " "))
		}
		return nil
	})
	for _, w := range r.Warnings {
		t.Warn("%s", w)
	}
	return err
}
