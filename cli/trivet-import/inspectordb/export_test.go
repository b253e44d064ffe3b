package inspectordb

import (
	"fmt"
	"strings"
	"testing"
)

// Each record is one line whatever its data is, and says why where it is none.
func TestExport(t *testing.T) {
	var out strings.Builder
	big := fmt.Sprintf("printf('%%.*c', %d, 'x')", MaxDocument+1)
	path := database(t,
		`INSERT INTO nodes (uuid, state, started_at, finished_at, error, manage_boot) VALUES
			('a', 'finished', '2026-11-20 20:35:26.405493', '2026-11-20 20:36:00', 'Introspection timeout', 1), ('b', 'error', NULL, '2026-11-20 20:36:00', NULL, 0),
			('c', 'waiting', '2026-11-20 20:35:26', NULL, NULL, 0), ('d', 'finished', NULL, NULL, NULL, 0), ('e', 'finished', NULL, NULL, NULL, 0)`,
		"INSERT INTO introspection_data VALUES ('a', 0, '{\"z\": 1,\n \"a\": \"<é>\"}'), ('d', 0, '{\"a\": NaN}'), ('e', 1, "+
			big+")",
		`INSERT INTO rules VALUES ('2', '2026-11-20 20:00:01', 'a <b>', 0, NULL)`,
		`INSERT INTO rule_actions VALUES (1, '2', 'fail', '{"message": "no"}')`)
	if err := Export(t.Context(), urlOf(path), &out); err != nil {
		t.Fatal(err)
	}
	want := `{"ironic_inspector":"sqlite ` + path + `","rules":1,"records":5}
{"rule":{"uuid":"2","description":"a <b>","scope":null,"conditions":[],"actions":[{"action":"fail","message":"no"}]}}
{"record":{"uuid":"a","state":"error","error":"Introspection timeout","started_at":"2026-11-20T20:35:26.405493Z","finished_at":"2026-11-20T20:36:00Z","manage_boot":true,"unprocessed":{"z":1,"a":"<é>"}}}
{"record":{"uuid":"b","state":"error","error":"ironic-inspector gave no reason","finished_at":"2026-11-20T20:36:00Z","manage_boot":false}}
{"record":{"uuid":"c","state":"waiting","started_at":"2026-11-20T20:35:26Z","manage_boot":false}}
{"record":{"uuid":"d","state":"finished","manage_boot":false,"unreadable":"its data is not valid JSON"}}
{"record":{"uuid":"e","state":"finished","manage_boot":false,"unreadable":"its data (processed=true) has 8388609 bytes, allowed are 8388608"}}
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &out, want)
	}
}

// TestOneRowThatCannotBeRead ends no export: it is named, so that 'load --skip' can leave it out.
func TestOneRowThatCannotBeRead(t *testing.T) {
	var out strings.Builder
	path := database(t,
		`INSERT INTO nodes (uuid, state, started_at, finished_at, error, manage_boot) VALUES
			('a', 'finished', '0000-00-00 00:00:00.000000', '2026-11-20 20:36:00', NULL, 1), ('b', 'error', NULL, '2026-11-20T20:36:00+00:00', 'x', 0),
			('c', 'finished', NULL, '2026-11-20 20:36:00', NULL, 0)`,
		`INSERT INTO introspection_data VALUES ('a', 0, '{}')`,
		`INSERT INTO rules VALUES ('1', '2026-11-20 20:00:01', NULL, 0, NULL), ('2', '2026-11-20 20:00:02', 'x', 0, NULL),
			('3', '2026-11-20 20:00:03', 'y', 0, NULL)`,
		`INSERT INTO rule_conditions (id, rule, op, multiple, field, params, invert) VALUES (1, '3', 'eq', 'any', 'x', '{', 0)`,
		`INSERT INTO rule_actions VALUES (1, '1', 'fail', '['), (2, '2', 'fail', '{}'), (3, '3', 'fail', '{}')`)
	if err := Export(t.Context(), urlOf(path), &out); err != nil {
		t.Errorf("one-row: %v", err)
	}
	want := `{"ironic_inspector":"sqlite ` + path + `","rules":3,"records":3}
{"rule":{"uuid":"1","unreadable":"an action: its parameters are no JSON object: unexpected end of JSON input"}}
{"rule":{"uuid":"2","description":"x","scope":null,"conditions":[],"actions":[{"action":"fail"}]}}
{"rule":{"uuid":"3","unreadable":"a condition: its parameters are no JSON object: unexpected end of JSON input"}}
{"record":{"uuid":"a","state":"finished","finished_at":"2026-11-20T20:36:00Z","manage_boot":true,"unreadable":"started_at is no time: \"0000-00-00 00:00:00.000000\""}}
{"record":{"uuid":"b","state":"error","error":"x","manage_boot":false,"unreadable":"finished_at is no time: \"2026-11-20T20:36:00+00:00\""}}
{"record":{"uuid":"c","state":"finished","finished_at":"2026-11-20T20:36:00Z","manage_boot":false}}
`
	if out.String() != want {
		t.Errorf("one-row: got\n%s\nwant\n%s", &out, want)
	}
}
