package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/internal/program"
)

// commandLimit bounds one command that lists rules.
const commandLimit = 3 * time.Second

// rules asks every packet filter of this host which rules there are: Trivet's own, and
// those of any program.
func (g *gathering) rules(ctx context.Context) {
	filter := &g.facts.Filter
	var commands []string // those of both back ends, where they are told apart
	for _, base := range []string{"iptables", "ip6tables"} {
		both := []string{base + "-nft-save", base + "-legacy-save"}
		if !slices.ContainsFunc(both, func(name string) bool { _, err := program.Find(name); return err == nil }) {
			both = []string{base + "-save"}
		}
		commands = append(commands, both...)
	}
	for _, command := range commands {
		text, err := g.list(ctx, command)
		if err != nil {
			continue // said
		}
		filter.IptablesChains = filter.IptablesChains || bytes.Contains(text, []byte("\n:"+g.o.Chains))
		if bytes.Contains(text, []byte("\n-A ")) {
			filter.LegacyRules = filter.LegacyRules || strings.Contains(command, "legacy")
			filter.NftRules = filter.NftRules || strings.Contains(command, "-nft-")
		}
	}
	if text, err := g.list(ctx, "nft", "-j", "list", "tables"); err == nil {
		g.tables(text)
	}
}

// tables finds Trivet's own among the tables of nf_tables.
func (g *gathering) tables(text []byte) {
	var listed struct {
		Nftables []struct {
			Table struct{ Family, Name string }
		}
	}
	if err := json.Unmarshal(text, &listed); err != nil {
		g.gap("filter", "nft -j list tables: "+err.Error())
	}
	for _, one := range listed.Nftables {
		switch one.Table.Name {
		case g.o.Table:
			g.facts.Filter.NftTable = true
		case g.o.AddressTable:
			g.facts.Filter.AddressTables = append(g.facts.Filter.AddressTables, one.Table.Family+" "+one.Table.Name)
		}
	}
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
		g.gap("filter", err.Error())
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
