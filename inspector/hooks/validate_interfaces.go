package hooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/document"
	"github.com/trivet-ha/trivet/inspector/identify"
	"github.com/trivet-ha/trivet/inspector/ironic"
)

// validateInterfaces finds the network interfaces worth keeping and makes
// Ironic's ports agree with them.
type validateInterfaces struct {
	add       string // pxe, active, all or disabled
	keep      string // all, present or added
	overwrite bool
	leavePXE  bool // pxe_enabled of ports as Ironic has it
}

var (
	_ inspector.Before  = validateInterfaces{}
	_ inspector.After   = validateInterfaces{}
	_ inspector.Chooser = validateInterfaces{}
)

// configured implements configurable.
func (validateInterfaces) configured(conf config.Inspection) (inspector.Hook, error) {
	p := conf.Processing
	return validateInterfaces{add: p.AddPorts, keep: p.KeepPorts, overwrite: p.OverwriteExisting,
		leavePXE: !p.UpdatePXEEnabled}, nil
}

// Name implements inspector.Hook.
func (validateInterfaces) Name() string { return "validate_interfaces" }

// Before implements inspector.Before. It sets ipmi_address, ipmi_v6address,
// all_interfaces, interfaces (the chosen ones) and macs (theirs), or none of
// them.
func (h validateInterfaces) Before(_ context.Context, d *document.Document) error {
	inventory, err := inventoryOf(d)
	if err != nil {
		return err
	}
	for _, key := range []string{"bmc_address", "bmc_v6address"} {
		if _, err := inventory.text(key); err != nil {
			return err
		}
	}
	all, chosen, err := h.interfaces(d, inventory)
	if err != nil {
		return err
	}
	v4, v6 := identify.BMCOf(d, inventory.members)
	return errors.Join(
		d.Set("ipmi_address", orNull(v4)), d.Set("ipmi_v6address", orNull(v6)),
		d.Set("all_interfaces", all), d.Set("interfaces", chosen), d.Set("macs", chosen.macs()))
}

// Choose implements inspector.Chooser.
func (h validateInterfaces) Choose(d *document.Document) []string {
	if inventory, err := inventoryOf(d); err == nil { // else Before says why
		if _, chosen, err := h.interfaces(d, inventory); err == nil {
			machine := identify.Of(d)
			return slices.DeleteFunc(chosen, func(n nic) bool { return !machine.Owns(n.MAC, n.PXE) }).macs()
		}
	}
	return nil
}

// interfaces reads a machine's interfaces that have a name and a MAC, and chooses some of
// them. Of two with one name the later counts.
func (h validateInterfaces) interfaces(d *document.Document, inventory object) (all, chosen nics, err error) {
	boot, err := textOf("boot_interface", d.Value("boot_interface"))
	if err != nil {
		return nil, nil, err
	}
	if strings.Count(boot, "-") == 6 { // pxelinux writes a byte for the kind of hardware before the MAC
		_, boot, _ = strings.Cut(boot, "-")
	}
	boot = strings.ToLower(strings.ReplaceAll(boot, "-", ":"))
	interfaces, err := inventory.objects("interfaces", identify.MaxInterfaces)
	if err != nil {
		return nil, nil, err
	}
	for _, o := range interfaces {
		n, ok, err := readInterface(o, boot)
		if err != nil {
			return nil, nil, err
		}
		switch i := slices.IndexFunc(all, func(old nic) bool { return old.name == n.name }); {
		case !ok:
		case i >= 0:
			all[i] = n
		default:
			all = append(all, n)
		}
	}
	if len(all) == 0 {
		return nil, nil, document.Failed("No interfaces supplied by the ramdisk")
	}
	chosen = h.choose(all, boot != "")
	if len(chosen) == 0 {
		return nil, nil, document.Failed("No suitable interfaces found in %s", clipped(python(document.Repr, all.shown())))
	}
	return all, chosen, nil
}

// shown is as much of the interfaces as a message repeats, and more than that where it is cut.
func (all nics) shown() (some nics) {
	size := 0
	for _, n := range all {
		n.name = clipped(n.name)
		if n.Client != nil {
			n.Client = orNull(clipped(*n.Client))
		}
		some = append(some, n)
		if size += len(n.name); size > maxText {
			break
		}
	}
	return some
}

// orNull is text, or nil for none.
func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func readInterface(o object, boot string) (n nic, ok bool, err error) {
	field := func(name string) (text string) {
		if err == nil {
			text, err = o.text(name)
		}
		return text
	}
	name, mac, v4, v6, client := field("name"), field("mac_address"), field("ipv4_address"), field("ipv6_address"),
		field("client_id")
	if err != nil {
		return nic{}, false, err
	}
	mac, ok = identify.CanonicalMAC(mac)
	if name == "" || !ok {
		return nic{}, false, nil
	}
	if v4 == "" {
		v4, _, _ = strings.Cut(v6, "%")
	}
	if _, err := netip.ParseAddr(v4); v4 != "" && err != nil {
		return nic{}, false, document.Failed("%s: %s is not an IP address", o.where, clipped(document.ReprText(v4)))
	}
	return nic{name: name, nicData: nicData{IP: orNull(v4), MAC: mac, Client: orNull(client), PXE: mac == boot}}, true, nil
}

// choose returns the interfaces whose ports are wanted, whether or not they get one.
// Except for all of them, none without an address is: not even the one that is said to have booted.
func (h validateInterfaces) choose(all nics, bootKnown bool) nics {
	var chosen nics
	for _, n := range all {
		switch {
		case n.local():
		case h.add == "pxe" && bootKnown && !n.PXE:
		case h.add == "all" || n.IP != nil:
			chosen = append(chosen, n)
		}
	}
	return chosen
}

// After implements inspector.After. The ports of a deployed node are added to
// and otherwise left alone.
func (h validateInterfaces) After(ctx context.Context, t *inspector.Task) error {
	all, err := listed(t.Data, "all_interfaces")
	if err != nil {
		return err
	}
	chosen, err := listed(t.Data, "interfaces")
	if err != nil {
		return err
	}
	if h.add != "disabled" {
		if err := h.createPorts(ctx, t, chosen); err != nil {
			return err
		}
	}
	if t.Node().Deployed() {
		return nil
	}
	expected := map[string]nics{"present": all, "added": chosen}
	if keep, some := expected[h.keep]; some {
		if err := deletePorts(ctx, t, keep.byMAC()); err != nil {
			return err
		}
	}
	if !h.overwrite || h.leavePXE {
		return nil
	}
	return fixPXE(ctx, t, chosen.byMAC())
}

// listed reads interfaces that Before has set. Without them it would seem that
// no port is expected.
func listed(d *document.Document, key string) (nics, error) {
	var list nics
	there, err := d.Get(key, &list)
	if err != nil {
		return nil, err
	}
	if !there {
		return nil, document.Failed("%s: no interfaces were chosen", key)
	}
	return list, nil
}

// createPorts creates the ports that the node lacks. An address that has a port
// all the same is left alone: another node's, or one that is new. A port that Ironic
// has stays; none is created for a MAC that is not the machine's own, such as that of a
// card that leads to its BMC.
func (h validateInterfaces) createPorts(ctx context.Context, t *inspector.Task, chosen nics) error {
	ports, err := t.Ports(ctx)
	if err != nil {
		return fmt.Errorf("list ports of node %s: %w", t.Node().UUID, err)
	}
	there, machine := make(map[string]bool), identify.Of(t.Data)
	for _, p := range ports {
		there[p.Address] = true
	}
	outdated := false
	for _, n := range chosen {
		if there[n.MAC] || !machine.Owns(n.MAC, n.PXE) {
			continue
		}
		there[n.MAC] = true
		wanted := n.port(t.Node().UUID)
		wanted.PXEEnabled = n.PXE || h.leavePXE
		p, err := t.Ironic.CreatePort(ctx, wanted)
		switch {
		case errors.Is(err, ironic.ErrPortExists):
			outdated = true
		case err != nil:
			return fmt.Errorf("create port %s: %w", n.MAC, err)
		default:
			ports = append(ports, p)
		}
	}
	if outdated {
		ports = nil
	}
	t.SetPorts(ports)
	return nil
}

// deletePorts deletes the ports of interfaces that are not expected.
func deletePorts(ctx context.Context, t *inspector.Task, expected map[string]nic) error {
	ports, err := t.Ports(ctx)
	if err != nil {
		return fmt.Errorf("list ports of node %s: %w", t.Node().UUID, err)
	}
	kept := make([]ironic.Port, 0, len(ports))
	for _, p := range ports {
		if _, ok := expected[p.Address]; ok {
			kept = append(kept, p)
			continue
		}
		if err := t.Ironic.DeletePort(ctx, p.UUID); err != nil {
			return fmt.Errorf("delete port %s: %w", p.Address, err)
		}
	}
	t.SetPorts(kept)
	return nil
}

// fixPXE makes pxe_enabled say which interface booted. Without a boot interface
// none did.
func fixPXE(ctx context.Context, t *inspector.Task, chosen map[string]nic) error {
	ports, err := t.Ports(ctx)
	if err != nil {
		return fmt.Errorf("list ports of node %s: %w", t.Node().UUID, err)
	}
	fixed := make([]ironic.Port, 0, len(ports))
	for _, p := range ports {
		if n, ok := chosen[p.Address]; ok && p.PXEEnabled != n.PXE {
			if err := t.Ironic.PatchPort(ctx, p.UUID,
				[]ironic.Patch{{Op: "replace", Path: "/pxe_enabled", Value: n.PXE}}); err != nil {
				return fmt.Errorf("set pxe_enabled of port %s: %w", p.Address, err)
			}
			p.PXEEnabled = n.PXE
		}
		fixed = append(fixed, p)
	}
	t.SetPorts(fixed)
	return nil
}

// nic is a network interface as a document keeps it, under its name.
type nic struct {
	name string
	nicData
}

// nicData is what stands under the name; other hooks add more.
type nicData struct {
	IP     *string `json:"ip"`
	MAC    string  `json:"mac"` // lower case
	Client *string `json:"client_id"`
	PXE    bool    `json:"pxe"` // it booted
}

// local reports whether an interface leads nowhere.
func (n nic) local() bool {
	if n.name == "lo" {
		return true
	}
	if n.IP == nil {
		return false
	}
	ip, err := netip.ParseAddr(*n.IP)
	return err == nil && ip.Unmap().IsLoopback()
}

// port returns the port that Ironic shall have for the interface.
func (n nic) port(node string) ironic.Port {
	extra := map[string]any{}
	if n.Client != nil {
		extra["client-id"] = *n.Client
	}
	return ironic.Port{Node: node, Address: n.MAC, PXEEnabled: n.PXE, Extra: extra}
}

// nics are the interfaces of a machine in the order of its inventory; as JSON,
// an object by name.
type nics []nic

func (l nics) macs() []string {
	macs := make([]string, len(l))
	for i, n := range l {
		macs[i] = n.MAC
	}
	return macs
}

// byMAC indexes the interfaces. Of those that share a MAC, as a bond and its
// members do, one stands for all.
func (l nics) byMAC() map[string]nic {
	out := make(map[string]nic, len(l))
	for _, n := range l {
		out[n.MAC] = n
	}
	return out
}

// MarshalJSON implements json.Marshaler.
func (l nics) MarshalJSON() ([]byte, error) {
	out := document.NewCollection(document.Dict)
	for _, n := range l {
		name, err := json.Marshal(n.name) // with escapes for HTML
		data, wrong := json.Marshal(n.nicData)
		if err = errors.Join(err, wrong); err != nil {
			return nil, fmt.Errorf("interface %q: %w", n.name, err)
		}
		out.AddQuoted(name, data)
	}
	return out.JSON(), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (l *nics) UnmarshalJSON(raw []byte) error {
	members, err := document.Checked(raw).Members()
	if err != nil {
		return err
	}
	*l = nil
	for name, v := range members.All() {
		n := nic{name: name}
		if err := json.Unmarshal(v.Raw(), &n.nicData); err != nil {
			return fmt.Errorf("interface %q: %w", name, err)
		}
		*l = append(*l, n)
	}
	return nil
}
