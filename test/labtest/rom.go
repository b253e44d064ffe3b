//go:build e2e

package labtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/labtest/openstack"
	"github.com/trivet-ha/trivet/test/labtest/program"
	"github.com/trivet-ha/trivet/test/testwait"
)

// Environment of the trials with real ROMs.
const (
	// pxeEnv switches them on.
	pxeEnv = "TRIVET_E2E_PXE"
	// accelEnv is how qemu runs the machines' code. The default needs nothing of
	// the host's processor.
	accelEnv = "TRIVET_E2E_PXE_ACCEL"
)

// Where Debian's packages put the firmware.
const (
	romImage     = "/usr/lib/ipxe/qemu/efi-virtio.rom"
	ovmfImage    = "/usr/share/ovmf/OVMF.fd"
	biosLoader   = "/usr/lib/ipxe/undionly.kpxe"
	uefiLoader   = "/usr/lib/ipxe/snponly.efi"
	qemuProgram  = "/usr/bin/qemu-system-x86_64"
	tunnelDevice = "/dev/net/tun"
)

// needPXE skips a test of machines that are emulated, which takes many minutes, unless it is asked
// for. Then a command or a file that is missing is a failure, which names the package of each.
func needPXE(t testing.TB, needs map[string]string) {
	t.Helper()
	if os.Getenv(pxeEnv) != "1" {
		t.Skipf("emulated machines take their time: %s=1, or make e2e-pxe", pxeEnv)
	}
	if os.Geteuid() != 0 {
		t.Fatal("it needs root")
	}
	var missing []string
	for need, from := range needs {
		if _, err := exec.LookPath(need); err != nil && !program.Installed(need) {
			missing = append(missing, need+" ("+from+")")
		}
	}
	if len(missing) > 0 {
		t.Fatalf("missing: %s", strings.Join(missing, ", "))
	}
}

// needROMs is needPXE of what boots by real ROMs.
func needROMs(t testing.TB) {
	t.Helper()
	needPXE(t, map[string]string{qemuProgram: "qemu-system-x86", romImage: "ipxe-qemu", ovmfImage: "ovmf",
		biosLoader: "ipxe", uefiLoader: "ipxe", "/usr/sbin/dnsmasq": "dnsmasq-base", tunnelDevice: "the kernel's module tun"})
}

// firmware is what a machine has before anything is booted.
type firmware struct {
	name   string
	words  []string      // of qemu
	device string        // further properties of the network card
	begins string        // what it says whenever it begins to look for something to boot
	ends   string        // what it says when it found nothing by PXE; "": it never stops looking
	limit  time.Duration // for a boot, with two of them on a busy host
}

// biosIPXE is a BIOS with the ROM of iPXE. When it finds nothing to boot it
// begins anew after a second, as servers do.
func biosIPXE() firmware {
	return firmware{name: "BIOS, iPXE ROM", limit: 3 * time.Minute, begins: "initialising devices",
		words: []string{"-m", "128", "-boot", "order=n,reboot-timeout=1000"}}
}

// uefiNative is UEFI with its own PXE.
func uefiNative() firmware {
	return firmware{name: "UEFI", limit: 8 * time.Minute, begins: ">>Start PXE over IPv4", ends: ">>Start HTTP Boot",
		words: []string{"-m", "256", "-bios", ovmfImage}, device: ",romfile=,bootindex=1"}
}

// uefiSix is the same, set up to boot over IPv6 alone: it would ask for a minute
// over IPv4 before.
func uefiSix() firmware {
	f := uefiNative()
	f.begins = ">>Start PXE over IPv6"
	f.words = append(f.words, "-fw_cfg", "name=opt/org.tianocore/IPv4PXESupport,string=n")
	return f
}

// uefiIPXE is UEFI with the ROM of iPXE.
func uefiIPXE() firmware {
	return firmware{name: "UEFI, iPXE ROM", limit: 8 * time.Minute, begins: "initialising devices",
		words: []string{"-m", "256", "-bios", ovmfImage}, device: ",bootindex=1"}
}

// rom is a diskless virtual machine on a switch of the lab. It is of use to one
// goroutine.
type rom struct {
	tap     string
	net     *Net
	proc    *program.Process
	console console
	on      time.Time // when it was switched on
	led     int       // whose host led then
}

// powerOn switches a machine on.
func (n *Net) powerOn(l Link, m openstack.Machine, f firmware) (*rom, error) {
	cable := "vm" + strings.ReplaceAll(m.MAC[9:], ":", "") // of 15 characters at most
	r := &rom{tap: cable, net: n}
	for _, words := range [][]string{
		{"ip", "tuntap", "add", "dev", cable, "mode", "tap"},
		{"ip", "link", "set", cable, "master", string(l), "up"},
	} {
		if out, err := r.place().Command(words[0], words[1:]...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("plug %s in: %w: %s", cable, err, out)
		}
	}
	words := append([]string{
		qemuProgram, "-accel", cmp.Or(os.Getenv(accelEnv), "tcg"), "-nodefaults", "-nographic", "-vga", "none", "-serial",
		"stdio", "-monitor", "none",
		"-netdev", "tap,id=lan,script=no,downscript=no,ifname=" + cable,
		"-device", "virtio-net-pci,netdev=lan,mac=" + m.MAC + f.device,
		"-uuid", m.UUID, // by which it calls itself in DHCPv6
	}, f.words...)
	cmd := r.place().Command("nice", append([]string{"-n", "5"}, words...)...)
	cmd.Stdout, cmd.Stderr = &r.console, &r.console
	r.on = time.Now()
	proc, err := program.Start(cmd)
	if err != nil {
		return nil, errors.Join(err, r.unplug())
	}
	r.proc = proc
	return r, nil
}

// place is where the switches are.
func (r *rom) place() *Host { return &Host{net: r.net} }

// powerOff ends the machine as pulling its plug does.
func (r *rom) powerOff() error {
	return errors.Join(r.proc.End(syscall.SIGKILL, 10*time.Second), r.unplug())
}

func (r *rom) unplug() error {
	if out, err := r.place().Command("ip", "link", "del", r.tap).CombinedOutput(); err != nil {
		return fmt.Errorf("unplug %s: %w: %s", r.tap, err, out)
	}
	return nil
}

// wait polls until done is true, for as long as the machine runs, up to a limit.
func (r *rom) wait(limit time.Duration, done func() bool) error {
	var ended error
	late := testwait.Poll(context.Background(), limit, "the machine's next step", func() error {
		switch {
		case done():
		case !r.proc.Running():
			ended = fmt.Errorf("the machine ended with %d", r.proc.Code)
		default:
			return errors.New("it runs")
		}
		return nil
	})
	return errors.Join(late, ended)
}

// ended reports whether the machine has booted, or given up.
func (r *rom) ended(f firmware) bool {
	return r.console.says(saysEnd) || f.ends != "" && r.console.says(f.ends)
}

// consoleMost bounds what is kept of a console, in bytes.
const consoleMost = 1 << 20

// console is what a machine writes on its serial line. It may be used
// concurrently.
type console struct {
	mu  sync.Mutex
	raw []byte
}

// Write implements io.Writer.
func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw = append(c.raw, p[:min(len(p), consoleMost-len(c.raw))]...)
	return len(p), nil
}

// text is what was written, without what moves the cursor or colours it.
func (c *console) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	plain := regexp.MustCompile(`\x1b(\[[0-9;?=]*[A-Za-z]|[()][A-Za-z0-9]|c)`).ReplaceAll(c.raw, nil)
	return strings.ReplaceAll(string(plain), "\r", "")
}

// says reports whether words were written, wherever lines were broken.
func (c *console) says(words string) bool {
	return strings.Contains(strings.ReplaceAll(c.text(), "\n", ""), words)
}

// number is the one that follows these words, 0 if none does.
func (c *console) number(words string) (n int) {
	_, rest, _ := strings.Cut(c.text(), words)
	for _, digit := range rest {
		if digit < '0' || digit > '9' {
			break
		}
		n = 10*n + int(digit-'0')
	}
	return n
}
