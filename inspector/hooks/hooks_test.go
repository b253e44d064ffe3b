package hooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/document"
	"github.com/trivet-ha/trivet/inspector/ironic"
)

const nodeA = "00000000-0000-4000-8000-000006000000"

func parsed(t testing.TB, text string) *document.Document {
	t.Helper()
	d, err := document.Parse([]byte(text))
	if err != nil {
		t.Fatalf("parse %.200s: %v", text, err)
	}
	return d
}

// member returns a top-level value as compact JSON, "" if there is none.
func member(t testing.TB, d *document.Document, key string) string {
	t.Helper()
	members, err := document.Checked(d.JSON()).Members()
	if err != nil {
		t.Fatal(err)
	}
	return string(members.Get(key).Raw())
}

// wantProblem checks that err is a Problem with a text; "" wants no error.
func wantProblem(t testing.TB, err error, want string) {
	t.Helper()
	var problem *document.Problem
	switch {
	case want == "" && err != nil:
		t.Errorf("got %v, want success", err)
	case want != "" && (!errors.As(err, &problem) || problem.Text != want):
		t.Errorf("got %v\nwant the problem %s", err, want)
	}
}

// fakeIronic is an inspector.Ironic that records what is written to it. Calls whose
// line is in faults fail.
type fakeIronic struct {
	inspector.Ironic // what no hook may call
	node             ironic.Node
	ports            []ironic.Port
	faults           map[string]error
	calls            []string
}

func (i *fakeIronic) call(format string, args ...any) error {
	line := fmt.Sprintf(format, args...)
	i.calls = append(i.calls, line)
	return i.faults[line]
}

func (i *fakeIronic) PatchNode(_ context.Context, node string, patch []ironic.Patch) (ironic.Node, error) {
	return i.node, i.call("PATCH node %s", asJSON(patch))
}

func (i *fakeIronic) Ports(context.Context, string) ([]ironic.Port, error) {
	return slices.Clone(i.ports), i.call("GET ports")
}

func (i *fakeIronic) CreatePort(_ context.Context, p ironic.Port) (ironic.Port, error) {
	err := i.call("POST port %s", asJSON(p))
	p.UUID = "port-" + p.Address
	return p, err
}

func (i *fakeIronic) PatchPort(_ context.Context, port string, patch []ironic.Patch) error {
	return i.call("PATCH %s %s", port, asJSON(patch))
}

func (i *fakeIronic) DeletePort(_ context.Context, port string) error {
	return i.call("DELETE %s", port)
}

func asJSON(value any) string {
	raw, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// wantCalls compares what Ironic was asked.
func wantCalls(t testing.TB, i *fakeIronic, want ...string) {
	t.Helper()
	if !slices.Equal(i.calls, want) {
		t.Errorf("Ironic was asked\n%s\nwant\n%s", strings.Join(i.calls, "\n"), strings.Join(want, "\n"))
	}
}

func defaults() config.Inspection { return config.Default().Inspection }

// chosen is a configuration of certain hooks.
func chosen(names ...string) config.Inspection {
	return config.Inspection{Processing: config.Processing{Hooks: names}}
}

func TestTheDefaultHooksExist(t *testing.T) {
	conf := defaults()
	made, err := New(conf)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, h := range made {
		_, before := h.(inspector.Before)
		_, after := h.(inspector.After)
		if got = append(got, h.Name()); !before && !after {
			t.Errorf("%s does nothing", h.Name())
		}
	}
	if !slices.Equal(got, conf.Processing.Hooks) {
		t.Errorf("made %q of %q", got, conf.Processing.Hooks)
	}
}

func TestHooksStandInOrder(t *testing.T) {
	names := Names()
	if !slices.IsSorted(names) {
		t.Error("the table is out of order")
	}
	conf := defaults()
	conf.Processing.Hooks = names
	made, err := New(conf)
	if err != nil {
		t.Fatal(err)
	}
	for i, h := range made {
		if h.Name() != names[i] {
			t.Errorf("%s is called %s once it is configured", names[i], h.Name())
		}
	}
}

func TestNewKeepsTheOrder(t *testing.T) {
	made, err := New(chosen("validate_interfaces", "ramdisk_error"))
	if err != nil || len(made) != 2 || made[0].Name() != "validate_interfaces" {
		t.Errorf("%v, %v", made, err)
	}
	if made, err := New(chosen()); err != nil || len(made) != 0 {
		t.Errorf("none: %v, %v", made, err)
	}
}

func TestUnknownHooks(t *testing.T) {
	_, err := New(chosen("lldp", "scheduler", "examples"))
	want := `inspection.processing.processing_hooks: there is no hook "lldp", "examples"; take some of ` +
		strings.Join(Names(), ", ")
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}

// FuzzBefore gives every hook there is anything at all. What they refuse is the
// data's problem, in words of bounded length.
func FuzzBefore(f *testing.F) {
	for _, seed := range []string{
		`{}`, sample, `{"error": [1, "x"], "inventory": {"interfaces": [{"name": "e", "mac_address": 5}]}}`,
		`{"inventory": {"interfaces": [null]}, "error": 0e5, "boot_interface": "-"}`,
		`{"inventory": {"interfaces": [{"name": "e", "mac_address": "52:54:00:00:00:01", "ipv4_address": "192.0.2.1"}], "cpu": {"count": 8, "architecture": "x86_64", "flags": ["vmx"]}, "boot": {"current_boot_mode": "uefi"},
			"disks": ` + labDisks + `}, "root_disk": {"size": 5}, "pci_devices": [{"vendor_id": "8086", "product_id": "1572", "bus": "b"}], "data": [["a", "b", "c", "4"]], "block_devices": {"serials": ["a"]}}`,
		`{"inventory": {"interfaces": [{"name": "'\u0000\"", "mac_address": "52:54:00:00:00:01", "ipv6_address": "fe80::1%"}], "bmc_address": {}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, add := range []string{"pxe", "active", "all", "disabled"} {
			checkBefore(t, raw, add)
		}
	})
}

func checkBefore(t *testing.T, raw []byte, add string) {
	t.Helper()
	d, err := document.Parse(raw)
	if err != nil {
		return
	}
	conf := defaults()
	conf.Processing.Hooks = Names()
	conf.Processing.AddPorts, conf.Processing.KeepPorts = add, "present"
	conf.HookOptions.Capabilities.BootMode, conf.HookOptions.PCIAlias = true, []string{"8086:1572:x710"}
	made, err := New(conf)
	if err != nil {
		t.Fatal(err)
	}
	failed := false
	for _, h := range made {
		if h, ok := h.(inspector.Before); ok {
			err := h.Before(t.Context(), d)
			var problem *document.Problem
			if failed = failed || err != nil; err != nil && (!errors.As(err, &problem) || len(problem.Text) > maxText+200) {
				t.Fatalf("%q: %v", raw, err)
			}
		}
	}
	if failed {
		return
	}
	i := &fakeIronic{node: ironic.Node{UUID: nodeA, Properties: map[string]any{
		"root_device":        map[string]any{"size": "< 100", "serial": "<in> a"},
		"skip_block_devices": []any{map[string]any{"rotational": true}},
	}}}
	for _, h := range made {
		if h, ok := h.(inspector.After); ok {
			err := h.After(t.Context(), inspector.NewTask(d, i.node, i))
			var problem *document.Problem
			var missing *document.Exception
			if err != nil && !errors.As(err, &problem) && !errors.As(err, &missing) || len(fmt.Sprint(err)) > 2*maxText+500 {
				t.Fatalf("%q: %v", raw, err)
			}
		}
	}
}
