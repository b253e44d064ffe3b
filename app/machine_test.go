package app

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/trivet-ha/trivet/cluster"
)

// A peer tells what it may read of its machine: under the unit it sees no /proc/sys, and
// the UUID is root's alone.
func TestReadMachine(t *testing.T) {
	const boot, uuid, id = "e6b0a6a1-31c3-4f0c-a5a5-0a31f0c2f7b1", "3f2a7c4e-5f3b-4c35-9d6c-0d6b1c9f4a11",
		"0123456789abcdef0123456789abcdee"
	const proc, dmi, etc = "proc/sys/kernel/random/boot_id", "sys/class/dmi/id/product_uuid", "etc/machine-id"
	for name, c := range map[string]struct {
		files    map[string]string
		variable string
		want     cluster.Machine
	}{
		"all": {map[string]string{proc: boot + "\n", dmi: uuid + "\n", etc: id + "\n"}, "",
			cluster.Machine{BootID: boot, SystemUUID: uuid, MachineID: id}},
		"the kernel goes first": {map[string]string{proc: boot + "\n"}, "another", cluster.Machine{BootID: boot}},
		"/proc/sys is hidden":   {map[string]string{etc: id}, boot, cluster.Machine{BootID: boot, MachineID: id}},
		"nothing":               {nil, "", cluster.Machine{}},
		"a file too long":       {map[string]string{etc: string(make([]byte, 300))}, "", cluster.Machine{}},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for path, text := range c.files {
				if err := os.MkdirAll(filepath.Join(root, filepath.Dir(path)), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(root, path), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			got := readMachine(root, func(name string) string { return map[string]string{bootVariable: c.variable}[name] })
			if got != c.want {
				t.Errorf("machine: told %+v, want %+v", got, c.want)
			}
		})
	}
}
