//go:build e2e

package labtest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/labtest/program"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

const (
	// guestLimit is what a guest may take to boot, emulated on a busy machine; 15 s
	// on a quiet one.
	guestLimit = 3 * time.Minute
	// guestShell is the port of a guest's shell, and guestSocket that of trivet's
	// socket.
	guestShell, guestSocket = "7398", "7399"
	// wordsLimit bounds one command in a guest.
	wordsLimit = time.Minute
)

// guest is a host with a kernel and a clock of its own: an emulated machine, on
// the switches of a Net. Its methods are for the goroutine of the test.
type guest struct {
	t     testing.TB
	image ownImage
	at    *Host    // where it is; there is no namespace of that number
	dir   string   // its disk, and the socket of its monitor
	log   string   // its console
	lacks []string // modules that its kernel cannot load
	qemu  *program.Process
}

// newGuest lays the cables of guest i, makes its disk of what is in a directory,
// and starts nothing.
func newGuest(t testing.TB, n *Net, image ownImage, i int, from, dir, log string) *guest {
	t.Helper()
	g := &guest{t: t, image: image, at: &Host{net: n, number: i, Site: n.site(i)}, dir: dir, log: log}
	for _, l := range []Link{Site, PXE} {
		n.ip(0, "tuntap", "add", "dev", g.at.port(l), "mode", "tap")
		n.ip(0, "link", "set", g.at.port(l), "master", string(l), "up")
	}
	makeDisk(t, g.file("data.img"), 512<<20, from, "has_journal")
	return g
}

func (g *guest) file(name string) string { return filepath.Join(g.dir, name) }

// power switches it on. Its root is a copy that is lost when it is switched off;
// of its disk all is kept that it had written, as of one with a battery.
func (g *guest) power() {
	g.t.Helper()
	words := []string{"lab.name=h" + strconv.Itoa(g.at.number)}
	args := []string{"netns", "exec", g.at.net.ns(0), "qemu-system-x86_64", "-accel", "tcg", "-m", "512", "-display",
		"none", "-nodefaults",
		"-no-reboot", "-kernel", g.image.kernel, "-initrd", g.image.initrd, "-device", "virtio-rng-pci",
		"-qmp", "unix:" + g.file("monitor") + ",server=on,wait=off",
		"-chardev", "file,id=console,append=on,path=" + g.log, "-serial", "chardev:console",
		"-drive", "if=virtio,format=raw,snapshot=on,file=" + g.image.disk,
		"-drive", "if=virtio,format=raw,cache=unsafe,file=" + g.file("data.img")}
	for l, addr := range map[Link]string{Site: g.at.Site, PXE: g.at.pxe()} {
		at := mac(l, g.at.number)
		words = append(words, fmt.Sprintf("lab.cable=%s,%s,%s/24", l, at, addr))
		args = append(args, "-netdev", fmt.Sprintf("tap,id=%s,ifname=%s,script=no,downscript=no", l, g.at.port(l)),
			"-device", fmt.Sprintf("virtio-net-pci,netdev=%s,mac=%s,romfile=", l, at))
	}
	for _, module := range g.lacks {
		words = append(words, "lab.without="+module)
	}
	cmd := exec.Command("ip", append(args, "-append", g.image.cmdline(words...))...)
	cmd.Env = append(os.Environ(), "TMPDIR="+g.dir) // of the copy of its root
	g.qemu = program.StartLogged(g.t, cmd, g.log)
}

// awake waits until its shell answers.
func (g *guest) awake() {
	g.t.Helper()
	eventually(g.t, guestLimit, fmt.Sprintf("guest %d answers", g.at.number), func() error {
		if !g.qemu.Running() {
			g.t.Fatalf("guest %d ended with %d", g.at.number, g.qemu.Code)
		}
		_, err := g.try("true")
		return err
	})
}

// crash takes its power away.
func (g *guest) crash() {
	g.t.Helper()
	testenv.Must(g.t, g.qemu.End(syscall.SIGKILL, 10*time.Second))
}

// try runs a line of shell in the guest and returns what it said.
func (g *guest) try(line string) (string, error) {
	c, err := net.DialTimeout("tcp", net.JoinHostPort(g.at.Site, guestShell), time.Second)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(wordsLimit)); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintf(c, "(%s\n) 2>&1 </dev/null; echo \"%s$?\"; exit\n", line, shellEnd); err != nil {
		return "", err
	}
	var said strings.Builder
	for lines := bufio.NewReader(c); ; {
		text, err := lines.ReadString('\n')
		if code, ended := strings.CutPrefix(text, shellEnd); ended && err == nil {
			if code != "0\n" {
				err = fmt.Errorf("%q ended with %s: %s", line, strings.TrimSpace(code), &said)
			}
			return said.String(), err
		}
		said.WriteString(text)
		if err != nil {
			return said.String(), fmt.Errorf("%q: %w after %q", line, err, &said)
		}
	}
}

// shellEnd begins the line with a command's exit code.
const shellEnd = "lab: exit "

// must is try of what has to succeed.
func (g *guest) must(line string) string {
	g.t.Helper()
	said, err := g.try(line)
	if err != nil {
		g.t.Fatalf("guest %d: %v", g.at.number, err)
	}
	return said
}

// step moves its wall clock, as date(1) says it.
func (g *guest) step(by string) {
	g.t.Helper()
	g.must("date -s 'now " + by + "' >/dev/null")
}

// setClock makes its wall clock that of the tester.
func (g *guest) setClock() {
	g.t.Helper()
	now := time.Now()
	g.must(fmt.Sprintf("date -s @%d.%03d >/dev/null", now.Unix(), now.Nanosecond()/1e6))
}

// monitor has the emulator do something: "stop" stops the guest's processors and
// all its clocks, "cont" lets them go on where they were.
func (g *guest) monitor(verb string) {
	g.t.Helper()
	if err := g.command(verb); err != nil {
		g.t.Fatalf("monitor of guest %d: %s: %v", g.at.number, verb, err)
	}
}

func (g *guest) command(verb string) error {
	c, err := net.DialTimeout("unix", g.file("monitor"), time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	answers := json.NewDecoder(c)
	for _, v := range []string{"qmp_capabilities", verb} {
		if _, err := fmt.Fprintf(c, `{"execute":%q}`, v); err != nil {
			return err
		}
		for done := false; !done; {
			var said struct{ Return, Error json.RawMessage }
			if err := answers.Decode(&said); err != nil {
				return err
			}
			if said.Error != nil {
				return errors.New(string(said.Error))
			}
			done = said.Return != nil // else a greeting, or an event
		}
	}
	return nil
}

// callEvery is the least time between two calls to a guest's trivet: it is
// emulated, and whoever waits for something asks again at once.
const callEvery = 200 * time.Millisecond

// control reaches the socket of the trivet in a guest.
func (g *guest) control() *http.Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		d := net.Dialer{Timeout: time.Second}
		return d.DialContext(ctx, "tcp", net.JoinHostPort(g.at.Site, guestSocket))
	}
	return &http.Client{Transport: &patient{Transport: &http.Transport{DialContext: dial}}, Timeout: callLimit}
}

// patient is a transport that makes calls one after the other, with a pause.
type patient struct {
	*http.Transport
	mu   sync.Mutex
	last time.Time
}

// RoundTrip implements http.RoundTripper.
func (p *patient) RoundTrip(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !testwait.Rest(r.Context(), time.Until(p.last.Add(callEvery))) {
		return nil, r.Context().Err()
	}
	defer func() { p.last = time.Now() }()
	return p.Transport.RoundTrip(r)
}
