package hooks

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/inspector/document"
	"github.com/trivet-ha/trivet/inspector/ironic"

	"github.com/trivet-ha/trivet/inspector"
)

// capable makes the hook of the default options.
func capable(t testing.TB, bootMode bool) inspector.After {
	t.Helper()
	conf := defaults()
	conf.HookOptions.Capabilities.BootMode = bootMode
	made, err := capabilities{}.configured(conf)
	if err != nil {
		t.Fatal(err)
	}
	return made.(inspector.After)
}

func addCaps(list string) string {
	return `PATCH node [{"op":"add","path":"/properties/capabilities","value":"` + list + `"}]`
}

func TestCapabilities(t *testing.T) {
	const uefi = `, "boot": {"current_boot_mode": "uefi"}`
	tests := []struct {
		name, cpu, rest string
		bootMode        bool
		existing        any
		want            string // the list; "" if nothing is sent
	}{
		{"of the recordings", `{"flags": ["fpu", "pse", "pdpe1gb", "vmx", "aes"]}`, uefi, true,
			"profile:compute,boot_mode:bios",
			"profile:compute,boot_mode:uefi,cpu_vt:true,cpu_aes:true,cpu_hugepages:true,cpu_hugepages_1g:true"},
		{"in the order of the configuration", `{"flags": ["smx", "svm"]}`, uefi, false, nil, "cpu_vt:true,cpu_txt:true"},
		{"the same again", `{"flags": ["vmx", "svm"]}`, "", true, "cpu_vt:true", "cpu_vt:true"},
		{"boot mode alone", `{}`, uefi, true, "", "boot_mode:uefi"},
		{"an empty boot mode", `{"flags": []}`, `, "boot": {"current_boot_mode": ""}`, true, nil, "boot_mode:"},
		{"no boot mode", `{"flags": null}`, `, "boot": {}`, true, "a:b", ""},
		{"null for boot", `{"flags": null}`, `, "boot": null`, true, "a:b", ""},
		{"no flag that matters", `{"flags": ["fpu", 5, null, ["vmx"]]}`, "", false, "a:b", ""},
		{"odd ones stay", `{"flags": ["vmx"]}`, "", false, "a:1,odd,b:2:3,,odd,a:4, c:5",
			"a:4,odd,b:2:3,,odd, c:5,cpu_vt:true"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			i := &fakeIronic{node: ironic.Node{UUID: nodeA, Properties: map[string]any{"capabilities": tt.existing}}}
			d := parsed(t, `{"inventory": {"interfaces": [1], "cpu": `+tt.cpu+tt.rest+`}}`)
			wantProblem(t, capable(t, tt.bootMode).After(t.Context(), inspector.NewTask(d, i.node, i)), "")
			if tt.want == "" {
				wantCalls(t, i)
			} else {
				wantCalls(t, i, addCaps(tt.want))
			}
		})
	}
}

func TestCapabilitiesFail(t *testing.T) {
	inventory := func(members string) string { return `{"inventory": {"interfaces": [1], ` + members + `}}` }
	tests := []struct {
		name, text string
		existing   any
		want       string
	}{
		{"no inventory", `{}`, nil, "Hardware inventory is empty or missing"},
		{"null for a CPU", inventory(`"cpu": null`), nil, "inventory.cpu: expected an object, got nothing"},
		{"list for a CPU", inventory(`"cpu": [1]`), nil, "inventory.cpu: expected an object, got a list"},
		{"text for flags", inventory(`"cpu": {"flags": "vmx"}`), nil, "inventory.cpu.flags: expected a list, got text"},
		{"too many", inventory(`"cpu": {"flags": [` + strings.Repeat(`1,`, maxFlags) + `1]}`), nil,
			"inventory.cpu.flags: 4097 items are more than the 4096 that are considered"},
		{"text for boot", inventory(`"cpu": {}, "boot": "uefi"`), nil, "inventory.boot: expected an object, got text"},
		{"number for a boot mode", inventory(`"cpu": {}, "boot": {"current_boot_mode": 5}`), nil,
			"inventory.boot.current_boot_mode: expected text, got a number"},
		{"a boot mode and more", inventory(`"cpu": {}, "boot": {"current_boot_mode": "uefi,profile:gold"}`), nil,
			"inventory.boot.current_boot_mode: 'uefi,profile:gold' is no boot mode"},
		{"what is no list in Ironic", inventory(`"cpu": {"flags": ["vmx"]}`), map[string]any{"a": true},
			"properties.capabilities of the node: expected text, got {'a': True}"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			i := &fakeIronic{node: ironic.Node{UUID: nodeA, Properties: map[string]any{"capabilities": tt.existing}}}
			wantProblem(t, capable(t, true).After(t.Context(), inspector.NewTask(parsed(t, tt.text), i.node, i)), tt.want)
			wantCalls(t, i)
		})
	}

	i := &fakeIronic{node: ironic.Node{UUID: nodeA}}
	err := capable(t, true).After(t.Context(), inspector.NewTask(parsed(t, inventory(`"memory": {}`)), i.node, i))
	var missing *document.Exception
	if !errors.As(err, &missing) || missing.Class != "KeyError" || err.Error() != "'cpu'" {
		t.Errorf("without a CPU: %v", err)
	}
	wantCalls(t, i)
}

// TestManyCapabilitiesAreMergedInOnePass would take minutes if each were looked
// for in the list.
func TestManyCapabilitiesAreMergedInOnePass(t *testing.T) {
	var list []string
	for n := range 200_000 {
		list = append(list, fmt.Sprintf("c%d:x", n))
	}
	existing := strings.Join(list, ",")
	if got := mergedCapabilities(existing, []capability{{"new", "y"}}); got != existing+",new:y" {
		t.Errorf("%d bytes became %d", len(existing), len(got))
	}
}
