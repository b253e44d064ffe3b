package accept_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/inspector/hardware"
	"github.com/trivet-ha/trivet/test/inspecttest"
)

// A dry run makes changes in turn on a copy: what it shows is what the changes do, what it
// refuses is refused as they are, and the log stays as it is.
func TestDryRunIsACopy(t *testing.T) {
	const one, other, hidden = "11111111-1111-4111-8111-000000000001", "11111111-1111-4111-8111-000000000002",
		"11111111-1111-4111-8111-000000000003"
	secret := []byte(`{"actions": [{"action": "set-attribute", "path": "/driver_info/redfish_password", "value": "topsecret"}]}`)
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		s := o.Service()
		if _, err := s.CreateRule(o.Ctx, one, secret); err != nil {
			t.Fatal(err)
		}
		hash, written := o.RaftLog.Truth().Hash(), len(o.RaftLog.Written)
		d, err := s.DryRun(o.Ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.CreateRule(o.Ctx, one, secret); !errors.Is(err, fsm.Conflict) {
			t.Errorf("dry-run: the same rule again: %v", err)
		}
		for _, id := range []string{other, ""} {
			if err := d.CreateRule(o.Ctx, id, []byte(`{"actions": [], "size": 9007199254740993}`)); err != nil {
				t.Errorf("dry-run: %v", err)
			}
		}
		if err := d.CreateRule(o.Ctx, hidden, secret); err != nil {
			t.Errorf("dry-run: %v", err)
		}
		if err := d.CreateRule(o.Ctx, other, secret); !errors.Is(err, fsm.Conflict) {
			t.Errorf("dry-run: a rule that the dry run made, again: %v", err)
		}
		if err := d.PutExpectation(o.Ctx, hardware.Expectation{Name: "compute", Nodes: []string{"c-*"}}); err != nil {
			t.Errorf("dry-run: %v", err)
		}
		before, after, err := d.Differences()
		if err != nil || before != "" {
			t.Errorf("dry-run: before:\n%s%v", before, err)
		}
		if !strings.Contains(after, `"value": "(redacted)"`) || strings.Contains(after, "topsecret") {
			t.Errorf("dry-run: a secret is shown:\n%s", after)
		}
		for _, want := range []string{"rule " + other + ": {", "rule (new 1): {", "9007199254740993",
			"expectation compute: {"} {
			if !strings.Contains(after, want) {
				t.Errorf("dry-run: after has no %s:\n%s", want, after)
			}
		}
		if o.RaftLog.Truth().Hash() != hash || len(o.RaftLog.Written) != written {
			t.Error("dry-run: the log was changed")
		}
	})
}
