package nftables

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/firewall"
)

// Table is the name of our table, of family inet.
const Table = "trivet_pxe"

// tries bounds how often something is begun again because the ruleset changed
// meanwhile. Each takes some milliseconds at most; others commit far less often.
const tries = 10

// maxLife is the longest life of a lease's element; a longer one is a mistake, or an
// element of another program. The configuration allows 1.5 s.
const maxLife = time.Minute

// Filter is a table of ours in the kernel of one host. It holds no socket itself; its
// methods may be called concurrently.
type Filter struct {
	layout  firewall.Layout
	lists   bool
	netns   int
	table   table
	planned skeleton
	probe   skeleton // the same for what no host has
	// gated are the elements of the lease, sorted: what it lets through. held is the set
	// that Arm puts them into for good, "" for none.
	gated [][]byte
	held  string
	ports *ports
}

// Option is one of the choices of New.
type Option func(*Filter)

// LeaseOnly leaves the lists out: what the lease lets through passes. It is for
// a host whose lists another driver keeps; a drop in either is final.
func LeaseOnly() Option { return func(f *Filter) { f.lists = false } }

// InNamespace makes it the filter of another network namespace, named by an
// open file descriptor.
func InNamespace(fd int) Option { return func(f *Filter) { f.netns = fd } }

// New returns the filter for a layout. It changes nothing yet.
func New(l firewall.Layout, options ...Option) (*Filter, error) {
	if n := len(l.Interface); n == 0 || n >= unix.IFNAMSIZ {
		return nil, fmt.Errorf("firewall.interface: %.80q cannot be a network interface: write 1 to 15 characters",
			l.Interface)
	}
	if l.Match != firewall.MatchEther && l.Match != firewall.MatchChaddr {
		return nil, fmt.Errorf("firewall.match: %.80q is neither %s nor %s", l.Match, firewall.MatchEther,
			firewall.MatchChaddr)
	}
	f := emptyFilter(table{unix.NFPROTO_INET, Table}, gatedPorts())
	f.layout, f.lists = l, true
	for _, o := range options {
		o(f)
	}
	f.planned = plan(l, f.lists)
	f.probe = plan(firewall.Layout{Interface: "trivet/probe", Match: l.Match}, f.lists)
	return f, nil
}

func emptyFilter(t table, gated [][]byte) *Filter {
	return &Filter{table: t, gated: gated, ports: new(ports)}
}

func (f *Filter) socket() *socket { return &socket{netns: f.netns, ports: f.ports} }

// Left returns for how long the kernel will go on letting machines through by
// itself: zero when the door is shut. It fails with firewall.ErrForeign when
// the rules are not ours.
func (f *Filter) Left(ctx context.Context) (left time.Duration, err error) {
	s := f.socket()
	defer func() { err = errors.Join(err, s.close()) }()
	seen, err := f.readRules(ctx, s)
	if err == nil {
		err = seen.err()
	}
	if err != nil {
		return 0, fmt.Errorf("read the lease: %w", err)
	}
	for _, e := range seen.elements[setLease] {
		left = max(left, e.left)
	}
	return left, nil
}

// Seal shuts the door and empties all lists, so that nothing passes until they
// are programmed again; it builds what is missing. For hosts on which no peer
// runs: at boot, after a stop.
func (f *Filter) Seal(ctx context.Context) (err error) {
	s := f.socket()
	defer func() { err = errors.Join(err, s.close()) }()
	var names []string
	for _, set := range f.planned.sets {
		if set.flags&unix.NFT_SET_EVAL == 0 { // the DHCP server's answers fill the others at any time
			names = append(names, set.name)
		}
	}
	if err := f.shut(ctx, s, names...); err != nil {
		return fmt.Errorf("seal the PXE filter: %w", err)
	}
	return nil
}

// Remove deletes the table; the host filters nothing any more. To remove what
// is not there is a success.
func (f *Filter) Remove(ctx context.Context) (err error) {
	s := f.socket()
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.commit(ctx, 0, f.table.remove()); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove table %s: %w", f.table, err)
	}
	return nil
}

// shut empties these sets, the lease among them, and reads back that they are
// empty. What is missing or not ours is rebuilt with all sets empty.
func (f *Filter) shut(ctx context.Context, s *socket, names ...string) error {
	var flush []netlink.Message
	for _, name := range names {
		flush = append(flush, f.flushSet(name))
	}
	for range tries {
		// The lease goes first: the rest may be damaged.
		if err := s.commit(ctx, 0, flush...); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("end the lease: %w", err)
		}
		seen, err := f.readRules(ctx, s, names...)
		if err != nil {
			return err
		}
		if seen.foreign == "" && seen.empty(names) {
			return nil
		}
		if seen.foreign != "" {
			if err := f.rebuild(ctx, s, seen); err != nil && !errors.Is(err, errStale) {
				return err
			}
		}
	}
	return fmt.Errorf("%w: it does not stay shut; another program writes to table %s", firewall.ErrForeign, f.table)
}

// Mend rebuilds the table with all sets empty, unless it is ours: then nothing
// changes, and a lease goes on.
func (f *Filter) Mend(ctx context.Context) (err error) {
	s := f.socket()
	defer func() { err = errors.Join(err, s.close()) }()
	for range tries {
		seen, err := f.readRules(ctx, s)
		if err == nil && seen.foreign != "" {
			err = f.rebuild(ctx, s, seen)
		}
		if !errors.Is(err, errStale) {
			return err
		}
	}
	return fmt.Errorf("%w: it does not stay as it is built; another program writes to table %s", firewall.ErrForeign,
		f.table)
}

// rebuild puts the planned table, all sets empty, in the place of what was seen.
func (f *Filter) rebuild(ctx context.Context, s *socket, seen sight) error {
	changes, err := f.build(seen.exists)
	if err != nil {
		return err
	}
	return s.commit(ctx, seen.generation, changes...)
}

// build returns the changes that make the planned table.
func (f *Filter) build(exists bool) ([]netlink.Message, error) {
	var changes []netlink.Message
	if exists {
		changes = append(changes, f.table.remove())
	}
	changes = append(changes, f.table.add())
	for i, s := range f.planned.sets {
		changes = append(changes, f.table.addSet(uint32(i+1), s))
	}
	for _, c := range f.planned.chains {
		changes = append(changes, f.table.addChain(c))
	}
	for _, r := range f.planned.rules {
		m, err := f.table.addRule(r)
		if err != nil {
			return nil, err
		}
		changes = append(changes, m)
	}
	return changes, nil
}

func portKey(port uint16) []byte { return binary.BigEndian.AppendUint16(nil, port) }

// gatedPorts returns the ports of the door as elements, sorted.
func gatedPorts() (keys [][]byte) {
	for _, port := range firewall.Gated() {
		keys = append(keys, portKey(port))
	}
	slices.SortFunc(keys, bytes.Compare)
	return keys
}
