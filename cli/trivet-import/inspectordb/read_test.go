package inspectordb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// database makes an SQLite file with the original's tables, filled by some
// statements, and returns its path.
func database(t *testing.T, statements ...string) string {
	t.Helper()
	schema, err := os.ReadFile(filepath.Join("testdata", "schema.sql"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "an 50% #1?.sqlite")
	change(t, path, append([]string{string(schema)}, statements...)...)
	return path
}

func change(t *testing.T, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", address{database: path}.file("mode=rwc"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			t.Fatalf("%v\n%s", err, s)
		}
	}
}

func urlOf(path string) string {
	return "sqlite:///" + strings.NewReplacer("%", "%25", "?", "%3F").Replace(path)
}

func source(t *testing.T, path string) *Source {
	t.Helper()
	s, err := Open(t.Context(), urlOf(path))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func nodes(t *testing.T, s *Source) (all []Node) {
	t.Helper()
	err := s.Nodes(t.Context(), func(n Node) error {
		all = append(all, n)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestNodesHaveTheirTimes(t *testing.T) {
	s := source(t, database(t,
		`INSERT INTO nodes (uuid, state, started_at, finished_at, error, manage_boot) VALUES
			('b', 'error', '2026-11-20 20:35:26.405493', '2026-11-20 20:36:00.000000', 'Introspection timeout', 0),
			('a', 'finished', '2026-11-20 20:35:26', '2026-11-20 20:36:00.000001', NULL, 1),
			('c', 'waiting', NULL, NULL, NULL, NULL)`))
	at := func(second, micro int) time.Time {
		return time.Date(2026, 11, 20, 20, 35, second, micro*1000, time.UTC)
	}
	want := []Node{
		{UUID: "a", State: "finished", Started: at(26, 0), Finished: at(60, 1), ManageBoot: true},
		{UUID: "b", State: "error", Started: at(26, 405493), Finished: at(60, 0), Error: "Introspection timeout"},
		{UUID: "c", State: "waiting"},
	}
	if got := nodes(t, s); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	if n, err := s.Count(t.Context()); err != nil || n != 3 {
		t.Errorf("%d, %v", n, err)
	}
}

func TestNodesComeInPages(t *testing.T) {
	s := source(t, database(t, fmt.Sprintf(`WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i+1 FROM n WHERE i < %d)
		INSERT INTO nodes (uuid, state) SELECT printf('%%05d', i), 'finished' FROM n`, 2*pageRows)))
	all := nodes(t, s)
	if len(all) != 2*pageRows ||
		!slices.IsSortedFunc(all, func(a, b Node) int { return strings.Compare(a.UUID, b.UUID) }) {
		t.Errorf("%d nodes", len(all))
	}
	stop := errors.New("enough")
	if err := s.Nodes(t.Context(), func(Node) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("%v", err)
	}
}

// What is written after the first look is not seen: all that is read belongs
// together.
func TestItIsOneMoment(t *testing.T) {
	path := database(t, `PRAGMA journal_mode = WAL`, `INSERT INTO nodes (uuid, state) VALUES ('a', 'finished')`)
	s := source(t, path)
	change(t, path, `INSERT INTO nodes (uuid, state) VALUES ('b', 'waiting')`,
		`INSERT INTO introspection_data VALUES ('a', 1, '{}')`)
	if all := nodes(t, s); len(all) != 1 {
		t.Errorf("%+v", all)
	}
	if data, err := s.Data(t.Context(), "a"); err != nil || data.Processed != nil {
		t.Errorf("%+v, %v", data, err)
	}
}

func TestData(t *testing.T) {
	big := fmt.Sprintf("printf('%%.*c', %d, 'x')", MaxDocument+1)
	s := source(t, database(t,
		`INSERT INTO introspection_data VALUES ('a', 0, '{"z": 1, "a": 1.50}'), ('a', 1, '{"z": 2}'), ('b', 1, NULL), ('c', 0, 'null'), ('d', 0, `+
			big+`)`))
	a, err := s.Data(t.Context(), "a")
	if err != nil || string(a.Unprocessed) != `{"z": 1, "a": 1.50}` || string(a.Processed) != `{"z": 2}` {
		t.Errorf("%s, %s, %v", a.Unprocessed, a.Processed, err)
	}
	for _, id := range []string{"b", "c", "nobody"} {
		if d, err := s.Data(t.Context(), id); err != nil || d.Unprocessed != nil || d.Processed != nil {
			t.Errorf("%s: %+v, %v", id, d, err)
		}
	}
	var refused *DocumentError
	if _, err := s.Data(t.Context(), "d"); !errors.As(err, &refused) ||
		!strings.Contains(refused.Reason, "8388609 bytes") {
		t.Errorf("%v", err)
	}
}

func TestRulesAreWhatTheOriginalShows(t *testing.T) {
	s := source(t, database(t,
		`INSERT INTO rules VALUES ('2', '2026-11-20 20:00:01', NULL, 0, NULL), ('1', '2026-11-20 20:00:02.5', 'a <b> & c', NULL, 'rack'),
			('4', '2026-11-20 20:00:01', '', 0, ''), ('3', '2026-11-20 20:00:00', 'off', 1, NULL)`,
		`INSERT INTO rule_conditions (id, rule, op, multiple, field, params, invert) VALUES
			(1, '1', 'ge', 'all', 'data://memory_mb', '{"value": 1e3}', 1), (2, '1', 'is-empty', 'any', 'data://x', '{}', 0), (3, '3', 'eq', 'any', 'x', '{', 0)`,
		`INSERT INTO rule_actions (id, rule, action, params) VALUES (9, '2', 'fail', '{"message": "no"}'), (8, '4', 'fail', '{"message": "no"}'),
			(2, '1', 'set-attribute', '{"value": {"b": 1, "a": "<"}, "path": "/extra/x"}'), (1, '1', 'fail', '{"message": "é"}')`))
	got, err := s.Rules(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []Rule{
		{"4", []byte(`{"uuid":"4","description":"","scope":"","conditions":[],"actions":[{"action":"fail","message":"no"}]}` +
			"\n")},
		{"2",
			[]byte(`{"uuid":"2","description":null,"scope":null,"conditions":[],"actions":[{"action":"fail","message":"no"}]}` +
				"\n")},
		{"1",
			[]byte(
				`{"uuid":"1","description":"a <b> & c","scope":"rack","conditions":[{"field":"data://memory_mb","invert":true,"multiple":"all","op":"ge","value":1e3},` +
					`{"field":"data://x","invert":false,"multiple":"any","op":"is-empty"}],"actions":[{"action":"fail","message":"é"},{"action":"set-attribute","path":"/extra/x","value":{"b":1,"a":"<"}}]}` +
					"\n")},
	}
	if !reflect.DeepEqual(got, want) {
		for _, r := range got {
			t.Errorf("%s", r.Body)
		}
	}
}

func TestOtherSchemasAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ statement, want string }{
		"older":      {`UPDATE alembic_version SET version_num = 'bf8dec16023c'`, `"bf8dec16023c"`},
		"unfinished": {`DELETE FROM alembic_version`, "never finished"},
		"another's":  {`DROP TABLE alembic_version`, "no database of ironic-inspector"},
	} {
		if _, err := Open(context.Background(), urlOf(database(t, c.statement))); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNothingIsMade(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none.sqlite")
	if _, err := Open(t.Context(), "sqlite:///"+path); err == nil {
		t.Error("a file that is not there was opened")
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("it was made")
	}
}

// A path that is not absolute is most likely one with a slash too few.
func TestThreeSlashes(t *testing.T) {
	_, err := Open(t.Context(), "sqlite:///var/lib/ironic-inspector/none.sqlite")
	if err == nil || !strings.Contains(err.Error(),
		"with three slashes names it from the working directory of ironic-inspector") ||
		strings.Contains(err.Error(), "none") {
		t.Errorf("%v", err)
	}
}

func TestNothingIsWritten(t *testing.T) {
	s := source(t, database(t))
	if _, err := s.tx.Exec(`INSERT INTO nodes (uuid, state) VALUES ('a', 'finished')`); err == nil {
		t.Error("the transaction writes")
	}
}
