//go:build e2e

package labtest

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/test/labtest/openstack"
	"github.com/trivet-ha/trivet/test/testenv"
)

// TestROMIsTold boots real iPXE ROMs, and reads what the operator does: one machine comes up but
// for its call, the other one lacks its kernel.
func TestROMIsTold(t *testing.T) {
	needROMs(t)
	l := &recorderLab{romLab: romKind{machines: 2}.build(t), t: t}
	l.Introspect(l.machines)
	l.bootsTold(l.machines[0], "no-callback",
		"it fetched .*ironic-agent.initramfs, ironic-agent.kernel.*, at last at TIME, and has not called")
	testenv.Must(l.t, os.Remove(filepath.Join(l.root(l.WaitLeader()), standInName)))
	l.bootsTold(l.machines[1], "file-refused no-kernel", `HOST refused file ironic-agent.kernel [a-z0-9 ]+: .*not found.*`)
}

// bootsTold switches a machine on until these findings are told.
func (l *recorderLab) bootsTold(m openstack.Machine, codes, says string) {
	l.t.Helper()
	f := biosIPXE()
	r, err := l.on(m, f)
	testenv.Must(l.t, err)
	defer func() { testenv.Must(l.t, r.powerOff()) }()
	testenv.Must(l.t, r.wait(f.limit, func() bool {
		boot, err := l.boot(l.WaitLeader(), m)
		return err == nil && slices.ContainsFunc(boot.Steps, func(s api.BootStep) bool {
			return s.Kind == "fetched" || s.Kind == "failed"
		})
	}))
	l.finds(m, codes, says)
}
