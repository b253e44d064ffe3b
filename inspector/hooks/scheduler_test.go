package hooks

import (
	"errors"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/inspector/ironic"

	"github.com/trivet-ha/trivet/inspector"
)

func TestScheduler(t *testing.T) {
	const nics = `"interfaces": [{"name": "eth0"}]`
	add := func(pairs ...string) []string {
		var ops []string
		for i := 0; i < len(pairs); i += 2 {
			ops = append(ops, `{"op":"add","path":"/properties/`+pairs[i]+`","value":"`+pairs[i+1]+`"}`)
		}
		return []string{"PATCH node [" + strings.Join(ops, ",") + "]"}
	}
	set := map[string]any{"cpus": "1", "cpu_arch": "", "memory_mb": nil}
	tests := []struct {
		name, inventory       string
		properties            map[string]any
		keep                  bool // overwrite_existing is off
		calls                 []string
		cpus, arch, memory_mb string // in the document
	}{
		{"all", `"cpu": {"count": 8, "architecture": "x86_64"}, "memory": {"physical_mb": 65536}`, set, false,
			add("cpus", "8", "cpu_arch", "x86_64", "memory_mb", "65536"), `8`, `"x86_64"`, `65536`},
		{"kept", `"cpu": {"count": 8, "architecture": "x86_64"}, "memory": {"physical_mb": 65536}`, set, true,
			add("cpu_arch", "x86_64", "memory_mb", "65536"), `8`, `"x86_64"`, `65536`},
		{"all kept", `"cpu": {"count": 8}`, set, true, nil, `8`, ``, ``},
		{"no memory", `"cpu": {"count": "8", "architecture": "arm64"}`, nil, false, add("cpus", "8", "cpu_arch", "arm64"),
			`8`, `"arm64"`, ``},
		{"memory of null", `"memory": {"physical_mb": null}, "cpu": null`, nil, false, nil, ``, ``, ``},
		{"fractions", `"cpu": {"count": 8.9, "architecture": 5}, "memory": {"physical_mb": " 12 "}`, nil, false,
			add("cpus", "8", "memory_mb", "12"), `8`, ``, `12`},
		{"zero", `"cpu": {"count": 0}, "memory": {"physical_mb": 1e400}`, nil, false, nil, `0`, ``, ``},
		{"an architecture alone", `"cpu": {"count": null, "architecture": "x86_64"}, "memory": {"physical_mb": 5}`, nil,
			false, add("memory_mb", "5"), ``, ``, `5`},
		{"negative", `"cpu": {"count": -8}, "memory": {"physical_mb": -1.5}`, nil, false, nil, ``, ``, ``},
		{"malformed", `"cpu": [1], "memory": {"physical_mb": "many"}`, nil, false, nil, ``, ``, ``},
		{"true", `"cpu": {"count": true}, "memory": 7`, nil, false, nil, ``, ``, ``},
		{"beyond 64 bits", `"cpu": {"count": 99999999999999999999}, "memory": {"physical_mb": 1e5}`, nil, false,
			add("memory_mb", "100000"), ``, ``, `100000`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			i := &fakeIronic{node: ironic.Node{UUID: nodeA, Properties: tt.properties}}
			d := parsed(t, `{"inventory": {`+nics+`, `+tt.inventory+`}}`)
			wantProblem(t, scheduler{overwrite: !tt.keep}.After(t.Context(), inspector.NewTask(d, i.node, i)), "")
			wantCalls(t, i, tt.calls...)
			for key, want := range map[string]string{"cpus": tt.cpus, "cpu_arch": tt.arch, "memory_mb": tt.memory_mb} {
				if got := member(t, d, key); got != want {
					t.Errorf("%s is %s, want %s", key, got, want)
				}
			}
		})
	}
}

func TestSchedulerFails(t *testing.T) {
	i := &fakeIronic{node: ironic.Node{UUID: nodeA}}
	after := func(text string) error {
		return scheduler{}.After(t.Context(), inspector.NewTask(parsed(t, text), i.node, i))
	}
	wantProblem(t, after(`{"inventory": {}}`), "Hardware inventory is empty or missing")
	wantProblem(t, after(`{"inventory": {"cpu": {"count": 1}}}`), "No network interfaces provided in the inventory")

	broken := &ironic.Error{Status: 500, Message: "no conductor"}
	i.faults = map[string]error{`PATCH node [{"op":"add","path":"/properties/cpus","value":"1"}]`: broken}
	err := after(`{"inventory": {"cpu": {"count": 1}, "interfaces": [1]}}`)
	if !errors.Is(err, broken) || err.Error() != "set properties of node "+nodeA+": no conductor" {
		t.Errorf("got %v", err)
	}
}
