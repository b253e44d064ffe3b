//go:build e2e

package labtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/labtest/program"
	"github.com/trivet-ha/trivet/test/testenv"
)

// Stoppable is a trivet that stops itself where it is asked to, between the proof
// of its leadership and what it writes on the strength of it, and that meets a
// kernel without some of its parts.
type Stoppable struct {
	Binary string
	dir    string // of the requests
}

// clocked are the packages that see the clock turned back: those that wire the
// wall clock, and those that count on the other one.
var clocked = []string{"cli", "app", "raftstore/leader", "raftstore", "firewall", "firewall/nftables",
	"firewall/iptables", "firewall/floatingip", "failover"}

// StoppableBinary builds it. The product's sources know nothing of it: the
// compiler is given others in the place of what lies on disk.
func StoppableBinary(t testing.TB) *Stoppable {
	t.Helper()
	root, err := filepath.Abs("../..")
	testenv.Must(t, err)
	s := &Stoppable{dir: t.TempDir()}
	s.Binary = filepath.Join(s.dir, "trivet")
	texts := map[string]string{
		filepath.Join(root, "test", "labstop", "labstop.go"): testenv.GetFile(t, "testdata/labstop", "labstop.go"),
	}
	for _, pkg := range clocked {
		sources, err := filepath.Glob(filepath.Join(root, pkg, "*.go"))
		testenv.Must(t, err)
		for _, source := range sources {
			if text := stoppable(t, root, source); text != "" {
				texts[source] = text
			}
		}
	}
	overlaid(t, s.Binary, texts, "-ldflags", "-X github.com/trivet-ha/trivet/test/labstop.dir="+s.dir)
	return s
}

// stoppable is a source with its stops, and with a clock that can be turned
// back; "" if neither is in it.
func stoppable(t testing.TB, root, source string) string {
	t.Helper()
	if strings.HasSuffix(source, "_test.go") {
		return ""
	}
	content, err := os.ReadFile(source)
	testenv.Must(t, err)
	text := string(content)
	name, err := filepath.Rel(root, source)
	testenv.Must(t, err)
	text, err = withStops(filepath.ToSlash(name), text)
	testenv.Must(t, err)
	if strings.Contains(text, "time.Now") {
		text = strings.ReplaceAll(text, "time.Now", "labstop.Now") +
			"\nvar _ time.Time // the imports are used, also where a comment alone names the clock\nvar _ = labstop.Now\n"
	}
	if text == string(content) {
		return ""
	}
	return strings.Replace(text, "\nimport ", "\nimport \"github.com/trivet-ha/trivet/test/labstop\"\nimport ", 1)
}

// overlaid builds a trivet of other texts than those that lie on disk, by the paths of these.
func overlaid(t testing.TB, binary string, texts map[string]string, flags ...string) {
	t.Helper()
	dir, replace := t.TempDir(), make(map[string]string)
	for path, text := range texts {
		name := fmt.Sprintf("%d.go", len(replace))
		testenv.PutFile(t, dir, name, text)
		replace[path] = filepath.Join(dir, name)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	testenv.Must(t, err)
	testenv.PutFile(t, dir, "overlay.json", string(overlay))
	words := append([]string{"build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", binary}, flags...)
	if out, err := program.Go(append(words, "github.com/trivet-ha/trivet")...).CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", binary, err, out)
	}
}

// without makes the binary, for one peer, one that meets a kernel without a part.
func (s *Stoppable) without(p *Peer, part string) {
	p.t.Helper()
	p.Binary = filepath.Join(s.dir, p.Name+"-without-"+part)
	script := fmt.Sprintf("#!/bin/sh\nLABSTOP_LACKS=%s exec %s \"$@\"\n", part, s.Binary)
	program.Write(p.t, p.Binary, script)
}

// stopLeader has whoever leads stop itself at a place, with its wall clock turned back from then
// on or not, and waits until it has; act, if not nil, brings it there. Who leads may have changed
// by the time that the place is reached, so that all peers are asked.
func (s *Stoppable) stopLeader(l *Lab, place, clock string, limit time.Duration, act func()) (leader *Peer) {
	l.t.Helper()
	for _, p := range l.Peers {
		s.ask(p, place, clock)
	}
	if act != nil {
		act()
	}
	l.Eventually(limit, "a leader stops at "+place, func() error {
		at := slices.IndexFunc(l.Peers, (*Peer).isStopped)
		if at < 0 {
			return errors.New("all run")
		}
		leader = l.Peers[at]
		return nil
	})
	leader.aside = true
	for _, p := range l.Peers {
		s.forget(p, place)
	}
	return leader
}

func (s *Stoppable) request(p *Peer, place string) string {
	return filepath.Join(s.dir, fmt.Sprintf("%d.%s", p.PID(), place))
}

// ask has a peer stop itself when it next comes to a place.
func (s *Stoppable) ask(p *Peer, place, clock string) {
	p.t.Helper()
	request := s.request(p, place)
	testenv.Must(p.t, os.WriteFile(request+".new", []byte(clock), 0o600))
	testenv.Must(p.t, os.Rename(request+".new", request))
}

// forget takes back what a peer was asked and has not done yet.
func (s *Stoppable) forget(p *Peer, place string) {
	p.t.Helper()
	if err := os.Remove(s.request(p, place)); err != nil && !os.IsNotExist(err) {
		p.t.Fatal(err)
	}
}

// isStopped reports whether a peer has stopped.
func (p *Peer) isStopped() bool {
	state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
	return err == nil && strings.Contains(string(state), ") T ")
}

// PoisonedBinary builds a trivet with one more hook, "poison", which ends the
// process or panics when the document says so. The product's sources know
// nothing of it: the compiler is given the hook's file, and another registry,
// in the place of what lies on disk.
func PoisonedBinary(t testing.TB) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	testenv.Must(t, err)
	registry, err := withPoison(testenv.GetFile(t, root, hooksRegistry))
	testenv.Must(t, err)
	binary := filepath.Join(t.TempDir(), "trivet")
	overlaid(t, binary, map[string]string{
		filepath.Join(root, hooksRegistry):               registry,
		filepath.Join(root, "inspector/hooks/poison.go"): testenv.GetFile(t, "testdata/poison", "poison.go"),
	})
	return binary
}
