package identify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector/ironic"
)

// The UUID is the machine's, however its interfaces are listed, and no two
// machines have the same.
func TestDiscoveredIdentity(t *testing.T) {
	nic := func(macs ...string) string {
		var all []string
		for i, mac := range macs {
			all = append(all, fmt.Sprintf(`{"name":"eth%d","mac_address":%q}`, i, mac))
		}
		return `{"inventory":{"interfaces":[` + strings.Join(all, ",") + `]%s}}`
	}
	of := func(format, more string) string {
		found, err := newSite(t).search().InIronic(t.Context(), Of(parsed(t, fmt.Sprintf(format, more))))
		if err != nil {
			t.Fatal(err)
		}
		a, err := found.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		if a.Verdict == Refused {
			return a.Text
		}
		if err := (introspection.Start{Node: a.Node, Event: introspection.EventEnroll, Timeout: time.Second,
			Attributes: a.Attributes}).Validate(); err != nil {
			t.Errorf("the log does not take %s, %v: %v", a.Node, a.Attributes, err)
		}
		return a.Node
	}
	one := of(nic(mac1, mac2), "")
	for _, same := range []string{of(nic(mac2, mac1), ""),
		of(nic(noMAC, strings.ToUpper(mac1), "ff:ff:ff:ff:ff:ff", "01:00:5e:00:00:01", mac2),
			`,"bmc_address":"198.18.0.1"`)} {
		if same != one {
			t.Errorf("one machine is %s and %s", one, same)
		}
	}
	if grouped := of(nic("0b:00:00:00:00:01", "03:00:00:00:00:01", mac1, mac2), ""); grouped != one {
		t.Errorf("groups' MACs make %s of %s", grouped, one)
	}
	bmc := of(nic(noMAC), `,"bmc_address":"198.18.0.1"`)
	for _, other := range []string{of(nic(mac1), ""), of(nic("52:54:00:00:00:0b", "52:54:00:00:0a"), ""), bmc} {
		if other == one {
			t.Errorf("two machines are %s", other)
		}
	}
	if got := of(nic(noMAC), `,"bmc_address":"0.0.0.0"`); !strings.Contains(got, "no MAC and no BMC address") {
		t.Error(got)
	}
	var many []string
	for i := range 129 {
		many = append(many, fmt.Sprintf("52:54:00:00:01:%02x", i))
	}
	if got := of(nic(many...), ""); !strings.Contains(got, "more than 128") {
		t.Error(got)
	}
}

// dns is a Resolver that has this answer alone.
type dns struct{ err *net.DNSError }

func (d dns) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) { return nil, d.err }

// named is an Ironic with a node that is known by the name of its BMC alone.
type named struct{ Ironic }

func (named) AllPorts(context.Context) ([]ironic.Port, error) { return nil, nil }

func (named) NodesWithBMC(context.Context) ([]ironic.Node, error) {
	return []ironic.Node{{UUID: node1, DriverInfo: map[string]any{"redfish_address": "https://bmc1.example"}}}, nil
}

// While the name of a BMC cannot be resolved, no node is made of a machine that may be at it; a
// name that does not exist, and a machine that tells no BMC, are no such doubt.
func TestDiscoveryWithoutDNS(t *testing.T) {
	for _, c := range []struct {
		name  string
		err   net.DNSError
		bmc   string
		waits bool
	}{
		{"no answer", net.DNSError{Err: "i/o timeout", IsTimeout: true}, bmc1, true},
		{"a server that fails", net.DNSError{Err: "server misbehaving", IsTemporary: true}, bmc1, true},
		{"no such name", net.DNSError{Err: "no such host", IsNotFound: true}, bmc1, false},
		{"no BMC", net.DNSError{Err: "i/o timeout", IsTimeout: true}, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := NewSearch(named{}, dns{&c.err}, func() []string { return []string{"redfish_address"} },
				slog.New(slog.DiscardHandler))
			found, err := s.InIronic(t.Context(), machine(mac1, c.bmc, ""))
			if err != nil {
				t.Fatal(err)
			}
			a, err := found.New([]string{mac1})
			if errors.Is(err, ErrUnresolved) != c.waits || c.waits && !ironic.Unjudged(err) || !c.waits && a.Verdict != New {
				t.Errorf("one-node: %s, %v", verdict(a), err)
			}
			err = found.Rival("", []string{mac1}) // as a worker asks before it creates the node
			if errors.Is(err, ErrUnresolved) != c.waits {
				t.Errorf("one-node: the worker: %v", err)
			}
		})
	}
}
