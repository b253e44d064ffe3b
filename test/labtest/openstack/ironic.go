//go:build e2e

// Package openstack runs unmodified services of OpenStack, installed from Debian, on
// loopback: Ironic, Keystone and the original ironic-inspector.
package openstack

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/test/labtest/wiretap"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// Ironic is an unmodified OpenStack Ironic, API and conductor in one process:
// simulated hardware that always obeys, sqlite, no authentication, no broker.
// Its database lives as long as the test. Everything may be called from
// several goroutines but Start, Stop and Pause.
type Ironic struct {
	service
	nodes

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
	i := &Ironic{service: newService(t, "Ironic", "ironic.log", []string{"/usr/bin/ironic", "/usr/bin/ironic-dbsync"},
		"ironic-api", "ironic-conductor"), nodes: nodes{t, "1.78", testenv.FreePort(t)}, PageSize: pageSize}
	i.Inspector = wiretap.New(t, "127.0.0.1:9") // nothing listens there
	t.Cleanup(i.close)
	testenv.Must(t, os.Mkdir(i.path("policy"), 0o700)) // every file in it is read as a policy
	testenv.PutFile(t, i.dir, "ironic.conf", i.config())
	i.manage("/usr/bin/ironic-dbsync", "--config-file", i.path("ironic.conf"), "create_schema")
	i.Start()
	return i
}

// For returns the same Ironic for a subtest, which may not start or stop it.
func (i *Ironic) For(t testing.TB) *Ironic {
	same := *i
	same.t, same.test = t, t
	return &same
}

// ironicConf is the least that makes an Ironic run alone: OWN are lines of the section DEFAULT of one
// version, SECTIONS are sections of it. Every interface that the hardware type fake-hardware
// defaults to must be named, or the conductor registers no driver at all.
const ironicConf = `[DEFAULT]
OWN
auth_strategy = noauth
state_path = DIR
tempdir = DIR
log_file = DIR/ironic.log
use_stderr = False
enabled_hardware_types = fake-hardware
enabled_bios_interfaces = no-bios
enabled_boot_interfaces = fake
enabled_console_interfaces = no-console
enabled_deploy_interfaces = fake
enabled_management_interfaces = fake
enabled_network_interfaces = noop
enabled_power_interfaces = fake
enabled_raid_interfaces = no-raid
enabled_rescue_interfaces = no-rescue
enabled_storage_interfaces = noop
enabled_vendor_interfaces = no-vendor
[conductor]
workers_pool_size = 60
sync_power_state_interval = 0
automated_clean = False
[database]
connection = sqlite:///DIR/ironic.sqlite
SECTIONS
[service_catalog]
auth_type = none
endpoint_override = http://HOST:PORT
[dhcp]
dhcp_provider = none
[oslo_concurrency]
lock_path = DIR
[oslo_policy]
policy_dirs = DIR/policy
[api]
host_ip = HOST
port = PORT
api_workers = 1
`

// configured is ironicConf of an API at host:port, with lines and sections of one version, in which
// words stand for others.
func (i nodes) configured(addr, dir, own, sections string, words ...string) string {
	i.test.Helper()
	host, port, err := net.SplitHostPort(addr)
	testenv.Must(i.test, err)
	text := strings.NewReplacer("OWN", own, "SECTIONS", sections).Replace(ironicConf)
	return strings.NewReplacer(append(words, "DIR", dir, "HOST", host, "PORT", port)...).Replace(text)
}

// config is that of this Ironic.
func (i *Ironic) config() string {
	door := i.Inspector.Door("Ironic", "127.0.0.1:0")
	return i.configured(i.Addr, i.dir, `rpc_transport = none
host = labtest
my_ip = 127.0.0.1
enabled_inspect_interfaces = no-inspect,inspector
default_inspect_interface = no-inspect`, `[inspector]
auth_type = none
endpoint_override = http://INSPECTOR
status_check_period = 1`, "INSPECTOR", door) + fmt.Sprintln("max_limit =", i.PageSize)
}

// Start runs the process and waits until nodes can be managed.
func (i *Ironic) Start() {
	i.t.Helper()
	testwait.Within(i.t, readyLimit, "Ironic's port is free", func() error { // of the one before, a child may end later
		if !testenv.Free(i.Addr) {
			return fmt.Errorf("a process listens at %s", i.Addr)
		}
		return nil
	})
	i.run(i.command("/usr/bin/ironic", "--config-file", i.path("ironic.conf")), i.ready)
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
