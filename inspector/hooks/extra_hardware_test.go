package hooks

import (
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/inspector/ironic"

	"github.com/trivet-ha/trivet/inspector"
)

func TestExtraHardware(t *testing.T) {
	tests := []struct {
		name, data string
		strict     bool
		data1      string // data afterwards
		extra      string
	}{
		{"of the recordings",
			`[["system", "product", "name", "LabServer 2U"], ["cpu", "logical", "number", "8"], ["disk", "sda", "size", "1000"], ["disk", "sda", "rotational", 1]]`,
			true, "",
			`{"system":{"product":{"name":"LabServer 2U"}},"cpu":{"logical":{"number":8}},"disk":{"sda":{"size":1000,"rotational":1}}}`},
		{"numbers and what is none",
			`[["a","b","c"," -007 "],["a","b","d","1_000"],["a","b","e","0x10"],["a","b","f","1__0"],["a","b","g",""],["a","b","h","+-1"],["a","b","i","99999999999999999999"]]`,
			false, "",
			`{"a":{"b":{"c":-7,"d":1000,"e":"0x10","f":"1__0","g":"","h":"+-1","i":99999999999999999999}}}`},
		{"other values",
			`[["a","b","c",null],["a","b","d",true],["a","b","e",3.9],["a","b","f",-3.9],["a","b","g",[1, 2]],["a","b","h",1e20],["a","b","i",-0],["a","b","j",false],["a","b","k",1e999]]`,
			false, "",
			`{"a":{"b":{"c":null,"d":1,"e":3,"f":-3,"g":[1,2],"h":100000000000000000000,"i":0,"j":0}}}`},
		{"short items leave their names", `[[],["a"],["b","c"],["d","e","f"]]`, false, "",
			`{"a":{},"b":{"c":{}},"d":{"e":{}}}`},
		{"of long items the rest is ignored", `[["a","b","c","1","2"]]`, false, "", `{"a":{"b":{"c":1}}}`},
		{"names that are no text", `[[1,null,true,"x"],[["a"],"b","c","d"],["a",{},"c","d"],["a","b",[],"d"]]`, false, "",
			`{"1":{"null":{"true":"x"}},"a":{"b":{}}}`},
		{"the later value counts", `[["a","b","c","1"],["a","b","c","x"],["","\u0001<\"","",""]]`, false, "",
			`{"a":{"b":{"c":"x"}},"":{"\u0001\u003c\"":{"":""}}}`},
		{"nothing", `[]`, true, "", `{}`},
		{"an item that is no list", `[["a","b","c","d"],{"x":1}]`, false, `[["a","b","c","d"],{"x":1}]`, ""},
		{"the same, strictly", `[["a","b","c","d"],{"x":1}]`, true, "", ""},
		{"a short item, strictly", `[["a","b","c"]]`, true, "", ""},
		{"text", `"x"`, false, `"x"`, ""},
		{"null", `null`, true, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			i := &fakeIronic{node: ironic.Node{UUID: nodeA}}
			d := parsed(t, `{"data": `+tt.data+`}`)
			wantProblem(t, extraHardware{tt.strict}.After(t.Context(), inspector.NewTask(d, i.node, i)), "")
			if got := member(t, d, "extra"); got != tt.extra {
				t.Errorf("extra is\n%s\nwant\n%s", got, tt.extra)
			}
			if got := member(t, d, "data"); got != tt.data1 {
				t.Errorf("data is %s, want %s", got, tt.data1)
			}
			wantCalls(t, i)
		})
	}
}

func TestExtraHardwareIsBounded(t *testing.T) {
	i := &fakeIronic{node: ironic.Node{UUID: nodeA}}
	after := func(data string) error {
		return extraHardware{}.After(t.Context(), inspector.NewTask(parsed(t, `{"data": [`+data+`]}`), i.node, i))
	}
	wantProblem(t, after(strings.Repeat("[],", maxExtraItems)+"[]"),
		"data: 131073 items are more than the 131072 that are considered")
	wantProblem(t, after(`["a","b","c","`+strings.Repeat("9", 5000)+`"]`), "")

	d := parsed(t, `{}`)
	wantProblem(t, extraHardware{strict: true}.After(t.Context(), inspector.NewTask(d, i.node, i)), "")
	if d.Has("extra") {
		t.Error("of no data an extra was made")
	}
}
