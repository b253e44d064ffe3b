//go:build e2e

package fence

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/failover"
	"github.com/trivet-ha/trivet/internal/servicecreds"
	"github.com/trivet-ha/trivet/test/testwait"
)

// rig is an agent of our own with a machine behind it, and what it was called with.
type rig struct {
	t      *testing.T
	dir    string
	device *device
}

const rigSecret = "s3cret pass=word"

func newRig(t *testing.T, mode string, limits Limits) *rig {
	r := &rig{t: t, dir: t.TempDir()}
	r.write("power", "on\n")
	r.write("password", rigSecret+"\n")
	program, err := filepath.Abs("testdata/fence_fake")
	if err != nil {
		t.Fatal(err)
	}
	a := &agent{program: program, options: []option{{"mode", mode}},
		password: servicecreds.Password{File: r.path("password"), Option: "password_file"}}
	machine := address{options: []option{{"state", r.path("power")}, {"record", r.path("record")}}}
	r.device = &device{name: "ipmi", kind: "agent", limits: limits, nodes: map[string]address{"worker-1": machine},
		method: a}
	return r
}

func (r *rig) path(name string) string { return filepath.Join(r.dir, name) }

func (r *rig) write(name, text string) {
	r.t.Helper()
	if err := os.WriteFile(r.path(name), []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) read(name string) string {
	r.t.Helper()
	text, err := os.ReadFile(r.path(name))
	if err != nil {
		r.t.Fatal(err)
	}
	return string(text)
}

func oneTry() Limits { return Limits{Timeout: 20 * time.Second} }

func TestAgentSwitches(t *testing.T) {
	r := newRig(t, "", oneTry())
	for _, step := range []struct {
		act  func(context.Context, failover.Machine) error
		want failover.Power
	}{{r.device.Off, failover.PowerOff}, {r.device.Off, failover.PowerOff}, {r.device.On, failover.PowerOn}} {
		if err := step.act(t.Context(), worker()); err != nil {
			t.Fatal(err)
		}
		if power, err := r.device.Power(t.Context(), worker()); power != step.want || err != nil {
			t.Fatalf("%s, %v; want %s", power, err, step.want)
		}
	}
	for line := range strings.Lines(r.read("record")) {
		if rest, ok := strings.CutPrefix(line, "action="); ok {
			action, secret, _ := strings.Cut(strings.TrimSpace(rest), " passwd=")
			if action != "on" && action != "off" && action != "status" {
				t.Errorf("the agent was told %q", action)
			}
			if secret != rigSecret {
				t.Errorf("the password came as %q", secret)
			}
		} else if strings.Contains(line, "s3cret") {
			t.Errorf("the password is in the arguments or the environment: %s", line)
		} else if args, ok := strings.CutPrefix(line, "arguments:"); ok && strings.TrimSpace(args) != "" {
			t.Errorf("arguments: %s", args)
		}
	}
}

// TestAgentsAreNotBelievedEasily: whatever is not "off" in so many words must not
// pass for it.
func TestAgentsAreNotBelievedEasily(t *testing.T) {
	for mode, want := range map[string]string{
		"silent2":  "it said nothing",
		"shell2":   "Syntax error",
		"usage2":   "Action: status",
		"lying0":   "contradicts",
		"lying2":   "contradicts",
		"code3":    "exit code 3",
		"moan":     "cannot log in with ***",
		"killed":   "signal: killed",
		"noaction": "not supported",
	} {
		r := newRig(t, mode, oneTry())
		power, err := r.device.Power(t.Context(), worker())
		if power != failover.PowerUnknown || err == nil {
			t.Errorf("%s: taken for %s (%v)", mode, power, err)
			continue
		}
		for _, part := range []string{want, "fence device ipmi (agent): kube node prod/worker-1: ask whether it is on"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v: no %q", mode, err, part)
			}
		}
		if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: the error tells the password: %v", mode, err)
		}
	}
}

func TestAgentsWithoutAnAction(t *testing.T) {
	r := newRig(t, "noaction", Limits{Retries: 5, Interval: time.Millisecond, Timeout: 20 * time.Second})
	err := r.device.Off(t.Context(), worker())
	if !errors.Is(err, ErrUnsupported) {
		t.Fatalf("%v is not ErrUnsupported", err)
	}
	if n := strings.Count(r.read("record"), "action=off"); n != 1 {
		t.Errorf("tried %d times", n)
	}
}

// TestAgentsThatHangAreKilled, and what they started with them.
func TestAgentsThatHangAreKilled(t *testing.T) {
	r := newRig(t, "hang", Limits{Retries: 1, Interval: time.Millisecond, Timeout: time.Second})
	err := r.device.Off(t.Context(), worker())
	if err == nil || !strings.Contains(err.Error(), "no answer within 1s") || !strings.Contains(err.Error(), "(2 tries)") {
		t.Fatalf("%v", err)
	}
	// A signal is sent, not awaited: on a busy host its target ends a little later.
	child := strings.TrimSpace(r.read("record.child"))
	testwait.Until(t, "its child "+child+" ends", func() bool { return !runs(child) })
}

// runs reports whether a process is there and no zombie.
func runs(pid string) bool {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !strings.Contains(string(text), ") Z ")
}

func TestAgentsThatTalkAreBounded(t *testing.T) {
	r := newRig(t, "flood", oneTry())
	a := r.device.method.(*agent)
	got, err := a.run(t.Context(), "status", r.device.nodes["worker-1"])
	if err != nil || len(got.said) != maxSaid {
		t.Fatalf("%d bytes kept, %v", len(got.said), err)
	}
	if power, err := r.device.Power(t.Context(), worker()); power != failover.PowerOn || err != nil {
		t.Errorf("%s, %v", power, err)
	}
}

func TestCallersWhoGiveUp(t *testing.T) {
	r := newRig(t, "hang", Limits{Retries: 5, Interval: time.Hour, Timeout: time.Hour})
	why := errors.New("leadership is over")
	ctx, cancel := context.WithCancelCause(t.Context())
	if err := unix.Mkfifo(r.path("record.child"), 0o600); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer cancel(why)
		if _, err := os.ReadFile(r.path("record.child")); err != nil { // it hangs from here on
			t.Error(err)
		}
	}()
	if err := r.device.Off(ctx, worker()); !errors.Is(err, why) {
		t.Errorf("%v", err)
	}
}

// TestPasswordsAreReadAgain changes the file between two calls.
func TestPasswordsAreReadAgain(t *testing.T) {
	r := newRig(t, "", oneTry())
	for _, secret := range []string{"first", "second"} {
		r.write("password", secret)
		if err := r.device.Off(t.Context(), worker()); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(r.read("record"), "passwd="+secret+"\n") {
			t.Errorf("%s was not shown", secret)
		}
	}
	r.write("password", ` "x" `)
	if err := r.device.Off(t.Context(), worker()); err == nil ||
		!strings.Contains(err.Error(), "begins or ends with a blank") {
		t.Errorf("%v", err)
	}
}
