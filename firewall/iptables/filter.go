package iptables

import (
	"context"
	"errors"
	"fmt"

	"github.com/trivet-ha/trivet/firewall"
)

// Filter are our chains in the kernel of one host. One goroutine at a time may
// call its methods, but for Notes and Backend.
type Filter struct {
	layout firewall.Layout
	tools  tools
	// leftover are back ends with chains of ours that are not used any more.
	leftover []tools

	// known are the rules as they were programmed last; nil if that is not
	// known, after a failure or at the start.
	known *rules
}

var _ firewall.Chains = (*Filter)(nil)

// New returns the filter for a layout, on the back end that the host's rules
// use. It changes nothing yet, but fails where nothing can be changed: a command
// is missing, a permission, or a part of the kernel.
func New(ctx context.Context, l firewall.Layout) (*Filter, error) { return newOn(ctx, l, "") }

// newOn takes a back end that the host's rules would not choose, unless it is "".
func newOn(ctx context.Context, l firewall.Layout, only Backend) (*Filter, error) {
	if err := check(l); err != nil {
		return nil, err
	}
	t, leftover, err := choose(ctx, only)
	if err != nil {
		return nil, fmt.Errorf("firewall.driver: iptables: %w", err)
	}
	return &Filter{layout: l, tools: t, leftover: leftover}, nil
}

// Backend returns where the rules are kept.
func (f *Filter) Backend() Backend { return f.tools.backend }

// Replace implements firewall.Chains.
func (f *Filter) Replace(ctx context.Context, r firewall.Ruleset) error {
	next, err := newRules(r)
	if err != nil {
		return err
	}
	f.known = nil
	text := next.build()
	for _, family := range f.tools.families {
		if err := family.commit(ctx, text); err != nil {
			return fmt.Errorf("program the %s rules: %w", family.name, err)
		}
		if err := family.enter(ctx, f.layout, listTable, gateChain); err != nil {
			return fmt.Errorf("put the jump into %s (%s): %w", input, family.name, err)
		}
	}
	for len(f.leftover) > 0 {
		if err := f.leftover[0].remove(ctx); err != nil {
			return err
		}
		f.leftover = f.leftover[1:]
	}
	f.known = &next
	return nil
}

// errUnknown says that a change has nothing to start from.
var errUnknown = errors.New("the rules are not known since a failure or the start; they have to be replaced first")

// Change implements firewall.Chains. A change that is not small replaces the
// rules.
func (f *Filter) Change(ctx context.Context, c firewall.Change) error {
	if err := firewall.CheckMACs(c.Allow, c.Unallow, c.Deny, c.Undeny); err != nil {
		return err
	}
	if f.known == nil {
		return errUnknown
	}
	text, next, small := f.known.edit(c, jumpText(f.layout, gateChain))
	if !small {
		return f.Replace(ctx, f.known.ruleset().With(c))
	}
	if text == "" {
		return nil
	}
	f.known = nil
	for _, family := range f.tools.families {
		if err := family.commit(ctx, text); err != nil {
			if rule := missed(err); rule != "" {
				err = fmt.Errorf("%w: this is not there any more: %s", firewall.ErrForeign, rule)
			}
			return fmt.Errorf("change the %s rules: %w", family.name, err)
		}
	}
	f.known = &next
	return nil
}

// Read implements firewall.Chains. Both families must hold the same. They are
// read at the same time, since machines wait for the door while long lists are
// read back.
func (f *Filter) Read(ctx context.Context) (firewall.Ruleset, error) {
	ends := make([]func() (table, error), len(f.tools.families))
	for i, family := range f.tools.families {
		ends[i] = family.beginRead(ctx, listTable)
	}
	lists := make([]firewall.Ruleset, len(ends))
	var errs []error
	for i, end := range ends {
		now, err := end()
		var r rules
		if err == nil {
			r, err = now.rulesOf(f.layout)
		}
		lists[i] = r.ruleset()
		if err != nil {
			errs = append(errs, fmt.Errorf("read the %s rules: %w", f.tools.families[i].name, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return firewall.Ruleset{}, err
	}
	for i, list := range lists {
		if !list.Equal(lists[0]) {
			return firewall.Ruleset{},
				fmt.Errorf("%w: IPv4 and %s do not hold the same lists", firewall.ErrForeign, f.tools.families[i].name)
		}
	}
	return lists[0], nil
}

// Seal empties all lists and lets nothing pass until they are programmed again;
// it builds what is missing, and reads it back. For hosts on which no peer runs:
// at boot, after a stop.
func (f *Filter) Seal(ctx context.Context) error {
	return firewall.Seal(ctx, f, "the PXE filter", "it does not stay shut")
}

// Remove takes our chains out of both back ends, and the chain in mangle in which
// Trivet 0.1 kept a lease on kernels without nf_tables; the host filters nothing any more.
// To remove what is not there is a success, and so it is where iptables is not installed.
// It is for kernels that have nf_tables: then a look that fails says nothing about what
// is there.
func Remove(ctx context.Context) error {
	all, err := hostTools(ctx)
	if errors.Is(err, errNotInstalled) {
		return nil
	}
	if err != nil {
		return err
	}
	var errs []error
	for _, t := range all {
		errs = append(errs, t.remove(ctx))
	}
	return errors.Join(errs...)
}
