package failover

import (
	"context"
	"errors"
)

// Power is whether a machine is on.
type Power uint8

// What a device may say. PowerUnknown is neither: the machine may be on.
const (
	PowerUnknown Power = 0
	PowerOff     Power = 1
	PowerOn      Power = 2
)

// String returns the state in words.
func (p Power) String() string {
	switch p {
	case PowerOff:
		return "off"
	case PowerOn:
		return "on"
	}
	return "unknown"
}

// ErrLogin says that a device refused who asked. Another try with the same password may lock the user out.
var ErrLogin = errors.New("the device refused the login")

// Machine says which machine a fence device shall deal with.
type Machine struct {
	Cluster, Node string // the kube node's name
	SystemUUID    string // as its kubelet read it; "" if not known
	SharedWith    string // kube node on another machine that tells the same UUID; "" for none
	Addresses     []string
	// AskOnly says that Power must have no effect at all. Ironic answers from memory
	// and is sure only of what it was just told to switch off; outside a remediation
	// that has announced the same, its memory has to do, and proves nothing.
	AskOnly bool
}

// NoUUID says why the system UUID of a machine does not identify it, "" if it does.
func (m Machine) NoUUID() string {
	why := NoUUID("the kube node", m.SystemUUID)
	if why == "" && m.SharedWith != "" {
		why = "the kube node tells the same UUID as " + m.SharedWith
	}
	return why
}

// Device switches machines off. Its calls are bounded by ctx and by its own
// timeout for one attempt; retries are its own, too, as its configuration says.
// All methods may be called concurrently.
type Device interface {
	// Name is what the configuration calls it.
	Name() string
	// Power asks whether the machine is on. It never answers from memory, but for
	// AskOnly.
	Power(ctx context.Context, m Machine) (Power, error)
	PowerSwitch
}

// PowerSwitch gives and takes the power of machines.
type PowerSwitch interface {
	// Off takes the power away, at once and without asking the operating system. A
	// machine that is off already is a success. It never resets or cycles. A nil
	// error says that the command was taken, not that the machine is off.
	Off(ctx context.Context, m Machine) error
	// On switches the machine on.
	On(ctx context.Context, m Machine) error
}

// Fences finds the devices for a machine.
type Fences interface {
	// For returns the devices that are configured for a machine, in the order in
	// which they are tried; none is an error for the operator to mend.
	For(m Machine) []Device
}

// Comparer is a Device that compares the UUID of its machine with the one that the
// kubelet read.
type Comparer interface {
	// Uncompared says why it did not at its newest reading of a machine, "" if it did.
	// It makes no call, and may be called concurrently.
	Uncompared(m Machine) string
}

// Asker is a Device that asks its machine also for AskOnly. What another one says then is
// of any age, and proves nothing.
type Asker interface {
	// Asks reports whether it does. It may be called concurrently.
	Asks() bool
}

// Grouped is a Device that is several, which feed the same machines.
type Grouped interface {
	// Members returns them, each with the name that the configuration gives it. It may be
	// called concurrently.
	Members() []Device
}

// Members returns the members of a device, or the device itself if it is one alone.
func Members(d Device) []Device {
	if g, several := d.(Grouped); several {
		return g.Members()
	}
	return []Device{d}
}

// everySupply asks whether a machine is on by all of its supplies: of a group one member that
// is on has it run, on that supply alone. It is off here if one of them says off.
func everySupply(ctx context.Context, d Device, m Machine) (Power, error) {
	power := PowerOn
	var failed error
	for _, one := range Members(d) {
		p, err := one.Power(ctx, m)
		failed = errors.Join(failed, err)
		switch {
		case err != nil || p == PowerUnknown:
			power = PowerUnknown
		case p == PowerOff && power == PowerOn:
			power = PowerOff
		}
	}
	return power, failed
}

// asks reports whether a device that is only asked asks the machine.
func asks(d Device) bool {
	a, may := d.(Asker)
	return may && a.Asks()
}

// Uncompared says in a sentence why what a device says of a machine was compared with no
// UUID, so that only its configuration or a name says which machine that is; "" if it was.
func Uncompared(d Device, m Machine) string {
	why := m.NoUUID()
	device := "a device of its type knows none"
	if c, compares := d.(Comparer); compares {
		device = c.Uncompared(m)
	}
	switch {
	case why == "" && device == "":
		return ""
	case why != "" && device != "":
		why += ", and "
	}
	return "no UUID was compared: " + why + device
}
