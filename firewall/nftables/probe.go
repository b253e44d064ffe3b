package nftables

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Supported says why this filter cannot work here, naming the capability or the
// kernel module that is missing; nil if it can. It builds a table of its own that filters
// nothing, and removes it in the same transaction: nothing is left of it, and processes that
// ask at once do not meet.
func (f *Filter) Supported(ctx context.Context) (err error) {
	s := f.socket()
	defer func() { err = errors.Join(err, s.close()) }()
	if _, err := generation(ctx, s); errors.Is(err, unix.EPERM) {
		return err
	} else if err != nil {
		return fmt.Errorf("nf_tables (kernel module nf_tables, CONFIG_NF_TABLES): %w", err)
	}
	probe := *f
	probe.table.name, probe.planned = f.table.name+"_probe", f.probe
	if err := probe.Remove(ctx); err != nil { // an earlier version may have left one
		return err
	}
	steps, err := probe.steps()
	if err != nil {
		return err
	}
	var built []netlink.Message
	for _, step := range steps {
		built = append(built, step.changes...)
		if err := s.commit(ctx, 0, append(slices.Clip(built), probe.table.remove())...); err != nil {
			return fmt.Errorf("%s: %w", step.needs, err)
		}
	}
	return nil
}

// Lacks reports whether an error of Supported says that the kernel cannot have the filter, and
// not that this once it could not be asked, or would not.
func Lacks(err error) bool {
	var number unix.Errno
	return errors.As(err, &number) && slices.Contains([]unix.Errno{
		unix.EOPNOTSUPP, unix.EPROTONOSUPPORT, unix.EAFNOSUPPORT, unix.ENOENT, unix.EINVAL, unix.ENOSYS,
	}, number)
}

// step is a part of building a table, and what it needs of the kernel.
type step struct {
	needs   string
	changes []netlink.Message
}

// steps returns how to build the table part by part, so that the part that
// fails says what is missing.
func (f *Filter) steps() ([]step, error) {
	changes, err := f.build(false)
	if err != nil {
		return nil, err
	}
	parts := make(map[int][]netlink.Message)
	for _, m := range changes {
		kind, _ := kindOf(m)
		parts[kind] = append(parts[kind], m)
	}
	return []step{
		{"tables of family " + strings.Fields(f.table.String())[0] + " (CONFIG_NF_TABLES_INET, CONFIG_NF_TABLES_ARP)",
			parts[unix.NFT_MSG_NEWTABLE]},
		{"sets (kernel module nf_tables_set or nft_set_hash)", parts[unix.NFT_MSG_NEWSET]},
		{"elements that end by themselves (Linux 4.1 or later)", f.addElements(setLease, maxLife, f.gated...)},
		{"chains of type filter (kernel module nf_tables)", parts[unix.NFT_MSG_NEWCHAIN]},
		{"expressions meta, cmp, payload, exthdr, lookup, dynset and immediate (kernel modules nf_tables, nft_meta and nft_exthdr)",
			parts[unix.NFT_MSG_NEWRULE]},
	}, nil
}
