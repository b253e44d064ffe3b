//go:build e2e

package attacktest

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/app"
	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// victimFlags in the environment makes this program a peer with these flags, as
// JSON: one with a process of its own, whose memory and descriptors are counted.
const victimFlags = "TRIVET_ATTACKTEST_VICTIM"

// descriptors are what a victim may open.
const descriptors = 2048

func TestMain(m *testing.M) {
	if text := os.Getenv(victimFlags); text != "" {
		if err := beVictim(text); err != nil {
			fmt.Fprintln(os.Stderr, "victim:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if text := os.Getenv(attackerOrder); text != "" {
		if err := beAttacker(text); err != nil {
			fmt.Fprintln(os.Stderr, "attacker:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if os.Getenv(asTrivet) != "" {
		os.Exit(beTrivet())
	}
	if os.Getenv(asDump) != "" {
		beDumped()
	}
	os.Exit(m.Run())
}

// beVictim runs a peer until stdin ends. The line "hoard" makes it open files until
// it can open no more.
func beVictim(text string) error {
	var flags map[string]string
	if err := json.Unmarshal([]byte(text), &flags); err != nil {
		return err
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: descriptors, Max: descriptors}); err != nil {
		return err
	}
	conf, err := config.Load(config.Sources{Flags: flags})
	if err != nil {
		return err
	}
	dir, err := datadir.Open(conf.DataDir)
	if err != nil {
		return err
	}
	limits := app.APILimits()
	limits.Header, limits.Body, limits.Stall, limits.Write = 3*time.Second, 10*time.Second, 2*time.Second, 2*time.Second
	peer, err := app.New(context.Background(), app.Options{
		Config: conf, Dir: dir, Binary: "test", Logger: slog.New(slog.DiscardHandler), Wall: time.Now, Random: rand.Reader,
		Limits: &limits,
		Exit:   func(code int, why error) { fmt.Fprintln(os.Stderr, "victim exits:", why); os.Exit(code) },
	})
	if err != nil {
		return err
	}
	fmt.Println(strings.TrimPrefix(peer.APIURL(), "http://"))
	var hoard []*os.File
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		for err == nil {
			var f *os.File
			f, err = os.Open(os.DevNull)
			hoard = append(hoard, f)
		}
		fmt.Println(len(hoard), err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return errors.Join(peer.Stop(ctx), dir.Close())
}

// victim is a peer in a process of its own.
type victim struct {
	*testing.T
	host  *host // its peer is nil
	id    string
	api   string
	pid   int
	stdin io.WriteCloser
	out   *bufio.Reader
}

// newVictim founds a cluster whose first peer, and leader, is the victim.
func newVictim(t *testing.T, others int, flags map[string]string) (*victim, []*host) {
	t.Helper()
	var own syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &own); err != nil {
		t.Fatal(err)
	}
	if own.Cur < 2*descriptors {
		testenv.Missing(t, "the attacker needs %d file descriptors and may have %d (ulimit -n)", 2*descriptors, own.Cur)
	}
	h := newHost(t, "h1")
	founding, err := h.Init(h.dir)
	if err == nil {
		err = h.dir.Close()
		h.dir = nil
	}
	if err != nil {
		t.Fatal(err)
	}
	v := &victim{T: t, host: h, id: founding.Identity.ID}
	all := map[string]string{
		"name": "h1", "data_dir": h.Config.DataDir, "socket": h.Config.Socket, "firewall.driver": "noop",
		"api.listen":     "127.0.0.1:0",
		"cluster.listen": h.Config.Cluster.Listen, "gossip.listen": h.Config.Gossip.Listen,
		"api.trusted_proxies": "192.0.2.99/32",
	}
	maps.Copy(all, flags)
	v.start(all)
	hosts := make([]*host, others)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	testwait.Until(t, "the victim is ready", func() bool { return v.get("127.0.0.1", "/readyz") == nil })
	for i := range hosts {
		hosts[i] = newHost(t, fmt.Sprintf("h%d", i+2), flags)
		if _, err := hosts[i].Join(ctx, hosts[i].dir, founding.Identity.Address, founding.Token); err != nil {
			t.Fatal(err)
		}
		hosts[i].start()
	}
	if others > 0 {
		until(t, "all peers vote", func() bool { return voters(hosts[0]) == others+1 })
	}
	return v, hosts
}

func (v *victim) start(flags map[string]string) {
	v.Helper()
	text, err := json.Marshal(flags)
	if err != nil {
		v.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), victimFlags+"="+string(text))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		v.Fatal(err)
	}
	if v.stdin, err = cmd.StdinPipe(); err != nil {
		v.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		v.Fatal(err)
	}
	v.pid, v.out = cmd.Process.Pid, bufio.NewReader(out)
	ended := make(chan error, 1)
	v.Cleanup(func() {
		_ = v.stdin.Close() // it stops; it may have ended by itself
		go func() { ended <- cmd.Wait() }()
		err, late := testwait.Take(limit, ended, "the victim stops")
		if late != nil {
			v.Error(late, cmd.Process.Kill())
		} else if err != nil {
			v.Logf("the victim ended badly, as a peer under attack may: %v", err)
		}
	})
	v.api = v.line()
}

// line reads what the victim says.
func (v *victim) line() string {
	v.Helper()
	said := make(chan string, 1)
	go func() {
		text, err := v.out.ReadString('\n')
		if err != nil {
			text = err.Error()
		}
		said <- strings.TrimSpace(text)
	}()
	return testwait.Receive(v, said, "the victim says a line")
}

// hoard makes the victim open files until it can open no more.
func (v *victim) hoard() {
	v.Helper()
	if _, err := io.WriteString(v.stdin, "hoard\n"); err != nil {
		v.Fatal(err)
	}
	v.Log("the victim opened files: ", v.line())
}

// files counts the victim's descriptors.
func (v *victim) files() int {
	v.Helper()
	names, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", v.pid))
	if err != nil {
		v.Fatal(err)
	}
	return len(names)
}

// memory is the most that the victim had resident so far, in MiB.
func (v *victim) memory() int {
	v.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", v.pid))
	if err != nil {
		v.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				v.Fatal(err)
			}
			return kib >> 10
		}
	}
	v.Fatalf("no VmHWM in %s", text)
	return 0
}

// judgeMemory compares the most that the victim had resident with a bound, in MiB.
func (v *victim) judgeMemory(what string, allowed int) {
	v.Helper()
	if got := v.memory(); got > allowed && !raceDetector {
		v.Errorf("%s: %d MiB resident, %d allowed", what, got, allowed)
	}
}

// answerWithin is how soon a caller is to have its answer during an attack. Attacker
// and victim share the processors of one host. That it has one within testwait.Limit
// is what a test demands.
const answerWithin = 15 * time.Second

// answers wants a caller to have its answer during an attack, and records how long
// that took.
func (v *victim) answers(attack, caller string, ask func() error) {
	v.Helper()
	began := time.Now()
	if err := ask(); err != nil {
		v.Errorf("%s: the %s, during the attack: %v", attack, caller, err)
	}
	testenv.Took(v, "attack."+strings.ReplaceAll(attack+"_"+caller, "-", "_"), time.Since(began), answerWithin)
}

// from dials from one of this host's addresses.
func from(address string) func(context.Context, string, string) (net.Conn, error) {
	return (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}, Timeout: testwait.Limit}).DialContext
}

// get asks the victim's API on a new connection.
func (v *victim) get(source, path string) error {
	return fetch(from(source), "http://"+v.api+path)
}

// socket asks the victim's control interface.
func (v *victim) socket() error {
	return fetch(func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", v.host.Config.Socket)
	}, "http://socket/v1/status")
}

func fetch(dial func(context.Context, string, string) (net.Conn, error), url string) error {
	web := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}, Timeout: testwait.Limit}
	resp, err := web.Get(url)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	if resp.StatusCode != http.StatusOK {
		err = errors.Join(err, errors.New(resp.Status))
	}
	return errors.Join(err, resp.Body.Close())
}
