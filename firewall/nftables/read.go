package nftables

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/firewall"
)

// sight is what the kernel had of our table at one generation of its ruleset.
type sight struct {
	generation uint32
	exists     bool
	foreign    string               // what is not ours; "" when all is as planned
	elements   map[string][]element // of lease, arm, and the sets asked for
}

// element is one of a set.
type element struct {
	key  []byte
	life time.Duration // as it was put; zero: it does not end
	left time.Duration
}

// err says what is not ours.
func (s sight) err() error {
	if s.foreign == "" {
		return nil
	}
	return fmt.Errorf("%w: %s", firewall.ErrForeign, s.foreign)
}

func (s sight) empty(names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return len(s.elements[name]) > 0 })
}

// readRules reads table, lease and the sets named, all at one generation. That
// something is not ours is no error.
func (f *Filter) readRules(ctx context.Context, s *socket, names ...string) (sight, error) {
	for range tries {
		before, err := generation(ctx, s)
		if err != nil {
			return sight{}, err
		}
		seen, failed := f.readRulesOnce(ctx, s, names)
		// A failure may come of a change: what was listed is gone.
		after, err := generation(ctx, s)
		if err != nil {
			return sight{}, errors.Join(failed, err)
		}
		if before == after {
			seen.generation = before
			return seen, failed
		}
	}
	return sight{}, fmt.Errorf("the ruleset changed %d times while it was read", tries)
}

// generation returns the number of the newest commit to the ruleset.
func generation(ctx context.Context, s *socket) (uint32, error) {
	answer, err := s.ask(ctx, table{family: unix.NFPROTO_INET}.message(unix.NFT_MSG_GETGEN, 0))
	if err != nil {
		return 0, fmt.Errorf("read the generation of the ruleset: %w", err)
	}
	if len(answer) != 1 {
		return 0, fmt.Errorf("read the generation of the ruleset: %d answers", len(answer))
	}
	c, err := parseCommit(answer[0])
	return c.generation, err
}

func (f *Filter) readRulesOnce(ctx context.Context, s *socket, names []string) (seen sight, err error) {
	found, err := f.readSkeleton(ctx, s)
	if errors.Is(err, unix.ENOENT) {
		return sight{foreign: fmt.Sprintf("table %s is missing", f.table)}, nil
	}
	if err != nil {
		return sight{}, err
	}
	seen = sight{exists: true, elements: make(map[string][]element)}
	if d := f.planned.differs(found); d != "" {
		seen.foreign = fmt.Sprintf("table %s: %s", f.table, d)
		return seen, nil
	}
	for _, name := range append([]string{setLease, setArm}, names...) {
		if _, known := seen.elements[name]; known {
			continue
		}
		if seen.elements[name], err = f.members(ctx, s, name); err != nil {
			return sight{}, err
		}
	}
	if name := endless(seen.elements); name != "" {
		seen.foreign = fmt.Sprintf("table %s: set %s has an element that does not end", f.table, name)
	}
	return seen, nil
}

// endless names the set to which another program added an element without a
// timeout: with it the lease would not end by itself, or could be swapped from at
// any time.
func endless(elements map[string][]element) string {
	for _, name := range []string{setLease, setArm} {
		for _, e := range elements[name] {
			if e.life == 0 || e.life > maxLife {
				return name
			}
		}
	}
	return ""
}

// readSkeleton reads all of our table but the elements. It fails with ENOENT when there
// is none.
func (f *Filter) readSkeleton(ctx context.Context, s *socket) (k skeleton, err error) {
	answer, err := s.ask(ctx, f.table.message(unix.NFT_MSG_GETTABLE, 0, text(unix.NFTA_TABLE_NAME, f.table.name)))
	if err == nil && len(answer) != 1 {
		err = fmt.Errorf("%d answers", len(answer))
	}
	if err == nil {
		k.flags, err = parseTable(answer[0])
	}
	if err != nil {
		return k, fmt.Errorf("read table %s: %w", f.table, err)
	}
	var failed [3]error
	k.chains, failed[0] = list(ctx, s, f.table, unix.NFT_MSG_GETCHAIN, parseChain)
	k.sets, failed[1] = list(ctx, s, f.table, unix.NFT_MSG_GETSET, parseSet)
	k.rules, failed[2] = list(ctx, s, f.table, unix.NFT_MSG_GETRULE, parseRule)
	return k, errors.Join(failed[:]...)
}

// list reads the objects of one kind that are in a table. Of some kinds the
// kernel lists those of all tables.
func list[T any](ctx context.Context, s *socket, of table, kind int, parse func(netlink.Message) (T, error)) ([]T,
	error) {
	answer, err := s.ask(ctx, of.message(kind, netlink.Dump, text(attributeTable, of.name)))
	if err != nil {
		return nil, fmt.Errorf("list the parts of table %s: %w", of, err)
	}
	var all []T
	for _, m := range answer {
		if name, err := tableOf(m); err != nil {
			return nil, err
		} else if name != of.name {
			continue
		}
		one, err := parse(m)
		if err != nil {
			return nil, fmt.Errorf("read a part of table %s: %w", of, err)
		}
		all = append(all, one)
	}
	return all, nil
}

// members reads the elements of a set that have not ended.
func (f *Filter) members(ctx context.Context, s *socket, name string) ([]element, error) {
	answer, err := s.ask(ctx, f.table.message(unix.NFT_MSG_GETSETELEM, netlink.Dump,
		text(unix.NFTA_SET_ELEM_LIST_TABLE, f.table.name), text(unix.NFTA_SET_ELEM_LIST_SET, name)))
	if err != nil {
		return nil, fmt.Errorf("list the elements of set %s: %w", name, err)
	}
	var all []element
	for _, m := range answer {
		some, err := parseElements(m)
		if err != nil {
			return nil, fmt.Errorf("read the elements of set %s: %w", name, err)
		}
		all = append(all, some...)
	}
	return all, nil
}
