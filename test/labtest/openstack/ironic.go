//go:build e2e

// Package openstack runs unmodified services of OpenStack, installed from Debian, on
// loopback: Ironic, Keystone and the original ironic-inspector.
package openstack

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/labtest/program"
	"github.com/trivet-ha/trivet/test/labtest/wiretap"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// readyLimit is what Ironic may take from its start to its first useful
// answer: 5 s on an idle machine, several times that next to other tests.
const readyLimit = 90 * time.Second

// Ironic is an unmodified OpenStack Ironic, API and conductor in one process:
// simulated hardware that always obeys, sqlite, no authentication, no broker.
// Its database lives as long as the test. Everything may be called from
// several goroutines but Start, Stop and Pause.
type Ironic struct {
	t    testing.TB
	dir  string
	http *http.Client
	proc *program.Process

	// Addr is host:port of its API, on loopback.
	Addr string
	// Inspector is on Ironic's way to the inspector that it asks to inspect; aim
	// it at one.
	Inspector *wiretap.Tap
	// PageSize is how many items a list shows at once.
	PageSize int
}

// StartIronic installs Ironic if need be and starts one for this test. Lists
// come in pages of pageSize.
func StartIronic(t testing.TB, pageSize int) *Ironic {
	t.Helper()
	testenv.NeedRoot(t)
	if !program.Installed("/usr/bin/ironic") || !program.Installed("/usr/bin/ironic-dbsync") {
		program.Install(t, "Ironic", "ironic-api", "ironic-conductor")
	}
	dir, err := os.MkdirTemp("", "trivet-ironic-")
	if err != nil {
		t.Fatal(err)
	}
	i := &Ironic{t: t, dir: dir, Addr: testenv.FreePort(t), PageSize: pageSize,
		http: &http.Client{Timeout: 30 * time.Second}}
	i.Inspector = wiretap.New(t, "127.0.0.1:9") // nothing listens there
	t.Cleanup(i.close)
	if err := os.Mkdir(i.path("policy"), 0o700); err != nil { // every file in it is read as a policy
		t.Fatal(err)
	}
	i.write("ironic.conf", i.config())
	i.schema()
	i.Start()
	return i
}

// For returns the same Ironic for a subtest, which may not start or stop it.
func (i *Ironic) For(t testing.TB) *Ironic {
	same := *i
	same.t = t
	return &same
}

func (i *Ironic) path(name string) string { return filepath.Join(i.dir, name) }

func (i *Ironic) write(name, text string) {
	i.t.Helper()
	if err := os.WriteFile(i.path(name), []byte(text), 0o600); err != nil {
		i.t.Fatal(err)
	}
}

// config is the least that makes Ironic run alone. Every interface that the
// hardware type fake-hardware defaults to must be named, or the conductor
// registers no driver at all.
func (i *Ironic) config() string {
	host, port, err := net.SplitHostPort(i.Addr)
	if err != nil {
		i.t.Fatal(err)
	}
	text := `[DEFAULT]
auth_strategy = noauth
rpc_transport = none
host = labtest
my_ip = 127.0.0.1
state_path = DIR
tempdir = DIR
log_file = DIR/ironic.log
use_stderr = False
enabled_hardware_types = fake-hardware
enabled_bios_interfaces = no-bios
enabled_boot_interfaces = fake
enabled_console_interfaces = no-console
enabled_deploy_interfaces = fake
enabled_inspect_interfaces = no-inspect,inspector
default_inspect_interface = no-inspect
enabled_management_interfaces = fake
enabled_network_interfaces = noop
enabled_power_interfaces = fake
enabled_raid_interfaces = no-raid
enabled_rescue_interfaces = no-rescue
enabled_storage_interfaces = noop
enabled_vendor_interfaces = no-vendor
[api]
host_ip = HOST
port = PORT
api_workers = 1
max_limit = PAGE
[conductor]
workers_pool_size = 60
sync_power_state_interval = 0
automated_clean = False
[database]
connection = sqlite:///DIR/ironic.sqlite
[inspector]
auth_type = none
endpoint_override = http://INSPECTOR
status_check_period = 1
[service_catalog]
auth_type = none
endpoint_override = http://HOST:PORT
[dhcp]
dhcp_provider = none
[oslo_concurrency]
lock_path = DIR
[oslo_policy]
policy_dirs = DIR/policy
`
	return strings.NewReplacer("DIR", i.dir, "HOST", host, "PORT", port, "PAGE", fmt.Sprint(i.PageSize),
		"INSPECTOR", i.Inspector.Door("Ironic", "127.0.0.1:0")).Replace(text)
}

// command runs one of Ironic's programs with nothing of the tester's
// environment: another Python's variables would lead it astray.
func (i *Ironic) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, append([]string{"--config-file", i.path("ironic.conf")}, args...)...)
	cmd.Dir = i.dir
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + i.dir, "LANG=C.UTF-8"}
	return cmd
}

func (i *Ironic) schema() {
	i.t.Helper()
	if out, err := i.command("/usr/bin/ironic-dbsync", "create_schema").CombinedOutput(); err != nil {
		i.t.Fatalf("create Ironic's database: %v\n%s", err, program.Tail(string(out), 20))
	}
}

// Start runs the process and waits until nodes can be managed.
func (i *Ironic) Start() {
	i.t.Helper()
	log, err := os.OpenFile(i.path("stdout.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		i.t.Fatal(err)
	}
	defer log.Close()
	testwait.Within(i.t, readyLimit, "Ironic's port is free", func() error { // of the one before, a child may end later
		if !testenv.Free(i.Addr) {
			return fmt.Errorf("a process listens at %s", i.Addr)
		}
		return nil
	})
	cmd := i.command("/usr/bin/ironic")
	cmd.Stdout, cmd.Stderr = log, log
	if i.proc, err = program.Start(cmd); err != nil {
		i.t.Fatalf("start Ironic: %v", err)
	}
	testwait.Within(i.t, readyLimit, "Ironic is ready", func() error {
		if !i.proc.Running() {
			i.t.Fatalf("Ironic exited with %d:\n%s", i.proc.Code, i.logs())
		}
		return i.ready()
	})
}

// ready asks for the drivers, because the API answers before the conductor has
// registered them.
func (i *Ironic) ready() error {
	var got struct{ Drivers []struct{ Name string } }
	if err := i.Call("GET", "/v1/drivers", nil, &got); err != nil {
		return err
	}
	if len(got.Drivers) == 0 {
		return errors.New("no driver is registered yet")
	}
	return nil
}

// Stop ends the process; the database stays.
func (i *Ironic) Stop() {
	i.t.Helper()
	if err := i.proc.End(syscall.SIGTERM, 10*time.Second); err != nil {
		i.t.Fatalf("stop Ironic: %v", err)
	}
}

// Pause makes Ironic fall silent with its connections open, Cont lets it go on.
func (i *Ironic) Pause() {
	i.t.Helper()
	if err := i.proc.Signal(syscall.SIGSTOP); err != nil {
		i.t.Fatalf("pause Ironic: %v", err)
	}
}

// Cont ends a Pause.
func (i *Ironic) Cont() {
	i.t.Helper()
	if err := i.proc.Signal(syscall.SIGCONT); err != nil {
		i.t.Fatalf("continue Ironic: %v", err)
	}
}

func (i *Ironic) close() {
	if i.proc != nil {
		if err := i.proc.End(syscall.SIGKILL, 10*time.Second); err != nil {
			i.t.Errorf("end Ironic: %v", err)
		}
	}
	if i.t.Failed() {
		i.t.Logf("--- Ironic wrote (end of it):\n%s", i.logs())
	}
	if err := os.RemoveAll(i.dir); err != nil {
		i.t.Errorf("clean up: %v", err)
	}
}

// logs returns the ends of what Ironic wrote.
func (i *Ironic) logs() string {
	var out strings.Builder
	for _, name := range []string{"stdout.log", "ironic.log"} {
		if text, err := os.ReadFile(i.path(name)); err == nil { // it may have died before it wrote one
			out.WriteString(program.Tail(string(text), 30))
		}
	}
	return out.String()
}
