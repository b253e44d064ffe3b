//go:build e2e

package chaos

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/labtest"
	"github.com/trivet-ha/trivet/test/labtest/httpapi"
	"github.com/trivet-ha/trivet/test/sandbox/machine"
	"github.com/trivet-ha/trivet/test/sandbox/simironic"
)

// tryLimit is how long a client waits for one answer.
const tryLimit = 3 * time.Second

// cluster is three peers on hosts of their own, an Ironic, and its machines.
type cluster struct {
	*labtest.Lab
	t        testing.TB
	machines []machine.Machine
	below    map[*labtest.Peer]string // mount points of what their disks lie on; freezing one has syncs hang
	clocks   map[*labtest.Peer]string // files that set their wall clocks
	http     *http.Client
}

// site is what a cluster has around it.
type site struct {
	machines int  // every fourth of them boots and never calls
	document int  // bytes that each of their documents has more
	roomy    bool // the peers have the machine's disk, not small ones that can be hurt
}

// newCluster starts the peers with more of environment each.
func newCluster(t testing.TB, around site, env ...string) *cluster {
	t.Helper()
	c := &cluster{
		Lab: labtest.NewHosts(t), t: t, below: make(map[*labtest.Peer]string), clocks: make(map[*labtest.Peer]string),
		http: &http.Client{Timeout: tryLimit, Transport: &http.Transport{MaxIdleConnsPerHost: 64}},
	}
	t.Cleanup(c.http.CloseIdleConnections)
	var callbacks []string
	for _, name := range []string{"alpha", "bravo", "charlie"} {
		p := c.Add(name)
		callbacks = append(callbacks, "http://"+p.API+"/v1/continue")
	}
	ironic := c.openSite(around, callbacks)
	for i, p := range c.Peers {
		c.clocks[p] = filepath.Join(t.TempDir(), "clock")
		p.Env = append(append(p.Env, "TRIVET_IRONIC_ENDPOINT="+ironic, "TRIVET_LEASE_ENABLED=true",
			"LABSTOP_CLOCK="+c.clocks[p]), env...)
		if !around.roomy {
			c.mountDisk(p)
		}
		if i == 0 {
			p.Must("init", p.Flags())
		} else {
			p.Join(c.WaitLeader())
		}
		p.Start()
	}
	c.WaitVoters(len(c.Peers))
	return c
}

// openSite serves an Ironic whose machines boot when it switches them on, and returns
// its URL.
func (c *cluster) openSite(around site, callbacks []string) string {
	fleet := machine.NewFleet(machine.Options{Callbacks: callbacks, BootLeast: 100 * time.Millisecond,
		BootMost: 2 * time.Second, Client: &http.Client{Timeout: tryLimit},
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	ironic := simironic.New(simironic.Options{OnPower: fleet.Power})
	for i := range around.machines {
		m := machine.Number(0xca, i, 1)
		m.Silent, m.Long = i%4 == 3, around.document
		c.machines = append(c.machines, m)
		fleet.Add(m)
		if err := ironic.Enroll(simironic.Enrolment{UUID: m.UUID, Name: fmt.Sprint("node-", i), BMC: m.BMC,
			MACs: m.MACs}); err != nil {
			c.t.Fatal(err)
		}
	}
	web := httptest.NewUnstartedServer(ironic)
	ln, err := net.Listen("tcp", net.JoinHostPort(c.Gateway(), "0"))
	if err != nil {
		c.t.Fatal(err)
	}
	if err := web.Listener.Close(); err != nil {
		c.t.Fatal(err)
	}
	web.Listener = ln
	web.Start()
	c.t.Cleanup(func() {
		fleet.Close()
		web.Close()
		ironic.Close()
	})
	return web.URL
}

// mountDisk gives a peer a disk: an ext4 in a file on another ext4.
func (c *cluster) mountDisk(p *labtest.Peer) {
	c.t.Helper()
	dir := c.t.TempDir()
	image, below := filepath.Join(dir, "below.img"), filepath.Join(dir, "below")
	err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, 256<<20), os.Mkdir(below, 0o700))
	if err != nil {
		c.t.Fatal(err)
	}
	c.run("mkfs.ext4", "-q", "-F", image)
	c.run("mount", "-o", "loop", image, below)
	c.below[p] = below
	// Lazily: what another host's process was started with holds the disk for a while yet.
	c.t.Cleanup(func() { c.run("umount", "--lazy", below) })
	p.Ext4In(below)
	c.t.Cleanup(func() { c.thaw(p) }) // before the peer is ended and its disk unmounted
}

// thaw lets what a peer's disk lies on take writes again, if it does not.
func (c *cluster) thaw(p *labtest.Peer) {
	_ = exec.Command("fsfreeze", "-u", c.below[p]).Run() // fails where nothing is frozen
}

// run runs a command that has to succeed.
func (c *cluster) run(words ...string) {
	c.t.Helper()
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		c.t.Errorf("%s: %v\n%s", strings.Join(words, " "), err, out)
	}
}

// on runs a command on a peer's host.
func (c *cluster) on(p *labtest.Peer, words ...string) {
	c.t.Helper()
	if out, err := p.Host.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		c.t.Fatalf("%s on %s: %v\n%s", strings.Join(words, " "), p.Name, err, out)
	}
}

// setClock has the peer's wall clock ahead by so many seconds.
func (c *cluster) setClock(p *labtest.Peer, ahead int) {
	c.t.Helper()
	path := c.clocks[p]
	if err := errors.Join(os.WriteFile(path+".new", []byte(strconv.Itoa(ahead)), 0o600),
		os.Rename(path+".new", path)); err != nil {
		c.t.Fatal(err)
	}
}

// request is what a client asks of one peer.
type request struct {
	method, path string
	header       map[string]string
	body         []byte
}

// errNotSent is the error of a question that surely did not arrive.
var errNotSent = errors.New("the question was not sent")

// errUnknown is the error of a question that may have been carried out.
var errUnknown = errors.New("the outcome is unknown")

// ask asks one peer, any if p is nil. An error says that there is no answer.
func (c *cluster) ask(rng *rand.Rand, p *labtest.Peer, r request) (httpapi.Reply, error) {
	if p == nil {
		p = c.Peers[rng.IntN(len(c.Peers))]
	}
	reply, err := httpapi.Ask(c.http, p.API, r.method, r.path, r.header, r.body)
	var op *net.OpError
	switch {
	case errors.As(err, &op) && op.Op == "dial", errors.Is(err, syscall.ECONNREFUSED):
		return reply, fmt.Errorf("%w: %w", errNotSent, err)
	case err != nil:
		return reply, fmt.Errorf("%w: %w", errUnknown, err)
	case reply.Status == http.StatusServiceUnavailable:
		return reply, fmt.Errorf("%w: %s", errUnknown, reply.Body)
	}
	return reply, nil
}
