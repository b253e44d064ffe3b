//go:build e2e

package openstack

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/labtest/httpapi"
	"github.com/trivet-ha/trivet/test/labtest/program"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// Original is an unmodified ironic-inspector of Debian, in one process, that
// keeps its data in a database and filters nothing.
type Original struct {
	t      testing.TB
	dir    string
	ironic *Ironic
	wire   *http.Client
	proc   *program.Process

	// Addr is host:port of its API, on loopback.
	Addr string
	// Database is the URL of its database.
	Database string
}

// StartOriginal installs ironic-inspector if need be and starts one next to an
// Ironic, on a database of SQLAlchemy's URL; "" is an SQLite file of its own.
func StartOriginal(t testing.TB, ironic *Ironic, database string) *Original {
	t.Helper()
	testenv.NeedRoot(t)
	if !program.Installed("/usr/bin/ironic-inspector") || !program.Installed("/usr/bin/ironic-inspector-dbsync") {
		program.Install(t, "ironic-inspector", "python3-ironic-inspector")
	}
	dir, err := os.MkdirTemp("", "trivet-original-")
	if err != nil {
		t.Fatal(err)
	}
	o := &Original{t: t, dir: dir, ironic: ironic, wire: httpapi.Client(), Addr: testenv.FreePort(t), Database: database}
	if database == "" {
		o.Database = "sqlite:///" + filepath.Join(dir, "inspector.sqlite")
	}
	t.Cleanup(o.close)
	if err := os.WriteFile(o.config(), []byte(o.settings()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := o.command("/usr/bin/ironic-inspector-dbsync", "--config-file", o.config(),
		"upgrade").CombinedOutput(); err != nil {
		t.Fatalf("create the database of ironic-inspector: %v\n%s", err, program.Tail(string(out), 20))
	}
	o.Start()
	return o
}

func (o *Original) config() string { return filepath.Join(o.dir, "inspector.conf") }

func (o *Original) settings() string {
	host, port, err := net.SplitHostPort(o.Addr)
	if err != nil {
		o.t.Fatal(err)
	}
	return strings.NewReplacer("DIR", o.dir, "HOST", host, "PORT", port, "IRONIC", o.ironic.Addr, "DATABASE",
		o.Database).Replace(`[DEFAULT]
listen_address = HOST
listen_port = PORT
auth_strategy = noauth
introspection_delay = 0
log_file = DIR/inspector.log
use_stderr = False
transport_url = fake:/
[database]
connection = DATABASE
[ironic]
auth_type = none
endpoint_override = http://IRONIC
[service_catalog]
auth_type = none
endpoint_override = http://HOST:PORT
[pxe_filter]
driver = noop
[processing]
store_data = database
processing_hooks = ramdisk_error,root_disk_selection,scheduler,validate_interfaces,capabilities,lldp_basic
[oslo_policy]
policy_dirs = DIR/policy
`)
}

func (o *Original) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = o.dir
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + o.dir, "LANG=C.UTF-8"}
	return cmd
}

// Start runs the process and waits for its API.
func (o *Original) Start() {
	o.t.Helper()
	log, err := os.OpenFile(filepath.Join(o.dir, "stdout.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		o.t.Fatal(err)
	}
	defer log.Close()
	cmd := o.command("/usr/bin/ironic-inspector", "--config-file", o.config())
	cmd.Stdout, cmd.Stderr = log, log
	if o.proc, err = program.Start(cmd); err != nil {
		o.t.Fatalf("start ironic-inspector: %v", err)
	}
	testwait.Within(o.t, readyLimit, "ironic-inspector is ready", func() error {
		if !o.proc.Running() {
			o.t.Fatalf("ironic-inspector exited with %d:\n%s", o.proc.Code, o.logs())
		}
		_, err := o.Ask("GET", "/v1/introspection", nil)
		return err
	})
}

// Stop ends the process; the database stays.
func (o *Original) Stop() {
	o.t.Helper()
	if err := o.proc.End(syscall.SIGTERM, 20*time.Second); err != nil {
		o.t.Fatalf("stop ironic-inspector: %v", err)
	}
}

// Ask sends one request.
func (o *Original) Ask(method, path string, body []byte) (httpapi.Reply, error) {
	return httpapi.Ask(o.wire, o.Addr, method, path, nil, body)
}

// Must sends a request that has to be answered with a status below 400.
func (o *Original) Must(method, path string, in any) []byte {
	o.t.Helper()
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			o.t.Fatal(err)
		}
	}
	reply, err := o.Ask(method, path, body)
	if err != nil || reply.Status >= http.StatusBadRequest {
		o.t.Fatalf("%s %s of ironic-inspector: %d %s, %v", method, path, reply.Status, reply.Body, err)
	}
	return reply.Body
}

// copyScript gives a database more records than the original would make in a
// minute.
//
//go:embed testdata/copy.py
var copyScript string

// Copy gives the database copies of the record and the data of a machine, under
// the UUIDs 77777777-0000-4000-8000-000000000001 and so on.
func (o *Original) Copy(m Machine, copies int) {
	o.t.Helper()
	if out, err := o.command("/usr/bin/python3", "-c", copyScript, o.Database, m.UUID,
		strconv.Itoa(copies)).CombinedOutput(); err != nil {
		o.t.Fatalf("copy records: %v\n%s", err, program.Tail(string(out), 20))
	}
}

// Report is the status object of the API.
type Report struct {
	UUID       string  `json:"uuid"`
	State      string  `json:"state"`
	Finished   bool    `json:"finished"`
	Error      *string `json:"error"`
	StartedAt  string  `json:"started_at"`
	FinishedAt *string `json:"finished_at"`
}

// Reason returns the error, "" when there is none.
func (r Report) Reason() string {
	if r.Error == nil {
		return ""
	}
	return *r.Error
}

// Report is what it says of the introspection of a machine.
func (o *Original) Report(m Machine) (r Report) {
	o.t.Helper()
	if err := json.Unmarshal(o.Must("GET", "/v1/introspection/"+m.UUID, nil), &r); err != nil {
		o.t.Fatal(err)
	}
	return r
}

// WaitState waits until the introspection of a machine is in a state.
func (o *Original) WaitState(m Machine, state string) {
	o.t.Helper()
	testwait.Within(o.t, time.Minute, m.Name+" is "+state, func() error {
		if r := o.Report(m); r.State != state {
			return fmt.Errorf("it is %s: %s", r.State, r.Reason())
		}
		return nil
	})
}

func (o *Original) close() {
	var err error
	if o.proc != nil {
		err = o.proc.End(syscall.SIGKILL, 10*time.Second)
	}
	if o.t.Failed() {
		o.t.Logf("--- ironic-inspector wrote (end of it):\n%s", o.logs())
	}
	if err := errors.Join(err, os.RemoveAll(o.dir)); err != nil {
		o.t.Errorf("clean up: %v", err)
	}
}

func (o *Original) logs() string {
	var out strings.Builder
	for _, name := range []string{"stdout.log", "inspector.log"} {
		if text, err := os.ReadFile(filepath.Join(o.dir, name)); err == nil { // it may have died before it wrote one
			out.WriteString(program.Tail(string(text), 30))
		}
	}
	return out.String()
}
