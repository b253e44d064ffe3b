package iptables

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	goiptables "github.com/coreos/go-iptables/iptables"
)

// Backend is where the commands of iptables keep their rules. A host may have
// rules in both; then both apply.
type Backend string

// The two back ends.
const (
	Legacy  Backend = "legacy"
	NFTable Backend = "nf_tables"
)

// family is one IP version: its commands, and its words.
type family struct {
	name    string // IPv4 or IPv6
	command string // path of iptables or ip6tables
	save    string // of iptables-save
	restore string // of iptables-restore
	// chains is the library, which inserts the jump. It calls no iptables-restore, by which lists
	// are one commit, and no iptables-save, by which a table is read as a whole.
	chains *goiptables.IPTables
	// tables is the file in which the legacy back end names its tables.
	tables string
}

// tools are the commands that write to one back end.
type tools struct {
	backend  Backend
	families []family
}

// hostTools returns the commands of this host, those first that are called
// iptables without an addition.
func hostTools(ctx context.Context) ([]tools, error) {
	plain, err := find("iptables")
	if err != nil {
		return nil, err
	}
	version, err := runCommand(ctx, "", plain, "--version")
	if err != nil {
		return nil, fmt.Errorf("ask for the version of iptables: %w", err)
	}
	first := Legacy // which did not say so in its early versions
	if strings.Contains(string(version), "(nf_tables)") {
		first = NFTable
	}
	var all []tools
	for _, b := range []Backend{first, otherBackend(first)} {
		suffix := map[Backend]string{Legacy: "-legacy", NFTable: "-nft"}[b]
		if _, err := find("iptables" + suffix); err != nil {
			if b != first {
				continue
			}
			suffix = "" // a distribution with one back end
		}
		families, err := familiesOf(suffix)
		switch {
		case err == nil:
			all = append(all, tools{backend: b, families: families})
		case b == first:
			return nil, err
		}
	}
	return all, nil
}

func otherBackend(b Backend) Backend {
	if b == Legacy {
		return NFTable
	}
	return Legacy
}

// familiesOf looks up the commands of both families; of one, where the kernel
// has no IPv6 for a packet to come in by.
func familiesOf(suffix string) ([]family, error) {
	all := []family{{
		name: "IPv4", command: "iptables" + suffix, tables: "ip_tables_names",
	}}
	if _, err := os.Stat("/proc/thread-self/net/if_inet6"); err == nil {
		all = append(all, family{
			name: "IPv6", command: "ip6tables" + suffix, tables: "ip6_tables_names",
		})
	}
	for i := range all {
		f := &all[i]
		var errs [3]error
		f.save, errs[1] = find(f.command + "-save")
		f.restore, errs[2] = find(f.command + "-restore")
		f.command, errs[0] = find(f.command)
		if err := errors.Join(errs[:]...); err != nil {
			return nil, err
		}
		protocol := goiptables.ProtocolIPv4
		if f.name == "IPv6" {
			protocol = goiptables.ProtocolIPv6
		}
		var err error
		f.chains, err = goiptables.New(goiptables.IPFamily(protocol), goiptables.Path(f.command),
			goiptables.Timeout(int(lockWait/time.Second)))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(f.command), err)
		}
	}
	return all, nil
}

// choose returns the back end to use: the one whose INPUT decides something
// already, since what it drops stays dropped and what it accepts does not help
// in the other; else the one that has our chains; else the one that is called
// iptables. Leftover are those in which our chains stand too, from another
// time: both apply.
func choose(ctx context.Context, only Backend) (chosen tools, leftover []tools, err error) {
	all, err := hostTools(ctx)
	if err != nil {
		return tools{}, nil, err
	}
	var usable []tools
	var errs []error
	seen := make(map[Backend]survey)
	for _, t := range all {
		if seen[t.backend], err = t.survey(ctx); err != nil {
			errs = append(errs, err)
			continue
		}
		usable = append(usable, t)
	}
	slices.SortStableFunc(usable, func(a, b tools) int { return seen[b.backend].score() - seen[a.backend].score() })
	for i, t := range usable {
		if only != "" && t.backend != only {
			continue
		}
		if err := t.probe(ctx); err != nil {
			errs = append(errs, err)
			continue
		}
		rest := slices.Delete(slices.Clone(usable), i, i+1)
		return t, slices.DeleteFunc(rest, func(o tools) bool { return !seen[o.backend].ours }), nil
	}
	if len(errs) == 0 {
		return tools{}, nil, fmt.Errorf("iptables has no back end %s here", only)
	}
	return tools{}, nil, errors.Join(errs...)
}

// survey is what stands in a back end before anything is done.
type survey struct {
	decides bool // INPUT has rules of another program, or a policy
	ours    bool
}

// score is higher where the rules belong rather.
func (s survey) score() (n int) {
	if s.decides {
		n += 2
	}
	if s.ours {
		n++
	}
	return n
}

// survey looks without making anything: to read a table of the legacy back end
// creates it.
func (t tools) survey(ctx context.Context) (s survey, err error) {
	for _, f := range t.families {
		if t.backend == Legacy && !f.exists(listTable) {
			continue
		}
		now, err := f.readTable(ctx, listTable)
		if err != nil {
			return survey{}, err
		}
		s.ours = s.ours || now.has(gateChain)
		s.decides = s.decides || now.policy[input] == drop || slices.ContainsFunc(now.rules[input], func(rule string) bool {
			return target(rule) != gateChain
		})
	}
	return s, nil
}

// probe fails where the back end cannot be used.
func (t tools) probe(ctx context.Context) error {
	for _, f := range t.families {
		if _, err := runCommand(ctx, "", f.command, append(wait(), "-t", listTable, "-S", input)...); err != nil {
			return err
		}
	}
	return nil
}

// exists reports whether the legacy back end has a table.
func (f family) exists(name string) bool {
	names, err := os.ReadFile(filepath.Join("/proc/thread-self/net", f.tables))
	return err == nil && slices.Contains(strings.Fields(string(names)), name)
}

// readTable returns a table as it stands in the kernel.
func (f family) readTable(ctx context.Context, name string) (table, error) {
	return f.beginRead(ctx, name)()
}

// beginRead starts to read; end, which must be called, waits for it.
func (f family) beginRead(ctx context.Context, name string) (end func() (table, error)) {
	saved := startCommand(ctx, "", f.save, "-t", name)
	return func() (table, error) {
		text, err := saved()
		if err != nil {
			return table{}, err
		}
		return parse(name, text)
	}
}

// commit makes all changes of a text, or none.
func (f family) commit(ctx context.Context, text string) error {
	_, err := runCommand(ctx, text, f.restore, append([]string{"--noflush"}, wait()...)...)
	return err
}
