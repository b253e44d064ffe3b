package app

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/ironicports"
	"github.com/trivet-ha/trivet/inspector/ironic"
)

const (
	oddNode  = "4c4c4544-0035-5a10-8030-b2c04f4b4c32"
	lastNode = "4c4c4544-0035-5a10-8030-b2c04f4b4c33"
	lastMAC  = "52:54:00:00:00:ff"
)

// oddIronic is an Ironic with an odd row in each list, and a usual one after it.
type oddIronic struct {
	port ironic.Port
	node string
}

func (o oddIronic) AllPorts(context.Context) ([]ironic.Port, error) {
	return []ironic.Port{o.port, {UUID: "p-last", Address: lastMAC, Node: lastNode}}, nil
}

func (o oddIronic) Inspected(context.Context, []string) ([]string, error) {
	return []string{o.node, lastNode}, nil
}

func (o oddIronic) Addresses(context.Context, string) ([]string, error) { return nil, nil }

// One odd port keeps no other from the blacklist, and is on it itself if it has a MAC.
func TestOddPortStopsNoOther(t *testing.T) {
	for what, p := range map[string]ironic.Port{
		"no node":                {UUID: "p1", Address: "52:54:00:00:00:01"},
		"a node of another kind": {UUID: "p1", Address: "52:54:00:00:00:01", Node: "rack-4"},
		"a node in upper case":   {UUID: "p1", Address: "52:54:00:00:00:01", Node: strings.ToUpper(oddNode)},
		"an ID in braces":        {UUID: "{" + oddNode + "}", Address: "52:54:00:00:00:01", Node: oddNode},
		"a long ID":              {UUID: strings.Repeat("p", 300), Address: "52:54:00:00:00:01", Node: oddNode},
		"all odd":                {UUID: "p 1", Address: "52:54:00:00:00:01", Node: " "},
		"InfiniBand": {UUID: "p1", Node: oddNode,
			Address: "80:00:02:08:fe:80:00:00:00:00:00:00:f4:52:14:03:00:7b:cb:a1"},
		"no MAC":                {UUID: "p1", Node: oddNode},
		"a MAC of another kind": {UUID: "p1", Node: oddNode, Address: "5254.0000.0001"},
	} {
		logged := new(strings.Builder)
		l := &portLister{ironic: oddIronic{port: p}, log: slog.New(slog.NewTextHandler(logged, nil))}
		for range 3 {
			listed, err := l.AllPorts(t.Context())
			if err != nil {
				t.Fatalf("odd-port: %s: %v", what, err)
			}
			if err := (ironicports.PutPorts{Ports: listed, Complete: true}).Validate(); err != nil {
				t.Errorf("odd-port: %s: the log refuses the list: %v", what, err)
			}
			has := func(mac string) bool {
				return slices.ContainsFunc(listed, func(p ironicports.Port) bool { return p.MAC == mac })
			}
			if ethernet := len(p.Address) == len(lastMAC); !has(lastMAC) || has(p.Address) != ethernet {
				t.Errorf("odd-port: %s: the blacklist is %v", what, listed)
			}
		}
		if lines := strings.Count(logged.String(), "\n"); lines > 1 {
			t.Errorf("odd-port: %s: %d lines in the log:\n%s", what, lines, logged)
		}
	}
}

// One odd node in inspection keeps no other's machine from booting.
func TestOddInspectedNodeStopsNoOther(t *testing.T) {
	for _, odd := range []string{"rack-4", strings.ToUpper(oddNode), " ", strings.Repeat("x", 5000)} {
		logged := new(strings.Builder)
		i := &inspections{ironic: oddIronic{node: odd}, log: slog.New(slog.NewTextHandler(logged, nil))}
		for range 3 {
			nodes, err := i.Inspected(t.Context())
			if err != nil || !slices.Contains(nodes, lastNode) {
				t.Fatalf("odd-node: inspected are %q (%v)", nodes, err)
			}
			var put introspection.PutInspected
			for _, n := range nodes {
				put.Nodes = append(put.Nodes, introspection.Inspected{Node: n})
			}
			if err := put.Validate(); err != nil {
				t.Errorf("odd-node: the log refuses %q: %v", odd, err)
			}
		}
		if text := logged.String(); strings.Count(text, "\n") != 1 || len(text) > 1000 {
			t.Errorf("odd-node: the log has %d bytes: %.300s", len(text), text)
		}
	}
}
