package nftables

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/firewall"
)

var _ firewall.Chains = (*Chains)(nil)

// maxMACs bounds a list: five times the largest site we know of.
const maxMACs = 50_000

// Chains are the lists below the lease. One goroutine at a time calls them.
type Chains struct {
	filter *Filter
	socket *socket
	// edition is the element that the newest change left in the set of that
	// name; zero when it is not known. It only rises: Replace takes the
	// ruleset's generation, which every change raises by one at least.
	edition uint32
}

// Chains returns the lists of this filter; Close ends their socket, not them.
func (f *Filter) Chains() *Chains { return &Chains{filter: f, socket: f.socket()} }

// Close closes the socket. The rules stay.
func (c *Chains) Close() error { return c.socket.close() }

// Replace implements firewall.Chains. It rebuilds, closed, what is missing or not
// ours. Read says what the kernel made of it.
func (c *Chains) Replace(ctx context.Context, r firewall.Ruleset) error {
	if err := c.able(); err != nil {
		return err
	}
	allow, err := macKeys("allow", r.Allow)
	if err != nil {
		return err
	}
	deny, err := macKeys("deny", r.Deny)
	if err != nil {
		return err
	}
	return c.swap(ctx, func(seen sight) ([]netlink.Message, uint32, error) {
		f := c.filter
		changes := []netlink.Message{f.flushSet(setAllow), f.flushSet(setDeny), f.flushSet(setPass), f.flushSet(setEdition)}
		if seen.foreign != "" {
			if changes, err = f.build(seen.exists); err != nil {
				return nil, 0, err
			}
		}
		edition := seen.generation
		return slices.Concat(changes,
			f.addElements(setAllow, 0, allow...), f.addElements(setDeny, 0, deny...), c.pass(r.Pass),
			f.addElements(setEdition, 0, editionKey(edition))), edition, nil
	})
}

// Change implements firewall.Chains. To add what is on a list, or to take off
// what is not, is a success. It fails with firewall.ErrForeign when the lists
// are not those that this Chains programmed last.
func (c *Chains) Change(ctx context.Context, d firewall.Change) error {
	if err := c.able(); err != nil {
		return err
	}
	if c.edition == 0 {
		return errors.New("it is not known what the lists are: replace them first")
	}
	lists, err := c.lists(d)
	if err != nil {
		return err
	}
	err = c.swap(ctx, func(seen sight) ([]netlink.Message, uint32, error) {
		if err := seen.err(); err != nil {
			return nil, 0, err
		}
		f, next := c.filter, c.edition+1
		changes := slices.Concat(f.deleteElements(setEdition, editionKey(c.edition)),
			f.addElements(setEdition, 0, editionKey(next)), lists)
		return changes, next, nil
	})
	if errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("%w: the lists are not those that were programmed last", firewall.ErrForeign)
	}
	return err
}

// lists returns the changes of the sets.
func (c *Chains) lists(d firewall.Change) (changes []netlink.Message, err error) {
	f := c.filter
	for _, l := range []struct {
		set      string
		add, rid []string
	}{{setAllow, d.Allow, d.Unallow}, {setDeny, d.Deny, d.Undeny}} {
		add, err := macKeys(l.set, l.add)
		if err != nil {
			return nil, err
		}
		rid, err := macKeys(l.set, l.rid)
		if err != nil {
			return nil, err
		}
		// What is not there cannot be deleted, so it is put there first.
		changes = slices.Concat(changes, f.ensureElements(l.set, add...), f.ensureElements(l.set, rid...),
			f.deleteElements(l.set, rid...))
	}
	if d.Pass != nil {
		changes = append(append(changes, f.flushSet(setPass)), c.pass(*d.Pass)...)
	}
	return changes, nil
}

// swap commits what draft makes of what it sees, if no other program commits in
// between, and keeps the edition that this leaves.
func (c *Chains) swap(ctx context.Context,
	draft func(sight) (changes []netlink.Message, edition uint32, err error)) error {
	for range tries {
		seen, err := c.filter.readRules(ctx, c.socket)
		if err != nil {
			return err
		}
		changes, edition, err := draft(seen)
		if err == nil {
			err = c.socket.commit(ctx, seen.generation, changes...)
		}
		switch {
		case err == nil:
			c.edition = edition
			return nil
		case !errors.Is(err, errStale):
			c.edition = 0 // it may have been written nevertheless
			return err
		}
	}
	return fmt.Errorf("%w, %d times in a row", errStale, tries)
}

// Read implements firewall.Chains.
func (c *Chains) Read(ctx context.Context) (r firewall.Ruleset, err error) {
	if err := c.able(); err != nil {
		return r, err
	}
	seen, err := c.filter.readRules(ctx, c.socket, setAllow, setDeny, setPass)
	if err == nil {
		err = seen.err()
	}
	if err != nil {
		return r, err
	}
	r.Allow, r.Deny = macs(seen.elements[setAllow]), macs(seen.elements[setDeny])
	r.Pass, err = passes(seen.elements[setPass])
	return r, err
}

// passes reports whether the gated ports are in a set; all of them or none.
func passes(elements []element) (bool, error) {
	if len(elements) == 0 {
		return false, nil
	}
	var keys [][]byte
	for _, e := range elements {
		keys = append(keys, e.key)
	}
	slices.SortFunc(keys, bytes.Compare)
	if !slices.EqualFunc(keys, gatedPorts(), bytes.Equal) {
		return false, fmt.Errorf("%w: set %s has other ports than those gated", firewall.ErrForeign, setPass)
	}
	return true, nil
}

func (c *Chains) able() error {
	if !c.filter.lists {
		return errors.New("this filter keeps no lists, only the lease")
	}
	return nil
}

func (c *Chains) pass(on bool) []netlink.Message {
	if !on {
		return nil
	}
	return c.filter.addElements(setPass, 0, c.filter.gated...)
}

func editionKey(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }

// macKeys turns a list of MACs into elements.
func macKeys(list string, macs []string) ([][]byte, error) {
	if len(macs) > maxMACs {
		return nil, fmt.Errorf("list %s has %d MACs; at most %d are supported", list, len(macs), maxMACs)
	}
	keys := make([][]byte, 0, len(macs))
	for _, mac := range macs {
		hardware, err := net.ParseMAC(mac)
		if err != nil || len(hardware) != 6 || hardware.String() != mac {
			return nil, fmt.Errorf("list %s: %.80q is not a MAC address in the form 52:54:00:12:34:ab", list, mac)
		}
		keys = append(keys, hardware)
	}
	return keys, nil
}

// macs returns elements as a sorted list.
func macs(elements []element) []string {
	list := make([]string, 0, len(elements))
	for _, e := range elements {
		list = append(list, net.HardwareAddr(e.key).String())
	}
	slices.Sort(list)
	return list
}
