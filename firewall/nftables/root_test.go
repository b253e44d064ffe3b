//go:build e2e

package nftables

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/firewall"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

func (h *host) left(f *Filter) time.Duration {
	h.t.Helper()
	left, err := f.Left(h.t.Context())
	h.must(err)
	return left
}

func TestLeaseEndsByItself(t *testing.T) {
	h := newHost(t)
	f := h.filter(firewall.MatchEther)
	l := h.lease(f)
	if left := h.left(f); left != 0 {
		t.Fatalf("it is open for %v after Shut", left)
	}
	const life, ticks = 100 * time.Millisecond, 15 * time.Millisecond // the kernel counts ticks of up to 10 ms
	began := time.Now()
	h.open(l, life)
	opened := time.Now()
	if left := h.left(f); left > life || left == 0 && time.Since(began) < life-ticks {
		t.Errorf("it is open for %v, want at most %v", left, life)
	}
	var last time.Time // before the last look that found it open: what delays this test does not count
	eventually(t, "the lease ends", func() bool {
		now := time.Now()
		if h.left(f) == 0 {
			return true
		}
		last = now
		return false
	})
	if took := time.Since(began); took < life-ticks {
		t.Errorf("it ended after %v, want %v", took, life)
	}
	if last.After(opened.Add(life + ticks)) {
		t.Errorf("it was open %v after it was opened for %v", last.Sub(opened), life)
	}
}

// TestMend leaves alone what is ours, and builds what is not, shut.
func TestMend(t *testing.T) {
	h := newHost(t)
	f := h.filter(firewall.MatchEther)
	l := h.lease(f)
	h.open(l, 10*time.Second)
	h.must(f.Mend(t.Context()))
	if h.left(f) == 0 {
		t.Error("to mend what is ours shut the door")
	}
	h.must(f.Remove(t.Context()))
	h.must(f.Mend(t.Context()))
	if left := h.left(f); left != 0 {
		t.Errorf("what was built again is open for %v", left)
	}
}

func TestHoldKeepsOpen(t *testing.T) {
	h := newHost(t)
	f := h.filter(firewall.MatchEther)
	l := h.lease(f)
	const life = 2 * time.Second // a busy machine does not keep the test waiting for as long
	h.open(l, life)
	testwait.Every(t, life/4, 2*life+life/2, func() { // into the third life
		h.must(l.Hold(t.Context(), life))
	})
	h.must(l.Hold(t.Context(), time.Minute))
	if left := h.left(f); left < 50*time.Second {
		t.Errorf("it is open for %v only, right after Hold", left)
	}
	h.must(l.Shut(t.Context()))
	if left := h.left(f); left != 0 {
		t.Errorf("it is open for %v after Shut", left)
	}
}

// TestWhatEndedIsNotSwapped is the process that slept: whatever it wakes up to
// write, the door stays shut.
func TestWhatEndedIsNotSwapped(t *testing.T) {
	h := newHost(t)
	f := h.filter(firewall.MatchEther)
	l := h.lease(f)
	ctx := t.Context()
	lapsed := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, firewall.ErrLapsed) {
			t.Errorf("%s: %v, want ErrLapsed", what, err)
		}
		if left := h.left(f); left != 0 {
			t.Errorf("%s: it is open for %v", what, left)
		}
	}
	lapsed("open what was never armed", l.Open(ctx, time.Minute))
	lapsed("hold what was never open", l.Hold(ctx, time.Minute))

	h.must(l.Arm(ctx, 20*time.Millisecond))
	eventually(t, "the armed element ends", func() bool {
		armed, err := f.members(ctx, l.socket, setArm)
		h.must(err)
		return len(armed) == 0
	})
	lapsed("open too late", l.Open(ctx, time.Minute))

	h.open(l, 20*time.Millisecond)
	eventually(t, "the lease ends", func() bool { return h.left(f) == 0 })
	lapsed("hold too late", l.Hold(ctx, time.Minute))

	h.must(l.Arm(ctx, time.Minute))
	h.must(l.Shut(ctx))
	lapsed("open after Shut", l.Open(ctx, time.Minute))

	h.open(l, time.Minute)
	h.must(l.Shut(ctx))
	lapsed("hold after Shut", l.Hold(ctx, time.Minute))
}

func TestArmBeginsAnew(t *testing.T) {
	h := newHost(t)
	f := h.filter(firewall.MatchEther)
	l := h.lease(f)
	h.must(l.Arm(t.Context(), 50*time.Millisecond))
	h.must(l.Arm(t.Context(), time.Minute))
	armed, err := f.members(t.Context(), l.socket, setArm)
	if h.must(err); len(armed) != 1 || armed[0].left < 50*time.Second {
		t.Errorf("armed: %+v, want one element for a minute", armed)
	}
	h.must(l.Open(t.Context(), time.Minute))
	if err := l.Open(t.Context(), time.Minute); !errors.Is(err, firewall.ErrLapsed) {
		t.Errorf("open twice: %v, want ErrLapsed: the armed element is used up", err)
	}
}

func TestListsReadBackAsWritten(t *testing.T) {
	h := newHost(t)
	f := h.filter(firewall.MatchEther)
	l, c := h.lease(f), h.chains(f)
	h.must(c.Replace(t.Context(), firewall.Ruleset{}))
	h.open(l, time.Minute)
	for _, n := range []int{0, 1, chunk - 1, chunk, chunk + 1, 3277, 10_000} {
		want := firewall.Ruleset{Allow: numbered(n), Deny: numbered(n), Pass: n%2 == 1}
		h.must(c.Replace(t.Context(), want))
		got, err := c.Read(t.Context())
		if h.must(err); !got.Equal(want) {
			t.Errorf("of %d MACs each, %d are allowed and %d denied, or pass is not %v", n, len(got.Allow), len(got.Deny),
				want.Pass)
		}
	}
	if h.left(f) < 50*time.Second {
		t.Error("the lease in force was disturbed")
	}
}

func TestTheLargestListsFit(t *testing.T) {
	h := newHost(t)
	c := h.chains(h.filter(firewall.MatchEther))
	want := firewall.Ruleset{Allow: numbered(maxMACs), Deny: numbered(maxMACs)}
	h.must(c.Replace(t.Context(), want))
	got, err := c.Read(t.Context())
	if h.must(err); !got.Equal(want) {
		t.Errorf("%d allowed and %d denied", len(got.Allow), len(got.Deny))
	}
	want.Deny = numbered(maxMACs + 1)
	if err := c.Replace(t.Context(), want); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("more than fit: %v", err)
	}
}

func TestChangeIsADifference(t *testing.T) {
	h := newHost(t)
	f := h.filter(firewall.MatchEther)
	l, c := h.lease(f), h.chains(f)
	ctx := t.Context()
	yes, no := true, false
	macs := numbered(5)
	h.must(c.Replace(ctx, firewall.Ruleset{Deny: macs[:3]}))
	h.open(l, time.Minute)
	for _, step := range []struct {
		change firewall.Change
		want   firewall.Ruleset
	}{
		{firewall.Change{Deny: macs[3:]}, firewall.Ruleset{Deny: macs}},
		{firewall.Change{Allow: macs[:2], Undeny: macs[4:], Pass: &yes},
			firewall.Ruleset{Allow: macs[:2], Deny: macs[:4], Pass: true}},
		{firewall.Change{Allow: macs[:1], Undeny: macs[4:], Pass: &yes},
			firewall.Ruleset{Allow: macs[:2], Deny: macs[:4], Pass: true}},
		{firewall.Change{Unallow: macs, Pass: &no}, firewall.Ruleset{Deny: macs[:4]}},
	} {
		h.must(c.Change(ctx, step.change))
		got, err := c.Read(ctx)
		if h.must(err); !got.Equal(step.want) {
			t.Errorf("%+v made %+v, want %+v", step.change, got, step.want)
		}
	}
	if h.left(f) < 50*time.Second {
		t.Error("the lease in force was disturbed")
	}
}

func TestChangeWantsTheListsItKnows(t *testing.T) {
	h := newHost(t)
	f := h.filter(firewall.MatchEther)
	ctx := t.Context()
	add := firewall.Change{Deny: numbered(2)}
	for name, foul := range map[string]func(){
		"emptied":       func() { h.must(h.filter(firewall.MatchEther).Seal(ctx)) },
		"removed":       func() { h.must(h.filter(firewall.MatchEther).Remove(ctx)) },
		"replaced":      func() { h.must(h.chains(h.filter(firewall.MatchEther)).Replace(ctx, firewall.Ruleset{})) },
		"without rules": func() { h.write(f, []netlink.Message{h.flushRules(chainGate)}) },
	} {
		t.Run(name, func(t *testing.T) {
			c := h.chains(f)
			h.must(c.Replace(ctx, firewall.Ruleset{Deny: numbered(1)}))
			foul()
			if err := c.Change(ctx, add); !errors.Is(err, firewall.ErrForeign) {
				t.Errorf("Change: %v, want ErrForeign", err)
			}
			if err := c.Change(ctx, add); err == nil {
				t.Error("Change works without a Replace before it")
			}
			h.must(c.Replace(ctx, firewall.Ruleset{}))
			h.must(c.Change(ctx, add))
		})
	}
}

func (h *host) flushRules(chain string) netlink.Message {
	return pxeTable.message(unix.NFT_MSG_DELRULE, 0, text(unix.NFTA_RULE_TABLE, Table), text(unix.NFTA_RULE_CHAIN, chain))
}

// harms are what somebody may do to our table, and words of how it is told.
func harms(h *host, f *Filter) map[string][]netlink.Message {
	one := func(m netlink.Message, err error) []netlink.Message {
		h.must(err)
		return []netlink.Message{m}
	}
	dormant := pxeTable.message(unix.NFT_MSG_NEWTABLE, 0, text(unix.NFTA_TABLE_NAME, Table),
		attributeUint32(unix.NFTA_TABLE_FLAGS, unix.NFT_TABLE_F_DORMANT))
	return map[string][]netlink.Message{
		"is missing":                     {pxeTable.remove()},
		"chain gate has 0 rules":         {h.flushRules(chainGate)},
		"chain input has 6 rules":        one(pxeTable.addRule(rule{chainInput, verdict(expr.VerdictAccept, "")})),
		"has flags 0x1":                  {dormant},
		"5 chains and 11 sets":           {pxeTable.addChain(chain{name: "visitor"})},
		"4 chains and 12 sets":           {pxeTable.addSet(1, set{name: "visitor", keyType: 9, keyLength: 6})},
		"set lease has an element":       f.addElements(setLease, 0, gatedPorts()...),
		"set arm has an element":         f.addElements(setArm, time.Hour, gatedPorts()...),
		"set pass has other ports":       f.addElements(setPass, 0, portKey(67)),
		"set pass has other ports than ": f.addElements(setPass, 0, slices.Concat(gatedPorts(), [][]byte{portKey(69)})...),
	}
}

func TestWhatOthersChangedIsSeenAndMended(t *testing.T) {
	h := newHost(t)
	f := h.filter(firewall.MatchEther)
	ctx := t.Context()
	for words, harm := range harms(h, f) {
		t.Run(words, func(t *testing.T) {
			l, c := h.lease(f), h.chains(f)
			h.must(f.Seal(ctx))
			h.must(c.Replace(ctx, firewall.Ruleset{Deny: numbered(3)}))
			h.write(f, harm)
			if _, err := c.Read(ctx); !errors.Is(err, firewall.ErrForeign) || !strings.Contains(err.Error(), words) {
				t.Errorf("Read: %v, want ErrForeign and %q", err, words)
			}
			h.must(l.Shut(ctx))
			if left := h.left(f); left != 0 {
				t.Errorf("it is open for %v after Shut", left)
			}

			h.must(f.Seal(ctx))
			h.write(f, harm)
			want := firewall.Ruleset{Allow: numbered(2), Pass: true}
			h.must(c.Replace(ctx, want))
			got, err := c.Read(ctx)
			if h.must(err); !got.Equal(want) {
				t.Errorf("Replace left %+v", got)
			}
			if left := h.left(f); left != 0 {
				t.Errorf("it is open for %v after Replace", left)
			}
		})
	}
}

func TestLeaseOfAMissingTableIsForeign(t *testing.T) {
	h := newHost(t)
	f := h.filter(firewall.MatchEther)
	l := h.lease(f)
	h.open(l, time.Minute)
	h.write(f, []netlink.Message{pxeTable.remove()})
	ctx := t.Context()
	for name, err := range map[string]error{
		"Arm": l.Arm(ctx, time.Second), "Open": l.Open(ctx, time.Second), "Hold": l.Hold(ctx, time.Second),
	} {
		if !errors.Is(err, firewall.ErrForeign) || errors.Is(err, firewall.ErrLapsed) {
			t.Errorf("%s: %v, want ErrForeign", name, err)
		}
	}
	h.must(l.Shut(ctx))
	h.open(l, time.Minute)
}

func TestNothingIsWrittenOnWhatIsOld(t *testing.T) {
	h := newHost(t)
	f := h.filter(firewall.MatchEther)
	s := f.socket()
	defer func() { h.must(s.close()) }()
	seen, err := f.readRules(t.Context(), s)
	h.must(err)
	h.must(h.filter(firewall.MatchEther).Seal(t.Context()))
	if err := f.rebuild(t.Context(), s, seen); !errors.Is(err, errStale) {
		t.Errorf("a rebuild of what has changed: %v, want errStale", err)
	}
	seen, err = f.readRules(t.Context(), s)
	h.must(err)
	h.must(f.rebuild(t.Context(), s, seen))
}

func TestOthersTablesAreLeftAlone(t *testing.T) {
	h := newHost(t)
	f, other := h.filter(firewall.MatchEther), h.filter(firewall.MatchEther)
	other.table.name = "neighbour"
	h.must(h.chains(other).Replace(t.Context(), firewall.Ruleset{Deny: numbered(2)}))
	h.must(f.Remove(t.Context()))
	h.must(f.Seal(t.Context()))
	h.must(f.Remove(t.Context()))
	if _, err := f.Left(t.Context()); !errors.Is(err, firewall.ErrForeign) {
		t.Errorf("Left after Remove: %v", err)
	}
	got, err := h.chains(other).Read(t.Context())
	if h.must(err); len(got.Deny) != 2 {
		t.Errorf("the neighbour has %+v", got)
	}
}

func TestSupportedLeavesNothing(t *testing.T) {
	h := newHost(t)
	f := h.filter(firewall.MatchChaddr)
	h.must(f.Supported(t.Context()))
	s := f.socket()
	defer func() { h.must(s.close()) }()
	tables, err := s.ask(t.Context(), pxeTable.message(unix.NFT_MSG_GETTABLE, netlink.Dump))
	if h.must(err); len(tables) != 0 {
		t.Errorf("%d tables are there afterwards", len(tables))
	}
}

func TestPermissionIsNamed(t *testing.T) {
	h := newHost(t)
	h.Do(func() error { // the thread ends with the test, and with it what it lacks
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		return unix.Capset(&header, &none[0])
	})
	f, err := New(firewall.Layout{Interface: pxe, Match: firewall.MatchEther})
	h.must(err)
	h.Do(func() error {
		l := f.Lease()
		for name, err := range map[string]error{"Supported": f.Supported(t.Context()), "Shut": l.Shut(t.Context())} {
			if err == nil || !strings.Contains(err.Error(), "CAP_NET_ADMIN") {
				t.Errorf("%s: %v, want CAP_NET_ADMIN named", name, err)
			}
		}
		return l.Close()
	})
}

func TestCallsEndWithTheirContext(t *testing.T) {
	h := newHost(t)
	f := h.filter(firewall.MatchEther)
	l, c := h.lease(f), h.chains(f)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, err := range map[string]error{
		"Shut": l.Shut(ended), "Arm": l.Arm(ended, time.Second), "Seal": f.Seal(ended),
		"Replace": c.Replace(ended, firewall.Ruleset{}),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	h.must(l.Shut(t.Context()))
}

// watching runs a watch of f until the test ends and returns what it logs.
func (h *host) watching(f *Filter) (*Watch, *bytes.Buffer, func()) {
	h.t.Helper()
	said := new(bytes.Buffer)
	w, err := f.Watch(slog.New(slog.NewTextHandler(said, nil)))
	h.must(err)
	ctx, cancel := context.WithCancel(h.t.Context())
	var running sync.WaitGroup
	running.Go(func() { w.Run(ctx) })
	stop := func() { cancel(); running.Wait() }
	h.t.Cleanup(stop)
	return w, said, stop
}

func (h *host) told(w *Watch) {
	h.t.Helper()
	testwait.ReceiveWithin(h.t, labLimit, w.Changed(), "the change is told")
}

func TestWatchTellsWhatOthersDo(t *testing.T) {
	h := newHost(t)
	f := h.filter(firewall.MatchEther)
	l := h.lease(f)
	w, said, stop := h.watching(f)
	began := time.Now()
	h.write(f, []netlink.Message{h.flushRules(chainGate)})
	h.told(w)
	testenv.Took(t, "firewall.nftables_watch_told", time.Since(began), 100*time.Millisecond)
	h.must(l.Shut(t.Context())) // builds the table anew, with empty lists
	h.told(w)
	h.write(f, []netlink.Message{pxeTable.remove()})
	h.told(w)
	stop()
	// logs.Limit holds the second change of the same process back.
	if n := strings.Count(said.String(), "another process changed the PXE filter"); n != 1 ||
		!strings.Contains(said.String(), "process="+filepath.Base(os.Args[0])) {
		t.Errorf("logged %q, want one line with the process", said)
	}
}

func TestWatchIgnoresOwnChangesAndOthersTables(t *testing.T) {
	h := newHost(t)
	f := h.filter(firewall.MatchEther)
	l, c := h.lease(f), h.chains(f)
	h.must(c.Replace(t.Context(), firewall.Ruleset{}))
	other := h.filter(firewall.MatchEther)
	other.table.name = "neighbour"
	w, said, stop := h.watching(f)
	h.open(l, time.Minute)
	h.must(l.Hold(t.Context(), time.Minute))
	h.must(c.Replace(t.Context(), firewall.Ruleset{Deny: numbered(10_000)}))
	h.must(c.Change(t.Context(), firewall.Change{Deny: numbered(10_001)[10_000:]}))
	h.must(l.Shut(t.Context()))
	h.must(h.chains(other).Replace(t.Context(), firewall.Ruleset{Deny: numbered(10_000)}))
	before := len(w.Changed())
	h.write(f, f.addElements(setDeny, 0, mustMAC("02:00:00:00:00:01"))) // which is told, after all the others
	h.told(w)
	stop()
	if after := len(w.Changed()); before != 0 || after != 0 || strings.Count(said.String(), "\n") != 1 {
		t.Errorf("told %d times before and %d after somebody's change, and logged %q", before, after, said)
	}
}

// TestWatchSurvivesAFlood: more notifications than its buffer holds are one
// change, not its end, and nothing to warn of.
func TestWatchSurvivesAFlood(t *testing.T) {
	h := newHost(t)
	f := h.filter(firewall.MatchEther)
	l := h.lease(f)
	said := new(bytes.Buffer)
	w, err := f.Watch(slog.New(slog.NewTextHandler(said, nil)))
	h.must(err)
	other := h.filter(firewall.MatchEther)
	other.table.name = "neighbour"
	c := h.chains(other)
	for range 3 {
		h.must(c.Replace(t.Context(), firewall.Ruleset{Deny: numbered(maxMACs)}))
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { w.Run(ctx) })
	defer func() {
		cancel()
		if running.Wait(); strings.Contains(said.String(), "failed") {
			t.Errorf("watch-overtaken: logged %q", said)
		}
	}()
	h.told(w)
	h.must(l.Shut(ctx))
	h.write(f, []netlink.Message{pxeTable.remove()})
	h.told(w)
}
