package fence

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/failover"
)

// fakeIronic has one node, and behind it a machine that it remembers badly.
type fakeIronic struct {
	names   map[string]string // to UUIDs
	takes   time.Duration     // to switch the machine
	deaf    bool              // it does not do as it is told
	away    error
	refuses error // what a command is answered

	mu       sync.Mutex // guards the rest
	memory   memory
	real     string // of the machine
	commands []string
}

func (f *fakeIronic) FindNode(_ context.Context, ref string) (string, bool, error) {
	uuid, ok := f.names[ref]
	return uuid, ok, f.away
}

func (f *fakeIronic) PowerState(ctx context.Context, _ string) (string, string, string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.memory.state, f.memory.doing, f.memory.trouble, errors.Join(f.away, ctx.Err())
}

// SetPower works in its own time, as Ironic's conductor does.
func (f *fakeIronic) SetPower(_ context.Context, _ string, state string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuses != nil {
		return f.refuses
	}
	f.commands = append(f.commands, state)
	f.memory.doing, f.memory.trouble = state, ""
	time.AfterFunc(f.takes, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.deaf {
			f.memory = memory{state: "error", trouble: "BMC is silent"}
			return
		}
		f.real = state
		f.memory = memory{state: state}
	})
	return nil
}

// truth is what the machine is, and what Ironic was told.
func (f *fakeIronic) truth() (real string, commands []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.real, f.commands
}

func overIronic(f *fakeIronic, nodes map[string]address) *device {
	return &device{name: "bmc", kind: "ironic", limits: Limits{1, time.Second, 10 * time.Second}, nodes: nodes,
		everyone: nodes == nil, method: newThroughIronic(f)}
}

// TestIronicIsNotBelievedFromMemory: it remembers "off" of a machine that is on.
func TestIronicIsNotBelievedFromMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeIronic{names: map[string]string{"worker-1": "u1"},
			memory: memory{state: ironicOff, trouble: "a disk, last week"}, real: ironicOn, takes: 3 * time.Second}
		d := overIronic(f, nil)
		asking := worker()
		asking.AskOnly = true
		// nothing goes on yet
		if power, err := d.Power(t.Context(), asking); power != failover.PowerOff || err != nil || len(f.commands) > 0 {
			t.Errorf("asked only: %s, %v, commands %v", power, err, f.commands)
		}
		bmc := &device{method: &redfish{}}
		if strips := (&group{members: []*device{bmc, d}}); d.Asks() || strips.Asks() || !bmc.Asks() {
			t.Error("remembered: an off that Ironic, or a device of a group, remembers counts as asked")
		}
		if strips := (&group{members: []*device{bmc, d}}); len(failover.Members(strips)) != 2 {
			t.Errorf("members: of a group of two devices there are %d", len(failover.Members(strips)))
		}
		power, err := d.Power(t.Context(), worker())
		if real, _ := f.truth(); power != failover.PowerOff || err != nil || real != ironicOff {
			t.Errorf("said to be %s (%v), and is %s", power, err, real)
		}
	})
}

func TestIronicPower(t *testing.T) {
	for _, c := range []struct {
		name  string
		fake  *fakeIronic
		power failover.Power
		err   string
	}{
		{"on", &fakeIronic{memory: memory{state: ironicOn}}, failover.PowerOn, ""},
		{"going off", &fakeIronic{memory: memory{state: ironicOn, doing: ironicOff}}, failover.PowerUnknown, ""},
		{"off, held by another client", &fakeIronic{memory: memory{state: ironicOff, doing: "something else"}},
			failover.PowerUnknown, ""},
		{"off, and the machine is silent", &fakeIronic{memory: memory{state: ironicOff}, deaf: true}, failover.PowerUnknown,
			"BMC is silent"},
		{"off, and it takes too long", &fakeIronic{memory: memory{state: ironicOff}, takes: time.Minute},
			failover.PowerUnknown, ""},
		{"off, and the command is refused", &fakeIronic{memory: memory{state: ironicOff},
			refuses: errors.New("node is locked")}, failover.PowerUnknown, "node is locked"},
		{"never asked", &fakeIronic{}, failover.PowerUnknown, `no power state but ""`},
		{"Ironic is away", &fakeIronic{away: errors.New("no route to host")}, failover.PowerUnknown,
			"no route to host (2 tries); look at the node in Ironic"},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := c.fake
			f.names = map[string]string{"worker-1": "u1"}
			power, err := overIronic(f, nil).Power(t.Context(), worker())
			if power != c.power || (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %s, %v", c.name, power, err)
			}
			time.Sleep(2 * time.Minute) // what goes on ends in the bubble
		})
	}
}

func TestIronicSwitches(t *testing.T) {
	for _, c := range []struct {
		name string
		fake *fakeIronic
		err  string
	}{
		{"on", &fakeIronic{memory: memory{state: ironicOn}, real: ironicOn, takes: 2 * time.Second}, ""},
		{"off already", &fakeIronic{memory: memory{state: ironicOff}, real: ironicOff}, ""},
		{"said to be off, and on", &fakeIronic{memory: memory{state: ironicOff}, real: ironicOn, takes: time.Second}, ""},
		{"the command is refused", &fakeIronic{memory: memory{state: ironicOff}, real: ironicOn,
			refuses: errors.New("node is locked")}, "node is locked"},
		{"slowly", &fakeIronic{memory: memory{state: ironicOn}, real: ironicOn, takes: time.Minute}, ""},
		{"deaf", &fakeIronic{memory: memory{state: ironicOn}, real: ironicOn, deaf: true}, "BMC is silent"},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := c.fake
			f.names = map[string]string{"worker-1": "u1"}
			err := overIronic(f, nil).Off(t.Context(), worker())
			if (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v", c.name, err)
			}
			time.Sleep(2 * time.Minute)
			real, commands := f.truth()
			if c.err == "" && real != ironicOff {
				t.Errorf("%s: it is %s", c.name, real)
			}
			for _, command := range commands {
				if command != ironicOff {
					t.Errorf("%s: told %q", c.name, command)
				}
			}
		})
	}
}

// A machine with which Ironic or an introspection works keeps its power, also in a group with a strip, and no
// further try is made. Where that is not known, and to be switched on, it gets the command.
func TestIronicLeavesAMachineInUseOn(t *testing.T) {
	for name, c := range map[string]struct {
		why  string
		err  error
		kept bool
	}{
		"cleaned": {`in state "clean wait"`, nil, true},
		"at rest": {"", nil, false},
		"unknown": {"", errors.New("Ironic does not say"), false},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &fakeIronic{names: map[string]string{"worker-1": "u1"}, memory: memory{state: ironicOn}, real: ironicOn}
			asked := 0
			method := newThroughIronic(f)
			method.inUse = func(_ context.Context, uuid string) (string, error) {
				if asked++; uuid != "u1" {
					t.Errorf("in-use: asked about %q", uuid)
				}
				return c.why, c.err
			}
			strip := &fakeIronic{names: map[string]string{"worker-1": "s1"}, memory: memory{state: ironicOn}, real: ironicOn}
			plug := overIronic(strip, nil)
			plug.method = stripOf{plug.method}
			d := overIronic(f, nil)
			d.method = method
			for what, off := range map[string]failover.PowerSwitch{"alone": d, "group": &group{members: []*device{plug, d}}} {
				asked = 0
				err := off.Off(t.Context(), worker())
				used, refused := errors.AsType[failover.InUse](err)
				if refused != c.kept || used.Why != c.why || !c.kept && err != nil || asked != 1 {
					t.Errorf("in-use: %s, %s: %v, asked %d times", name, what, err, asked)
				}
			}
			time.Sleep(time.Minute)
			for _, one := range []*fakeIronic{f, strip} {
				if real, commands := one.truth(); (real == ironicOn) != c.kept {
					t.Errorf("in-use: %s: it is %s by %q", name, real, commands)
				}
			}
			if err := d.On(t.Context(), worker()); err != nil {
				t.Errorf("in-use: %s: switched on: %v", name, err)
			}
			time.Sleep(time.Minute)
		})
	}
}

// stripOf is a method of another type, which knows of no use.
type stripOf struct{ method }

func TestNodesOfIronic(t *testing.T) {
	f := &fakeIronic{names: map[string]string{"worker-1": "u1", "4c4c4544-0000-4000-8000-000000000001": "u2",
		"52:54:00:00:00:01": "u1"}}
	for _, c := range []struct {
		list map[string]address
		uuid string // the kubelet's
		want string
	}{
		{nil, "", "u1"},
		{nil, "4C4C4544-0000-4000-8000-000000000001",
			"node u2 with its UUID and node u1 with its name; write which one it is"},
		{nil, "4C4C4544-0000-4000-8000-000000000009", "u1"},
		{map[string]address{"worker-1": {text: "52:54:00:00:00:01"}}, "4C4C4544-0000-4000-8000-000000000001", "u1"},
		{map[string]address{"worker-1": {text: "gone"}}, "", "Ironic has no node gone; write its UUID, name or MAC"},
	} {
		m := worker()
		m.SystemUUID = c.uuid
		var got string
		d := overIronic(f, c.list)
		err := d.call(t.Context(), m, "find it", func(ctx context.Context, to address) (err error) {
			got, err = newThroughIronic(f).find(ctx, m, to)
			return err
		})
		if err != nil {
			got = err.Error()
		}
		if !strings.HasSuffix(got, c.want) && !strings.Contains(got, c.want) {
			t.Errorf("%v, %q: %s", c.list, c.uuid, got)
		}
	}
}
