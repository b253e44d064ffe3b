package fence

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/failover"
)

// worker is the machine of most tests.
func worker() failover.Machine { return failover.Machine{Cluster: "prod", Node: "worker-1"} }

// scripted is a method that gives its answers one by one, and then the last.
type scripted struct {
	answers []error // errSilent: nothing comes until the try ends
	tries   int
}

var errSilent = errors.New("silent")

func (s *scripted) advice(address) string { return "ask somebody" }

func (s *scripted) power(ctx context.Context, m failover.Machine, to address) (failover.Power, error) {
	return failover.PowerOff, s.set(ctx, m, to, failover.PowerOff)
}

func (s *scripted) set(ctx context.Context, _ failover.Machine, _ address, _ failover.Power) error {
	err := s.answers[min(s.tries, len(s.answers)-1)]
	s.tries++
	if err == errSilent {
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

func TestTries(t *testing.T) {
	busy := errors.New("busy")
	for _, c := range []struct {
		name    string
		answers []error
		tries   int
		took    time.Duration
		err     string
	}{
		{"at once", []error{nil}, 1, 0, ""},
		{"the third time", []error{busy, errSilent, nil}, 3, 12 * time.Second, ""},
		{"never", []error{busy}, 4, 3 * time.Second,
			"fence device bmc (ironic): kube node prod/worker-1: switch it off: busy (4 tries); ask somebody"},
		{"never heard", []error{errSilent}, 4, 43 * time.Second,
			"fence device bmc (ironic): kube node prod/worker-1: switch it off: no answer within 10s (4 tries); ask somebody"},
		{"hopeless", []error{busy, hopeless("stop", "refused")}, 2, time.Second,
			"fence device bmc (ironic): kube node prod/worker-1: switch it off: refused (2 tries); stop"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &scripted{answers: c.answers}
			d := &device{
				name: "bmc", kind: "ironic", limits: Limits{3, time.Second, 10 * time.Second}, everyone: true, method: s,
				random: strings.NewReader(""),
			}
			began := time.Now()
			err := d.Off(t.Context(), worker())
			if s.tries != c.tries || time.Since(began) != c.took || (err == nil) != (c.err == "") ||
				err != nil && err.Error() != c.err {
				t.Errorf("%s: %d tries in %v: %v", c.name, s.tries, time.Since(began), err)
			}
			if errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v seems to be the end of the caller's context", c.name, err)
			}
		})
	}
}

// TestAnErrorIsNoPower: what a method returns beside an error must not get out.
func TestAnErrorIsNoPower(t *testing.T) {
	d := &device{everyone: true, limits: Limits{Timeout: time.Second},
		method: &scripted{answers: []error{errors.New("odd")}}}
	if power, err := d.Power(t.Context(), worker()); power != failover.PowerUnknown || err == nil {
		t.Errorf("%s, %v", power, err)
	}
}

func TestWhoIsReached(t *testing.T) {
	d := &device{name: "bmc", nodes: map[string]address{"worker-1": {text: "any"}, "prod/worker-1": {text: "prod's"}}}
	for m, want := range map[string]string{"prod/worker-1": "prod's", "lab/worker-1": "any", "prod/worker-2": ""} {
		cluster, node := m[:len(m)-len("/worker-1")], m[len(m)-len("worker-1"):]
		if to, ok := d.reaches(failover.Machine{Cluster: cluster, Node: node}); to.text != want || ok != (want != "") {
			t.Errorf("%s: %q", m, to.text)
		}
	}
	if err := d.Off(t.Context(), failover.Machine{Cluster: "prod", Node: "worker-2"}); err == nil {
		t.Error("somebody else's machine was switched off")
	}
}

// TestWhatAgentsCannotCarry: fence agents take blanks and quotes off, and nothing else.
func TestWhatAgentsCannotCarry(t *testing.T) {
	for value, want := range map[string]string{
		"": "", "x": "", `"`: "", `"x`: "", `x"`: "", `x"y`: "", "x y": "", `'x'`: "",
		`""`: "stands in quotes", `"x"`: "stands in quotes", " x": "begins or ends with a blank",
		"x\t": "begins or ends with a blank", "x\ny": "holds the end of a line", "x\x00": "holds the end of a line",
	} {
		if got := unsendable(value); got != want {
			t.Errorf("agent-input: %q: %q, want %q", value, got, want)
		}
	}
}
