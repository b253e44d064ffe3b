//go:build e2e

package labtest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/test/labtest/openstack"
	"github.com/trivet-ha/trivet/test/labtest/program"
	"github.com/trivet-ha/trivet/test/sandbox/machine"
	"github.com/trivet-ha/trivet/test/sandbox/simironic"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// The site that the pages describe: whoever pastes a block there finds the names
// and addresses that stand in it.
const (
	pagesBridge   = Link("br-pxe")
	pagesNet      = "192.0.2."
	pagesIronic   = 5 // last byte of an address, and number of the host
	pagesFloating = "192.0.2.10"
	pagesMachines = 9
	pagesNodes    = 3
	pagesToken    = "trivet1.…" // stands for a join token that is good
)

// readerLimit is how long a reader waits before the next block when trivet status
// does not show that all is well; on some pages it is not.
const readerLimit = 15 * time.Second

// allSettled is what settle waits for.
const allSettled = "all peers that run see each other and a leader"

// pagesSite is hosts with systemd and nothing on them, an Ironic in memory at the
// address that the pages give it, and machines that boot when it switches them on.
type pagesSite struct {
	t     *testing.T
	net   *Net
	root  string
	deb   string
	hosts map[string]*System // those that a page has named so far
}

func newPagesSite(t *testing.T, deb string) *pagesSite {
	t.Helper()
	p := &pagesSite{t: t, net: NewNet(t), root: DebianRoot(t), deb: deb, hosts: make(map[string]*System)}
	p.net.bridge(pagesBridge)
	machines := p.plug(pagesMachines)
	fleet := machine.NewFleet(machine.Options{
		Callbacks: []string{"http://" + pagesFloating + ":5050/v1/continue"}, BootLeast: 50 * time.Millisecond,
		BootMost: 300 * time.Millisecond,
		Client:   &http.Client{Timeout: fleetLimit, Transport: &http.Transport{DialContext: machines.dial}},
		Logger:   slog.New(slog.DiscardHandler),
	})
	server := simironic.New(simironic.Options{OnPower: fleet.Power})
	t.Cleanup(func() {
		fleet.Close()
		server.Close()
	})
	for n := 1; n <= pagesNodes; n++ {
		m := openstack.MachineNumber(n)
		m.MAC = fmt.Sprintf("52:54:00:ab:00:%02x", n) // as on the pages
		enrol(t, server, m)
		fleet.Add(m.Hardware())
	}
	p.plug(pagesIronic).serve(fmt.Sprintf("%s%d:6385", pagesNet, pagesIronic), server)
	return p
}

// plug makes a host with one cable, whose address ends in its number.
func (p *pagesSite) plug(number int) *Host {
	p.t.Helper()
	h := p.net.bare(number)
	h.plug(pagesBridge, fmt.Sprint(pagesNet, number))
	return h
}

// pagesNumber is the last byte of the host's address: that of its name, but for h5,
// because Ironic has that.
func pagesNumber(host string) int {
	number := int(host[1] - '0')
	if number == pagesIronic {
		number++
	}
	return number
}

// host returns a host of that name, and boots it if no page has named it yet. The
// package lies where the pages are read.
func (p *pagesSite) host(name string) *System {
	p.t.Helper()
	if s, ok := p.hosts[name]; ok {
		return s
	}
	number := pagesNumber(name)
	p.plug(number)
	s := startSystem(p.t, p.root, name, "--network-namespace-path=/run/netns/"+p.net.ns(number))
	p.hosts[name] = s
	var names strings.Builder
	fmt.Fprintln(&names, "127.0.0.1 localhost")
	for _, other := range []string{"h1", "h2", "h3", "h4", "h5"} {
		fmt.Fprintf(&names, "%s%d %s\n", pagesNet, pagesNumber(other), other)
	}
	testenv.Must(p.t, os.WriteFile(filepath.Join(s.Dir, "etc/hosts"), []byte(names.String()), 0o644))
	s.Place(p.deb)
	s.Place(importerOf(p.t, p.deb))
	return s
}

// run runs a page from its first block to its last.
func (p *pagesSite) run(d *document) {
	p.t.Helper()
	began := time.Now()
	for _, s := range d.steps {
		if s.why != "" {
			continue
		}
		for _, name := range s.hosts {
			p.paste(d.name, s, name)
		}
		if !s.hidden { // what is hidden waits by itself for what it wants
			// on some pages all is not well for a while
			_ = testwait.Try(context.Background(), readerLimit, allSettled, p.settled)
		}
	}
	p.t.Logf("%s: %v", d.name, time.Since(began).Round(100*time.Millisecond))
	if err := p.settle(growLimit); err != nil {
		p.t.Fatalf("%s does not leave a healthy cluster: %v", d.name, err)
	}
}

// paste runs a block on a host as its operator does, in root's home directory.
func (p *pagesSite) paste(page string, s step, name string) {
	p.t.Helper()
	h := p.host(name)
	script := s.script
	if strings.Contains(script, pagesToken) {
		script = strings.ReplaceAll(script, pagesToken, p.token(name))
	}
	file := path.Join("/root", ".block")
	testenv.Must(p.t, os.WriteFile(filepath.Join(h.Dir, file), []byte(script), 0o600))
	began := time.Now()
	out, err := h.Try("bash", "-c", "cd /root && exec bash -euo pipefail .block </dev/null")
	code, bad := exitCode(err)
	if bad != nil || code != s.exit {
		p.t.Fatalf("%s:%d on %s ends with %d (%v), want %d\n%s\nIt said:\n%s\nThe host says:\n%s", page, s.line, name, code,
			bad, s.exit, script, out, h.Journal())
	}
	p.t.Logf("%s:%d on %s, %v:\n%s", page, s.line, name, time.Since(began).Round(10*time.Millisecond),
		program.Tail(out, 30))
}

// token makes a join token where a peer runs; to is the host that wants it.
func (p *pagesSite) token(to string) string {
	p.t.Helper()
	for name, h := range p.hosts {
		if name == to || !active(h) {
			continue
		}
		return strings.TrimSpace(h.Must("trivet", "token", "create", "-q"))
	}
	p.t.Fatal("no peer runs that could make a join token")
	return ""
}

// active says whether a peer runs on the host.
func active(h *System) bool {
	said, _ := h.Try("systemctl", "is-active", "trivet.service") // it ends with 3 if not
	return strings.HasPrefix(said, "active")
}

// settle waits until all peers that run see each other and a leader. Hosts whose
// peer does not run do not count.
func (p *pagesSite) settle(limit time.Duration) error {
	return testwait.Poll(context.Background(), limit, allSettled, p.settled)
}

func (p *pagesSite) settled() error {
	var all []api.Status
	for _, h := range p.hosts {
		if !active(h) {
			continue
		}
		s, err := h.status()
		if err != nil {
			return err
		}
		all = append(all, s)
	}
	for _, s := range all {
		if s.Leader == "" || !s.Ready || s.Quorum.Voters != len(all) || s.Quorum.Live != len(all) {
			return fmt.Errorf("%s of %d that run sees leader %q, %+v, ready: %v", s.Name, len(all), s.Leader, s.Quorum, s.Ready)
		}
	}
	return nil
}

// exitCode tells how a command ended from what os/exec says of it.
func exitCode(err error) (int, error) {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), nil
	}
	return 0, err
}
