package hooks

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/inspector/ironic"

	"github.com/trivet-ha/trivet/inspector"
)

const sda = `{"name": "/dev/sda", "size": 1073741824000, "serial": "a"}`

// withRootDisk is a document; its disks are those of the recordings.
func withRootDisk(rootDisk string) string {
	return `{"inventory": {"interfaces": [{"name": "eth0"}], "disks": ` + labDisks + `}, "root_disk": ` + rootDisk + `}`
}

func addLocalGB(size string) string {
	return `PATCH node [{"op":"add","path":"/properties/local_gb","value":"` + size + `"}]`
}

func TestLocalGB(t *testing.T) {
	tests := []struct {
		name, disk string
		properties map[string]any
		keep       bool // overwrite_existing is off
		unspaced   bool // disk_partitioning_spacing is off
		patch      string
		want       string
	}{
		{"a disk", sda, nil, false, false, "999", "999"},
		{"whole", sda, nil, false, true, "1000", "1000"},
		{"again", sda, map[string]any{"local_gb": "7"}, false, false, "999", "999"},
		{"kept", sda, map[string]any{"local_gb": "7"}, true, false, "", "999"},
		{"kept, but nothing was there", sda, map[string]any{"local_gb": ""}, true, false, "999", "999"},
		{"no disk", `null`, nil, false, false, "0", "0"},
		{"an empty one", `{}`, nil, false, false, "0", "0"},
		{"less than a GiB", `{"size": 1073741823}`, nil, false, false, "0", "0"},
		{"a GiB", `{"size": 1073741824}`, nil, false, false, "0", "0"},
		{"a fraction", `{"size": 21474836480.7}`, nil, false, false, "19", "19"},
		{"the largest", `{"size": 9223372036854775807}`, nil, false, true, "8589934591", "8589934591"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			i := &fakeIronic{node: ironic.Node{UUID: nodeA, Properties: tt.properties}}
			d := parsed(t, withRootDisk(tt.disk))
			wantProblem(t, rootDiskSelection{overwrite: !tt.keep, spacing: !tt.unspaced}.After(t.Context(),
				inspector.NewTask(d, i.node, i)), "")
			if tt.patch == "" {
				wantCalls(t, i)
			} else {
				wantCalls(t, i, addLocalGB(tt.patch))
			}
			if got := member(t, d, "local_gb"); got != tt.want {
				t.Errorf("local_gb is %s, want %s", got, tt.want)
			}
		})
	}
}

func TestRootDiskByHints(t *testing.T) {
	tests := []struct {
		name, properties string
		want             string // the problem, "" for none
		disk, patch      string
		disks            int // left in the inventory
	}{
		{"by size", `{"root_device": {"size": 20}}`, "", "/dev/sdb", "19", 2},
		{"no hints", `{"root_device": {}, "skip_block_devices": [{"name": "/dev/sda"}]}`, "", "/dev/sda", "999", 2},
		{"none fits", `{"root_device": {"serial": "S01"}}`, "No disks satisfied root device hints", "", "", 2},
		{"unknown hint", `{"root_device": {"bogus": 1}}`,
			"No disks could be found using the root device hints {'bogus': 1} because they failed to validate. Error: " +
				`The hints "bogus" are invalid. Valid hints are: "size, model, wwn, serial, vendor, wwn_with_extension, wwn_vendor_extension, name, rotational, hctl, by_path"`,
			"", "", 2},
		{"text for hints", `{"root_device": "it's"}`,
			`No disks could be found using the root device hints "it's" because they failed to validate. Error: ` +
				`hints are an object, as in {"size": ">= 60"}; got "it's"`, "", "", 2},
		{"one is skipped", `{"root_device": {"vendor": "ata"}, "skip_block_devices": [{"size": 1000}, {"name": "/dev/sdz"}]}`,
			"", "/dev/sdb", "19", 1},
		{"all are skipped", `{"root_device": {"vendor": "ata"}, "skip_block_devices": [{"vendor": "ata"}]}`,
			"No disks satisfied root device hints", "", "", 0},
		{"what would fit is skipped", `{"root_device": {"size": 1000}, "skip_block_devices": [{"rotational": true}]}`,
			"No disks satisfied root device hints", "", "", 1},
		{"empty hint to skip", `{"root_device": {"size": 20}, "skip_block_devices": [{}]}`,
			"No disks could be skipped using the hints {} because they failed to validate. Error: " +
				`hints are an object, as in {"size": ">= 60"}; got {}`, "", "", 2},
		{"no list to skip", `{"root_device": {"size": 20}, "skip_block_devices": {"size": 1}}`,
			"properties.skip_block_devices of the node: expected a list of at most 256 hints", "", "", 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			i := &fakeIronic{node: ironic.Node{UUID: nodeA}}
			if err := json.Unmarshal([]byte(tt.properties), &i.node.Properties); err != nil {
				t.Fatal(err)
			}
			d := parsed(t, withRootDisk(sda))
			wantProblem(t, rootDiskSelection{overwrite: true, spacing: true}.After(t.Context(), inspector.NewTask(d, i.node, i)),
				tt.want)
			if tt.want == "" {
				wantCalls(t, i, addLocalGB(tt.patch))
				if got := member(t, d, "root_disk"); !strings.HasPrefix(got, `{"name":"`+tt.disk+`"`) {
					t.Errorf("the root disk is %s, want %s", got, tt.disk)
				}
			} else {
				wantCalls(t, i)
			}
			if got := strings.Count(member(t, d, "inventory"), `"model"`); got != tt.disks {
				t.Errorf("%d disks are left, want %d", got, tt.disks)
			}
		})
	}
}

func TestDisksWithOneNameAreSkippedTogether(t *testing.T) {
	i := &fakeIronic{node: ironic.Node{UUID: nodeA, Properties: map[string]any{
		"root_device": map[string]any{"serial": "s!= b"}, "skip_block_devices": []any{map[string]any{"serial": "a"}},
	}}}
	d := parsed(t,
		`{"inventory": {"interfaces": [1], "disks": [{"serial": "a", "size": 1}, {"size": 2, "name": "x", "serial": "a"}, {"size": 3, "name": "x"}, {"size": 4}]}}`)
	wantProblem(t, rootDiskSelection{}.After(t.Context(), inspector.NewTask(d, i.node, i)), "")
	if got := member(t, d, "root_disk"); got != `{"size":4}` {
		t.Errorf("the root disk is %s", got)
	}
}

func TestRootDiskFails(t *testing.T) {
	var many []string
	for n := range maxDisks + 1 {
		many = append(many, fmt.Sprintf(`{"name": "/dev/sd%d"}`, n))
	}
	inventory := func(disks string) string {
		return `{"inventory": {"interfaces": [1], "disks": ` + disks + `}, "root_disk": ` + sda + `}`
	}
	hints := map[string]any{"root_device": map[string]any{"name": "x"}}
	tests := []struct {
		name, text string
		properties map[string]any
		want       string
	}{
		{"no inventory", `{}`, nil, "Hardware inventory is empty or missing"},
		{"text for a root disk", withRootDisk(`"/dev/sda"`), nil, "root_disk: expected an object, got text"},
		{"no size", withRootDisk(`{"name": "/dev/sda"}`), nil, "root_disk.size: expected a number, got nothing"},
		{"size in text", withRootDisk(`{"size": "20"}`), nil, "root_disk.size: expected a number, got text"},
		{"negative size", withRootDisk(`{"size": -5}`), nil, "root_disk.size: -5 is less than nothing"},
		{"endless size", withRootDisk(`{"size": 1e999}`), nil, "root_disk.size: 1e999 is more than a disk has"},
		{"object for disks", inventory(`{"a": 1}`), hints, "inventory.disks: expected a list, got an object"},
		{"text for a disk", inventory(`[{}, "a"]`), hints, "inventory.disks[1]: expected an object, got text"},
		{"too many disks", inventory("[" + strings.Join(many, ",") + "]"), hints,
			"inventory.disks: 4097 items are more than the 4096 that are considered"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			i := &fakeIronic{node: ironic.Node{UUID: nodeA, Properties: tt.properties}}
			wantProblem(t, rootDiskSelection{overwrite: true}.After(t.Context(),
				inspector.NewTask(parsed(t, tt.text), i.node, i)), tt.want)
			wantCalls(t, i)
		})
	}

	broken := &ironic.Error{Status: 500, Message: "no conductor"}
	i := &fakeIronic{node: ironic.Node{UUID: nodeA}, faults: map[string]error{addLocalGB("1000"): broken}}
	err := rootDiskSelection{}.After(t.Context(), inspector.NewTask(parsed(t, withRootDisk(sda)), i.node, i))
	if !errors.Is(err, broken) || err.Error() != "set local_gb of node "+nodeA+": no conductor" {
		t.Errorf("got %v", err)
	}
}

// TestAMachineWithoutDisksHasAListOfNone: rules count on it.
func TestAMachineWithoutDisksHasAListOfNone(t *testing.T) {
	for inventory, want := range map[string]string{
		`{"interfaces": [1], "x": 1.0}`:                        `{"interfaces":[1],"x":1.0,"disks":[]}`,
		`{"interfaces": [1], "disks": null, "x": 2}`:           `{"interfaces":[1],"disks":[],"x":2}`,
		`{"interfaces": [1], "disks": {}}`:                     `{"interfaces":[1],"disks":[]}`,
		`{"disks": [], "interfaces": [1]}`:                     `{"disks":[],"interfaces":[1]}`,
		`{"disks": 5, "interfaces": [1], "\u0001": "\u2028<"}`: `{"disks":5,"interfaces":[1],"\u0001":"\u2028<"}`,
	} {
		i := &fakeIronic{node: ironic.Node{UUID: nodeA}}
		d := parsed(t, `{"inventory": `+inventory+`}`)
		wantProblem(t, rootDiskSelection{}.After(t.Context(), inspector.NewTask(d, i.node, i)), "")
		if got := member(t, d, "inventory"); got != want {
			t.Errorf("%s becomes %s", inventory, got)
		}
	}
}
