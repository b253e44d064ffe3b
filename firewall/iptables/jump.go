package iptables

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	goiptables "github.com/coreos/go-iptables/iptables"

	"github.com/trivet-ha/trivet/firewall"
)

// enter makes INPUT lead to one of our chains, first of all.
func (f family) enter(ctx context.Context, l firewall.Layout, name, chain string) error {
	now, err := f.chainsOf(ctx, name, input)
	if err != nil {
		return err
	}
	err = now.entrance(l, chain)
	if err == nil {
		return nil
	}
	if len(now.leave([]string{chain})) == 0 {
		// The library takes no context; its wait for the lock is bounded, and nothing else makes it wait.
		if err := ctx.Err(); err != nil {
			return err
		}
		err := f.chains.Insert(name, input, 1, jump(l, chain)...)
		var failed *goiptables.Error
		if errors.As(err, &failed) { // is worded like a failure of our own commands
			return newFailure(filepath.Base(f.command), "", failed.Error(), &failed.ExitError)
		}
		return err
	}
	// One commit, so that there is no moment without a jump.
	return f.commit(ctx, now.replaceJumps(l, chain))
}

// chainsOf reads single chains of a table, one after the other.
func (f family) chainsOf(ctx context.Context, name string, chains ...string) (table, error) {
	var all string
	for _, chain := range chains {
		listed, err := runCommand(ctx, "", f.command, append(wait(), "-t", name, "-S", chain)...)
		if err != nil {
			return table{}, err
		}
		all += inSave(listed)
	}
	return parse(name, []byte("*"+name+"\n"+all+commit))
}

// inSave turns the words of -S, which may be of a chain of ours, into those of
// iptables-save.
func inSave(listed []byte) string {
	var lines strings.Builder
	for line := range strings.Lines(string(listed)) {
		if chain, ok := strings.CutPrefix(line, "-P "); ok {
			line = ":" + chain
		} else if chain, ok := strings.CutPrefix(line, "-N "); ok {
			line = ":" + strings.TrimSuffix(chain, "\n") + " -\n"
		}
		lines.WriteString(line)
	}
	return lines.String()
}

// replaceJumps is the commit that takes every rule out of INPUT that leads to a
// chain of ours, and puts the right one first.
func (t table) replaceJumps(l firewall.Layout, chain string) string {
	lines := t.leave([]string{chain})
	return script(t.name, append(lines, "-I "+input+" 1 "+jumpText(l, chain)))
}

// leave are the lines that take every rule out of INPUT that leads to one of
// these chains.
func (t table) leave(chains []string) (lines []string) {
	for _, rule := range t.rules[input] {
		if slices.Contains(chains, target(rule)) {
			lines = append(lines, "-D "+input+" "+rule)
		}
	}
	return lines
}

// remove takes our chains out of the back end: what leads to them, and then
// themselves. What is not there is no failure.
func (t tools) remove(ctx context.Context) error {
	var errs []error
	for _, f := range t.families {
		for _, name := range []string{listTable, leaseTable} {
			if t.backend == Legacy && !f.exists(name) {
				continue
			}
			if err := f.remove(ctx, name); err != nil {
				errs = append(errs, fmt.Errorf("remove our chains from table %s (%s, %s): %w", name, f.name, t.backend, err))
			}
		}
	}
	return errors.Join(errs...)
}

func (f family) remove(ctx context.Context, name string) error {
	now, err := f.readTable(ctx, name)
	if errors.Is(err, errInexpressible) {
		return nil // iptables could neither have programmed it nor change it
	}
	if err != nil {
		return err
	}
	if text := now.withoutOurs(); text != "" {
		return f.commit(ctx, text)
	}
	return nil
}

// withoutOurs is the commit that removes our chains from a table, "" if it has
// none.
func (t table) withoutOurs() string {
	own := slices.Concat([]string{gateChain, allowChain, denyChain, leaseChain}, partsOf(allowChain), partsOf(denyChain))
	all := slices.DeleteFunc(own, func(chain string) bool { return !t.has(chain) })
	if len(all) == 0 {
		return ""
	}
	var lines []string
	for _, chain := range all {
		lines = append(lines, declare(chain)) // empties it
	}
	lines = append(lines, t.leave(all)...)
	for _, chain := range all {
		lines = append(lines, "-X "+chain)
	}
	return script(t.name, lines)
}
