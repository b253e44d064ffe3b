package haconfig

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
)

// deployed is a cluster with some components.
type deployed struct {
	nodes   int
	all     []Component
	touched []string
	err     error // of Touch
}

// Nodes implements Workloads.
func (d *deployed) Nodes(context.Context) (int, error) { return d.nodes, nil }

// Deployed implements Workloads.
func (d *deployed) Deployed(context.Context) ([]Component, error) { return d.all, nil }

// Touch implements Workloads.
func (d *deployed) Touch(_ context.Context, of Component) error {
	d.touched = append(d.touched, of.Name)
	return d.err
}

// TestRetrigger counts kube nodes up and down.
func TestRetrigger(t *testing.T) {
	d := &deployed{nodes: 1}
	for name, when := range map[string]string{"lax": "ScheduleAnyway", "strict": "DoNotSchedule"} {
		o := object("Deployment",
			fmt.Sprintf(
				`{"spec":{"template":{"spec":{"topologySpreadConstraints":[{"topologyKey":"rack"},{"topologyKey":"kubernetes.io/hostname","whenUnsatisfiable":%q}]}}}}`,
				when))
		o.Name = name
		d.all = append(d.all, Component{Object: o})
	}
	d.all = append(d.all, Component{Object: object("Deployment", `{}`)})
	chore := Retrigger(d)(tenure{})
	round := func(when string, r tenure, nodes int, want ...string) error {
		t.Helper()
		d.nodes, d.touched = nodes, nil
		err := chore.Do(t.Context(), proven(r))
		if !slices.Equal(d.touched, want) {
			t.Errorf("%s: touched %q, want %q", when, d.touched, want)
		}
		return err
	}
	if err := round("another leads", tenure{over: errors.New("another leads")}, 1); err == nil {
		t.Error("touched without proof of leadership")
	}
	_ = round("at first", tenure{}, 1, "strict")
	_ = round("nothing has changed", tenure{}, 1)
	d.err = errors.New("refused")
	if err := round("a second one", tenure{}, 2, "lax"); err == nil {
		t.Error("a failure is not told")
	}
	d.err = nil
	_ = round("it is tried again", tenure{}, 2, "lax")
	_ = round("a third one", tenure{}, 2)
	_ = round("back to one", tenure{}, 0, "strict")
}
