package fence

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Each type of device is one whole row: what makes its method, which machine an entry
// means, keys that it needs and has; and no other type takes a key of its own.
func TestTypesOfDevices(t *testing.T) {
	var keys []string // of one type each, or of several
	for _, k := range kinds() {
		for _, f := range k.fields {
			keys = append(keys, f.name)
		}
	}
	for _, k := range kinds() {
		if k.open == nil || k.meant == nil {
			t.Fatalf("type-row: %s: makes no method, or says of no entry which machine it means", k.name)
		}
		for _, key := range keys {
			told := problemsOf(t, fmt.Sprintf("  - {name: a, type: %s, %s: x}\n", k.name, key))
			has := slices.ContainsFunc(k.fields, func(f field) bool { return f.name == key })
			refused := slices.ContainsFunc(told, func(p string) bool {
				return strings.Contains(p, "devices[a]."+key+": is of no use for the type "+k.name)
			})
			if refused == has {
				t.Errorf("type-row: %s: has the key %s: %v; told %q", k.name, key, has, told)
			}
		}
		for _, key := range k.needs {
			told := problemsOf(t, fmt.Sprintf("  - {name: a, type: %s}\n", k.name))
			if !slices.ContainsFunc(told, func(p string) bool { return strings.Contains(p, "devices[a]."+key+": is missing") }) {
				t.Errorf("type-row: %s: lacks the key %s, and is told %q", k.name, key, told)
			}
		}
	}
}

// The files of a device are those of its type's keys, also where they are wrong.
func TestFilesOfDevices(t *testing.T) {
	specs, _ := parse("f.yaml", []byte(`devices:
  - {name: a, type: redfish, username: u, password_file: /p, ca_file: ca.pem, nodes: {w1: "https://h/redfish/v1/Systems/1"}}
  - {name: b, type: agent, program: fence_x, password_file: "", nodes: {w1: {ip: 10.0.0.1}}}
  - {name: c, type: ironic, password_file: /q}
`), Options{})
	var got []string
	for _, s := range specs {
		for key, path := range s.files {
			got = append(got, s.name+" "+key+" "+path)
		}
	}
	slices.Sort(got)
	if want := []string{"a ca_file ca.pem", "a password_file /p"}; !slices.Equal(got, want) {
		t.Errorf("files-of-devices: %q, want %q", got, want)
	}
}
