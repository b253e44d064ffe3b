package hooks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/inspector/ironic"

	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/document"
)

// The cables of the machine of cabled: eth0's switch port has a MAC for its
// chassis, as recorded; eth1's has a name.
const (
	eth0LLDP = `[[1, "04001b54aa0101"], [2, "0545746865726e6574312f31"], [3, "0078"], [4, "75706c696e6b"], [127, "0080c2010064"], [0, ""]]`
	eth1LLDP = `[[1, "076c6561662d32"], [2, "03001b54aa0299"], [3, "0078"]]`
)

// machine is a document of a machine with two network cards and some further
// top-level members.
func machine(eth0, eth1, more string) string {
	return `{"inventory": {"interfaces": [
	{"name": "eth0", "mac_address": "52:54:00:06:00:00", "ipv4_address": "172.24.42.100", "ipv6_address": "fe80::5054:ff:fe00:1%eth0"` + eth0 + `},
	{"name": "eth1", "mac_address": "52:54:00:06:00:01", "ipv4_address": null, "ipv6_address": "FD00::2"` + eth1 + `},
	{"name": "lo", "mac_address": "00:00:00:00:00:00", "ipv4_address": "127.0.0.1", "lldp": null}, {"name": "nameless"}, {}]}` + more + `}`
}

func said(lldp string) string { return `, "lldp": ` + lldp }

// cabled is a machine both of whose cards are connected.
func cabled() string { return machine(said(eth0LLDP), said(eth1LLDP), "") }

// after runs a hook on a document that validate_interfaces has seen.
func after(t *testing.T, h inspector.After, text string, i *fakeIronic) (*document.Document, string, error) {
	t.Helper()
	d := parsed(t, text)
	wantProblem(t, validateInterfaces{add: "all"}.Before(t.Context(), d), "")
	var log bytes.Buffer
	task := inspector.NewTask(d, i.node, i)
	task.Log = slog.New(slog.NewTextHandler(&log,
		&slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
				return slog.Attr{}
			}
			return a
		}}))
	err := h.After(t.Context(), task)
	return d, strings.TrimSpace(log.String()), err
}

// linkHooks are those that read what switches say, and the addresses.
func linkHooks() map[string]inspector.After {
	return map[string]inspector.After{
		"lldp_basic": lldpBasic{}, "local_link_connection": localLinkConnection{overwrite: true},
		"physnet_cidr_map": physnetCIDRMap{networks: labNetworks, overwrite: true},
	}
}

func TestShapesThatNoRamdiskSends(t *testing.T) {
	tests := []struct{ name, text, lldp, link, physnet string }{
		{name: "text for a list", text: machine(said(`"00"`), "", ""),
			lldp: "inventory.interfaces[0].lldp: expected a list, got text"},
		{name: "false for a list", text: machine(said(`false`), "", ""),
			lldp: "inventory.interfaces[0].lldp: expected a list, got true or false"},
		{name: "number for a TLV", text: machine(said(`[[3, "00"], 5]`), "", ""),
			lldp: "inventory.interfaces[0].lldp[1]: expected a list of a type and a value"},
		{name: "type alone", text: machine("", said(`[[5]]`), ""),
			lldp: "inventory.interfaces[1].lldp[0]: expected a list of a type and a value"},
		{name: "three parts", text: machine("", said(`[[5, "61", 1]]`), ""),
			lldp: "inventory.interfaces[1].lldp[0]: expected a list of a type and a value"},
		{name: "lldp_raw of a list", text: machine("", "", `, "lldp_raw": [1]`),
			lldp:    "lldp_raw: expected an object, got a list",
			physnet: "lldp_raw: expected an object, got a list"},
		{name: "lldp_raw of text", text: machine("", "", `, "lldp_raw": {"eth0": "00"}`),
			lldp: "lldp_raw.eth0: expected a list, got text"},
	}
	for _, tt := range tests {
		for name, h := range linkHooks() {
			want := tt.lldp
			if name == "physnet_cidr_map" {
				want = tt.physnet
			}
			t.Run(tt.name+", "+name, func(t *testing.T) {
				_, _, err := after(t, h, tt.text, &fakeIronic{ports: labPorts()})
				wantProblem(t, err, want)
			})
		}
	}
}

func TestWhatMustComeBefore(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:                                  "Hardware inventory is empty or missing",
		`{"inventory": {"interfaces": [{}]}}`: "all_interfaces: it is missing; the hook validate_interfaces must come before this one",
		`{"inventory": {"interfaces": [{}]}, "all_interfaces": [1]}`:         "all_interfaces: expected an object, got a list",
		`{"inventory": {"interfaces": {"a": 1}}, "all_interfaces": {}}`:      "inventory.interfaces: expected a list, got an object",
		`{"inventory": {"interfaces": [1]}, "all_interfaces": {}}`:           "inventory.interfaces[0]: expected an object, got a number",
		`{"inventory": {"interfaces": [{"name": 1}]}, "all_interfaces": {}}`: "inventory.interfaces[0].name: expected text, got a number",
	} {
		for name, h := range linkHooks() {
			t.Run(name, func(t *testing.T) {
				i := &fakeIronic{}
				wantProblem(t, h.After(t.Context(), inspector.NewTask(parsed(t, text), i.node, i)), want)
				wantCalls(t, i)
			})
		}
	}
}

// refusal is what Ironic says to a change that it does not want.
func refusal(status int) error {
	return &ironic.Error{Status: status, Message: "Ironic's word"}
}

func TestWhatIronicSaysToALink(t *testing.T) {
	tests := []struct {
		name, line string
		err        error
		want       string // the error; "" for none
	}{
		{"invalid: the next port is done all the same", patchEth0, refusal(400), ""},
		{"the node is deployed", patchEth0, refusal(409),
			"set local_link_connection of port 52:54:00:06:00:00: Ironic's word"},
		{"no conductor", getPorts, refusal(503), "list ports of node " + nodeA + ": Ironic's word"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			i := &fakeIronic{node: ironic.Node{UUID: nodeA}, ports: labPorts(), faults: map[string]error{tt.line: tt.err}}
			_, log, err := after(t, localLinkConnection{overwrite: true}, cabled(), i)
			if tt.want != "" {
				if !errors.Is(err, tt.err) || err.Error() != tt.want {
					t.Errorf("got %v, want %s", err, tt.want)
				}
				return
			}
			wantProblem(t, err, "")
			wantCalls(t, i, getPorts, patchEth0, patchEth1)
			const want = `msg="update port in Ironic refused" port=p0 mac=52:54:00:06:00:00 change=local_link_connection err="Ironic's word"`
			if log != want {
				t.Errorf("logged %s\nwant %s", log, want)
			}
		})
	}
}

func TestARefusedChangeIsNotRemembered(t *testing.T) {
	i := &fakeIronic{node: ironic.Node{UUID: nodeA}, ports: labPorts(), faults: map[string]error{patchEth0: refusal(400)}}
	d := parsed(t, cabled())
	wantProblem(t, validateInterfaces{add: "all"}.Before(t.Context(), d), "")
	task := inspector.NewTask(d, i.node, i)
	wantProblem(t, localLinkConnection{overwrite: true}.After(t.Context(), task), "")
	ports, err := task.Ports(t.Context())
	if err != nil || len(ports) != 3 || len(ports[0].LocalLink) != 0 ||
		ports[1].LocalLink["port_id"] != "00:1b:54:aa:02:99" {
		t.Errorf("%+v, %v", ports, err)
	}
	if link := i.ports[1].LocalLink; len(link) != 1 {
		t.Errorf("the list that Ironic gave was changed: %v", link)
	}
}

// FuzzLinks gives the hooks of links any LLDP at all, as a ramdisk would pass it
// on. Only a wrong shape is a problem, in words of bounded length.
func FuzzLinks(f *testing.F) {
	for _, seed := range []string{eth0LLDP, eth1LLDP, `[]`, `null`,
		`[[1, "04"], [2, "zz"], [127, "0"], [1e3, "00"], [-1, ""], [5, null], [5, "\u0036\u0031"]]`, `[[1]]`, `{"a": []}`} {
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	f.Fuzz(func(t *testing.T, lldp []byte, raw bool) {
		text := machine(said(string(lldp)), "", "")
		if raw {
			text = machine("", "", fmt.Sprintf(`, "lldp_raw": {"eth1": %s}`, lldp))
		}
		d, err := document.Parse([]byte(text))
		if err != nil || (validateInterfaces{add: "all"}).Before(t.Context(), d) != nil {
			return
		}
		i := &fakeIronic{ports: labPorts()}
		task := inspector.NewTask(d, i.node, i)
		for _, h := range linkHooks() {
			var problem *document.Problem
			if err := h.After(t.Context(), task); err != nil && (!errors.As(err, &problem) || len(problem.Text) > maxText) {
				t.Fatalf("%q: %v", lldp, err)
			}
		}
		out := d.JSON()
		if _, err := document.Parse(out); err != nil {
			t.Fatalf("%q became %s: %v", lldp, out, err)
		}
	})
}

// TestARecordedMachine holds the three hooks against what the original made of
// the same data: the document it kept and what it sent to Ironic.
func TestARecordedMachine(t *testing.T) {
	raw, err := os.ReadFile("../../test/labtest/testdata/golden/full-cycle.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	type request struct {
		Method string          `json:"method"`
		Path   string          `json:"path"`
		Body   json.RawMessage `json:"body"`
	}
	var sent, kept json.RawMessage
	var want []string
	for line := range bytes.Lines(raw) {
		var l struct {
			Request  request                        `json:"request"`
			Response struct{ Body json.RawMessage } `json:"response"`
			Calls    []request                      `json:"calls"`
		}
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatal(err)
		}
		switch {
		case l.Request.Path == "/v1/continue" && sent == nil:
			sent = l.Request.Body
		case strings.HasSuffix(l.Request.Path, "/data") && l.Request.Method == "GET":
			kept = l.Response.Body // the last is of the whole introspection
		}
		for _, c := range l.Calls {
			if c.Method == "PATCH" && strings.HasPrefix(c.Path, "/v1/ports/") {
				want = append(want, compact(t, c.Body))
			}
		}
	}
	i := &fakeIronic{ports: []ironic.Port{{UUID: "p", Address: "52:54:00:06:00:00"}}}
	d := parsed(t, string(sent))
	wantProblem(t, validateInterfaces{add: "pxe"}.Before(t.Context(), d), "")
	task := inspector.NewTask(d, i.node, i)
	for _, name := range []string{"lldp_basic", "local_link_connection", "physnet_cidr_map"} {
		wantProblem(t, linkHooks()[name].After(t.Context(), task), "")
	}
	if got, want := member(t, d, "all_interfaces"), member(t, parsed(t, string(kept)), "all_interfaces"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	var got []string
	for _, call := range i.calls {
		if patch, is := strings.CutPrefix(call, "PATCH p "); is {
			got = append(got, patch)
		}
	}
	if !slices.Equal(got, want) || len(want) != 2 {
		t.Errorf("Ironic was told\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func compact(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	var out bytes.Buffer
	if err := json.Compact(&out, raw); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
