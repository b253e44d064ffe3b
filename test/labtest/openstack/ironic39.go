//go:build e2e

package openstack

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/labtest/httpapi"
	"github.com/trivet-ha/trivet/test/labtest/program"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// ironic39Env names the variable with a directory whose folder root is a tree of Debian with
// Ironic 39 (ironic-api, ironic-conductor) and ironic-python-agent 13.
const ironic39Env = "TRIVET_E2E_IRONIC39"

const (
	// ironic39Version is the API version that the lab speaks: the first with inventories of
	// Ironic's own inspection whose answers to ramdisks tell the agent's token.
	ironic39Version = "1.84"
	// ironic39Ready is what it may take from its start to its first useful answer.
	ironic39Ready = 2 * time.Minute
)

// Ironic39 is today's Ironic in a tree of its own: fake hardware, unmanaged inspection by the
// interface agent, discovery of unknown machines, sqlite, no authentication. Its conductor and
// public API are one process; another API may serve ramdisks. It lives as long as the test.
type Ironic39 struct {
	nodes
	root string // of the tree
	dir  string // of this Ironic, as it is called in the tree
	rpc  string // where the conductor listens
	runs *runs  // shared with For

	// Ramdisks is host:port of the API that StartRamdisks starts; Addr is that of the public one.
	Ramdisks string
}

// runs are the processes of an Ironic39; nil: it does not run.
type runs struct{ service, ramdisks *program.Process }

// StartIronic39 starts one for this test. extra are lines of its configuration, below their
// sections. Where there is no such tree the test is skipped.
func StartIronic39(t testing.TB, extra string) *Ironic39 {
	t.Helper()
	testenv.NeedRoot(t, "unshare", "chroot", "mount")
	root := filepath.Join(os.Getenv(ironic39Env), "root")
	if os.Getenv(ironic39Env) == "" || !program.Installed(filepath.Join(root, "usr/bin/ironic")) {
		testenv.Missing(t, "%s names no directory with a tree of Debian with Ironic 39: see CONTRIBUTING.md", ironic39Env)
	}
	dir, err := os.MkdirTemp(root, "trivet-")
	testenv.Must(t, err)
	i := &Ironic39{nodes: nodes{t, ironic39Version, testenv.FreePort(t)}, root: root,
		dir: "/" + filepath.Base(dir), runs: &runs{}, rpc: testenv.FreePort(t), Ramdisks: testenv.FreePort(t)}
	t.Cleanup(i.close)
	testenv.Must(t, os.Mkdir(filepath.Join(dir, "policy"), 0o755)) // every file in it is read as a policy
	testenv.PutFile(t, dir, "ironic.conf", i.config(i.Addr, extra))
	testenv.PutFile(t, dir, "ramdisks.conf", i.config(i.Ramdisks, ""))
	testenv.PutFile(t, dir, "agent_post.py", agentPost)
	out, err := i.command("ironic-dbsync", "--config-file", i.dir+"/ironic.conf", "create_schema").CombinedOutput()
	if err != nil {
		t.Fatalf("create Ironic's database: %v\n%s", err, program.Tail(string(out), 20))
	}
	i.Start()
	return i
}

// For returns the same Ironic for a part of the test.
func (i *Ironic39) For(t testing.TB) *Ironic39 {
	same := *i
	same.test = t
	return &same
}

//go:embed testdata/agent_post.py
var agentPost string

// config is that of an API at host:port.
func (i *Ironic39) config(api, extra string) string {
	_, rpc, err := net.SplitHostPort(i.rpc)
	testenv.Must(i.test, err)
	return i.configured(api, i.dir, `rpc_transport = json-rpc
host = HOST
my_ip = HOST
enabled_inspect_interfaces = agent,no-inspect
default_inspect_interface = agent`, `[json_rpc]
auth_strategy = noauth
host_ip = HOST
port = RPC
[inspector]
require_managed_boot = False
[auto_discovery]
enabled = True
driver = fake-hardware
[deploy]
http_root = DIR
http_url = http://HOST:9/
[pxe]
tftp_root = DIR
tftp_master_path = DIR`, "RPC", rpc) + extra
}

// command runs a program of the tree, in namespaces of its own: nothing stays mounted, and all
// that it starts dies with it.
func (i *Ironic39) command(words ...string) *exec.Cmd {
	const enter = `mount --rbind /dev "$0/dev" && mount --bind /sys "$0/sys" && mount -t proc proc "$0/proc" &&
		exec chroot "$0" "$@"`
	apart := []string{"--mount", "--pid", "--fork", "--kill-child", "sh", "-c", enter, i.root}
	cmd := exec.Command("unshare", append(apart, words...)...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + i.dir, "LANG=C.UTF-8"}
	return cmd
}

// run starts a program of Ironic with a configuration and waits until its API has drivers.
func (i *Ironic39) run(name, conf, addr string) *program.Process {
	i.test.Helper()
	testwait.Within(i.test, ironic39Ready, "Ironic's ports are free", func() error {
		if !testenv.Free(addr) {
			return fmt.Errorf("a process listens at %s", addr)
		}
		return nil
	})
	proc, err := program.Start(i.command(name, "--config-file", i.dir+"/"+conf))
	if err != nil {
		i.test.Fatalf("start %s: %v", name, err)
	}
	testwait.Within(i.test, ironic39Ready, name+" is ready", func() error {
		if !proc.Running() {
			i.test.Fatalf("%s exited with %d:\n%s", name, proc.Code, i.Log())
		}
		return nodes{version: ironic39Version, Addr: addr}.Call("GET", "/v1/drivers/fake-hardware", nil, nil)
	})
	return proc
}

// Start runs conductor and public API; the database of an earlier run is there.
func (i *Ironic39) Start() {
	i.test.Helper()
	i.runs.service = i.run("ironic", "ironic.conf", i.Addr)
}

// StartRamdisks runs a second API, which serves ramdisks whatever the public one does.
func (i *Ironic39) StartRamdisks() {
	i.test.Helper()
	i.runs.ramdisks = i.run("ironic-api", "ramdisks.conf", i.Ramdisks)
}

// Kill9 kills conductor and public API.
func (i *Ironic39) Kill9() {
	i.test.Helper()
	if err := i.runs.service.End(syscall.SIGKILL, busyLimit); err != nil {
		i.test.Fatalf("kill Ironic: %v", err)
	}
}

// Stop ends conductor and public API as their unit does: the conductor takes its leave.
func (i *Ironic39) Stop() {
	i.test.Helper()
	for _, pid := range descendants(i.runs.service.PID())[:1] { // the others are its own
		if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
			i.test.Fatalf("stop Ironic's process %d: %v", pid, err)
		}
	}
	if err := i.runs.service.Wait(2 * busyLimit); err != nil {
		i.test.Fatalf("stop Ironic: %v", err)
	}
}

// Pause makes conductor and public API fall silent with their connections open, Cont lets them
// go on.
func (i *Ironic39) Pause() { i.signal(syscall.SIGSTOP) }

// Cont ends a Pause.
func (i *Ironic39) Cont() { i.signal(syscall.SIGCONT) }

// signal sends s to all processes of the service but the one that holds its namespaces.
func (i *Ironic39) signal(s syscall.Signal) {
	i.test.Helper()
	for _, pid := range descendants(i.runs.service.PID()) {
		if err := syscall.Kill(pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
			i.test.Fatalf("send %v to Ironic's process %d: %v", s, pid, err)
		}
	}
}

// descendants are the processes that a process has started, and those started by these.
func descendants(pid int) (all []int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid)) // one that has ended has none
	for word := range bytes.FieldsSeq(text) {
		if child, err := strconv.Atoi(string(word)); err == nil {
			all = append(append(all, child), descendants(child)...)
		}
	}
	return all
}

// Log is the end of what Ironic wrote.
func (i *Ironic39) Log() string {
	text, _ := os.ReadFile(filepath.Join(i.root, i.dir, "ironic.log")) // it may have died before it wrote one
	return program.Tail(string(text), 60)
}

func (i *Ironic39) close() {
	for _, proc := range []*program.Process{i.runs.service, i.runs.ramdisks} {
		if proc != nil {
			if err := proc.End(syscall.SIGKILL, busyLimit); err != nil {
				i.test.Errorf("end Ironic: %v", err)
			}
		}
	}
	if i.test.Failed() {
		i.test.Logf("--- Ironic wrote (end of it):\n%s", i.Log())
	}
	err := testwait.Poll(context.Background(), busyLimit, "Ironic's processes have ended", func() error {
		return os.RemoveAll(filepath.Join(i.root, i.dir)) // what died with its namespace may write a moment longer
	})
	if err != nil {
		i.test.Errorf("clean up: %v", err)
	}
}

// Inspect begins an inspection of each machine and waits until Ironic waits for their ramdisks.
func (i *Ironic39) Inspect(machines []Machine) {
	i.test.Helper()
	for _, m := range machines {
		i.Provision(m, "inspect")
	}
	i.WaitState(machines, "inspect wait")
}

// Posted is what became of a document that the agent posted.
type Posted struct {
	Answer  *struct{ UUID *string }
	Error   string
	Seconds float64
}

// Node is the node that the agent was told, "" for none.
func (p Posted) Node() string {
	if p.Answer == nil || p.Answer.UUID == nil {
		return ""
	}
	return *p.Answer.UUID
}

// Agent posts a document as a ramdisk does, with the agent's own code, its repeats and pauses:
// to a list of URLs, separated by commas. A request may take timeout.
func (i *Ironic39) Agent(urls string, document []byte, timeout time.Duration) (p Posted, err error) {
	name := fmt.Sprintf("%s/document-%d.json", i.dir, time.Now().UnixNano())
	if err := os.WriteFile(filepath.Join(i.root, name), document, 0o600); err != nil {
		return p, err
	}
	cmd := i.command("python3", i.dir+"/agent_post.py", urls, name, strconv.Itoa(int(timeout/time.Second)))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var said, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &log
	if err := cmd.Run(); err != nil {
		return p, fmt.Errorf("run the agent: %w: %s", err, program.Tail(log.String(), 10))
	}
	return p, json.Unmarshal(said.Bytes(), &p)
}

// Agents posts the documents of machines, a few at once, each to the URL that its number gets.
func (i *Ironic39) Agents(machines []Machine, url func(n int) string) {
	i.test.Helper()
	err := httpapi.Parallel(len(machines), IronicWidth, func(n int) error {
		p, err := i.Agent(url(n), machines[n].Inventory(), busyLimit)
		if err == nil && p.Node() != machines[n].UUID {
			err = fmt.Errorf("%s: the agent of %s has %+v, node %q", url(n), machines[n].Name, p, p.Node())
		}
		return err
	})
	testenv.Must(i.test, err)
}

// Inventory is the first MAC of the inventory that Ironic has stored for a node.
func (i *Ironic39) Inventory(node string) (mac string, err error) {
	var stored struct {
		Inventory struct {
			Interfaces []struct {
				MAC string `json:"mac_address"`
			}
		}
	}
	if err := i.Call("GET", "/v1/nodes/"+node+"/inventory", nil, &stored); err != nil {
		return "", err
	}
	if len(stored.Inventory.Interfaces) == 0 {
		return "", errors.New("an inventory without interfaces")
	}
	return stored.Inventory.Interfaces[0].MAC, nil
}

// Finished is how often Ironic has finished an inspection of a node.
func (i *Ironic39) Finished(node string) int {
	i.test.Helper()
	text, err := os.ReadFile(filepath.Join(i.root, i.dir, "ironic.log"))
	testenv.Must(i.test, err)
	return bytes.Count(text, []byte("Successfully finished inspection of node "+node))
}
