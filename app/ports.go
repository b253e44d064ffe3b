package app

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/google/uuid"

	"github.com/trivet-ha/trivet/fsm/ironicports"
	"github.com/trivet-ha/trivet/fsm/valid"
	"github.com/trivet-ha/trivet/inspector/identify"
	"github.com/trivet-ha/trivet/inspector/ironic"
)

// allPorts lists Ironic's ports; *ironic.Client has it.
type allPorts interface {
	AllPorts(ctx context.Context) ([]ironic.Port, error)
}

// portLister lists Ironic's ports for the blacklist. No port keeps the others from it: one
// whose address is no MAC (InfiniBand's are longer) is left out, since the filter matches
// Ethernet frames; any other is on it, also where its node is not to be told, so that its
// machine does not boot. One goroutine uses it.
type portLister struct {
	ironic allPorts
	log    *slog.Logger
	told   oddPorts // in the log
}

// oddPorts are ports that a list had besides those with a MAC and a node.
type oddPorts struct {
	noMAC, noNode int
	example       string
}

// AllPorts implements firewall.PortLister.
func (l *portLister) AllPorts(ctx context.Context) ([]ironicports.Port, error) {
	listed, err := l.ironic.AllPorts(ctx)
	if err != nil {
		return nil, err
	}
	var odd oddPorts
	ports := make([]ironicports.Port, 0, len(listed))
	for _, p := range listed {
		mac, ok := identify.CanonicalMAC(p.Address)
		if !ok {
			odd.noMAC++
			odd.example = p.UUID
			continue
		}
		port := ironicports.Port{ID: p.UUID, MAC: mac, Node: p.Node}
		if valid.ID("port", port.ID) != nil { // Ironic has each MAC once
			port.ID = strings.ReplaceAll(mac, ":", "-")
		}
		if valid.Node(port.Node) != nil {
			odd.noNode++
			odd.example = p.UUID
			port.Node = uuid.Nil.String()
		}
		ports = append(ports, port)
	}
	l.tell(odd)
	return ports, nil
}

// tell logs what is odd, once for as long as it stays the same.
func (l *portLister) tell(odd oddPorts) {
	if odd == l.told {
		return
	}
	l.told = odd
	level := slog.LevelInfo
	if odd.noNode > 0 {
		level = slog.LevelWarn
	}
	l.log.Log(context.Background(), level, "ports in Ironic lack a MAC, and are not filtered, or a node, and are denied",
		"without_mac", odd.noMAC, "without_node", odd.noNode, "last", odd.example)
}

// inspections are what Ironic itself inspects by some of its interfaces. One goroutine
// uses them.
type inspections struct {
	ironic     inspectedIronic
	interfaces []string
	log        *slog.Logger
	told       string // the node without a UUID that the log has
}

// inspectedIronic lists what Ironic inspects; *ironic.Client has it.
type inspectedIronic interface {
	Inspected(ctx context.Context, interfaces []string) ([]string, error)
	Addresses(ctx context.Context, node string) ([]string, error)
}

// Inspected implements firewall.Inspections. A node without a UUID is left out, and its
// machine does not boot: it keeps no other's from booting.
func (i *inspections) Inspected(ctx context.Context) ([]string, error) {
	listed, err := i.ironic.Inspected(ctx, i.interfaces)
	if err != nil {
		return nil, err
	}
	odd := ""
	nodes := make([]string, 0, len(listed))
	for _, node := range listed {
		if valid.Node(node) != nil {
			odd = node[:min(len(node), 64)]
			continue
		}
		nodes = append(nodes, node)
	}
	if odd != i.told && odd != "" {
		i.log.Warn("let a machine that Ironic inspects boot failed: its node has no UUID", "node", odd)
	}
	i.told = odd
	return nodes, nil
}

// MACs implements firewall.Inspections. An address that is no MAC is left
// out, as in the blacklist: the filter matches Ethernet frames.
func (i *inspections) MACs(ctx context.Context, node string) ([]string, error) {
	addresses, err := i.ironic.Addresses(ctx, node)
	if errors.Is(err, ironic.ErrNoNode) {
		return nil, nil
	}
	macs := make([]string, 0, len(addresses))
	for _, address := range addresses {
		if mac, ok := identify.CanonicalMAC(address); ok {
			macs = append(macs, mac)
		}
	}
	return macs, err
}
