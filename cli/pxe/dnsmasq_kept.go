package pxe

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/firewall/pxe"
	"github.com/trivet-ha/trivet/firewall/pxe/install"
)

// kept is what the last --install leaves to this one.
type kept struct {
	flags map[string][]string // that count here, since this line does not say them
	next  map[string][]string // what this one keeps
	conf  string              // the configuration that flags were read from, for want of a record
}

func (k kept) has(flag string) bool { return k.flags[flag] != nil }

// complete gives each flag that is not said the value of the last --install, and says so.
func (f *pxeFlags) complete(t *term.Terminal, on *install.Host, conf config.Config, flags *pflag.FlagSet) error {
	const most = 10000 // machines, the size of site that the product is made for
	if !f.forget {
		if err := f.keep(t, on, conf, flags); err != nil {
			return err
		}
	}
	f.kept.next = make(map[string][]string)
	var said []string
	// Those that an installation keeps for the next one, in the order of their telling.
	for _, name := range []string{"pool", "peers", "reserve", "batch", "address", "router", "lease-time", "tftp-root",
		"loader-url", "kernel", "ramdisk", "kernel-args", "callback-url"} {
		flag := flags.Lookup(name)
		if values, ok := f.kept.flags[name]; ok {
			if err := setFlag(flag, values); err != nil {
				return fmt.Errorf("%s: --%s: %w", install.RecordFile, name, err)
			}
			for _, v := range values {
				if v == "" || strings.ContainsAny(v, " \t'\"$`\\;&|<>(){}*?!~#") { // as a shell reads it
					v = "'" + strings.ReplaceAll(v, "'", `'\''`) + "'"
				}
				said = append(said, "--"+name+" "+v)
			}
		} else if err := setFlag(flag, valuesOf(flag)); err != nil { // '' is the default
			return err
		}
		if flag.Value.String() != flag.DefValue {
			f.kept.next[name] = valuesOf(flag)
		}
	}
	if len(said) > 0 {
		t.Say("as at the last --install here: %s; an empty value or the default takes one back, --forget all",
			strings.Join(said, " "))
	}
	switch {
	case f.batch < 1 || f.batch > most:
		return term.Usage("--batch %d: it is 1 to %d", f.batch, most)
	case f.reserve < 0:
		return term.Usage("--reserve %d: it is not negative", f.reserve)
	}
	return nil
}

// keep reads what the last --install was given. What is only printed may be so by a user who must not read it.
func (f *pxeFlags) keep(t *term.Terminal, on *install.Host, conf config.Config, flags *pflag.FlagSet) error {
	var h install.Host
	if on != nil {
		h = *on
	}
	was, err := h.Kept(f.root)
	if errors.Is(err, fs.ErrPermission) { // --install refuses such a user
		t.Warn("the flags of the last --install are not known, and do not count: %v; run it as root", err)
		return nil
	}
	if err != nil {
		return term.Fail(term.ExitFailed, "say --forget, and each flag that shall count",
			"dnsmasq-config: the flags of the last --install: %w", err)
	}
	f.kept = kept{flags: was.Flags, conf: was.Conf}
	if was.Conf != "" {
		f.kept.flags = flagsOf(was, conf)
	}
	for name := range f.kept.flags { // order-free: each by itself
		if flag := flags.Lookup(name); flag == nil || flag.Changed {
			delete(f.kept.flags, name)
		}
	}
	if flags.Changed("reserve") || flags.Changed("pool") {
		f.kept.conf = ""
	}
	return nil
}

// flagsOf reads flags from the files themselves: v0.2.0 recorded none. Where the ramdisk reports was said by hand
// unless it is what that version or this one would say.
func flagsOf(was install.Kept, conf config.Config) map[string][]string {
	s := pxe.ReadConfig(was.Conf)
	out := make(map[string][]string)
	unless := func(usual bool, name string, values ...string) {
		if !usual && len(values) > 0 && values[0] != "" {
			out[name] = values
		}
	}
	batch := max(s.Batch, 1)
	usual, _ := pxe.LeaseFor(s.Capacity(), batch)
	unless(!strings.Contains(was.Conf, poolsByHand), "pool", term.Each(s.Pools, pxe.Pool.String)...)
	unless(batch == pxe.DefaultBatch, "batch", strconv.Itoa(batch))
	unless(!s.Router.IsValid(), "router", s.Router.String())
	unless(s.Lease == usual, "lease-time", s.Lease.String())
	unless(s.Root == pxe.Root, "tftp-root", s.Root)
	unless(false, "loader-url", s.LoaderURLs...)
	b, lists := pxe.ReadScript(was.Script)
	unless(b.Kernel == pxe.Kernel, "kernel", b.Kernel)
	unless(b.Ramdisk == pxe.Ramdisk, "ramdisk", b.Ramdisk)
	unless(false, "kernel-args", b.Arguments)
	unless(ownCallback(b.Callback, lists, conf), "callback-url", b.Callback)
	return out
}

// ownCallback reports whether trivet would have the ramdisk report there: at a list that begins with the floating
// IP's port for ramdisks, or as v0.2.0 at the API of the floating IP alone.
func ownCallback(list string, lists bool, conf config.Config) bool {
	key, listen := conf.API.Ramdisks()
	if !lists {
		key, listen = "api.listen", conf.API.Listen
		conf.Inspection.ContinueInspection = ""
	}
	port, err := fixedPort(key, listen)
	first, _, several := strings.Cut(list, ",")
	return err == nil && conf.FloatingIP.Address != "" && first == callbackURL(conf, conf.FloatingIP.Address, port) &&
		several == lists
}

// refuse refuses to guess at flags that the files of an earlier version do not tell, where the pools would change.
func (k kept) refuse(s pxe.Server, force bool) error {
	_, intact := pxe.Check(k.conf)
	if was := pxe.ReadConfig(k.conf).Pools; k.conf != "" && (intact || force) && !slices.Equal(was, s.Pools) {
		return term.Fail(term.ExitConflict,
			"repeat it with --reserve N (and --address, if it was given) as at that installation, --reserve 0 if there was none",
			"dnsmasq-config: nothing was done: the pools would change from %v to %v, and the earlier version that installed "+
				"them has not recorded its flags", was, s.Pools)
	}
	return nil
}

// setFlag gives a flag values as if they were said; "" is its default.
func setFlag(flag *pflag.Flag, values []string) error {
	values = slices.DeleteFunc(slices.Clone(values), func(v string) bool { return v == "" })
	if list, ok := flag.Value.(pflag.SliceValue); ok {
		return list.Replace(values)
	}
	return flag.Value.Set(append(values, flag.DefValue)[0])
}

func valuesOf(flag *pflag.Flag) []string {
	if list, ok := flag.Value.(pflag.SliceValue); ok {
		return list.GetSlice()
	}
	return []string{flag.Value.String()}
}
