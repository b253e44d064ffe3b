package hardware_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/inspector/hardware"
)

// TestAsOrdered holds the simulated server against rows of an expectation.
func TestAsOrdered(t *testing.T) {
	for row, want := range map[string]string{
		`{kind: CPU}`: "",
		`{kind: CPU, count: 64, model_name: "*Gold 6130*"}`:               "",
		`{kind: CPU, count: ">= 65"}`:                                     "expected 1 x CPU (count >= 65), found 0",
		`{kind: memory, size: 64 GiB}`:                                    "",
		`{kind: memory, size: ">= 128 GiB"}`:                              "expected 1 x memory (size >= 128 GiB), found 0",
		`{kind: memory module, number: 24, size: 16GiB}`:                  "",
		`{kind: memory module, number: 23}`:                               "expected 23 x memory module, found 24",
		`{kind: disk, size: 515 GB, rotational: no}`:                      "",
		`{kind: disk, size: 515 GB, rotational: true}`:                    "expected 1 x disk (rotational true, size 515 GB), found 0",
		`{kind: disk, number: ">= 3", size: "> 4 TB"}`:                    "",
		`{kind: disk, number: "< 3", model: simdisk*}`:                    "expected < 3 x disk (model simdisk*), found 9",
		`{kind: disk, number: 0, model: OTHER*}`:                          "",
		`{kind: card, vendor_id: "8086", product_id: "1572"}`:             "",
		`{kind: interface, number: 3}`:                                    "",
		`{kind: cable, number: 3, switch: "leaf-*", port: "Ethernet*/*"}`: "",
		`{kind: cable, number: 2, switch: leaf-1}`:                        "expected 2 x cable (switch leaf-1), found 1",
		`{kind: system, product_name: SimServer 2U}`:                      "",
	} {
		list, err := hardware.ReadExpectations([]byte("- name: compute\n  nodes: [compute-*]\n  parts:\n  - " + row + "\n"))
		if err != nil {
			t.Errorf("%s: %v", row, err)
			continue
		}
		if got := strings.Join(list[0].Judge(read(t, raw())), "; "); got != want {
			t.Errorf("%s: judged %q, want %q", row, got, want)
		}
	}
}

// TestUntoldIsNotAsOrdered: a collector that is not enabled is no proof.
func TestUntoldIsNotAsOrdered(t *testing.T) {
	list, err := hardware.ReadExpectations([]byte("[{name: a, nodes: [a], parts: [{kind: memory module, number: 0}]}]"))
	if err != nil {
		t.Fatal(err)
	}
	m := read(t, document(t, func(d told) { delete(d, "data") }))
	want := []string{"expected 0 x memory module, the ramdisk did not tell any"}
	if got := list[0].Judge(m); !slices.Equal(got, want) {
		t.Errorf("judged %q, want %q", got, want)
	}
}

func TestExpectationIsOfItsNodes(t *testing.T) {
	e := hardware.Expectation{Nodes: []string{"compute-*", "4f9a4a5e-0000-4000-8000-000000000001"}}
	for name, of := range map[[2]string]bool{
		{"x", "compute-1"}: true, {"x", "storage-1"}: false, {"compute-1", ""}: false, {"x", ""}: false,
		{"4f9a4a5e-0000-4000-8000-000000000001", ""}: true,
	} {
		if got := e.For(name[0], name[1]); got != of {
			t.Errorf("%q: %t, want %t", name, got, of)
		}
	}
}

// TestExpectationsAreRefused: an error says where, and what may be written there.
func TestExpectationsAreRefused(t *testing.T) {
	for file, want := range map[string]string{
		`{name: a}`:                         "cannot unmarshal",
		`[{nam: a}]`:                        "field nam not found",
		`[{name: a, parts: [{kind: CPU}]}]`: "nodes: name at least one",
		`[{name: a, nodes: ["["], parts: [{kind: CPU}]}]`:                                            "syntax error in pattern",
		`[{name: a, nodes: [x]}]`:                                                                    "parts: 0 rows",
		`[{name: a, nodes: [x], parts: [{kind: disc}]}]`:                                             `row 1: kind: "disc" is none of system, firmware`,
		`[{name: a, nodes: [x], parts: [{kind: disk, sise: 1}]}]`:                                    "sise: a disk has no such fact; it has size, model",
		`[{name: a, nodes: [x], parts: [{kind: disk, number: some}]}]`:                               `number: "some" is no number`,
		`[{name: a, nodes: [x], parts: [{kind: disk, model: "["}]}]`:                                 "syntax error in pattern",
		`[{name: a, nodes: [x], parts: [{kind: disk, model: ""}]}]`:                                  "an empty text",
		`[{name: a, nodes: [x], parts: [{kind: CPU}]}, {name: a, nodes: [y], parts: [{kind: CPU}]}]`: "there are two of this name",
	} {
		if _, err := hardware.ReadExpectations([]byte(file)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", file, err, want)
		}
	}
}
