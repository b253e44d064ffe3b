package fence

import (
	"strings"
	"testing"
)

// FuzzFile feeds the reader with anything. What it lets through must be fit for an
// agent's standard input: one line an option, and no action but ours.
func FuzzFile(f *testing.F) {
	f.Add("devices:\n  - {name: a, type: ironic}\n")
	f.Add("devices:\n  - {name: a, type: agent, program: fence_x, options: {lanplus: 1}, nodes: {w1: {ip: 10.0.0.1}}}\n")
	f.Add(
		"devices:\n  - {name: a, type: redfish, username: r, password_file: /p, nodes: {w1: \"https://h/redfish/v1/Systems/1\"}}\n")
	f.Add("devices: &a\n  - *a\n")
	f.Add("devices:\n  - <<: {name: a}\n    type: agent\n    nodes: {w1: {ip: \"1\\naction=reboot\"}}\n")
	f.Fuzz(func(t *testing.T, text string) {
		specs, problems := parse("f.yaml", []byte(text), defaults())
		if len(problems) > maxProblems {
			t.Fatalf("%d problems", len(problems))
		}
		for _, p := range problems {
			if p.What == "" || p.Where.Line < 0 {
				t.Fatalf("problem %+v", p)
			}
		}
		if len(problems) > 0 {
			return
		}
		for _, s := range specs {
			for _, n := range s.nodes {
				input := string((&agent{options: s.options}).input("status", n.address, ""))
				if want := 1 + len(s.options) + len(n.options); strings.Count(input, "\n") != want ||
					strings.Count("\n"+strings.ToLower(input), "\naction=") != 1 {
					t.Fatalf("%d lines wanted:\n%s", want, input)
				}
			}
		}
	})
}
