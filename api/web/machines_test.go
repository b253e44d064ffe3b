package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/boots"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/ironicports"
	"github.com/trivet-ha/trivet/inspector/ironic"
)

// machines of enrolled: 100 were introspected, 10 of which ended in error.
const machines = 120

// enrolled is a page whose Ironic has machines.
func enrolled(t *testing.T) *site {
	t.Helper()
	s := open(t, "noauth")
	ports := ironicports.PutPorts{Complete: true}
	for n := range machines {
		uuid := fmt.Sprintf("00000000-0000-4000-8000-%012d", n)
		s.ironic.nodes = append(s.ironic.nodes, ironic.NodeName{UUID: uuid, Name: fmt.Sprintf("Rack-%d", n)})
		ports.Ports = append(ports.Ports,
			ironicports.Port{ID: fmt.Sprint("p", n), MAC: fmt.Sprintf("52:54:00:00:01:%02x", n), Node: uuid})
		if n >= 100 {
			continue // never introspected
		}
		rec := introspection.ImportRecord{Node: uuid, State: introspection.NodeFinished, StartedMicros: int64(1e15 + n*1e6),
			FinishedMicros: int64(2e15 - n*1e6)}
		if n < 10 {
			rec.State, rec.Error = introspection.NodeError, fmt.Sprintf("%d "+strings.Repeat("é", 400), n)
		}
		packed, err := blobs.Pack(fmt.Appendf(nil, `{"inventory": {"bmc_address": "198.18.7.%d"}, "n": %d}`, n, n))
		if err != nil {
			t.Fatal(err)
		}
		rec.Unprocessed = packed
		s.commit(t, rec)
	}
	s.commit(t, ports)
	return s
}

// TestMachines: the table finds by each name that a machine has, in pages, and goes
// on with old names while Ironic is away.
func TestMachines(t *testing.T) {
	s := enrolled(t)
	for _, c := range []struct {
		query    string
		matching int
		first    string // end of its UUID
		rows     int
	}{
		{"", 120, "", 50},
		{"sort=started&desc=1", 120, "099", 50},
		{"sort=started&desc=1&page=2", 120, "", 20},
		{"sort=finished&state=finished", 90, "099", 50},
		{"sort=name&state=error", 10, "000", 10},
		{"q=rack-77", 1, "077", 1},
		{"q=RACK-77", 1, "077", 1},
		{"q=000000000077", 1, "077", 1},
		{"q=01:4d", 1, "077", 1},
		{"q=01-4D", 1, "077", 1},
		{"q=198.18.7.77", 1, "077", 1},
		{"q=198.18.7", 100, "", 50},
		{"state=never&sort=uuid", 20, "100", 20},
		{"state=never,error", 30, "", 30},
		{"q=nothing", 0, "", 0},
		{"q=rack&page=99", 120, "", 20},
	} {
		var got machineList
		w := (&visitor{t: t, at: s}).do("GET", "/ui/api/machines?"+c.query, "")
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%s: %d %s", c.query, w.Code, w.Body)
		}
		if got.Total != machines || got.Matching != c.matching || len(got.Rows) != c.rows || got.States["finished"] != 90 ||
			got.States["error"] != 10 || got.States[neverIntrospected] != 20 || got.Peer != "h2" || got.StaleMS != 4000 {
			t.Errorf("%s: %d of %d, %d rows, %v of %s, stale for %d", c.query, got.Matching, got.Total, len(got.Rows),
				got.States, got.Peer, got.StaleMS)
		}
		if c.first != "" && !strings.HasSuffix(got.Rows[0].UUID, c.first) {
			t.Errorf("%s: the first is %s, want …%s", c.query, got.Rows[0].UUID, c.first)
		}
		for _, row := range got.Rows {
			if len(row.Error) > maxShown+len("…") || len(row.MACs) != 1 {
				t.Errorf("%s: %+v", c.query, row)
			}
		}
	}
	for _, wrong := range []string{"sort=x", "page=-1", "page=x", "q=" + strings.Repeat("a", maxQuery+1)} {
		if w := (&visitor{t: t, at: s}).do("GET", "/ui/api/machines?"+wrong, ""); w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d", wrong, w.Code)
		}
	}
	if s.ironic.asked != 1 {
		t.Errorf("Ironic was asked %d times within %v", s.ironic.asked, namesAfter)
	}
	s.wall, s.ironic.err = s.wall.Add(namesAfter), errors.New("Ironic is away")
	var got machineList
	if err := json.Unmarshal((&visitor{t: t, at: s}).do("GET", "/ui/api/machines?q=rack-77&desc=1", "").Body.Bytes(),
		&got); err != nil || got.Matching != 1 || got.Problem == "" {
		t.Errorf("while Ironic is away: %+v, %v", got, err)
	}
}

// TestBMCAddresses: what is no document of a ramdisk has no address, and what was not
// read within the bound of one search is read by the next.
func TestBMCAddresses(t *testing.T) {
	for document, want := range map[string]string{
		`{"inventory": {"bmc_address": "2001:DB8::9"}}`: "2001:db8::9", `{"inventory": {}}`: "",
		`{"inventory": {"bmc_address": 7}}`: "error",
		`{"inventory": 3}`:                  "error", `[]`: "error", `{}`: "error",
	} {
		told, err := addressesOf([]byte(document))
		got := told.bmc
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%s: %q, want %q", document, got, want)
		}
	}
	s := open(t, "noauth")
	large := strings.Repeat("x", 6<<20)
	const documents = 8 // the bound is met with six
	for n := range documents {
		packed, err := blobs.Pack(fmt.Appendf(nil, `{"inventory": {"bmc_address": "198.18.7.%d"}, "n": %q}`, n, large))
		if err != nil {
			t.Fatal(err)
		}
		s.commit(t, introspection.ImportRecord{Node: fmt.Sprintf("00000000-0000-4000-8000-%012d", n),
			State: introspection.NodeFinished, FinishedMicros: 2e15, Unprocessed: packed})
	}
	for round, want := range []int{documents - 6, 0} {
		found, left := s.book.search(s.log.View(), "198.18.7.")
		if left != want || len(found) != documents-want {
			t.Errorf("search %d: %d found, %d left, want %d left", round, len(found), left, want)
		}
	}
}

// TestNames: a sentence has UUIDs of nodes, and the page shows each node's name beside its own.
func TestNames(t *testing.T) {
	s := enrolled(t)
	v := &visitor{t: t, at: s}
	ask := func(nodes ...string) map[string]string {
		t.Helper()
		var got nameList
		w := v.do("GET", "/ui/api/names?node="+strings.Join(nodes, ","), "")
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%v: %d %s", nodes, w.Code, w.Body)
		}
		return got.Names
	}
	const known, other, unknown = "00000000-0000-4000-8000-000000000077", "00000000-0000-4000-8000-000000000078",
		"ffffffff-0000-4000-8000-000000000077"
	want := map[string]string{known: "Rack-77", other: "Rack-78"}
	if got := ask(known, strings.ToUpper(unknown), other, "", "no-uuid"); !maps.Equal(got, want) {
		t.Errorf("names: %v, want %v", got, want)
	}
	s.wall, s.ironic.err = s.wall.Add(namesAfter), errors.New("Ironic is away")
	if got := ask(known); got[known] != "Rack-77" {
		t.Errorf("while Ironic is away: %v", got)
	}
	many := slices.Repeat([]string{known}, maxNamed+1)
	if w := v.do("GET", "/ui/api/names?node="+strings.Join(many, ","), ""); w.Code != http.StatusBadRequest {
		t.Errorf("%d names: %d", len(many), w.Code)
	}
}

// TestAddressesOutliveTheIntrospection: a record has its MACs only while the introspection is
// under way; afterwards the document has them, or what was heard of the boot.
func TestAddressesOutliveTheIntrospection(t *testing.T) {
	s := open(t, "noauth")
	node := func(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }
	packed, err := blobs.Pack([]byte(`{"inventory": {"bmc_address": "198.18.7.1", "interfaces": [
		{"mac_address": "52:54:00:00:00:0A"}, 7, {"mac_address": 7}, {"mac_address": "none"}, {"mac_address": "52:54:00:00:00:0b"}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	s.commit(t, introspection.ImportRecord{Node: node(1), State: introspection.NodeFinished, FinishedMicros: 2e15,
		Unprocessed: packed})
	s.commit(t, introspection.ImportRecord{Node: node(2), State: introspection.NodeError, FinishedMicros: 1e15,
		Error: "Introspection timeout"})
	s.commit(t, boots.Note{Heard: []boots.Heard{{Node: node(2), Step: boots.Step{Kind: boots.Asked,
		Times: boots.Times{FirstMillis: 1, LastMillis: 1, Count: 1}, Peer: "a", MAC: "52:54:00:00:00:0c"}}}})
	var got machineList
	w := (&visitor{t: t, at: s}).do("GET", "/ui/api/machines?sort=uuid", "")
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || len(got.Rows) != 2 {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	for i, want := range []machine{{MACs: []string{"52:54:00:00:00:0a", "52:54:00:00:00:0b"}, BMC: []string{"198.18.7.1"}},
		{MACs: []string{"52:54:00:00:00:0c"}}} {
		if row := got.Rows[i]; !slices.Equal(row.MACs, want.MACs) || !slices.Equal(row.BMC, want.BMC) {
			t.Errorf("addresses-after-the-end: row %d has %v, BMC %v, want %v, BMC %v", i, row.MACs, row.BMC, want.MACs,
				want.BMC)
		}
	}
}

// TestFailedMachinesHaveARemedy: what a machine failed for stands with what to do about it, the
// finding of its boot first.
func TestFailedMachinesHaveARemedy(t *testing.T) {
	s := enrolled(t)
	uuid := func(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }
	heard := &api.Boot{
		Findings: []api.BootFinding{{Text: "no server offered it one", Remedy: "look at dnsmasq"}, {Text: "later"}}}
	s.boots = map[string]*api.Boot{uuid(200): heard, uuid(201): {}, uuid(202): heard, uuid(50): heard}
	for i, reason := range []string{"Introspection timeout", "Introspection timeout", "Canceled by operator"} {
		s.commit(t, introspection.ImportRecord{Node: uuid(200 + i), State: introspection.NodeError, FinishedMicros: 1e15,
			Error: reason})
	}
	var got machineList
	w := (&visitor{t: t, at: s}).do("GET", "/ui/api/machines?sort=uuid&state=error,finished&desc=1", "")
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || len(got.Rows) != pageSize {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	for _, row := range got.Rows {
		want := ""
		switch row.UUID {
		case uuid(200):
			want = "no server offered it one: look at dnsmasq"
		case uuid(201):
			want = ": the machine did not call in time"
		case uuid(202):
			want = ": an operator aborted it"
		}
		said := ""
		if row.Why != nil {
			said = row.Why.Finding + ": " + row.Why.Remedy
		}
		if (said == "") != (want == "") || !strings.HasPrefix(said, want) {
			t.Errorf("remedy-of-a-failed-machine: %s is %s: %q, want %q", row.UUID, row.State, said, want)
		}
	}
	w = (&visitor{t: t, at: s}).do("GET", "/ui/api/machines?sort=uuid&state=error", "")
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got.Rows[0].Why == nil ||
		!strings.Contains(got.Rows[0].Why.Remedy, "trivet introspection start Rack-0") {
		t.Errorf("remedy-of-a-failed-machine: of any other error: %+v, %v", got.Rows[0].Why, err)
	}
}
