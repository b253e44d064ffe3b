//go:build e2e

package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/trivet-ha/trivet/test/netns"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// missed is what a peer says without a capability of its unit.
func missed() map[string]*regexp.Regexp {
	return map[string]*regexp.Regexp{
		"CAP_NET_ADMIN": regexp.MustCompile(`msg="close PXE service failed.*operation not permitted`),
		"CAP_NET_RAW":   regexp.MustCompile(`msg="probe for DHCP servers .* failed".*needs CAP_NET_RAW`),
	}
}

// unitCapabilities are those that the unit gives.
func unitCapabilities(t *testing.T) []string {
	t.Helper()
	unit, err := os.ReadFile("files/trivet.service")
	if err != nil {
		t.Fatal(err)
	}
	var sets [][]string
	for _, key := range []string{"AmbientCapabilities", "CapabilityBoundingSet"} {
		found := regexp.MustCompile(`(?m)^`+key+`=(.*)$`).FindAllStringSubmatch(string(unit), -1)
		if len(found) != 1 {
			t.Fatalf("the unit says %s %d times", key, len(found))
		}
		sets = append(sets, strings.Fields(found[0][1]))
	}
	if !slices.Equal(sets[0], sets[1]) {
		t.Errorf("capabilities: the unit gives %v of %v", sets[0], sets[1])
	}
	return sets[0]
}

// serveWith runs a peer as the unit's user with capabilities alone, on a host of its own,
// until it says done, or for a while with nil. It returns what the peer said.
func serveWith(t *testing.T, program string, capabilities []string, done *regexp.Regexp) string {
	t.Helper()
	h, other := netns.New(t), netns.New(t)
	h.Cable("pxe", other, "pxe")
	for _, end := range []*netns.Host{h, other} {
		end.Change("pxe", netlink.LinkSetUp)
	}
	h.Carry("pxe", "192.0.2.1/24")
	dir, err := os.MkdirTemp("", "sec-cap-") // the user of the service reaches it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	conf := filepath.Join(dir, "trivet.yaml")
	text := "name: h1\ndata_dir: " + dir + "/d\nsocket: " + dir + "/s\napi: {auth_strategy: noauth}\n" +
		"firewall: {driver: nftables, interface: pxe}\nfloating_ip: {address: 192.0.2.10, interface: pxe}\n" +
		"cluster: {advertise: \"192.0.2.1:7350\"}\nironic: {endpoint: \"http://192.0.2.5:1\"}\n"
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	run := func(cmd *exec.Cmd) {
		t.Helper()
		var out []byte
		h.Do(func() (err error) {
			out, err = cmd.CombinedOutput()
			return err
		})
		t.Logf("%s: %s", strings.Join(cmd.Args[1:], " "), out)
	}
	run(exec.Command(program, "init", "--config", conf))
	run(exec.Command("chown", "-R", "950:950", dir))
	set := "-all"
	for _, c := range capabilities {
		set += ",+" + strings.ToLower(strings.TrimPrefix(c, "CAP_"))
	}
	cmd := exec.Command("setpriv", "--reuid", "950", "--regid", "950", "--clear-groups", "--inh-caps="+set,
		"--bounding-set="+set, "--ambient-caps="+set, "--no-new-privs", program, "serve", "--config", conf)
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	h.Do(cmd.Start)
	var talk strings.Builder
	found := make(chan bool, 1)
	go func() {
		lines, met := bufio.NewScanner(said), false
		for lines.Scan() {
			talk.WriteString(lines.Text() + "\n")
			if !met && done.MatchString(lines.Text()) {
				met = true
				found <- true
			}
		}
		if !met {
			found <- false
		}
	}()
	met, late := testwait.Take(testwait.Limit, found, "the peer says "+done.String())
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if ended := cmd.Wait(); late != nil || !met {
		t.Errorf("capabilities: with %v the peer does not say %q (%v):\n%s", capabilities, done, ended, &talk)
	}
	return talk.String()
}

// TestEachCapabilityIsNeeded runs a peer with the capabilities of the unit, and then without
// each: something that is named fails then, so that none is too much.
func TestEachCapabilityIsNeeded(t *testing.T) {
	testenv.NeedRoot(t, "setpriv", "chown")
	program := filepath.Join(t.TempDir(), "trivet")
	if out, err := exec.Command("go", "build", "-trimpath", "-o", program, "..").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for at := filepath.Dir(program); at != "/tmp" && at != "/"; at = filepath.Dir(at) {
		if out, err := exec.Command("chmod", "755", at).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	all := unitCapabilities(t)
	if said := serveWith(t, program, all, regexp.MustCompile(`msg="floating IP acquired"`)); strings.Contains(said,
		"not permitted") {
		t.Errorf("capabilities: with all of them something is not permitted:\n%s", said)
	}
	for i, one := range all {
		words := missed()[one]
		if words == nil {
			t.Errorf("capabilities: what fails without %s? Say so in missed, or take it out of the unit", one)
			continue
		}
		serveWith(t, program, slices.Delete(slices.Clone(all), i, i+1), words)
	}
	testenv.Count(t, "security.capabilities", float64(len(all)))
}
