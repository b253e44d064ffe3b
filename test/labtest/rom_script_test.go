//go:build e2e

package labtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/firewall/pxe"
	"github.com/trivet-ha/trivet/test/labtest/openstack"
	"github.com/trivet-ha/trivet/test/testenv"
)

// romScript looks at what the script of dnsmasq-config does in a ROM: it boots a
// kernel of Linux's kind with the whole command line, and where there is none
// for a while the machine begins anew until there is.
func romScript(t *testing.T, report *romReport) {
	l := romKind{machines: 2, apart: true}.build(t) // what is booted here asks nobody
	l.Introspect(l.machines)
	l.kernels(func(h *Host) []byte { return tinyKernel(fmt.Sprint(saysHost, h.number, "\r\n"), "\r\n"+saysEnd+"\r\n") })
	l.each(l.machines[:1], 1, func(m openstack.Machine) error { return l.bootsWithItsArguments(report, m) })
	l.each(l.machines[1:], 1, func(m openstack.Machine) error { return l.beginsAnew(report, m) })
}

// kernels puts a kernel into the TFTP root of every host.
func (l *romLab) kernels(of func(*Host) []byte) {
	l.t.Helper()
	for _, p := range l.Peers {
		testenv.Must(l.t, os.WriteFile(filepath.Join(l.root(p), standInName), of(p.Host), 0o644))
	}
}

// bootsWithItsArguments boots a machine, whose kernel must be given all that the
// script says.
func (l *romLab) bootsWithItsArguments(report *romReport, m openstack.Machine) error {
	text, err := os.ReadFile(filepath.Join(l.root(l.Peers[0]), pxe.ScriptName))
	if err != nil {
		return err
	}
	_, rest, _ := strings.Cut(string(text), standInName+" ")
	words, _, _ := strings.Cut(rest, " ||")
	want := strings.ReplaceAll(words, "${mac}", m.MAC)
	return l.boots(report, "kernel of Linux's kind", m, biosIPXE(), func(r *rom, b romBoot) error {
		if !strings.Contains(want, "BOOTIF="+m.MAC) || !r.console.says(want) {
			return fmt.Errorf("its kernel was not given %q", want)
		}
		return atOnce(b)
	})
}

// beginsAnew boots a machine whose kernel comes only after the script has given
// up.
func (l *romLab) beginsAnew(report *romReport, m openstack.Machine) error {
	kernel := filepath.Join(l.root(l.WaitLeader()), standInName)
	if err := os.Rename(kernel, kernel+".away"); err != nil {
		return err
	}
	r, err := l.on(m, biosIPXE())
	if err != nil {
		return err
	}
	err = r.wait(biosIPXE().limit, func() bool { return r.console.says("Try 4 of 4 failed") })
	err = errors.Join(err, os.Rename(kernel+".away", kernel))
	if err == nil {
		err = l.finishes(report, "kernel missing until the script gave up", r, m, biosIPXE(), func(_ *rom, b romBoot) error {
			if b.From != b.Leader || b.Rounds != 2 {
				return fmt.Errorf("booted from host %d in round %d; want host %d in round 2", b.From, b.Rounds, b.Leader)
			}
			return nil
		})
	}
	return errors.Join(l.told(r, m, err), r.powerOff())
}
