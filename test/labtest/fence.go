//go:build e2e

package labtest

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/failover"
	"github.com/trivet-ha/trivet/failover/fence"
	"github.com/trivet-ha/trivet/test/labtest/program"
	"github.com/trivet-ha/trivet/test/testenv"
)

// bmcPassword is that of the simulated management controllers.
const bmcPassword = "sesame"

// ipmiBMC is OpenIPMI's simulator of a management controller on loopback, with a
// machine that is a file.
type ipmiBMC struct {
	t    testing.TB
	dir  string
	addr string
	proc *program.Process
}

// chassisScript is what the simulator runs to ask and to switch. A machine whose
// file "deaf" exists takes commands and does nothing.
const chassisScript = `#!/bin/sh
while [ $# -gt 1 ]; do
	case $1 in
	get) [ "$2" = power ] && echo "power:$(cat DIR/power)"; shift 2 ;;
	set)
		echo "$2 $3" >>DIR/commands
		[ "$2" = power ] && ! [ -e DIR/deaf ] && echo "$3" >DIR/power
		shift 3 ;;
	*) shift ;;
	esac
done
`

const lanConfig = `name "bmc"
set_working_mc 0x20
  startlan 1
    addr HOST PORT
    priv_limit admin
    allowed_auths_admin none md2 md5 straight
    guid a123456789abcdefa123456789abcdef
  endlan
  chassis_control "DIR/chassis"
  user 2 true "admin" "PASSWORD" admin 10 none md2 md5 straight
`

// startBMC starts a simulator whose machine is on.
func startBMC(t testing.TB) *ipmiBMC {
	t.Helper()
	testenv.NeedRoot(t, "ipmi_sim", "ipmitool", "fence_ipmilan")
	b := &ipmiBMC{t: t, dir: t.TempDir(), addr: testenv.FreePort(t)}
	host, port, err := net.SplitHostPort(b.addr)
	testenv.Must(t, err)
	fill := strings.NewReplacer("DIR", b.dir, "HOST", host, "PORT", port, "PASSWORD", bmcPassword)
	program.Write(t, b.path("chassis"), fill.Replace(chassisScript))
	testenv.PutFile(b.t, b.dir, "lan.conf", fill.Replace(lanConfig))
	testenv.PutFile(b.t, b.dir, "bmc.emu",
		"mc_setbmc 0x20\nmc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr\nmc_enable 0x20\n")
	testenv.PutFile(b.t, b.dir, "power", "1\n")
	testenv.PutFile(b.t, b.dir, "password", bmcPassword+"\n")
	t.Cleanup(b.stop)
	b.start()
	return b
}

func (b *ipmiBMC) path(name string) string { return filepath.Join(b.dir, name) }

func (b *ipmiBMC) start() {
	b.t.Helper()
	cmd := exec.Command("ipmi_sim", "-c", b.path("lan.conf"), "-f", b.path("bmc.emu"), "-s", b.dir, "-n")
	b.proc = program.StartLogged(b.t, cmd, b.path("log"))
	host, port, _ := strings.Cut(b.addr, ":")
	eventually(b.t, 30*time.Second, "the BMC answers", func() error {
		out, err := exec.Command("ipmitool", "-I", "lanplus", "-C", "3", "-H", host, "-p", port, "-U", "admin", "-P",
			bmcPassword, "-N", "1", "-R", "1", "chassis", "power", "status").CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

func (b *ipmiBMC) stop() {
	if err := b.proc.End(syscall.SIGKILL, 10*time.Second); err != nil {
		b.t.Errorf("end the BMC: %v", err)
	}
}

// openFences reads a fence.yaml of that text.
func openFences(t testing.TB, text string, ironic fence.Ironic) *fence.List {
	t.Helper()
	file := filepath.Join(t.TempDir(), "fence.yaml")
	testenv.Must(t, os.WriteFile(file, []byte(text), 0o600))
	list, err := fence.Open(file, fence.Options{
		Clusters: []string{"prod"}, Ironic: ironic, Logger: slog.New(slog.DiscardHandler),
		Limits: fence.Limits{Retries: 1, Interval: 100 * time.Millisecond, Timeout: 20 * time.Second},
	})
	testenv.Must(t, err)
	t.Cleanup(list.Close)
	return list
}

// deviceFor returns the only device of a machine.
func deviceFor(t testing.TB, list *fence.List, m failover.Machine) failover.Device {
	t.Helper()
	found := list.For(m)
	if len(found) != 1 {
		t.Fatalf("%d devices for %s, want 1", len(found), m.Node)
	}
	return found[0]
}

// shouldBe asks a device.
func shouldBe(t testing.TB, d failover.Device, m failover.Machine, want failover.Power) {
	t.Helper()
	began := time.Now()
	power, err := d.Power(t.Context(), m)
	t.Logf("%s says %s of %s after %v (%v)", d.Name(), power, m.Node, time.Since(began).Round(time.Millisecond), err)
	if power != want || (err != nil) && want != failover.PowerUnknown {
		t.Fatalf("%s says %s of %s (%v), want %s", d.Name(), power, m.Node, err, want)
	}
}
