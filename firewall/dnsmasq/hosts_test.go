package dnsmasq

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/firewall"
	"github.com/trivet-ha/trivet/test/testwait"
)

// Machines.
const (
	booting = "52:54:00:00:00:01" // introspected, and known to Ironic
	denied  = "52:54:00:00:00:02"
	other   = "52:54:00:00:00:03"
)

var rules = firewall.Ruleset{Allow: []string{booting}, Deny: []string{booting, denied}, Pass: true}

// prepared returns lists in a directory of their own.
func prepared(t testing.TB) *Hosts {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hosts")
	must(t, Prepare(t.Context(), path))
	h, err := New(path)
	must(t, err)
	t.Cleanup(func() { must(t, h.Close()) })
	return h
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// quiet is a log that nobody reads.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// lines are what dnsmasq reads: the last line of each file, by name.
func lines(t testing.TB, h *Hosts) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(h.dir.path)
	must(t, err)
	out := make(map[string]string)
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(h.dir.path, e.Name()))
		must(t, err)
		all := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
		out[e.Name()] = all[len(all)-1]
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o644 {
			t.Errorf("%s has mode %v (%v): dnsmasq is another user", e.Name(), info.Mode(), err)
		}
	}
	return out
}

func (h *Hosts) wantLines(t testing.TB, what string, want map[string]string) {
	t.Helper()
	if got := lines(t, h); !maps.Equal(got, want) {
		t.Errorf("%s: the files say\n%v, want\n%v", what, got, want)
	}
}

func wantRead(t testing.TB, h *Hosts, want firewall.Ruleset) {
	t.Helper()
	if got, err := h.Read(t.Context()); err != nil || !got.Equal(want) {
		t.Errorf("read back: %v (%v), want %v", got, err, want)
	}
}

const all, none = everybody, everybody + ignored

func TestReplace(t *testing.T) {
	h := prepared(t)
	h.wantLines(t, "prepared", map[string]string{unknownFile: none})
	must(t, h.Replace(t.Context(), rules))
	h.wantLines(t, "a leader's rules", map[string]string{booting: booting, denied: denied + ignored, unknownFile: all})
	wantRead(t, h, rules)

	must(t, h.Replace(t.Context(), firewall.Ruleset{Deny: []string{denied}}))
	h.wantLines(t, "never-removed",
		map[string]string{booting: booting + ignored, denied: denied + ignored, unknownFile: none})
	wantRead(t, h, firewall.Ruleset{Deny: []string{denied}})

	must(t, h.Seal(t.Context()))
	h.wantLines(t, "sealed", map[string]string{booting: booting + ignored, denied: denied + ignored, unknownFile: none})
	wantRead(t, h, firewall.Ruleset{})
}

// TestLeftFollowUnknown changes the pass rule: a MAC that left the lists gets
// the verdict of an unknown one, then and later, and its file is never removed.
func TestLeftFollowUnknown(t *testing.T) {
	h, ctx := prepared(t), t.Context()
	yes, no := true, false
	must(t, h.Replace(ctx, firewall.Ruleset{Deny: []string{denied}}))
	for _, step := range []struct {
		what   string
		change firewall.Change
		lines  map[string]string
	}{
		{"left while unknown ones are ignored", firewall.Change{Undeny: []string{denied}},
			map[string]string{denied: denied + ignored, unknownFile: none}},
		{"unknown ones let in", firewall.Change{Pass: &yes, Deny: []string{other}},
			map[string]string{denied: denied, other: other + ignored, unknownFile: all}},
		{"introspected", firewall.Change{Allow: []string{other}},
			map[string]string{denied: denied, other: other, unknownFile: all}},
		{"left while unknown ones are let in", firewall.Change{Unallow: []string{other}, Undeny: []string{other}},
			map[string]string{denied: denied, other: other, unknownFile: all}},
		{"unknown ones ignored", firewall.Change{Pass: &no},
			map[string]string{denied: denied + ignored, other: other + ignored, unknownFile: none}},
		{"what never was there", firewall.Change{Undeny: []string{booting}, Unallow: []string{booting}},
			map[string]string{denied: denied + ignored, other: other + ignored, unknownFile: none}},
	} {
		must(t, h.Change(ctx, step.change))
		h.wantLines(t, "never-removed: "+step.what, step.lines)
	}
	wantRead(t, h, firewall.Ruleset{})
}

// TestOrder wants whatever shuts out to be written before whatever lets in: the
// moment between two files must let through nothing that neither side does.
func TestOrder(t *testing.T) {
	for _, c := range []struct {
		what         string
		before, then firewall.Ruleset
		first, last  string
	}{
		{"the pass rule goes", rules, firewall.Ruleset{Deny: []string{other}}, unknownFile, ""},
		{"the pass rule comes", firewall.Ruleset{}, rules, denied, unknownFile},
	} {
		h := prepared(t)
		must(t, h.Replace(t.Context(), c.before))
		w, err := h.Watch(quiet())
		must(t, err)
		must(t, h.Replace(t.Context(), c.then))
		order := moved(t, w)
		must(t, w.events.Close())
		if order[0] != c.first || c.last != "" && order[len(order)-1] != c.last {
			t.Errorf("%s: written in the order %v, want %s first and %q last", c.what, order, c.first, c.last)
		}
	}
}

// moved reads which files were moved into place, in order.
func moved(t *testing.T, w *Watch) (names []string) {
	t.Helper()
	buf := make([]byte, watchBuffer)
	n, err := w.events.Read(buf)
	must(t, err)
	for rest := buf[:n]; len(rest) > 0; {
		_, name, size := event(rest)
		if rest = rest[size:]; !passedOver(name) {
			names = append(names, name)
		}
	}
	return names
}

// TestForeign touches the files in every way, and wants that to be seen, refused
// by a change, and put right by a replacement where that can be.
func TestForeign(t *testing.T) {
	write := func(name, text string) func(string) error {
		return func(dir string) error { return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644) }
	}
	for _, c := range []struct {
		what    string
		do      func(dir string) error
		strange bool // no rebuilding mends it
	}{
		{"a denial opened", write(denied, denied+"\n"), false},
		{"a denial emptied", write(denied, ""), false},
		{"another line added", write(denied, mark{deny: true}.text(denied, true)+other+"\n"), false},
		{"the other heading", write(booting, heading+"denied\n"+booting+"\n"), false},
		{"a file as long as a disk", write(denied, strings.Repeat("#", 1<<20)), false},
		{"the pass rule", write(unknownFile, all+"\n"), false},
		{"a denial removed", func(dir string) error { return os.Remove(filepath.Join(dir, denied)) }, false},
		{"the pass rule removed", func(dir string) error { return os.Remove(filepath.Join(dir, unknownFile)) }, false},
		{"dnsmasq kept out", func(dir string) error { return os.Chmod(filepath.Join(dir, denied), 0o600) }, false},
		{"a link", func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, denied)), os.Symlink("/etc/passwd", filepath.Join(dir, denied)))
		}, false},
		{"a file of another program", write("office", other+"\n"), true},
		{"a MAC in upper case", write(strings.ToUpper("52:54:00:00:00:0a"), other+"\n"), true},
		{"a directory", func(dir string) error { return os.Mkdir(filepath.Join(dir, "office"), 0o755) }, true},
	} {
		t.Run(c.what, func(t *testing.T) {
			h, ctx := prepared(t), t.Context()
			must(t, h.Replace(ctx, rules))
			must(t, c.do(h.dir.path))
			if _, err := h.Read(ctx); !errors.Is(err, firewall.ErrForeign) {
				t.Errorf("read: %v, want %v", err, firewall.ErrForeign)
			}
			must(t, h.Replace(ctx, rules))
			if _, err := h.Read(ctx); errors.Is(err, firewall.ErrForeign) != c.strange {
				t.Errorf("read after a replacement: %v, want an error: %v", err, c.strange)
			}
		})
	}
}

// TestChangeIsRefused after a foreign hand, a failure, and before the first
// replacement; nothing is written then.
func TestChangeIsRefused(t *testing.T) {
	ctx := t.Context()
	h := prepared(t)
	if err := h.Change(ctx, firewall.Change{Deny: []string{other}}); !errors.Is(err, errUnknown) {
		t.Errorf("before a replacement: %v", err)
	}
	for what, path := range map[string]string{"its own file": denied, "the pass rule": unknownFile} {
		must(t, h.Replace(ctx, rules))
		must(t, os.WriteFile(filepath.Join(h.dir.path, path), []byte(denied+"\n"), 0o644))
		before := lines(t, h)
		if err := h.Change(ctx, firewall.Change{Allow: []string{denied}, Deny: []string{other}}); !errors.Is(err,
			firewall.ErrForeign) {
			t.Errorf("%s was changed: %v", what, err)
		}
		h.wantLines(t, what, before)
		if err := h.Change(ctx, firewall.Change{}); !errors.Is(err, errUnknown) {
			t.Errorf("after a failure: %v", err)
		}
	}
	for _, mac := range []string{"52:54:00:00:00:0A", "52:54:00:00:00:01\n*", "", "../../etc/passwd"} {
		if h.Replace(ctx, firewall.Ruleset{Deny: []string{mac}}) == nil ||
			h.Change(ctx, firewall.Change{Deny: []string{mac}}) == nil {
			t.Errorf("%q was taken for a MAC", mac)
		}
	}
}

// TestDirectory wants no directory made or taken but by Prepare: dnsmasq would
// not look at it.
func TestDirectory(t *testing.T) {
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "hosts")
	if _, err := New(path); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "--purge") {
		t.Errorf("there is none: %v", err)
	}
	must(t, os.Mkdir(path, 0o755))
	h, err := New(path)
	must(t, err)
	t.Cleanup(func() { must(t, h.Close()) })
	if err := h.Replace(ctx, rules); err == nil || !strings.Contains(err.Error(), "not prepared") {
		t.Errorf("it was not prepared: %v", err)
	}
	must(t, Prepare(ctx, path))
	must(t, h.Replace(ctx, rules))

	must(t, os.RemoveAll(path))
	if err := h.Replace(ctx, rules); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it was removed: %v", err)
	}
	must(t, os.Mkdir(path, 0o755))
	if _, err := h.Read(ctx); !errors.Is(err, firewall.ErrForeign) {
		t.Errorf("read of another directory: %v", err)
	}
	if err := h.Replace(ctx, rules); err == nil {
		t.Error("rules were written where dnsmasq does not look")
	}
	must(t, Prepare(ctx, path))
	must(t, h.Replace(ctx, rules))
	wantRead(t, h, rules)
}

// TestPrepare purges what is ours, and nothing else.
func TestPrepare(t *testing.T) {
	h, ctx := prepared(t), t.Context()
	must(t, h.Replace(ctx, rules))
	must(t, os.WriteFile(filepath.Join(h.dir.path, draft), nil, 0o600)) // of a killed process
	must(t, Prepare(ctx, h.dir.path))
	if got := lines(t, h); len(got) != 1 || got[unknownFile] != none {
		t.Errorf("left after a purge: %v", got)
	}
	must(t, os.WriteFile(filepath.Join(h.dir.path, "office"), nil, 0o600))
	if err := Prepare(ctx, h.dir.path); !errors.Is(err, firewall.ErrForeign) || !strings.Contains(err.Error(), "office") {
		t.Errorf("a file of somebody's: %v", err)
	}
}

// TestReplaceGoesOn ends one in its midst: the next writes the rest.
func TestReplaceGoesOn(t *testing.T) {
	h := prepared(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.Replace(ctx, rules); !errors.Is(err, context.Canceled) {
		t.Errorf("a replacement without time: %v", err)
	}
	must(t, h.Replace(t.Context(), rules))
	wantRead(t, h, rules)
}

// TestWatch wants what others do told at once, and nothing of our own.
func TestWatch(t *testing.T) {
	h, ctx := prepared(t), t.Context()
	w, err := h.Watch(quiet())
	must(t, err)
	done := make(chan struct{})
	ctx, stop := context.WithCancel(ctx)
	go func() {
		defer close(done)
		w.Run(ctx)
	}()
	must(t, h.Replace(ctx, rules))
	must(t, h.Change(ctx, firewall.Change{Deny: []string{other}, Undeny: []string{booting}}))
	h.settled(t)
	if len(w.changed) > 0 {
		t.Error("what we wrote is told")
	}
	at := func(name string) string { return filepath.Join(h.dir.path, name) }
	for _, do := range []func() error{
		func() error { return os.WriteFile(at(denied), nil, 0o644) },
		func() error { return os.Chmod(at(denied), 0o600) },
		func() error { return os.Remove(at(denied)) },
		func() error { return os.Rename(at(other), at("office")) },
		func() error { return os.Rename(at("office"), at(other)) },
		func() error { return os.RemoveAll(h.dir.path) },
	} {
		must(t, do())
		testwait.Receive(t, w.Changed(), "a change by another program is told")
	}
	must(t, Prepare(ctx, h.dir.path))
	testwait.Receive(t, w.Changed(), "the new directory is told")
	must(t, h.Replace(ctx, rules))
	wantRead(t, h, rules)
	stop()
	testwait.Receive(t, done, "the watch ends")
}

// settled waits until the watch has seen all that we wrote.
func (h *Hosts) settled(t *testing.T) {
	t.Helper()
	for t.Context().Err() == nil {
		h.ledger.mu.Lock()
		left := len(h.ledger.own)
		h.ledger.mu.Unlock()
		if left == 0 {
			return
		}
	}
}

// TestTexts reads back whatever may be written, and tells the marks apart.
func TestTexts(t *testing.T) {
	var seen []string
	for _, pass := range []bool{false, true} {
		for _, m := range marks() {
			text := m.text(denied, pass)
			if got, err := parseMark(denied, text, pass); err != nil || got != m {
				t.Errorf("%q is read as %v (%v), want %v", text, got, err, m)
			}
			if len(text) > maxText {
				t.Errorf("%q is longer than a file may be", text)
			}
			head, _, _ := strings.Cut(text, "\n")
			if !pass && slices.Contains(seen, head) {
				t.Errorf("two marks have the heading %q", head)
			}
			seen = append(seen, head)
		}
	}
}

// many is a leader's ruleset with so many denied MACs.
func many(n int) firewall.Ruleset {
	r := firewall.Ruleset{Pass: true}
	for i := range n {
		r.Deny = append(r.Deny, net.HardwareAddr{0x52, 0x54, 1, byte(i >> 16), byte(i >> 8), byte(i)}.String())
	}
	return r
}

// BenchmarkMany measures a site of 10,000 machines: all files read and none
// written, read back, and one change.
func BenchmarkMany(b *testing.B) {
	h, ctx, r := prepared(b), b.Context(), many(10_000)
	must(b, h.Replace(ctx, r))
	b.Run("replace", func(b *testing.B) {
		for b.Loop() {
			must(b, h.Replace(ctx, r))
		}
	})
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			_, err := h.Read(ctx)
			must(b, err)
		}
	})
	b.Run("change", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			c := firewall.Change{Allow: r.Deny[:1]}
			if i%2 > 0 {
				c = firewall.Change{Unallow: r.Deny[:1]}
			}
			must(b, h.Change(ctx, c))
		}
	})
}

// Files of a host that moved away from driver dnsmasq let every machine pass, those that
// were denied, too; the directory of another program is left alone.
func TestRelease(t *testing.T) {
	h := prepared(t)
	must(t, h.Replace(t.Context(), firewall.Ruleset{Deny: []string{denied}}))
	must(t, Release(t.Context(), h.dir.path))
	h.wantLines(t, "old-files-stay:", map[string]string{denied: denied, unknownFile: all})

	must(t, Release(t.Context(), filepath.Join(t.TempDir(), "missing")))
	other := t.TempDir()
	path := filepath.Join(other, denied)
	must(t, os.WriteFile(path, []byte("of another program\n"), 0o600))
	must(t, Release(t.Context(), other))
	if text, err := os.ReadFile(path); err != nil || string(text) != "of another program\n" {
		t.Errorf("old-files-stay: the file of another program says %q (%v)", text, err)
	}
}
