package host

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/config"
)

func TestLimitsAreTheSmallestOnTheWay(t *testing.T) {
	root := t.TempDir()
	write(t, root, "proc/self/cgroup", "0::/system.slice/trivet.service\n")
	write(t, root, "proc/self/fd/0", "")
	group := "sys/fs/cgroup/system.slice/"
	write(t, root, group+"trivet.service/memory.max", "max\n")
	write(t, root, group+"trivet.service/cpu.max", "50000 100000\n")
	write(t, root, group+"trivet.service/pids.max", "100\n")
	write(t, root, group+"trivet.service/pids.current", "12\n")
	write(t, root, group+"memory.max", "536870912\n")
	write(t, root, group+"memory.stat", "anon 1048576\nfile 99999999\n")
	write(t, root, "sys/fs/cgroup/pids.max", "9000\n")
	l := Limits(root)
	if l.Memory != 512<<20 || l.MemoryUsed != 1<<20 || l.MilliCPU != 500 || l.Tasks != 100 || l.TasksUsed != 12 ||
		l.Files == 0 || l.FilesUsed != 1 {
		t.Errorf("%+v", l)
	}
	if l := Limits(t.TempDir()); l.Memory != 0 || l.Tasks != 0 || l.MilliCPU != 0 || l.Group != "" {
		t.Errorf("where the kernel tells nothing: %+v", l)
	}
}

// TestWeightIsThatOfTheGroupThatCompetes reads both versions of control groups, also as a
// container sees them.
func TestWeightIsThatOfTheGroupThatCompetes(t *testing.T) {
	for name, c := range map[string]struct {
		groups string
		files  map[string]string
		want   uint64
	}{
		"the unit": {"0::/system.slice/trivet.service",
			map[string]string{"system.slice/trivet.service/cpu.weight": "500", "system.slice/cpu.weight": "100"}, 500},
		"a scope without a controller": {"0::/user.slice/user-0.slice/session-1.scope",
			map[string]string{"user.slice/cpu.weight": "100"}, 100},
		"a container":     {"0::/", map[string]string{"cpu.weight": "79"}, 79},
		"the root of all": {"0::/", nil, 0},
		"idle":            {"0::/a", map[string]string{"a/cpu.weight": "1"}, 1},
		"first version": {"9:name=systemd:/x\n4:cpu,cpuacct:/system.slice/trivet.service\n0::/",
			map[string]string{"cpu/system.slice/trivet.service/cpu.shares": "5120"}, 500},
		"first version, a container": {"1:cpu:/docker/0a", map[string]string{"cpu/cpu.shares": "1024"}, 100},
		"first version, the least":   {"1:cpu:/a", map[string]string{"cpu/a/cpu.shares": "2"}, 1},
		"first version, the root":    {"1:cpu:/\n2:cpuset:/a", map[string]string{"cpu/cpu.shares": "1024"}, 0},
		"no groups":                  {"", nil, 0},
	} {
		root := t.TempDir()
		write(t, root, "proc/self/cgroup", c.groups+"\n")
		for file, text := range c.files {
			write(t, root, "sys/fs/cgroup/"+file, text+"\n")
		}
		if got := Limits(root).CPUWeight; got != c.want {
			t.Errorf("processor-weight: %s: %d, want %d", name, got, c.want)
		}
	}
}

func TestTheDiskIsProbedAndLeftAsItWas(t *testing.T) {
	dir := t.TempDir()
	g := &gathering{o: Options{Config: config.Config{DataDir: dir}, Now: time.Now}}
	g.disk()
	g.clock()
	d := g.facts.Disk
	if d.Size == 0 || d.Probe.Count == 0 || d.Probe.MostUS < d.Probe.MedianUS || g.facts.Clock.Now == 0 ||
		len(g.gaps) > 0 {
		t.Errorf("%+v, %+v", d, g.gaps)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
	g = &gathering{o: Options{Config: config.Config{DataDir: filepath.Join(dir, "none")}}}
	if g.disk(); len(g.gaps) != 1 || g.facts.Disk.Size != 0 {
		t.Errorf("of a directory that is missing: %+v", g.gaps)
	}
}

func TestCertificatesThatCannotBeRead(t *testing.T) {
	path := write(t, t.TempDir(), "api.pem", "no certificate")
	for _, c := range []struct{ path, want string }{{path, "api.pem is no PEM"}, {path + ".none", "no such file"}} {
		if got := certificate("it", c.path, ""); !strings.Contains(got.Error, c.want) || got.NotAfter != 0 {
			t.Errorf("%s: %+v", c.path, got)
		}
	}
}

// TestCertificateWithoutItsKey: a renewal that wrote one of the two files is no fit pair.
func TestCertificateWithoutItsKey(t *testing.T) {
	dir := t.TempDir()
	pair := func(name string) (cert, key string) {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		of := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
		made, err := x509.CreateCertificate(rand.Reader, of, of, k.Public(), k)
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.MarshalECPrivateKey(k)
		if err != nil {
			t.Fatal(err)
		}
		text := func(kind string, der []byte) string {
			return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
		}
		return write(t, dir, name+".pem", text("CERTIFICATE", made)), write(t, dir, name+".key", text("EC PRIVATE KEY", der))
	}
	_, old := pair("old")
	cert, key := pair("new")
	if got := certificate("it", cert, key); got.Error != "" || got.NotAfter == 0 {
		t.Errorf("unfit-key: a pair: %+v", got)
	}
	if got := certificate("it", cert, old); !strings.Contains(got.Error, "private key does not match") {
		t.Errorf("unfit-key: the key of another certificate: %+v", got)
	}
	if got := certificate("it", cert, key+".none"); got.Error != "" {
		t.Errorf("unfit-key: a key that this user may not read: %+v", got)
	}
}

// TestGuestsAreKnownByTheirFirmwareOrProcessor: where neither tells, the host is taken
// for a machine of its own.
func TestGuestsAreKnownByTheirFirmwareOrProcessor(t *testing.T) {
	for _, c := range []struct{ file, text, want string }{
		{"sys/class/dmi/id/sys_vendor", "QEMU\n", "QEMU"},
		{"sys/class/dmi/id/product_name", "VMware Virtual Platform\n", "VMware"},
		{"sys/class/dmi/id/product_name", "Virtual Machine\n", "Virtual Machine"},
		{"sys/class/dmi/id/sys_vendor", "Dell Inc.\n", ""},
		{"proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu vme hypervisor lahf_lm\n", "a hypervisor"},
		{"proc/cpuinfo", "processor\t: 0\nmodel name\t: hypervisor\nflags\t\t: fpu vme\n", ""},
		{"elsewhere", "", ""},
	} {
		root := t.TempDir()
		write(t, root, c.file, c.text)
		if got := hypervisor(filepath.Join(root, "proc"), filepath.Join(root, "sys")); got != c.want {
			t.Errorf("%s says %q: a guest of %q, want %q", c.file, c.text, got, c.want)
		}
	}
}
