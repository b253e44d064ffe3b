package waits

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/kubestate"
	"github.com/trivet-ha/trivet/fsm/relays"
)

const (
	begin = "<!-- waits:begin -->\n"
	end   = "<!-- waits:end -->\n"
)

// The page lists what the table has, in its words. UPDATE_GOLDEN=1 writes it again.
func TestPageListsTheTable(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "waits.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	table, after, ends := strings.Cut(rest, end)
	if !found || !ends {
		t.Fatalf("%s has no table between %s and %s", path, begin, end)
	}
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, []byte(before+begin+markdown()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if table != markdown() {
		t.Errorf("waits-page: docs/waits.md does not list what the code has (UPDATE_GOLDEN=1 go test ./app/waits -run "+
			"TestPageListsTheTable renews it):\n%s", markdown())
	}
}

// told says by which kinds it is told what waits in each table of the state, or why nothing does. A
// table that is new has to be judged here.
var told = map[string]string{
	"hash": "no table", "cluster": "keys and identity", "position": "how far the log is applied",
	"leadership": "leadership/*", "requests": "results that are kept for repeats", "documents": "what others refer to",
	"members": "member/*", "sessions": "member/*", "member_flags": "maintenance*", "former_members": "former/*",
	"removed_peers": "member/*", "gossip_keys": "gossip/*", "progress": "what members have acknowledged",
	"join_tokens": "permissions that may be used, and end by themselves", "operators": "revocations",
	"nodes": "introspection/*", "queue": "introspection/*", "claims": "introspection/*", "throttle": "introspection/*",
	"inspected": "introspection/*", "inspected_until": "how long what is inspected is let in, if it is not read again",
	"boots": "introspection/*", "relays": "relay/*", "rules": "texts",
	"expectations": "what was ordered", "verdicts": "how machines were judged", "expectation_deleted_last": "a moment",
	"sync": "nodes/*", "port_sync": "ports/*", "ports": "ports/*", "pull": "ports/*", "doors": "pxe/*",
	"leases": "their holders are programs of others", "values": "of leases", "groups": "of leases",
	"settings": "notes of operators", "deliveries": "receiver/*", "zones": "choices that are made",
	"events": "what has happened", "boot_events": "what has happened",
	"kube_nodes": "what was seen of kube nodes", "votes": "opinions of peers",
	"remediations": "remediation/*", "pauses": "failover/*", "holds": "failover/*",
}

// Every state that a record of the log can stay in has its kind.
func TestStatesHaveKinds(t *testing.T) {
	var names []string
	for _, k := range Kinds() {
		if slices.Contains(names, k.Name) {
			t.Errorf("kind %s is there twice", k.Name)
		}
		if k.For == "" || k.Then == "" || k.Do == "" {
			t.Errorf("kind %s does not say all", k.Name)
		}
		names = append(names, k.Name)
	}
	has := func(kind string) {
		if !slices.Contains(names, kind) {
			t.Errorf("waits-states: a state has no kind %s", kind)
		}
	}
	for s := introspection.NodeState(1); ; s++ {
		if _, known := introspection.ParseNodeState(s.String()); !known {
			break
		}
		if s.Active() {
			has("introspection/" + s.String())
		}
	}
	for s := kubestate.RemIntent; s <= kubestate.RemStuck; s++ {
		if !s.Ended() {
			has("remediation/" + s.String())
		}
	}
	has("relay/" + relays.Pending.String())
}

// Every table of the state is told by kinds, or does not wait.
func TestTablesAreTold(t *testing.T) {
	var b strings.Builder
	if err := fsm.New().View().Dump(&b); err != nil {
		t.Fatal(err)
	}
	var tables map[string]json.RawMessage
	if err := json.Unmarshal([]byte(b.String()), &tables); err != nil {
		t.Fatal(err)
	}
	for name := range tables {
		why, judged := told[name]
		if !judged {
			t.Errorf("waits-tables: what waits in table %s of the state is not judged", name)
			continue
		}
		if prefix, kinds := strings.CutSuffix(why, "*"); kinds && !slices.ContainsFunc(Kinds(), func(k Kind) bool {
			return strings.HasPrefix(k.Name, prefix)
		}) {
			t.Errorf("waits-tables: table %s is told by %s, which are not there", name, why)
		}
	}
	for name := range told {
		if _, there := tables[name]; !there && name != "hash" {
			t.Errorf("waits-tables: there is no table %s", name)
		}
	}
}

// A hundred things that wait are fifty lines and a number; those that wait for the same are one.
func TestListIsBounded(t *testing.T) {
	l := list{at: make(map[string]int)}
	for i := range 2 * MaxListed {
		l.add(api.Wait{Subject: fmt.Sprint(i), Count: 1}, fmt.Sprint("group ", i))
		l.add(api.Wait{Subject: fmt.Sprint(i), Count: 1}, "all")
	}
	// "all" took the place of one line.
	if len(l.all) != MaxListed || l.more != MaxListed+1 || l.all[1].Count != 2*MaxListed || l.all[1].Subject != "0" {
		t.Errorf("waits-bound: %d lines, %d more, of all %+v", len(l.all), l.more, l.all[1])
	}
}

// markdown is the table of docs/waits.md. What a row shares with the row above it is told there.
func markdown() string {
	var b strings.Builder
	b.WriteString("| kind | waits for | until | then, or what ends it | do |\n|---|---|---|---|---|\n")
	var above [3]string
	for _, k := range Kinds() {
		limit := k.Limit
		if limit == "" {
			limit = "–"
		}
		do := k.Do
		if k.Warning != "" {
			do += " (warning `" + k.Warning + "`)"
		}
		cells := [...]string{limit, k.Then, do}
		row := cells
		for i := range row {
			if row[i] == above[i] && row[i] != "–" {
				row[i] = "″"
			}
		}
		above = cells
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", k.Name, k.For, row[0], row[1], row[2])
	}
	return b.String()
}
