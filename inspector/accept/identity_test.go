package accept_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/ironicports"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/document"
	"github.com/trivet-ha/trivet/inspector/identify"
	"github.com/trivet-ha/trivet/inspector/ironic"
	"github.com/trivet-ha/trivet/inspector/work"
	"github.com/trivet-ha/trivet/test/inspecttest"
	"github.com/trivet-ha/trivet/test/msgcheck"
)

// common is the MAC of a network card that the BMC of every machine of a kind shows.
const common = "be:3a:f2:b6:05:9f"

// chooser is a hook that chooses interfaces by name.
type chooser []string

func (chooser) Name() string { return "choose" }

func (c chooser) Choose(data *document.Document) (macs []string) {
	interfaces, _, err := identify.Inventory(data).Get("interfaces").Elements(identify.MaxInterfaces)
	if err != nil {
		return nil
	}
	for _, item := range interfaces {
		if nic, err := item.Members(); err == nil && slices.Contains(c, nic.Get("name").Text()) {
			macs = append(macs, nic.Get("mac_address").Text())
		}
	}
	return macs
}

// After creates the ports, as far as nobody has them.
func (c chooser) After(ctx context.Context, t *inspector.Task) error {
	machine := identify.Of(t.Data)
	for _, mac := range c.Choose(t.Data) {
		if !machine.Owns(mac, false) {
			continue
		}
		if _, err := t.Ironic.CreatePort(ctx, ironic.Port{UUID: mac, Node: t.Node().UUID, Address: mac}); err != nil &&
			!errors.Is(err, ironic.ErrPortExists) {
			return err
		}
	}
	return t.PatchNode(ctx)
}

// sibling is the document of one of many machines with a card in common; BMC is
// false for one whose ramdisk does not say where its BMC is. It does not say what the
// card is, see onUSB.
func sibling(i int, bmc bool) string {
	more := ""
	if bmc {
		more = fmt.Sprintf(`,"bmc_address":"198.18.4.%d"`, i)
	}
	return fmt.Sprintf(
		`{"inventory":{"interfaces":[{"name":"eth0","mac_address":"52:54:00:a5:%02x:01"},{"name":"eth1","mac_address":"52:54:00:a5:%02x:02"},`+
			`{"name":"ens9","mac_address":%q},{"name":"lo","mac_address":%q},{"name":"team0","mac_address":"01:00:5e:00:00:01"}]%s}}`,
		i, i, common, inspecttest.NoMAC, more)
}

// onUSB says of the card in common what it is.
func onUSB(document string) string { return strings.Replace(document, "ens9", "usb0", 1) }

// Many machines that share the MAC of one card are discovered, at once and one
// after the other: each becomes a node of its own.
func TestMachinesWithACardInCommon(t *testing.T) {
	for _, c := range []struct {
		name   string
		chosen chooser
		bmc    bool
		says   func(document string) string
	}{
		{"the card is not chosen", chooser{"eth0"}, true, strings.Clone},
		{"the card is not chosen, no BMC", chooser{"eth0"}, false, strings.Clone},
		{"the card is chosen with others", chooser{"eth0", "eth1", "ens9"}, true, strings.Clone},
		{"the card and one that changes are chosen", chooser{"eth1", "ens9", "lo", "team0"}, true, strings.Clone},
		{"the card alone is chosen, and on USB", chooser{"usb0"}, true, onUSB},
		{"the card is chosen with others, and on USB", chooser{"eth0", "eth1", "usb0"}, true, onUSB},
		{"the card alone is chosen, and on USB, no BMC", chooser{"usb0"}, false, onUSB},
		{"the card is chosen with others, and on USB, no BMC", chooser{"eth0", "eth1", "usb0"}, false, onUSB},
	} {
		t.Run(c.name, func(t *testing.T) {
			inspecttest.InRig(t, func(o *inspecttest.Rig) {
				o.Hooks = []inspector.Hook{c.chosen}
				s := o.Discovers()
				o.Work(func(*work.Pool) {
					var mu sync.Mutex
					nodes := make(map[string]bool)
					discover := func(i int) {
						node, err := s.Continue(o.Ctx, []byte(c.says(sibling(i, c.bmc))))
						if err != nil {
							t.Errorf("machine %d: %v", i, err)
						}
						mu.Lock()
						defer mu.Unlock()
						nodes[node] = true
					}
					var posting sync.WaitGroup
					for i := range 10 {
						posting.Go(func() { discover(i + 1) })
					}
					posting.Wait()
					time.Sleep(time.Minute) // in a bubble
					for i := range 10 {
						discover(i + 11)
					}
					if len(nodes) != 20 {
						t.Errorf("own-node: 20 machines became %d nodes", len(nodes))
					}
				})
				for _, mac := range []string{inspecttest.NoMAC, "01:00:5e:00:00:01"} {
					if calls := o.Ironic.Sent("create port " + mac); len(calls) != 0 {
						t.Errorf("%v", calls)
					}
				}
			})
		})
	}
}

// A machine that has a card in common with a node under introspection, and
// nothing else, is not that node.
func TestStrangerWithACardInCommon(t *testing.T) {
	own := []string{"52:54:00:a5:01:01", "52:54:00:a5:01:02"}
	for _, c := range []struct {
		name       string
		macs, bmc  []string // of the node under introspection
		same       bool
		newAddress string
	}{
		{"other MACs and another BMC", append(slices.Clone(own), common), []string{"198.18.4.1"}, false, "198.18.4.2"},
		{"one of two MACs and another BMC", []string{own[0], common}, []string{"198.18.4.1", "fe80::1"}, false, "198.18.4.2"},
		{"another BMC of IPv6", []string{own[0], common}, []string{"2001:db8::1"}, true, "2001:db8::2"},
		{"its BMC is reached by a translated address", []string{"52:54:00:a5:02:01"}, []string{"198.18.4.1"}, true,
			"198.18.4.2"},
		{"a card was replaced", []string{own[0], "52:54:00:a5:02:02"}, []string{"198.18.4.2"}, true, "198.18.4.2"},
		{"no BMC is known", []string{own[0], common}, nil, true, "198.18.4.2"},
		{"a BMC of another version", []string{own[0], common}, []string{"2001:db8::1"}, true, "198.18.4.2"},
		{"a BMC whose address is link-local", []string{own[0], common}, []string{"fe80::1"}, true, "fe80::2"},
		{"what cannot be a machine's own", []string{inspecttest.NoMAC, "01:00:5e:00:00:01"}, nil, false, "198.18.4.2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inspecttest.InRig(t, func(o *inspecttest.Rig) {
				o.RaftLog.Must(introspection.Start{
					Node: inspecttest.NodeA, Event: introspection.EventAdopt, ManageBoot: true, Timeout: o.Conf.Timeout,
					Attributes: introspection.Attributes{MACs: c.macs, BMC: c.bmc},
				})
				m := identify.Of(inspecttest.Parsed(t, sibling(2, false)))
				m.BMC = []string{c.newAddress}
				if a := identify.NewSearch(o.Ironic, o.Zone, o.Live().BmcFields, o.Log).Started(o.Ctx, o.RaftLog.Truth(),
					m); c.same != (a.Verdict == identify.This) || c.same && a.Node != inspecttest.NodeA {
					t.Errorf("card-in-common: found %q, %s", a.Node, a.Machine.Unknown())
				}
			})
		})
	}
}

// carded is the document of the second machine, whose card in common is described so.
func carded(card, more string) string {
	return fmt.Sprintf(
		`{"inventory":{"interfaces":[{"name":"eno1","mac_address":"52:54:00:a5:02:01","ipv4_address":"192.0.2.9"},`+
			`{"mac_address":%q,%s}],"bmc_address":"198.18.4.2"%s}}`, common, card, more)
}

// A node whose only port is the card in common is found by it, unless the BMC has
// another address and the machine says that the card leads to its own BMC.
func TestNodeKnownByACardInCommon(t *testing.T) {
	for card, inner := range map[string]bool{
		`"name":"usb0"`:                                                          true,
		`"name":"enxbe3af2b6059f"`:                                               true,
		`"name":"enp0s20f0u8u3c2"`:                                               true,
		`"name":"idrac","ipv4_address":"169.254.3.254"`:                          true,
		`"name":"eth9","driver":"rndis_host"`:                                    true,
		`"name":"eth9","driver":"cdc_ether","ipv4_address":null`:                 true,
		`"name":"eno2","driver":"i40e","ipv4_address":"192.0.2.10"`:              false,
		`"name":"enp24s0f0np0","driver":"r8152","ipv6_address":"fe80::1%enp24s"`: false,
		`"name":"eth9","driver":5,"ipv4_address":["169.254.3.254"]`:              false,
	} {
		for bmc, known := range map[string]bool{"198.18.4.1": !inner, "198.18.4.2": true, "": true} {
			inspecttest.InRig(t, func(o *inspecttest.Rig) {
				start := introspection.Start{Node: inspecttest.NodeA, Event: introspection.EventAdopt, ManageBoot: true,
					Timeout: o.Conf.Timeout, Attributes: introspection.Attributes{MACs: []string{common}}}
				if bmc != "" {
					start.Attributes.BMC = []string{bmc}
				}
				o.RaftLog.Must(start)
				a := identify.NewSearch(o.Ironic, o.Zone, o.Live().BmcFields, o.Log).Started(o.Ctx, o.RaftLog.Truth(),
					identify.Of(inspecttest.Parsed(t, carded(card, ""))))
				if known != (a.Verdict == identify.This) || known && a.Node != inspecttest.NodeA {
					t.Errorf("inner-card: {%s}, node's BMC %q: found %q, %s", card, bmc, a.Node, a.Machine.Unknown())
				}
			})
		}
	}
}

// withPorts has the state know a port of node A and some of node B.
func withPorts(t *testing.T, one string, others ...string) func(*inspecttest.Rig) {
	put := ironicports.PutPorts{Ports: []ironicports.Port{{ID: "one", MAC: one, Node: inspecttest.NodeA}}}
	for i, mac := range others {
		put.Ports = append(put.Ports, ironicports.Port{ID: fmt.Sprint(i), MAC: mac, Node: inspecttest.NodeB})
	}
	return func(o *inspecttest.Rig) {
		leads := inspecttest.Crown{Log: o.RaftLog, Lead: o.RaftLog.Must(fsm.Lead{Peer: "id-h1", Boot: "b"}).Token}
		if res, err := leads.Propose(o.Ctx, put); err != nil || res.Code != fsm.OK {
			t.Fatal(res, err)
		}
	}
}

// Where one thing speaks against a match, the serial number that Ironic has of the
// node decides, and so do ports of another node; an Ironic that does not answer does
// not, and what vendors write in the place of a number does not either.
func TestSerialNumberDecides(t *testing.T) {
	const card = `"name":"eno2","ipv4_address":"192.0.2.10"},{"name":"eno3","mac_address":"52:54:00:a5:02:02"`
	serial := func(text string) string { return `,"system_vendor":{"serial_number":"` + text + `"}` }
	extra := func(text any) func(*inspecttest.Rig) {
		return func(o *inspecttest.Rig) {
			o.Ironic.Set(inspecttest.NodeA, func(n *ironic.Node) { n.Extra = map[string]any{"serial_number": text} })
		}
	}
	for _, c := range []struct {
		name, more string
		macs, bmc  []string
		ironic     func(*inspecttest.Rig)
		known      bool
	}{
		{"another serial number", serial("SN-2"), []string{common}, []string{"198.18.4.1"}, extra("SN-1"), false},
		{"another, and a port is missing", serial("SN-2"), []string{common, inspecttest.MacA}, nil, extra("SN-1"), false},
		{"another, of its vendor", serial("SN-2"), []string{common}, []string{"198.18.4.1"}, func(o *inspecttest.Rig) {
			o.Ironic.Set(inspecttest.NodeA, func(n *ironic.Node) {
				n.Properties = map[string]any{"system_vendor": map[string]any{"serial_number": "SN-1"}}
			})
		}, false},
		{"another, and its own BMC", serial("SN-2"), []string{common, inspecttest.MacA}, []string{"198.18.4.2"},
			extra("SN-1"), true},
		{"another, and nothing else", serial("SN-2"), []string{"52:54:00:a5:02:01"}, nil, extra("SN-1"), true},
		{"the same", serial(" sn-1 "), []string{common}, []string{"198.18.4.1"}, extra("SN-1"), true},
		{"none in Ironic", serial("SN-2"), []string{common}, []string{"198.18.4.1"}, func(*inspecttest.Rig) {}, true},
		{"a number in Ironic", serial("SN-2"), []string{common}, []string{"198.18.4.1"}, extra(1.0), true},
		{"none in the data", "", []string{common}, []string{"198.18.4.1"}, extra("SN-1"), true},
		{"words", serial("To be filled by O.E.M."), []string{common}, []string{"198.18.4.1"}, extra("SN-1"), true},
		{"digits in a row", serial("0123456789"), []string{common}, []string{"198.18.4.1"}, extra("SN-1"), true},
		{"Ironic does not answer", serial("SN-2"), []string{common}, []string{"198.18.4.1"}, func(o *inspecttest.Rig) {
			extra("SN-1")(o)
			var asked atomic.Bool
			o.Ironic.On(func(_ context.Context, call string) error {
				if call == "node "+inspecttest.NodeA && !asked.Swap(true) {
					return &ironic.Error{Message: "away"}
				}
				return nil
			})
		}, true},
		{"as many ports of another node", "", []string{common}, []string{"198.18.4.1"},
			withPorts(t, common, "52:54:00:a5:02:01"), true},
		{"more ports of another node", "", []string{common}, []string{"198.18.4.1"},
			withPorts(t, common, "52:54:00:a5:02:01", "52:54:00:a5:02:02"), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			inspecttest.InRig(t, func(o *inspecttest.Rig) {
				c.ironic(o)
				o.Ironic.PortsOf[inspecttest.NodeA] = nil
				for _, mac := range c.macs {
					o.Ironic.PortsOf[inspecttest.NodeA] = append(o.Ironic.PortsOf[inspecttest.NodeA],
						ironic.Port{UUID: mac, Node: inspecttest.NodeA, Address: mac})
				}
				o.RaftLog.Must(introspection.Start{
					Node: inspecttest.NodeA, Event: introspection.EventAdopt, ManageBoot: true, Timeout: o.Conf.Timeout,
					Attributes: introspection.Attributes{MACs: c.macs, BMC: c.bmc},
				})
				o.Work(func(*work.Pool) {
					node, err := o.Service().Continue(o.Ctx, []byte(carded(card, c.more)))
					if c.known && (err != nil || node != inspecttest.NodeA) || !c.known && err == nil {
						t.Errorf("serial-number: found %q, %v", node, err)
					}
				})
			})
		})
	}
}

// A machine is discovered although Ironic has a node whose only port is the card that
// it shares: the card names nobody where the BMCs differ.
func TestDiscoveredNextToACardInCommon(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		s := o.Discovers()
		o.Ironic.PortsOf[inspecttest.NodeA] = []ironic.Port{{UUID: "usb", Node: inspecttest.NodeA, Address: common}}
		o.Ironic.Set(inspecttest.NodeA, func(n *ironic.Node) { n.DriverInfo = map[string]any{"ipmi_address": "198.18.4.1"} })
		o.Work(func(*work.Pool) {
			if node, err := s.Continue(o.Ctx, []byte(onUSB(sibling(2, true)))); err != nil || node == inspecttest.NodeA {
				t.Errorf("inner-card: discovered as %q, %v", node, err)
			}
			if node, err := s.Continue(o.Ctx, []byte(onUSB(sibling(1, true)))); err == nil {
				t.Errorf("inner-card: the node's own machine was discovered as %q", node)
			}
		})
	})
}

// A machine in production that calls is found among those that Ironic has by what
// is its own.
func TestAdoptedMachineWithACardInCommon(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		s := o.Permits()
		o.Ironic.PortsOf[inspecttest.NodeA] = append(o.Ironic.PortsOf[inspecttest.NodeA],
			ironic.Port{UUID: "usb", Node: inspecttest.NodeA, Address: common})
		o.Ironic.PortsOf[inspecttest.NodeB] = []ironic.Port{
			{UUID: "b", Node: inspecttest.NodeB, Address: "52:54:00:a5:02:01"}}
		o.Ironic.Set(inspecttest.NodeB, func(n *ironic.Node) {
			n.Provision, n.DriverInfo = "active", map[string]any{"ipmi_address": "198.18.4.2"}
		})
		o.Work(func(*work.Pool) {
			if node, err := s.Continue(o.Ctx, []byte(sibling(2, true))); err != nil || node != inspecttest.NodeB {
				t.Errorf("found %q, %v", node, err)
			}
		})
	})
}

// A node that is started is known, and let through, by the MACs that Ironic has for it,
// but those that can be no interface's.
func TestStartedByItsPorts(t *testing.T) {
	got := identify.AttributesOf(
		[]ironic.Port{{Address: inspecttest.NoMAC}, {Address: "52:54:00:A5:01:01"}, {Address: "ff:ff:ff:ff:ff:ff"},
			{Address: "nonsense"}, {Address: groupMAC}}, nil, msgcheck.Logger(t))
	if want := []string{"52:54:00:a5:01:01", groupMAC}; !slices.Equal(got.MACs, want) {
		t.Errorf("group-bit: %v, want %v", got.MACs, want)
	}
}

// Of a node with hundreds of ports those are kept that may boot by PXE, and the log says that others are not.
func TestStartedByThePortThatBoots(t *testing.T) {
	var all []ironic.Port
	for n := range 200 {
		all = append(all, ironic.Port{Node: inspecttest.NodeA, Address: fmt.Sprintf("52:54:00:a5:01:%02x", n)})
	}
	all = append(all, ironic.Port{Node: inspecttest.NodeA, Address: "ec:0d:9a:00:00:01", PXEEnabled: true})
	var log bytes.Buffer
	got := identify.AttributesOf(all, nil, slog.New(slog.NewTextHandler(&log, nil)))
	if len(got.MACs) != introspection.MaxAttributes || got.MACs[0] != "ec:0d:9a:00:00:01" ||
		!strings.Contains(log.String(), "count=201 limit=128") {
		t.Errorf("boot-port-is-kept: %d MACs, the first is %s; logged\n%s", len(got.MACs), got.MACs[0], log.String())
	}
}

// groupMAC has the bit of groups, as one in the original's own tests.
const groupMAC = "11:22:33:44:55:66"

// A MAC with the group bit that Ironic has for a node is the node's: its machine is found
// by it, started before or in production, and is not discovered as another node.
func TestPortWithTheGroupBit(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		s := o.Permits()
		o.Ironic.PortsOf[inspecttest.NodeB] = []ironic.Port{{UUID: "b", Node: inspecttest.NodeB, Address: groupMAC}}
		o.Work(func(*work.Pool) {
			if err := s.Start(o.Ctx, inspecttest.NodeB, true); err != nil {
				t.Fatal(err)
			}
			o.Becomes(inspecttest.NodeB, introspection.NodeWaiting, time.Minute)
			if node, err := s.Continue(o.Ctx, []byte(inspecttest.Callback(groupMAC, ""))); err != nil ||
				node != inspecttest.NodeB {
				t.Errorf("group-bit: started and found %q, %v", node, err)
			}
			o.Becomes(inspecttest.NodeB, introspection.NodeFinished, time.Minute)
			o.Ironic.Set(inspecttest.NodeB, func(n *ironic.Node) { n.Provision = "active" })
			if node, err := s.Continue(o.Ctx, []byte(inspecttest.Callback(groupMAC, `,"again":1`))); err != nil ||
				node != inspecttest.NodeB {
				t.Errorf("group-bit: adopted and found %q, %v", node, err)
			}
		})
		o.Conf.Processing.PermitActiveIntrospection = false
		body := fmt.Sprintf(
			`{"inventory":{"interfaces":[{"name":"a","mac_address":%q},{"name":"b","mac_address":"52:54:00:a5:02:01"}]}}`,
			groupMAC)
		_, err := o.Discovers().Continue(o.Ctx, []byte(body))
		if err == nil || !strings.Contains(err.Error(), "Port "+groupMAC+" already exists, uuid: b") {
			t.Errorf("group-bit: discovered next to its port: %v", err)
		}
	})
}

// A BMC's address that cannot be read is refused at the start, by its field: with
// discovery another node would be made of the machine.
func TestUnreadableBMCIsRefused(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.Ironic.Set(inspecttest.NodeA,
			func(n *ironic.Node) { n.DriverInfo = map[string]any{"redfish_address": "https://[2001:db8::78/"} })
		err := o.Service().Start(o.Ctx, inspecttest.NodeA, true)
		inspecttest.RefusedWith(t, "unreadable", err, 400,
			"driver_info.redfish_address of node "+inspecttest.NodeA+
				" is no address of a BMC: want HOST, HOST:PORT, [IPV6]:PORT or a URL")
		if n := o.RaftLog.Truth().Nodes(); n != 0 {
			t.Errorf("%d records", n)
		}
	})
}

// A machine whose BMC Ironic has as HOST:PORT is not discovered as a second node,
// and a started node without ports is found by it.
func TestBMCWithAPort(t *testing.T) {
	for _, address := range []string{"198.18.0.9:8443", "[2001:db8::9]:8443"} {
		inspecttest.InRig(t, func(o *inspecttest.Rig) {
			s := o.Discovers()
			o.Ironic.Set(inspecttest.NodeB, func(n *ironic.Node) { n.DriverInfo = map[string]any{"redfish_address": address} })
			delete(o.Ironic.PortsOf, inspecttest.NodeB)
			body := inspecttest.Stranger(`,"bmc_address":"198.18.0.9","bmc_v6address":"2001:db8::9"`)
			if node, err := s.Continue(o.Ctx, []byte(body)); err == nil ||
				!strings.Contains(err.Error(), "Node "+inspecttest.NodeB+" already has BMC address") {
				t.Errorf("one-node: %s was discovered as %s, %v", address, node, err)
			}
			o.Work(func(*work.Pool) {
				if err := s.Start(o.Ctx, inspecttest.NodeB, true); err != nil {
					t.Fatal(err)
				}
				o.Becomes(inspecttest.NodeB, introspection.NodeWaiting, time.Minute)
				if node, err := s.Continue(o.Ctx, []byte(body)); err != nil || node != inspecttest.NodeB {
					t.Errorf("one-node: %s was found as %s, %v", address, node, err)
				}
			})
		})
	}
}
