package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/doctor"
	"github.com/trivet-ha/trivet/doctor/inputrules"
	"github.com/trivet-ha/trivet/internal/program"
)

// commandLimit bounds one command that lists rules.
const commandLimit = 3 * time.Second

// rules asks every packet filter of this host for its rules, and judges by them
// what the host needs.
func (g *gathering) rules(ctx context.Context) {
	var tables []inputrules.Table
	saved := make(map[string]bool) // tables that iptables keeps in nf_tables
	for _, family := range []string{"ip", "ip6"} {
		for _, flavour := range flavours(family) {
			text, err := g.list(ctx, flavour)
			if err != nil {
				continue // said
			}
			more, err := inputrules.ParseSave(family, text, g.o.Chains)
			if err != nil {
				g.gap("input", err.Error())
			}
			for _, t := range more {
				saved[family+" "+t.Name] = saved[family+" "+t.Name] || !strings.Contains(flavour, "legacy")
				g.facts.Filter.IptablesChains = g.facts.Filter.IptablesChains || hasOwn(t, g.o.Chains)
			}
			g.flavour(flavour, more)
			tables = append(tables, more...)
		}
	}
	if text, err := g.list(ctx, "nft", "-jt", "list", "ruleset"); err == nil {
		g.facts.Filter.NftTable = bytes.Contains(text, fmt.Appendf(nil, "%q", g.o.Table))
		more, err := inputrules.ParseNft(text, func(family, table string) bool {
			return strings.HasPrefix(table, g.o.Table) || saved[family+" "+table]
		})
		if err != nil {
			g.gap("input", err.Error())
		}
		tables = append(tables, more...)
	}
	g.facts.Blocked = g.blocked(tables)
}

// flavour notes whose rules there are, of those who can be told apart.
func (g *gathering) flavour(command string, tables []inputrules.Table) {
	for _, t := range tables {
		for _, chain := range t.Chains {
			if len(chain.Rules) == 0 {
				continue
			}
			g.facts.Filter.LegacyRules = g.facts.Filter.LegacyRules || strings.Contains(command, "legacy")
			g.facts.Filter.NftRules = g.facts.Filter.NftRules || strings.Contains(command, "-nft-")
		}
	}
}

func hasOwn(t inputrules.Table, prefix string) bool {
	for name := range t.Chains {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// flavours are the commands that print the rules of iptables in a family: those
// of both back ends, where they are told apart.
func flavours(family string) []string {
	base := map[string]string{"ip": "iptables", "ip6": "ip6tables"}[family]
	out := []string{base + "-nft-save", base + "-legacy-save"}
	if slices.ContainsFunc(out, func(name string) bool { _, err := program.Find(name); return err == nil }) {
		return out
	}
	return []string{base + "-save"}
}

// list runs a command. That it is not installed is no gap: then no program on this
// host has rules by it.
func (g *gathering) list(ctx context.Context, name string, args ...string) ([]byte, error) {
	path, err := program.Find(name)
	if err != nil {
		return nil, err
	}
	text, err := runCommand(ctx, path, args...)
	if err != nil {
		g.gap("input", err.Error())
	}
	return text, err
}

// runCommand executes a command to its end.
func runCommand(ctx context.Context, path string, args ...string) ([]byte, error) {
	said, err := program.Run(ctx, commandLimit, path, args...)
	switch name := filepath.Base(path); {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("%s: not done within %v", name, commandLimit)
	case err != nil:
		why, _, _ := strings.Cut(strings.TrimSpace(said.Complaint), "\n")
		return nil, fmt.Errorf("%s: %w: %s", name, err, why)
	}
	return said.Output, nil
}

// blocked are the needs that some table surely drops.
func (g *gathering) blocked(tables []inputrules.Table) []doctor.Blocked {
	var out []doctor.Blocked
	for _, n := range g.needs() {
		packet := inputrules.Packet{Interface: n.Interface, Protocol: n.Protocol, Port: n.Port, Six: n.Six, Cast: n.cast}
		if by, ok := inputrules.Blocked(tables, packet); ok {
			out = append(out, doctor.Blocked{Need: n.Need, By: by})
			continue
		}
		for _, other := range n.from {
			packet.Source = other.Address
			if by, ok := inputrules.Blocked(tables, packet); ok {
				out = append(out, doctor.Blocked{Need: n.Need, From: other.Name, By: by})
			}
		}
	}
	return out
}
