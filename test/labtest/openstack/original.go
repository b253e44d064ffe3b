//go:build e2e

package openstack

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
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
	service
	ironic *Ironic
	wire   *http.Client

	// Addr is host:port of its API, on loopback.
	Addr string
	// Database is the URL of its database.
	Database string
}

// StartOriginal installs ironic-inspector if need be and starts one next to an
// Ironic, on a database of SQLAlchemy's URL; "" is an SQLite file of its own.
func StartOriginal(t testing.TB, ironic *Ironic, database string) *Original {
	t.Helper()
	o := &Original{service: newService(t, "ironic-inspector", "inspector.log",
		[]string{"/usr/bin/ironic-inspector", "/usr/bin/ironic-inspector-dbsync"}, "python3-ironic-inspector"),
		ironic: ironic, wire: httpapi.Client(), Addr: testenv.FreePort(t), Database: database}
	if database == "" {
		o.Database = "sqlite:///" + o.path("inspector.sqlite")
	}
	t.Cleanup(o.close)
	testenv.PutFile(t, o.dir, "inspector.conf", o.settings())
	o.manage("/usr/bin/ironic-inspector-dbsync", "--config-file", o.path("inspector.conf"), "upgrade")
	o.Start()
	return o
}

func (o *Original) settings() string {
	host, port, err := net.SplitHostPort(o.Addr)
	testenv.Must(o.t, err)
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

// Start runs the process and waits for its API.
func (o *Original) Start() {
	o.t.Helper()
	o.run(o.command("/usr/bin/ironic-inspector", "--config-file", o.path("inspector.conf")), func() error {
		_, err := o.Ask("GET", "/v1/introspection", nil)
		return err
	})
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
		body, err = json.Marshal(in)
		testenv.Must(o.t, err)
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
	testenv.Must(o.t, json.Unmarshal(o.Must("GET", "/v1/introspection/"+m.UUID, nil), &r))
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
