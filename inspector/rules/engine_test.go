package rules

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/inspector/ironic"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/ruleset"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/document"
)

const nodeID = "00000000-0000-4000-8000-000015000000"

// room is an Ironic with one node, which keeps a diary of what is asked of it.
type room struct {
	inspector.Ironic // nothing else is called
	whole            map[string]any
	calls            []string
	err              error // of each change
}

func newRoom(t testing.TB, node string) *room {
	t.Helper()
	r := &room{}
	d := json.NewDecoder(strings.NewReader(node))
	d.UseNumber()
	if err := d.Decode(&r.whole); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *room) note(format string, args ...any) error {
	r.calls = append(r.calls, fmt.Sprintf(format, args...))
	return r.err
}

func (r *room) node() ironic.Node {
	n := ironic.Node{UUID: nodeID}
	n.Properties, _ = r.whole["properties"].(map[string]any)
	return n
}

func (r *room) NodeWhole(context.Context, string) (map[string]any, error) {
	r.calls = append(r.calls, "whole")
	return r.whole, nil
}

func (r *room) patch(how string, patch []ironic.Patch) (ironic.Node, error) {
	text, err := json.Marshal(patch)
	if err != nil {
		return ironic.Node{}, err
	}
	if err := r.note("%s %s", how, text); err != nil {
		return ironic.Node{}, err
	}
	for _, p := range patch { // adds and replaces, as Ironic keeps them
		var value any
		if err := json.Unmarshal(p.Value.(json.RawMessage), &value); err != nil {
			return ironic.Node{}, err
		}
		name, key, nested := strings.Cut(strings.TrimPrefix(p.Path, "/"), "/")
		if !nested {
			r.whole[name] = value
			continue
		}
		inside, _ := r.whole[name].(map[string]any)
		if inside == nil {
			inside = map[string]any{}
		}
		inside[key] = value
		r.whole[name] = inside
	}
	return r.node(), nil
}

func (r *room) PatchNode(_ context.Context, _ string, patch []ironic.Patch) (ironic.Node, error) {
	return r.patch("patch", patch)
}

func (r *room) PatchDriver(_ context.Context, _ string, patch []ironic.Patch) (ironic.Node, error) {
	return r.patch("patch and reset", patch)
}

func (r *room) AddTrait(_ context.Context, _, name string) error { return r.note("add trait %s", name) }

func (r *room) RemoveTrait(_ context.Context, _, name string) error {
	return r.note("remove trait %s", name)
}

func (r *room) task(t testing.TB, data string) *inspector.Task {
	t.Helper()
	parsed, err := document.Parse([]byte(data))
	if err != nil {
		t.Fatal(err)
	}
	return inspector.NewTask(parsed, r.node(), r)
}

// stateWith is a state with rules, as clients write them.
func stateWith(t testing.TB, rules ...string) fsm.View {
	t.Helper()
	state := fsm.New()
	create(t, state, rules...)
	return state.View()
}

func create(t testing.TB, state *fsm.State, rules ...string) {
	t.Helper()
	for _, body := range rules {
		d, err := Parse([]byte(body))
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		index := state.View().Index() + 1
		if d.UUID == "" {
			d.UUID = fmt.Sprintf("11111111-1111-4111-8111-%012d", index)
		}
		data, err := fsm.Encode(fsm.Header{}, ruleset.Create{UUID: d.UUID, Body: d.Body})
		if err != nil {
			t.Fatal(err)
		}
		if res := state.Apply(fsm.Entry{Index: index, Term: 1, Data: data}); res.Code != fsm.OK {
			t.Fatal(res.Message)
		}
	}
}

// applied returns what rules asked of Ironic.
func applied(t testing.TB, r *room, data string, rules ...string) ([]string, error) {
	t.Helper()
	err := NewEngine().Apply(t.Context(), stateWith(t, rules...), r.task(t, data))
	return r.calls, err
}

const plainNode = `{"uuid":"` + nodeID +
	`","instance_uuid":null,"maintenance":false,"provision_state":"manageable","driver":"fake-hardware","properties":{"capabilities":"a:1,b:2"},"extra":{"l":["one"],"keep":1},"traits":[]}`

const ramdiskData = `{"inventory":{"bmc_address":"198.18.21.1","disks":[{"serial":"SLAB000100"}],"interfaces":[{"name":"eth0"},{"name":"lo"}]},"cpus":8,"cpu_arch":"x86_64","memory_mb":65536}`

// All that the recorded rule does, in the order of the recorded calls.
func TestActionsAsRecorded(t *testing.T) {
	calls, err := applied(t, newRoom(t, plainNode), ramdiskData, `{"actions":[
		{"action":"set-attribute","path":"/extra/bmc","value":"{data[inventory][bmc_address]}"},
		{"action":"set-attribute","path":"extra/noslash","value":"ok"},
		{"action":"set-attribute","path":"/extra/int","value":5},
		{"action":"set-attribute","path":"/extra/fmtint","value":"{data[cpus]}"},
		{"action":"set-attribute","path":"/extra/deep","value":{"k-{data[cpu_arch]}":["{data[inventory][disks][0][serial]}",7,null,true]}},
		{"action":"set-attribute","path":"/extra/spec","value":"{data[memory_mb]:>8}|{{literal}}"},
		{"action":"set-attribute","path":"/extra/null","value":null},
		{"action":"set-capability","name":"b","value":"22"},
		{"action":"set-capability","name":"c","value":"{data[cpu_arch]}"},
		{"action":"set-capability","name":"a"},
		{"action":"extend-attribute","path":"/extra/l","value":"two"},
		{"action":"extend-attribute","path":"/extra/l","value":"two","unique":true},
		{"action":"extend-attribute","path":"/extra/l","value":"two"},
		{"action":"extend-attribute","path":"/extra/newl","value":"{data[cpus]}"},
		{"action":"add-trait","name":"CUSTOM_NEW"},
		{"action":"remove-trait","name":"CUSTOM_OLD"},
		{"action":"set-attribute","path":"/resource_class","value":"baremetal"},
		{"action":"set-attribute","path":"/driver","value":"fake-hardware"},
		{"action":"set-attribute","path":"driver","value":"fake","reset_interfaces":false},
		{"action":"example"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	calls = slices.DeleteFunc(calls, func(c string) bool { return c == "whole" })
	want := []string{
		`patch [{"op":"add","path":"/extra/bmc","value":"198.18.21.1"}]`,
		`patch [{"op":"add","path":"/extra/noslash","value":"ok"}]`,
		`patch [{"op":"add","path":"/extra/int","value":5}]`,
		`patch [{"op":"add","path":"/extra/fmtint","value":"8"}]`,
		`patch [{"op":"add","path":"/extra/deep","value":{"k-x86_64":["SLAB000100",7,null,true]}}]`,
		`patch [{"op":"add","path":"/extra/spec","value":"   65536|{literal}"}]`,
		`patch [{"op":"add","path":"/extra/null","value":null}]`,
		`patch [{"op":"add","path":"/properties/capabilities","value":"a:1,b:22"}]`,
		`patch [{"op":"add","path":"/properties/capabilities","value":"a:1,b:22,c:x86_64"}]`,
		`patch [{"op":"add","path":"/properties/capabilities","value":"b:22,c:x86_64"}]`,
		`patch [{"op":"replace","path":"/extra/l","value":["one","two"]}]`,
		`patch [{"op":"replace","path":"/extra/l","value":["one","two","two"]}]`,
		`patch [{"op":"add","path":"/extra/newl","value":["8"]}]`,
		`add trait CUSTOM_NEW`, `remove trait CUSTOM_OLD`,
		`patch [{"op":"add","path":"/resource_class","value":"baremetal"}]`,
		`patch and reset [{"op":"add","path":"/driver","value":"fake-hardware"}]`,
		`patch [{"op":"add","path":"/driver","value":"fake"}]`,
	}
	if !slices.Equal(calls, want) {
		t.Errorf("asked\n%s\nwant\n%s", strings.Join(calls, "\n"), strings.Join(want, "\n"))
	}
}

func setting(key string) string {
	return `"actions":[{"action":"set-attribute","path":"/extra/` + key + `","value":"` + key + `"}]`
}

// set returns which rules of setting were carried out.
func set(t testing.TB, calls []string) (keys []string) {
	t.Helper()
	for _, call := range calls {
		if _, rest, ok := strings.Cut(call, `"/extra/`); ok {
			key, _, _ := strings.Cut(rest, `"`)
			keys = append(keys, key)
		}
	}
	return keys
}

func TestScope(t *testing.T) {
	rules := []string{
		`{"scope":"gold",` + setting("gold") + `}`, `{"scope":"silver",` + setting("silver") + `}`,
		`{` + setting("all") + `}`, `{"scope":"",` + setting("empty") + `}`,
	}
	for node, want := range map[string][]string{
		`{"properties":{"inspection_scope":"gold"}}`: {"gold", "all", "empty"},
		`{"properties":{"inspection_scope":5}}`:      {"all", "empty"},
		`{"properties":{}}`:                          {"all", "empty"},
	} {
		calls, err := applied(t, newRoom(t, node), `{}`, rules...)
		if got := set(t, calls); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: the rules %v were carried out, want %v (%v)", node, got, want, err)
		}
	}
}

// No rule sees what another one of the same run wrote.
func TestRulesDoNotSeeEachOther(t *testing.T) {
	r := newRoom(t, plainNode)
	calls, err := applied(t, r, `{}`,
		`{"actions":[{"action":"set-attribute","path":"/extra/order","value":"second"}]}`,
		`{"conditions":[{"op":"eq","field":"node://extra.order","value":"second"}],`+setting("sees_previous")+`}`,
		`{"conditions":[{"op":"is-empty","field":"node://extra.order"}],`+setting("sees_none")+`}`)
	if got := set(t, calls); err != nil || !slices.Equal(got, []string{"order", "sees_none"}) {
		t.Errorf("a rule saw what another one wrote: %v (%v)", got, err)
	}
	if n := len(slices.DeleteFunc(slices.Clone(calls), func(c string) bool { return c != "whole" })); n != 1 {
		t.Errorf("the node was asked for %d times", n)
	}
}

func TestConditions(t *testing.T) {
	for _, c := range []struct {
		condition string
		holds     bool
	}{
		{`"op":"eq","field":"cpus","value":8`, true},
		{`"op":"eq","field":"data://cpus","value":"8"`, false},
		{`"op":"ne","field":"cpus","value":8,"invert":true`, true},
		{`"op":"eq","field":"nothing","value":8`, false},
		{`"op":"eq","field":"nothing","value":8,"invert":true`, false},
		{`"op":"is-empty","field":"nothing"`, true},
		{`"op":"is-empty","field":"nothing","invert":true`, false},
		{`"op":"eq","field":"inventory.interfaces[*].name","value":"lo"`, true},
		{`"op":"eq","field":"inventory.interfaces[*].name","value":"lo","multiple":"first"`, false},
		{`"op":"eq","field":"inventory.interfaces[*].name","value":"lo","multiple":"all"`, false},
		{`"op":"eq","field":"inventory.interfaces[*].name","value":"lo","multiple":"all","invert":true`, false},
		{`"op":"eq","field":"inventory.interfaces[*].name","value":"x","multiple":"all","invert":true`, true},
		{`"op":"eq","field":"inventory.interfaces[*].name","value":"lo","invert":true`, true}, // any of the inverted
		{`"op":"matches","field":"inventory.interfaces[*].name","value":"eth\\d"`, true},
		{`"op":"contains","field":"$","value":"SLAB"`, true},
		{`"op":"in-net","field":"inventory.bmc_address","value":"198.18.0.0/15"`, true},
		{`"op":"is-empty","field":"node://instance_id"`, true},
		{`"op":"eq","field":"node://id","value":"` + nodeID + `"`, true},
		{`"op":"eq","field":"node://uuid","value":"` + nodeID + `"`, false},
		{`"op":"eq","field":"node://is_maintenance","value":false`, true},
		{`"op":"is-empty","field":"node://maintenance"`, true},
		{`"op":"is-empty","field":"node://owner"`, true},
		{`"op":"eq","field":"node://properties.capabilities","value":"a:1,b:2"`, true},
		{`"op":"contains","field":"node://traits","value":"^\\[\\]$"`, true},
	} {
		calls, err := applied(t, newRoom(t, plainNode), ramdiskData, `{"conditions":[{`+c.condition+`}],`+setting("x")+`}`)
		if got := len(set(t, calls)) == 1; err != nil || got != c.holds {
			t.Errorf("%s: %v, want %v (%v)", c.condition, got, c.holds, err)
		}
	}
}

func TestFailures(t *testing.T) {
	for _, c := range []struct{ rule, problem, class string }{
		{`{"actions":[{"action":"fail","message":"boom {data[x]}"},` + setting("later")[len(`"actions":[`):] + `}`,
			"boom {data[x]}", ""},
		{`{"actions":[{"action":"fail","message":["boom",1]}]}`, "['boom', 1]", ""},
		{`{"conditions":[{"op":"eq","field":"cpu_arch","value":1}],` + setting("x") + `}`,
			"invalid literal for int() with base 10: 'x86_64'", "ValueError"},
		{`{"conditions":[{"op":"lt","field":"cpu_arch","value":[]}],` + setting("x") + `}`,
			"'<' not supported between instances of 'str' and 'list'", "TypeError"},
		{`{"conditions":[{"op":"eq","field":"cpus[0]","value":1}],` + setting("x") + `}`, "object of type 'int' has no len()",
			"TypeError"},
		{`{"conditions":[{"op":"in-net","field":"cpu_arch","value":"10.0.0.0/8"}],` + setting("x") + `}`,
			"failed to detect a valid IP address from 'x86_64'", "AddrFormatError"},
		{`{"actions":[{"action":"set-attribute","path":"/a","value":"{data[nope][x]}"}]}`,
			"Invalid formatting variable key provided in value {data[nope][x]}: 'nope'", ""},
		{`{"actions":[{"action":"extend-attribute","path":"/driver/x","value":1}]}`,
			"string indices must be integers, not 'str'", "TypeError"},
		{`{"actions":[{"action":"extend-attribute","path":"/driver","value":1}]}`, "'str' object has no attribute 'append'",
			"AttributeError"},
		{`{"actions":[{"action":"extend-attribute","path":"/instance_info/x","value":1}]}`,
			"'NoneType' object is not subscriptable", "TypeError"},
	} {
		calls, err := applied(t, newRoom(t, plainNode), ramdiskData, c.rule)
		var problem *document.Problem
		var exception *document.Exception
		switch {
		case c.class == "" && (!errors.As(err, &problem) || problem.Text != c.problem):
			t.Errorf("%s: %v, want the problem %s", c.rule, err, c.problem)
		case c.class != "" && (!errors.As(err, &exception) || exception.Class != c.class || exception.Text != c.problem):
			t.Errorf("%s: %v, want %s: %s", c.rule, err, c.class, c.problem)
		}
		if got := set(t, calls); len(got) != 0 {
			t.Errorf("%s: %v was done", c.rule, got)
		}
	}
}

// What Ironic says ends the run as it is.
func TestIronicFails(t *testing.T) {
	r := newRoom(t, plainNode)
	r.err = &ironic.Error{Status: 409, Message: "locked"}
	if _, err := applied(t, r, `{}`, `{`+setting("x")+`}`, `{`+setting("y")+`}`); !errors.Is(err, r.err) ||
		len(r.calls) != 1 {
		t.Errorf("%v after %v", err, r.calls)
	}
}

// Rules are compiled once for each version of them, and any number of workers
// may use them at once.
func TestEngineFollowsTheRules(t *testing.T) {
	e, state := NewEngine(), fsm.New()
	run := func() []string {
		r := newRoom(t, plainNode)
		if err := e.Apply(t.Context(), state.View(), r.task(t, ramdiskData)); err != nil {
			t.Error(err)
		}
		return set(t, r.calls)
	}
	if got := run(); len(got) != 0 {
		t.Errorf("without rules: %v", got)
	}
	create(t, state, `{`+setting("a")+`}`,
		`{"conditions":[{"op":"eq","field":"inventory.disks[*].serial","value":["x"],"invert":true}],"actions":[{"action":"set-attribute","path":"/extra/b","value":{"a":["{data[cpus]}",1,{"c":2.5}]}}]}`)
	first := e.version
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			if got := run(); !slices.Equal(got, []string{"a", "b"}) {
				t.Errorf("%v", got)
			}
		})
	}
	workers.Wait()
	if e.version == first || len(e.compiled) != 2 {
		t.Error("the rules were not compiled")
	}
	kept := &e.compiled[0]
	run()
	if &e.compiled[0] != kept {
		t.Error("the same rules were compiled twice")
	}
	create(t, state, `{`+setting("c")+`}`)
	if got := run(); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("a new rule is not carried out: %v", got)
	}
}

// Rules that take too long are told apart from an Ironic that does.
func TestTimeIsBounded(t *testing.T) {
	e := &Engine{limit: time.Nanosecond}
	r := newRoom(t, plainNode)
	err := e.Apply(t.Context(),
		stateWith(t, `{"description":"slow","conditions":[{"op":"is-empty","field":"a"}],`+setting("x")+`}`), r.task(t, `{}`))
	var problem *document.Problem
	if !errors.As(err, &problem) || !strings.Contains(problem.Text, "slow") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := NewEngine().Apply(ctx, stateWith(t, `{"conditions":[{"op":"is-empty","field":"a"}],`+setting("x")+`}`),
		r.task(t, `{}`)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Whatever a rule looks for in whatever a ramdisk sends, it ends soon and with a
// reason.
func TestHostileRulesAndData(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 98) + "1" + strings.Repeat("}", 98)
	wide := `{"a":[` + strings.Repeat(`[],`, 600_000) + `[]]}`
	long := `{"a":"` + strings.Repeat("a", 4<<20) + `"}`
	digits := `{"a":` + strings.Repeat("9", 100_000) + `}`
	for name, c := range map[string]struct{ data, condition, want string }{
		"nested descents": {deep, `"op":"is-empty","field":"$..*..*..*..a"`, "A path"},
		"too many values": {wide, `"op":"is-empty","field":"a[*]"`, "values for rules to look at"},
		"long text": {long, `"op":"contains","field":"a","value":"(a|b){50}(a|c){50}$x"`,
			"too many for the pattern"},
		"long text printed":     {long, `"op":"contains","field":"$","value":"x"`, "too many for"},
		"a huge number":         {digits, `"op":"eq","field":"a","value":1`, "Exceeds the limit (4300 digits)"},
		"a huge number as text": {digits, `"op":"contains","field":"a","value":"9"`, "Exceeds the limit (4300 digits)"},
	} {
		synctest.Test(t, func(t *testing.T) { // no time passes: the work is bounded, not only by decideLimit
			_, err := applied(t, newRoom(t, plainNode), c.data, `{"conditions":[{`+c.condition+`}],`+setting("x")+`}`)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %s", name, err, c.want)
			}
		})
	}
}

// A stored rule that this version does not take, of an older or newer one, fails
// the introspections in its scope and names itself; it fails nothing else.
func TestAStoredRuleThatCannotBeUsed(t *testing.T) {
	const withPattern = `{"actions":[{"action":"example"}],"conditions":[{"op":"contains","field":"a","value":"a(?!b)","invert":false,"multiple":"any"}],"description":"x","scope":null}`
	for body, want := range map[string]string{
		`{"actions":[{"action":"new"}],"conditions":[],"description":null,"scope":null}`:                                                                          "'new' is not one of",
		`{"actions":[{"action":"set-attribute","path":"/a","value":["{data[cpus]:04x}"]}],"conditions":[],"description":null,"scope":null}`:                       "{data[cpus]:04x}",
		`{"actions":[{"action":"example"}],"conditions":[{"op":"eq","field":"a[1:]","value":1,"invert":false,"multiple":"any"}],"description":null,"scope":null}`: "[1:]",
		withPattern: "(?!",
		`{"actions":[{"action":"example"}],"conditions":[],"description":null,"scope":["gold"]}`: "Invalid scope",
		strings.Replace(withPattern, `"scope":null`, `"scope":"gold"`, 1):                        "(?!",
		strings.Replace(withPattern, `"scope":null`, `"scope":"silver"`, 1):                      "",
	} {
		state := fsm.New()
		create(t, state, `{`+setting("x")+`}`)
		data, err := fsm.Encode(fsm.Header{}, ruleset.Create{UUID: nodeID, Body: []byte(body)})
		if err != nil {
			t.Fatal(err)
		}
		if res := state.Apply(fsm.Entry{Index: 2, Term: 1, Data: data}); res.Code != fsm.OK {
			t.Fatal(res.Message)
		}
		r := newRoom(t, `{"properties":{"inspection_scope":"gold"}}`)
		err = NewEngine().Apply(t.Context(), state.View(), r.task(t, ramdiskData))
		var problem *document.Problem
		switch {
		case want == "" && (err != nil || len(r.calls) != 1):
			t.Errorf("outside of its scope, %s: %v after %v", body, err, r.calls)
		case want != "" && (!errors.As(err, &problem) || !strings.Contains(problem.Text, "Rule "+nodeID+" cannot be used") ||
			!strings.Contains(problem.Text, want) || len(r.calls) != 0):
			t.Errorf("a stored rule that cannot be used, %s: %v after %v, want %s", body, err, r.calls, want)
		}
	}
}
