//go:build e2e

package labtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/cli/trivet-import/inspectordb"
	"github.com/trivet-ha/trivet/test/labtest/httpapi"
	"github.com/trivet-ha/trivet/test/labtest/openstack"
	"github.com/trivet-ha/trivet/test/labtest/program"
	"github.com/trivet-ha/trivet/test/testenv"
)

// TestTakeOver has a real ironic-inspector fill an SQLite database, takes it
// over into three peers, and compares what the two answer, also after an import
// and a leader were killed in the middle.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	takesOver(t, "")
}

func takesOver(t *testing.T, database string) {
	ironic := openstack.StartIronic(t, 1000)
	took := newTakeover(t, ironic, openstack.StartOriginal(t, ironic, database))
	took.isRefused()
	took.equal(took.fill())
	took.again()
	took.killed()
}

// takeover is an original with some history, and the peers that take it over.
type takeover struct {
	*SiteLab
	o        *openstack.Original
	ironic   *openstack.Ironic
	machines []openstack.Machine
	before   map[string]any // what the original answered, by path
}

// exported is a file with what the original's database holds now.
func (s *takeover) exported() string {
	s.t.Helper()
	path := filepath.Join(s.dir, "export.jsonl")
	file, err := os.Create(path)
	testenv.Must(s.t, err)
	testenv.Must(s.t, errors.Join(inspectordb.Export(s.t.Context(), s.o.Database, file), file.Close()))
	return path
}

func newTakeover(t *testing.T, ironic *openstack.Ironic, o *openstack.Original) *takeover {
	s := New(t).Introspecting(ironic.Addr, "TRIVET_INSPECTION_REPORT_EXPIRY=0s", "TRIVET_INSPECTION_STORE_DATA=true")
	s.Trio()
	return &takeover{SiteLab: s, o: o, ironic: ironic, machines: ironic.Enroll(0, 8)}
}

// isRefused leaves a node waiting: nothing at all is imported then.
func (s *takeover) isRefused() {
	s.t.Helper()
	m := s.machines[0]
	s.o.Must("POST", "/v1/rules",
		map[string]any{"description": "too early", "actions": []any{map[string]any{"action": "fail", "message": "x"}}})
	s.o.Must("POST", "/v1/introspection/"+m.UUID, nil)
	s.o.WaitState(m, "waiting")
	r := s.Peers[0].Import("load", s.exported())
	if r.Code != 4 || !strings.Contains(r.Err, "1 introspections have not ended") || !strings.Contains(r.Err, m.UUID) {
		s.t.Errorf("exit %d\n%s", r.Code, r.Err)
	}
	if reply, err := s.Peers[0].Ask("GET", "/v1/rules", nil); err != nil ||
		strings.TrimSpace(string(reply.Body)) != `{"rules":[]}` {
		s.t.Errorf("something was imported: %s, %v", reply.Body, err)
	}
	s.o.Must("DELETE", "/v1/rules", nil)
	s.o.Must("POST", "/v1/introspection/"+m.UUID+"/abort", nil)
	s.o.WaitState(m, "error")
}

// fill gives the original rules, and nodes that ended in every way, and returns
// what it answers.
func (s *takeover) fill() map[string]any {
	s.t.Helper()
	for _, rule := range takeoverRules {
		s.o.Must("POST", "/v1/rules", json.RawMessage(rule))
	}
	for _, m := range s.machines[1:] {
		s.o.Must("POST", "/v1/introspection/"+m.UUID, nil)
	}
	for _, m := range s.machines[1:] {
		s.o.WaitState(m, "waiting")
	}
	for _, m := range s.machines[1:6] {
		s.o.Must("POST", "/v1/continue", json.RawMessage(m.Inventory()))
		s.o.WaitState(m, "finished")
	}
	failed := s.machines[6]
	broken := withKey(s.t, failed.Inventory(), "disk_broken", true) // a ramdisk's own error leaves the original waiting
	if reply, err := s.o.Ask("POST", "/v1/continue", broken); err != nil ||
		reply.Status != http.StatusBadRequest {
		s.t.Errorf("a ramdisk's error is answered %d %s, %v", reply.Status, reply.Body, err)
	}
	s.o.WaitState(failed, "error")
	s.o.Must("POST", "/v1/introspection/"+s.machines[7].UUID+"/abort", nil)
	s.o.WaitState(s.machines[7], "error")
	s.reapplied(s.machines[5])
	s.before = s.answers(func(path string) (httpapi.Reply, error) { return s.o.Ask("GET", path, nil) })
	s.o.Stop()
	return s.before
}

// reapplied waits until the data of a machine was worked on once more, which the
// original begins some time after it accepted it, with a new start before it leaves
// the old end.
func (s *takeover) reapplied(m openstack.Machine) {
	s.t.Helper()
	before := s.o.Report(m)
	s.o.Must("POST", "/v1/introspection/"+m.UUID+"/data/unprocessed", nil)
	s.Eventually(endLimit, m.Name+" was worked on again", func() error {
		r := s.o.Report(m)
		if r.StartedAt == before.StartedAt || r.State != "finished" || *r.FinishedAt == *before.FinishedAt {
			return fmt.Errorf("it is %s since %s", r.State, r.StartedAt)
		}
		return nil
	})
}

// takeoverRules are of every operator and action, in the short and the long form.
var takeoverRules = []string{
	`{"uuid": "b0000000-0000-4000-8000-000000000001", "description": "later <letters> first", "actions": [{"action": "set-attribute", "path": "/extra/seen", "value": "yes"}]}`,
	`{"uuid": "a0000000-0000-4000-8000-000000000001", "scope": "rack é", "conditions": [{"op": "ge", "field": "memory_mb", "value": 1}, {"op": "is-empty", "field": "data://nothing", "invert": true, "multiple": "all"}],
		"actions": [{"action": "fail", "message": "x"}]}`,
	`{"conditions": [{"op": "matches", "field": "node://driver", "value": "fake-.*"}, {"op": "contains", "field": "inventory.interfaces[*].name", "value": "eth", "multiple": "first"}, {"op": "in-net", "field": "inventory.bmc_address", "value": "10.0.0.0/8"}],
		"actions": [{"action": "extend-attribute", "path": "/properties/list", "value": "{data[memory_mb]}", "unique": true}, {"action": "set-capability", "name": "c", "value": "v"}, {"action": "add-trait", "name": "CUSTOM_T"}]}`,
	`{"conditions": [{"op": "eq", "field": "disk_broken", "value": true}], "actions": [{"action": "fail", "message": "the <disk> is é & broken"}]}`,
	`{"description": "", "conditions": [{"op": "eq", "field": "cpus", "value": 1.50}], "actions": [{"action": "set-attribute", "path": "/extra/deep", "value": {"b": [1, null, {"z": "ö"}], "a": true}}]}`,
}

// answers collects what is answered about rules, states and data.
func (s *takeover) answers(get func(path string) (httpapi.Reply, error)) map[string]any {
	s.t.Helper()
	paths := []string{"/v1/rules", "/v1/introspection"}
	for _, m := range s.machines {
		at := "/v1/introspection/" + m.UUID
		paths = append(paths, at, at+"/data", at+"/data/unprocessed")
	}
	all := make(map[string]any)
	for i := 0; i < len(paths); i++ {
		reply, err := get(paths[i])
		if err != nil {
			s.t.Fatalf("%s: %v", paths[i], err)
		}
		var body any
		if err := json.Unmarshal(reply.Body, &body); err != nil {
			s.t.Fatalf("%s: %s: %v", paths[i], reply.Body, err)
		}
		all[paths[i]] = []any{reply.Status, withoutHosts(body)}
		if i == 0 {
			for _, rule := range body.(map[string]any)["rules"].([]any) {
				paths = append(paths, "/v1/rules/"+rule.(map[string]any)["uuid"].(string))
			}
		}
	}
	return all
}

// withoutHosts takes the links away: they name who answers.
func withoutHosts(v any) any {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "links")
		for _, child := range v {
			withoutHosts(child)
		}
	case []any:
		for _, child := range v {
			withoutHosts(child)
		}
	}
	return v
}

// imported is what the command reports.
type imported struct {
	Rules, Records, Documents struct{ New, Unchanged, Kept, Skipped, Refused int }
}

func (s *takeover) imports(p *Peer, words ...string) (out imported) {
	s.t.Helper()
	r := p.Import("load", s.exported(), "-o", "json", words)
	if err := json.Unmarshal([]byte(r.Out), &out); err != nil || r.Code != 0 {
		s.t.Fatalf("exit %d, %v\n%s", r.Code, err, r.Err)
	}
	return out
}

// equal imports and wants the same answers from every peer.
func (s *takeover) equal(want map[string]any) {
	s.t.Helper()
	if dry := s.imports(s.Peers[1], "--dry-run"); dry.Records.New != len(s.machines) ||
		dry.Rules.New != len(takeoverRules) {
		s.t.Errorf("the dry run: %+v", dry)
	}
	did := s.imports(s.Peers[1])
	if did.Records.New != len(s.machines) || did.Rules.New != len(takeoverRules) || did.Documents.New < 10 {
		s.t.Errorf("the import: %+v", did)
	}
	s.same(want)
}

// same wants of every peer what the original answered, but for some paths.
func (s *takeover) same(want map[string]any, but ...string) {
	s.t.Helper()
	for _, p := range s.Peers {
		got := s.answers(func(path string) (httpapi.Reply, error) { return p.Ask("GET", path, nil) })
		for path := range want {
			if !slices.Contains(but, path) && !reflect.DeepEqual(got[path], want[path]) {
				s.t.Errorf("%s of %s: %v\nwas %v", path, p.Name, got[path], want[path])
			}
		}
		if len(got) != len(want) {
			s.t.Errorf("%s answers %d paths, the original %d", p.Name, len(got), len(want))
		}
	}
}

// again imports a second time, by another peer: nothing changes.
func (s *takeover) again() {
	s.t.Helper()
	did := s.imports(s.Peers[2])
	if did.Records.New+did.Rules.New+did.Documents.New != 0 || did.Records.Unchanged != len(s.machines) ||
		did.Documents.Unchanged < 10 {
		s.t.Errorf("the second import: %+v", did)
	}
	s.same(s.before)
}

// copies is how many records more are taken over while somebody is killed: enough
// for that to happen in the middle, and one page of a list.
const copies = 1000

// killed gives the database many more records, and kills an import of them, then
// the leader under the next one, which goes on by itself. In the end all is there
// as it was, and a last import finds nothing to do.
func (s *takeover) killed() {
	s.t.Helper()
	s.o.Copy(s.machines[5], copies)
	p := s.Peers[0]
	s.dies(p)

	leader := s.WaitLeader()
	follower := s.Followers()[0]
	did := s.survives(follower, leader)
	if did.Records.New+did.Records.Unchanged != copies+len(s.machines) || did.Records.Unchanged < 50 ||
		did.Records.New == 0 || did.Rules.New != 0 {
		s.t.Errorf("the import whose leader was killed: %+v", did)
	}
	leader.Start()
	s.WaitVoters(3)
	did = s.imports(leader)
	if did.Records.New+did.Documents.New+did.Rules.New != 0 || did.Records.Unchanged != copies+len(s.machines) ||
		did.Documents.Unchanged < 2*copies {
		s.t.Errorf("the one after that: %+v", did)
	}
	s.same(s.before, "/v1/introspection") // which lists the copies too
	s.copied(s.machines[5])
	s.WaitSame()
}

// importRun is an import under way.
type importRun struct {
	*program.Process
	out, errw bytes.Buffer
}

// importing runs an import of the whole database and returns when least of the
// copies are there, and it goes on.
func (s *takeover) importing(p *Peer, least int) *importRun {
	s.t.Helper()
	run := new(importRun)
	cmd := p.importer("load", s.exported(), "-o", "json")
	cmd.Stdout, cmd.Stderr = &run.out, &run.errw
	run.Process = program.Run(s.t, cmd, syscall.SIGKILL)
	s.Eventually(endLimit, fmt.Sprint(least, " copies are there"),
		func() error { return atLeast(int64(s.counts(p)), int64(least)) })
	if !run.Running() {
		s.t.Fatalf("the import ended with %d before anybody could be killed: %s", run.Code, &run.errw)
	}
	return run
}

// dies kills an import in the middle.
func (s *takeover) dies(p *Peer) {
	s.t.Helper()
	testenv.Must(s.t, s.importing(p, 50).End(syscall.SIGKILL, 10*time.Second))
	if n := s.counts(p); n > copies/2 {
		s.t.Errorf("when the import was killed %d copies were there already", n)
	}
}

// survives kills the leader in the middle of an import by another peer, and
// returns what that reports in the end.
func (s *takeover) survives(p, leader *Peer) (did imported) {
	s.t.Helper()
	run := s.importing(p, 300)
	leader.Kill9()
	began := time.Now()
	if err := run.Wait(2 * endLimit); err != nil || run.Code != 0 {
		s.t.Fatalf("the import whose leader was killed: exit %d, %v\n%s", run.Code, err, &run.errw)
	}
	s.t.Logf("the import ended %v after its leader was killed", time.Since(began).Round(time.Second))
	testenv.Must(s.t, json.Unmarshal(run.out.Bytes(), &did))
	return did
}

// copied wants of the first, a middle and the last copy what its original has.
func (s *takeover) copied(m openstack.Machine) {
	s.t.Helper()
	for _, p := range s.Peers {
		for _, k := range []int{1, copies / 2, copies} {
			for _, rest := range []string{"/data", "/data/unprocessed"} {
				got, err := p.Ask("GET", fmt.Sprintf("/v1/introspection/77777777-0000-4000-8000-%012x", k)+rest, nil)
				want, again := p.Ask("GET", "/v1/introspection/"+m.UUID+rest, nil)
				if err := errors.Join(err, again); err != nil || got.Status != http.StatusOK || !bytes.Equal(got.Body, want.Body) {
					s.t.Errorf("%s of copy %d on %s: %d %s, %v\nwant %s", rest, k, p.Name, got.Status, got.Body, err, want.Body)
				}
			}
		}
	}
}

// counts returns how many copies a list of a peer shows, and 0 while it has none
// to show.
func (s *takeover) counts(p *Peer) int {
	reply, err := p.Ask("GET", "/v1/introspection?limit=1000", nil)
	if err != nil {
		return 0
	}
	return strings.Count(string(reply.Body), `"uuid":"77777777`)
}

// TestTakeOverServers is TestTakeOver with the databases of a distribution, named
// in TRIVET_E2E_DATABASES, separated by spaces: each must exist and be empty.
func TestTakeOverServers(t *testing.T) {
	named := os.Getenv("TRIVET_E2E_DATABASES")
	if named == "" {
		t.Skip("TRIVET_E2E_DATABASES names no database; SQLite is tried in any case")
	}
	for _, database := range strings.Fields(named) {
		scheme, _, _ := strings.Cut(database, ":")
		t.Run(scheme, func(t *testing.T) { takesOver(t, database) })
	}
}
