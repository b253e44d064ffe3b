package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/doctor"
	"github.com/trivet-ha/trivet/doctor/inputrules"
)

// Bounds of one command that lists rules.
const (
	commandLimit = 3 * time.Second
	giveUp       = 500 * time.Millisecond // after its end, for its output
	maxOutput    = 32 << 20               // bytes: 400,000 rules
)

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
	if slices.ContainsFunc(out, func(name string) bool { _, err := find(name); return err == nil }) {
		return out
	}
	return []string{base + "-save"}
}

// list runs a command. That it is not installed is no gap: then no program on this
// host has rules by it.
func (g *gathering) list(ctx context.Context, name string, args ...string) ([]byte, error) {
	path, err := find(name)
	if err != nil {
		return nil, err
	}
	text, err := run(ctx, path, args...)
	if err != nil {
		g.gap("input", err.Error())
	}
	return text, err
}

// find returns the path of a command, also where PATH has no sbin.
func find(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/sbin", "/sbin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s: %w", name, exec.ErrNotFound)
}

// limited keeps the beginning of what is written to it, and reads on.
type limited struct {
	kept bytes.Buffer // not embedded: io.Copy would read into it without bound
	most int
	over bool
}

// Write implements io.Writer; it never fails.
func (l *limited) Write(p []byte) (int, error) {
	room := min(len(p), l.most-l.kept.Len())
	l.over = l.over || room < len(p)
	l.kept.Write(p[:room])
	return len(p), nil
}

// run executes a command to its end, which comes after commandLimit at the
// latest.
func run(ctx context.Context, path string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	out, complaint := &limited{most: maxOutput}, &limited{most: 1 << 10}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdout, cmd.Stderr = out, complaint
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.WaitDelay = giveUp
	name := filepath.Base(path)
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%s: not done within %v", name, commandLimit)
		}
		why, _, _ := strings.Cut(strings.TrimSpace(complaint.kept.String()), "\n")
		return nil, fmt.Errorf("%s: %w: %s", name, err, why)
	}
	if out.over {
		return nil, errors.New(name + " printed more than any host's rules should take")
	}
	return out.kept.Bytes(), nil
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
