//go:build e2e

package labtest

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/failover"
	"github.com/trivet-ha/trivet/inspector/ironic"
	"github.com/trivet-ha/trivet/test/labtest/openstack"
	"github.com/trivet-ha/trivet/test/testenv"
)

func kubeWorker(n int) failover.Machine {
	return failover.Machine{Cluster: "prod", Node: fmt.Sprintf("worker-%d", n)}
}

// TestFenceIPMI has the collection's fence_ipmilan speak IPMI 2.0 with OpenIPMI's
// simulator: a BMC that obeys, one that takes commands and does nothing, one that
// knows another password, and one that is gone.
func TestFenceIPMI(t *testing.T) {
	t.Parallel()
	b := startBMC(t)
	host, port, err := net.SplitHostPort(b.addr)
	testenv.Must(t, err)
	list := openFences(t, fmt.Sprintf(`devices:
  - name: ipmi
    type: agent
    program: fence_ipmilan
    options: {lanplus: 1, username: admin, cipher: 3, power_timeout: 3}
    password_file: %s
    nodes: {worker-1: {ip: %s, ipport: %s}}
`, b.path("password"), host, port), nil)
	m := kubeWorker(1)
	d := deviceFor(t, list, m)
	shouldBe(t, d, m, failover.PowerOn)
	for range 2 { // the second finds it off
		began := time.Now()
		testenv.Must(t, d.Off(t.Context(), m))
		t.Logf("off in %v", time.Since(began).Round(time.Millisecond))
		shouldBe(t, d, m, failover.PowerOff)
	}
	testenv.Must(t, d.On(t.Context(), m))
	shouldBe(t, d, m, failover.PowerOn)
	if got := testenv.GetFile(t, b.dir, "commands"); got != "power 0\npower 1\n" {
		t.Errorf("the chassis was told\n%s", got)
	}

	testenv.PutFile(t, b.dir, "deaf", "")
	if err := d.Off(t.Context(), m); err == nil || !strings.Contains(err.Error(), "Timed out waiting to power OFF") {
		t.Errorf("a deaf BMC: %v", err)
	}
	shouldBe(t, d, m, failover.PowerOn)

	testenv.PutFile(t, b.dir, "password", "another-one\n")
	shouldBe(t, d, m, failover.PowerUnknown)
	if _, err := d.Power(t.Context(), m); err == nil || strings.Contains(err.Error(), "another-one") {
		t.Errorf("a wrong password: %v", err)
	}
	testenv.PutFile(t, b.dir, "password", bmcPassword+"\n")
	b.stop()
	shouldBe(t, d, m, failover.PowerUnknown)
}

// TestFenceDummy runs the collection's own fake agent. It hangs where it is told
// to, and is killed.
func TestFenceDummy(t *testing.T) {
	t.Parallel()
	testenv.NeedRoot(t, "fence_dummy")
	dir := t.TempDir()
	list := openFences(t, fmt.Sprintf(`devices:
  - name: dummy
    type: agent
    program: fence_dummy
    options: {delay: 0}
    nodes: {worker-1: {status_file: %[1]s/1}, worker-2: {status_file: %[1]s/2, delay: 600}}
    timeout: 4s
`, dir), nil)
	m := kubeWorker(1)
	d := deviceFor(t, list, m)
	testenv.Must(t, d.On(t.Context(), m))
	shouldBe(t, d, m, failover.PowerOn)
	testenv.Must(t, d.Off(t.Context(), m))
	shouldBe(t, d, m, failover.PowerOff)

	began := time.Now()
	err := d.Off(t.Context(), kubeWorker(2))
	if err == nil || !strings.Contains(err.Error(), "no answer within 4s (2 tries)") {
		t.Errorf("%v", err)
	}
	testenv.Took(t, "labtest.fence_no_answer", time.Since(began), 20*time.Second)
	if _, err := os.Stat(filepath.Join(dir, "2")); !os.IsNotExist(err) {
		t.Errorf("it switched all the same: %v", err)
	}
}

// TestFenceIronic has an unmodified Ironic switch machines that are known by UUID,
// name and MAC, fall silent, and come back.
func TestFenceIronic(t *testing.T) {
	t.Parallel()
	i := openstack.StartIronic(t, 3)
	machines := i.Enroll(0, 4)
	client, err := ironic.New(config.Ironic{AuthType: "none", Endpoint: "http://" + i.Addr, Timeout: 5 * time.Second},
		slog.New(slog.DiscardHandler))
	testenv.Must(t, err)
	defer client.Close()
	list := openFences(t, fmt.Sprintf(`devices:
  - name: bmc
    type: ironic
    nodes: {worker-0: %s, worker-1: %s, worker-2: "%s", worker-9: nobody}
    timeout: 10s
`, machines[0].UUID, machines[1].Name, strings.ToUpper(machines[2].MAC)), client)
	for n := range 3 {
		m := kubeWorker(n)
		d := deviceFor(t, list, m)
		testenv.Must(t, d.On(t.Context(), m))
		shouldBe(t, d, m, failover.PowerOn)
		began := time.Now()
		testenv.Must(t, d.Off(t.Context(), m))
		t.Logf("off in %v", time.Since(began).Round(time.Millisecond))
		shouldBe(t, d, m, failover.PowerOff)
		if node, err := i.Node(machines[n].UUID); err != nil || node.Power != "power off" {
			t.Errorf("Ironic says %q of %s (%v)", node.Power, machines[n].Name, err)
		}
	}
	strange := kubeWorker(9)
	if _, err := deviceFor(t, list, strange).Power(t.Context(), strange); err == nil ||
		!strings.Contains(err.Error(), "Ironic has no node nobody") {
		t.Errorf("%v", err)
	}
	m := kubeWorker(0)
	d := deviceFor(t, list, m)
	i.Pause()
	shouldBe(t, d, m, failover.PowerUnknown)
	i.Cont()
	shouldBe(t, d, m, failover.PowerOff)

	// Without a list, the kube node's name and its machine's UUID find the node.
	plain := openFences(t, "devices:\n  - {name: bmc, type: ironic}\n", client)
	same := failover.Machine{Cluster: "prod", Node: machines[3].Name, SystemUUID: strings.ToUpper(machines[3].UUID)}
	d = deviceFor(t, plain, same)
	testenv.Must(t, d.Off(t.Context(), same))
	shouldBe(t, d, same, failover.PowerOff)
	same.Node = machines[0].Name
	if err := d.Off(t.Context(), same); err == nil || !strings.Contains(err.Error(), "with its UUID and node") {
		t.Errorf("two nodes for one machine: %v", err)
	}
}
