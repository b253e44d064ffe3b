package firewall

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"
)

// Match says which address of a packet the lists are compared with.
type Match string

// The two matches (firewall.match).
const (
	// MatchEther is the frame's source. A relay's says nothing about the machine
	// behind it, so that what relays pass on is dropped.
	MatchEther Match = "ether"
	// MatchChaddr is the client hardware address inside DHCP over IPv4, for
	// machines behind relays; DHCPv6, which has none, is matched by the frame,
	// and dropped if a relay passed it on.
	MatchChaddr Match = "chaddr"
)

// Relays is what becomes of requests that a DHCP relay passes on to a host. In
// its frame they all come from one machine, the relay, which no list knows.
type Relays string

// The ways to treat them.
const (
	RelaysDropped Relays = "dropped"
	// RelaysMatched is what MatchChaddr makes of them.
	RelaysMatched Relays = "matched"
)

// Relays says what becomes of what relays pass on: the table of the lease drops it
// unless the match looks inside.
func (m Match) Relays() Relays {
	if m == MatchChaddr {
		return RelaysMatched
	}
	return RelaysDropped
}

// Layout is what does not change while a peer runs.
type Layout struct {
	Interface string // on which machines boot
	Match     Match
}

// Ruleset is what lies below the lease: Allow is consulted first, then Deny, and
// what neither list names is let through if Pass is set, else dropped. A MAC may
// be on both. Lists are sorted, in lower case, without repeats, and must not be
// changed.
type Ruleset struct {
	Allow []string
	Deny  []string
	Pass  bool
}

// Equal reports whether two rulesets let the same through.
func (r Ruleset) Equal(o Ruleset) bool {
	return r.Pass == o.Pass && slices.Equal(r.Allow, o.Allow) && slices.Equal(r.Deny, o.Deny)
}

// IsMAC reports whether s is a MAC in lower case with colons. In a rule, a line or a
// name of a file, any other text could be another rule, line or file.
func IsMAC(s string) bool {
	mac, err := net.ParseMAC(s)
	return err == nil && len(mac) == 6 && mac.String() == s
}

// CheckMACs names the first text of the lists that is no MAC.
func CheckMACs(lists ...[]string) error {
	for _, mac := range slices.Concat(lists...) {
		if !IsMAC(mac) {
			return fmt.Errorf("%.80q is not a MAC in lower case with colons; nothing was programmed", mac)
		}
	}
	return nil
}

// Change is the difference between two rulesets; nil Pass leaves the pass rule.
type Change struct {
	Allow, Unallow []string
	Deny, Undeny   []string
	Pass           *bool
}

// With returns the ruleset that a change makes of r.
func (r Ruleset) With(c Change) Ruleset {
	out := Ruleset{Allow: edited(r.Allow, c.Allow, c.Unallow), Deny: edited(r.Deny, c.Deny, c.Undeny), Pass: r.Pass}
	if c.Pass != nil {
		out.Pass = *c.Pass
	}
	return out
}

// edited returns a sorted list with some MACs more and some fewer.
func edited(list, add, remove []string) []string {
	gone := make(map[string]bool, len(remove))
	for _, mac := range remove {
		gone[mac] = true
	}
	out := slices.DeleteFunc(slices.Clone(list), func(mac string) bool { return gone[mac] })
	out = append(out, add...)
	slices.Sort(out)
	return slices.Compact(out)
}

// Empty reports whether there is nothing to do.
func (c Change) Empty() bool {
	return len(c.Allow)+len(c.Unallow)+len(c.Deny)+len(c.Undeny) == 0 && c.Pass == nil
}

// Chains are a host's rules below the lease. One goroutine at a time calls them.
type Chains interface {
	// Replace makes the rules those of r in one commit, building what is
	// missing (chains, sets, the jump). It never opens the lease, and leaves
	// one that is in force alone.
	Replace(ctx context.Context, r Ruleset) error
	// Change makes a small difference, in one commit. It fails, and changes
	// nothing, when the chains are not as Replace left them. That another program
	// took something off a list it need not notice: Read does.
	Change(ctx context.Context, c Change) error
	// Read returns the rules as the kernel has them. It fails with ErrForeign
	// when a part is missing or was changed by another program.
	Read(ctx context.Context) (Ruleset, error)
}

// Seal empties the lists of chains, so that they let nothing pass, and reads that back. what names
// them in an error, and says is the error where they hold something all the same.
func Seal(ctx context.Context, c Chains, what, says string) error {
	err := c.Replace(ctx, Ruleset{})
	if err == nil {
		var got Ruleset
		if got, err = c.Read(ctx); err == nil && !got.Equal(Ruleset{}) {
			err = fmt.Errorf("%w: %s", ErrForeign, says)
		}
	}
	if err != nil {
		return fmt.Errorf("seal %s: %w", what, err)
	}
	return nil
}

// Swap is the kernel's permission to let something through: an object that ends by
// itself. One goroutine calls it. Every swap is a transaction of its own.
type Swap interface {
	// Arm puts the element from which Open swaps; it opens nothing.
	Arm(ctx context.Context, d time.Duration) error
	// Open swaps the armed element for the lease, for d. It fails with
	// ErrLapsed, and opens nothing, when Arm was longer ago than it was for.
	Open(ctx context.Context, d time.Duration) error
	// Hold swaps the lease for itself, for another d. It fails with ErrLapsed,
	// and opens nothing, when the lease has ended.
	Hold(ctx context.Context, d time.Duration) error
}

// Lease is the permission of the PXE service.
type Lease interface {
	Swap
	// Shut ends lease and armed element in one transaction and reads both
	// back; it builds what is missing, closed. Shutting twice is a success.
	Shut(ctx context.Context) error
}

var (
	// ErrLapsed says that what was to be swapped had ended: nothing was opened.
	ErrLapsed = errors.New("the lease had lapsed")
	// ErrForeign says that another program changed or removed our rules.
	ErrForeign = errors.New("another program changed the rules of the PXE filter")
	// ErrMisplaced says that the rules keep everything out on another interface than
	// the configured one, whose packets they would not see.
	ErrMisplaced = errors.New("firewall.interface is not where packets arrive")
)
