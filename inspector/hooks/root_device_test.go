package hooks

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/inspector/document"
)

// labDisks are those of the contract's recordings.
const labDisks = `[{"name": "/dev/sda", "model": "LABDISK 1000G", "size": 1073741824000, "rotational": true, "wwn": "0x5000c500a0000000", "serial": "SLAB000100", "vendor": "ATA", "wwn_with_extension": "0x5000c500a0000000", "wwn_vendor_extension": null, "hctl": "0:0:0:0", "by_path": "/dev/disk/by-path/pci-0000:00:17.0-ata-1"},
	{"name": "/dev/sdb", "model": "LABDISK 20G", "size": 21474836480, "rotational": false, "wwn": "0x5000c500a0000001", "serial": "SLAB000101", "vendor": "ATA", "wwn_with_extension": "0x5000c500a0000001", "wwn_vendor_extension": null, "hctl": "0:0:1:0", "by_path": "/dev/disk/by-path/pci-0000:00:17.0-ata-2"}]`

// What find returns instead of the index of a disk.
const (
	noDisk  = -1
	refused = -2
)

// find returns the first disk that fits hints.
func find(t testing.TB, written any, text string) (index int, why error) {
	t.Helper()
	disks, err := objectsOf("inventory.disks", document.Checked([]byte(text)), maxDisks)
	if err != nil {
		return refused, err
	}
	wanted, err := hintsOf(written)
	if err != nil {
		return refused, err
	}
	disk, found, err := wanted.first(disks)
	switch {
	case err != nil:
		return refused, err
	case !found:
		return noDisk, nil
	}
	for i := range disks {
		if disks[i].where == disk.where {
			return i, nil
		}
	}
	t.Fatalf("%s is none of the disks", disk.where)
	return 0, nil
}

func TestRootDeviceHints(t *testing.T) {
	tests := []struct {
		name, hints string
		want        int
	}{
		{"size", `{"size": 20}`, 1},
		{"size as text", `{"size": " 20 "}`, 1},
		{"size at least", `{"size": ">= 100"}`, 0},
		{"size at least, by a single sign", `{"size": "=20"}`, 0},
		{"size below", `{"size": "<100"}`, 1},
		{"other size", `{"size": "!= 1000"}`, 1},
		{"sizes are no text", `{"size": "<or> 20 <or> 1000"}`, noDisk},
		{"nor equal to one", `{"size": "s== 20"}`, noDisk},
		{"name", `{"name": "/dev/sdb"}`, 1},
		{"rotational", `{"rotational": false}`, 1},
		{"rotational in a word", `{"rotational": " Yes "}`, 0},
		{"part of a serial number", `{"serial": "S01"}`, noDisk},
		{"a serial number", `{"serial": "slab000101"}`, 1},
		{"the end of one", `{"serial": "<in> 101"}`, 1},
		{"a text above", `{"serial": "s> slab000100"}`, 1},
		{"a text at most", `{"serial": "s<= SLAB000100"}`, 0},
		{"one of several", `{"model": "<or> nothing else <or> labdisk 20g"}`, 1},
		{"a model with a blank", `{"model": "LABDISK 20G"}`, 1},
		{"not that vendor", `{"vendor": "s!= ata", "size": 20}`, noDisk},
		{"colons", `{"hctl": "s== 0:0:1:0"}`, 1},
		{"a path", `{"by_path": "<in> ata-2"}`, 1},
		{"a wwn, and its extension", `{"wwn": "0x5000c500a0000001", "wwn_with_extension": "s!= 0x5000c500a0000000"}`, 1},
		{"what is null is called none", `{"wwn_vendor_extension": "NONE", "rotational": false}`, 1},
		{"a number inside text", `{"serial": "== 5"}`, refused},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var written map[string]any
			if err := json.Unmarshal([]byte(tt.hints), &written); err != nil {
				t.Fatal(err)
			}
			if got, err := find(t, written, labDisks); got != tt.want {
				t.Errorf("%s finds %d, %v; want %d", tt.hints, got, err, tt.want)
			}
		})
	}
}

func TestBadHints(t *testing.T) {
	tests := []struct {
		name  string
		hints any
		want  string
	}{
		{"unknown", map[string]any{"bogus": 1.0, "also": "x"},
			`The hints "also, bogus" are invalid. Valid hints are: "size, model, wwn, serial, vendor, wwn_with_extension, wwn_vendor_extension, name, rotational, hctl, by_path"`},
		{"number for text", map[string]any{"serial": 5.0},
			`Root device hint "serial" is not a string value. Hint expression: 5`},
		{"nothing for text", map[string]any{"serial": nil},
			`Root device hint "serial" is not a string value. Hint expression: None`},
		{"empty", map[string]any{"model": " "}, `Root device hint "model" expression is empty`},
		{"empty size", map[string]any{"size": ""}, `Root device hint "size" expression is empty`},
		{"operator alone", map[string]any{"model": "s=="},
			`Root device hint "model" has an operator without a value. Current value: s==`},
		{"two operators", map[string]any{"size": ">= >= 5"},
			`Root device hint "size" has an operator without a value. Current value: >= >= 5`},
		{"size in words", map[string]any{"size": "<or> 20 <or> many"},
			`Root device hint "size" is not an integer value. Current value: <or> 20 <or> many`},
		{"size with a fraction", map[string]any{"size": 20.5},
			`Root device hint "size" is not an integer value. Current value: 20.5`},
		{"size of nothing", map[string]any{"size": 0.0},
			`Root device hint "size" should be a positive integer. Current value: 0`},
		{"less than that", map[string]any{"size": "> -1"},
			`Root device hint "size" should be a positive integer. Current value: > -1`},
		{"maybe", map[string]any{"rotational": "maybe"},
			`Root device hint "rotational" is not a Boolean value. Current value: maybe`},
		{"list", []any{"size", 20.0}, `hints are an object, as in {"size": ">= 60"}; got ['size', 20]`},
		{"object without members", map[string]any{}, `hints are an object, as in {"size": ">= 60"}; got {}`},
		{"a list of what is none", map[string]any{"serial": "<all-in> 1 0"},
			"the operator <all-in> compares with a list, which this attribute of a disk is not"},
		{"text of a number", map[string]any{"size": "<in> 20"},
			"the operator <in> compares with text, which this attribute of a disk is not"},
		{"number of a text", map[string]any{"serial": ">= 20"}, "could not convert string to float: 'slab000100'"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := find(t, tt.hints, labDisks); got != refused || err.Error() != tt.want {
				t.Errorf("got %d, %v\nwant %s", got, err, tt.want)
			}
		})
	}
}

func TestStrangeDisks(t *testing.T) {
	tests := []struct {
		name, hint, value, disk string
		want                    int
		why                     string
	}{
		{"no size", "size", "20", `{}`, refused, "inventory.disks[0].size: expected a number, got nothing"},
		{"size in text", "size", "20", `{"size": "21474836480"}`, refused,
			"inventory.disks[0].size: expected a number, got text"},
		{"negative size", "size", "20", `{"size": -1}`, refused, "inventory.disks[0].size: -1 is less than nothing"},
		{"endless size", "size", "20", `{"size": 1e400}`, refused, "inventory.disks[0].size: 1e400 is more than a disk has"},
		{"size with a fraction", "size", "20", `{"size": 21474836480.5}`, 0, ""},
		{"long serial number", "serial", "a", `{"serial": "` + strings.Repeat("a", maxText) + `"}`, refused,
			"inventory.disks[0].serial: 4098 bytes are more than the 4096 that are compared"},
		{"empty serial number", "serial", "s!= a", `{"serial": ""}`, noDisk, ""},
		{"number for a serial number", "serial", "5", `{"serial": 5}`, 0, ""},
		{"truth for a serial number", "serial", "true", `{"serial": true}`, 0, ""},
		{"list of them", "serial", "<in> b", `{"serial": ["a", "b"]}`, 0, ""},
		{"operator for a name", "model", "<in> =", `{"model": "s=="}`, refused,
			`Root device hint "model" has an operator without a value. Current value: <in> =`},
		{"operator for a model", "model", "s!= x", `{"model": "s=="}`, 0, ""},
		{"null for rotational", "rotational", "false", `{"rotational": null}`, noDisk, ""},
		{"one for rotational", "rotational", "true", `{"rotational": 1}`, 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := find(t, map[string]any{tt.hint: tt.value}, "["+tt.disk+"]")
			if got != tt.want || tt.why != "" && (err == nil || err.Error() != tt.why) {
				t.Errorf("got %d, %v; want %d, %s", got, err, tt.want, tt.why)
			}
		})
	}
}

// vector is what Ironic's own library (ironic-lib 5.3.0) found, or that it
// refused the hints; made by chance, one or two of each kind kept.
type vector struct {
	Hints map[string]any  `json:"hints"`
	Disks json.RawMessage `json:"disks"`
	Found int             `json:"found"`
}

func vectors(t testing.TB) (list []vector) {
	t.Helper()
	file, err := os.Open("testdata/root-device-hints.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	}()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var v vector
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		list = append(list, v)
	}
	if err := lines.Err(); err != nil || len(list) < 200 {
		t.Fatalf("%d vectors, %v", len(list), err)
	}
	return list
}

func TestHintsMeanWhatTheyMeanToIronic(t *testing.T) {
	for _, v := range vectors(t) {
		if got, err := find(t, v.Hints, string(v.Disks)); got != v.Found {
			t.Errorf("%s of %s: found %d, %v; want %d", asJSON(v.Hints), v.Disks, got, err, v.Found)
		}
	}
}

// FuzzRootDeviceHints looks for any disk by any hints. What comes of it is one
// of the disks, none, or a refusal of bounded length; the same each time.
func FuzzRootDeviceHints(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add(asJSON(v.Hints), string(v.Disks))
	}
	for _, hints := range []string{`{"size": 20}`, `{"name": "/dev/sdb"}`, `{"rotational": false}`, `{"serial": "S01"}`,
		`{"size": ">= 100"}`, `{"bogus": 1}`, `{"vendor": "s!= ata", "size": 20}`} {
		f.Add(hints, labDisks)
	}
	f.Fuzz(func(t *testing.T, hints, disks string) {
		var written any
		if json.Unmarshal([]byte(hints), &written) != nil || !json.Valid([]byte(disks)) {
			return
		}
		got, err := find(t, written, disks)
		again, _ := find(t, written, disks)
		if got != again {
			t.Errorf("found %d, then %d", got, again)
		}
		var problem *document.Problem
		if got == refused && (len(err.Error()) > 2*maxText+1000 ||
			strings.HasPrefix(err.Error(), "inventory") && !errors.As(err, &problem)) {
			t.Errorf("%d bytes of refusal: %.200v", len(err.Error()), err)
		}
	})
}
