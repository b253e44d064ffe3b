//go:build e2e

package labtest

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "modernc.org/sqlite" // more records than the original would make in a minute
)

// TestTakeOver has a real ironic-inspector fill an SQLite database, takes it
// over into three peers, and compares what the two answer.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	ironic := StartIronic(t, 1000)
	o := StartOriginal(t, ironic, "")
	took := newTakeover(t, ironic, o)
	path := strings.TrimPrefix(o.Database, "sqlite:///")
	took.isRefused()
	took.equal(took.fill())
	took.again()
	took.killed(path)
}

// takeover is an original with some history, and the peers that take it over.
type takeover struct {
	*SiteLab
	o        *Original
	ironic   *Ironic
	machines []Machine
	before   map[string]any // what the original answered, by path
}

func newTakeover(t *testing.T, ironic *Ironic, o *Original) *takeover {
	s := New(t).Introspecting(ironic.Addr, "TRIVET_INSPECTION_REPORT_EXPIRY=0s", "TRIVET_INSPECTION_STORE_DATA=true")
	s.Trio()
	return &takeover{SiteLab: s, o: o, ironic: ironic, machines: ironic.Enroll(0, 8)}
}

// isRefused leaves a node waiting: nothing at all is imported then.
func (s *takeover) isRefused() {
	s.t.Helper()
	m := s.machines[0]
	s.o.Must("POST", "/v1/rules", map[string]any{"description": "too early", "actions": []any{map[string]any{"action": "fail", "message": "x"}}})
	s.o.Must("POST", "/v1/introspection/"+m.UUID, nil)
	s.o.WaitState(m, "waiting")
	r := s.Peers[0].Trivet("import", "inspector-db", s.o.Database, s.Peers[0].On())
	if r.Code != 4 || !strings.Contains(r.Err, "1 introspections have not ended") || !strings.Contains(r.Err, m.UUID) {
		s.t.Errorf("exit %d\n%s", r.Code, r.Err)
	}
	if reply, err := s.Peers[0].Ask("GET", "/v1/rules", nil); err != nil || strings.TrimSpace(string(reply.Body)) != `{"rules":[]}` {
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
	if reply, err := ask(s.o.wire, s.o.Addr, "POST", "/v1/continue", nil, s.broken(failed)); err != nil || reply.Status != http.StatusBadRequest {
		s.t.Errorf("a ramdisk's error is answered %d %s, %v", reply.Status, reply.Body, err)
	}
	s.o.WaitState(failed, "error")
	s.o.Must("POST", "/v1/introspection/"+s.machines[7].UUID+"/abort", nil)
	s.o.WaitState(s.machines[7], "error")
	s.reapplied(s.machines[5])
	s.before = s.answers(func(path string) (Reply, error) { return ask(s.o.wire, s.o.Addr, "GET", path, nil, nil) })
	s.o.Stop()
	return s.before
}

// reapplied waits until the data of a machine was worked on once more, which the
// original begins some time after it accepted it, with a new start before it leaves
// the old end.
func (s *takeover) reapplied(m Machine) {
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

// broken is what the ramdisk of a machine posts that a rule lets fail. A ramdisk's
// own error leaves the original waiting.
func (s *takeover) broken(m Machine) []byte {
	s.t.Helper()
	var document map[string]json.RawMessage
	err := json.Unmarshal(m.Inventory(), &document)
	document["disk_broken"] = json.RawMessage(`true`)
	body, again := json.Marshal(document)
	if err := errors.Join(err, again); err != nil {
		s.t.Fatal(err)
	}
	return body
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
func (s *takeover) answers(get func(path string) (Reply, error)) map[string]any {
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
	text := p.Must("import", "inspector-db", s.o.Database, "-o", "json", p.On(), words)
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		s.t.Fatal(err)
	}
	return out
}

// equal imports and wants the same answers from every peer.
func (s *takeover) equal(want map[string]any) {
	s.t.Helper()
	if dry := s.imports(s.Peers[1], "--dry-run"); dry.Records.New != len(s.machines) || dry.Rules.New != len(takeoverRules) {
		s.t.Errorf("the dry run: %+v", dry)
	}
	did := s.imports(s.Peers[1])
	if did.Records.New != len(s.machines) || did.Rules.New != len(takeoverRules) || did.Documents.New < 10 {
		s.t.Errorf("the import: %+v", did)
	}
	s.same(want)
}

func (s *takeover) same(want map[string]any) {
	s.t.Helper()
	for _, p := range s.Peers {
		got := s.answers(func(path string) (Reply, error) { return p.Ask("GET", path, nil) })
		for path := range want {
			if !reflect.DeepEqual(got[path], want[path]) {
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
	if did.Records.New+did.Rules.New+did.Documents.New != 0 || did.Records.Unchanged != len(s.machines) || did.Documents.Unchanged < 10 {
		s.t.Errorf("the second import: %+v", did)
	}
	s.same(s.before)
}

// killed puts many more records into the file, kills an import of them and then
// the leader under another, and lets a last one finish.
func (s *takeover) killed(path string) {
	s.t.Helper()
	const more = 2000
	db, err := sql.Open("sqlite", path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer db.Close()
	for _, statement := range []string{
		`CREATE TEMP TABLE n AS WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i+1 FROM n WHERE i < ` + fmt.Sprint(more) + `) SELECT printf('77777777-0000-4000-8000-%012x', i) AS u FROM n`,
		`INSERT INTO nodes SELECT u, error, version_id, state, started_at, finished_at, manage_boot FROM n, nodes WHERE uuid = '` + s.machines[5].UUID + `'`,
		`INSERT INTO introspection_data SELECT u, processed, data FROM n, introspection_data WHERE uuid = '` + s.machines[5].UUID + `'`,
	} {
		if _, err := db.Exec(statement); err != nil {
			s.t.Fatal(err)
		}
	}
	p := s.Peers[0]
	cmd := p.command(append([]string{"import", "inspector-db", s.o.Database}, p.On()...)...)
	run, err := launch(cmd)
	if err != nil {
		s.t.Fatal(err)
	}
	s.Eventually(endLimit, "some records are there", func() error { return s.counts(p, 50, more) })
	if err := run.end(syscall.SIGKILL, 10*time.Second); err != nil {
		s.t.Fatal(err)
	}
	if err := s.counts(p, 50, more); err != nil {
		s.t.Errorf("when it was killed: %v", err)
	}
	did := s.imports(p)
	if did.Records.New+did.Records.Unchanged != more+len(s.machines) || did.Records.Unchanged < 50 || did.Records.New == 0 {
		s.t.Errorf("the import after the killed one: %+v", did)
	}
	if did = s.imports(p); did.Records.New+did.Documents.New+did.Rules.New != 0 || did.Documents.Unchanged < 2*more {
		s.t.Errorf("the one after that: %+v", did)
	}
}

// counts wants a number of the added records in a list of a peer.
func (s *takeover) counts(p *Peer, least, below int) error {
	reply, err := p.Ask("GET", "/v1/introspection?limit=1000", nil)
	if err != nil {
		return err
	}
	if n := strings.Count(string(reply.Body), `"uuid":"77777777`); n < least || n >= below {
		return fmt.Errorf("%d records", n)
	}
	return nil
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
		t.Run(scheme, func(t *testing.T) {
			ironic := StartIronic(t, 1000)
			took := newTakeover(t, ironic, StartOriginal(t, ironic, database))
			took.isRefused()
			took.equal(took.fill())
			took.again()
		})
	}
}
