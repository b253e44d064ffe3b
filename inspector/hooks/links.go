package hooks

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/trivet-ha/trivet/inspector/ironic"

	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/document"
	"github.com/trivet-ha/trivet/inspector/identify"
	"github.com/trivet-ha/trivet/inspector/lldp"
)

// link is an interface of the inventory that all_interfaces has too, and what
// the switch at its other end told the ramdisk.
type link struct {
	object
	name string
	mac  string          // lower case; "" if it has none
	said *document.Value // a list of [type, hexadecimal value]; nil if the ramdisk did not listen
	raw  bool            // said is from lldp_raw
}

// linksOf reads the interfaces in the order of the inventory. Those that are
// not in all_interfaces, as they have no name or no MAC, are left out. What
// newer ramdisks put into lldp_raw goes before the inventory's lldp.
func linksOf(d *document.Document) ([]link, error) {
	inventory, err := inventoryOf(d)
	if err != nil {
		return nil, err
	}
	known, err := knownInterfaces(d)
	if err != nil {
		return nil, err
	}
	var raw *document.Parts // what newer ramdisks say, by interface
	if v := d.Value("lldp_raw"); !v.Empty() {
		o, err := objectOf("lldp_raw", v)
		if err != nil {
			return nil, err
		}
		raw = o.members
	}
	interfaces, err := inventory.objects("interfaces", identify.MaxInterfaces)
	if err != nil {
		return nil, err
	}
	var links []link
	for _, o := range interfaces {
		l, err := readLink(o, raw)
		if err != nil {
			return nil, err
		}
		if known.members.Get(l.name) != nil {
			links = append(links, l)
		}
	}
	return links, nil
}

func readLink(o object, raw *document.Parts) (link, error) {
	name, err := o.text("name")
	if err != nil {
		return link{}, err
	}
	mac, err := o.text("mac_address")
	if err != nil {
		return link{}, err
	}
	mac, _ = identify.CanonicalMAC(mac) // what is none is ""
	l := link{object: o, name: name, mac: mac, said: o.members.Get("lldp")}
	if said := raw.Get(name); !said.Empty() {
		l.said, l.raw = said, true
	}
	if l.said.Kind() == document.None {
		l.said = nil
	}
	return l, nil
}

// eachHeard goes through the links whose switch was listened to, with what it told by TLVs of the
// wanted types, or of all when none is named.
func eachHeard(t *inspector.Task, each func(l link, facts *lldp.Facts) error, wanted ...byte) error {
	links, err := linksOf(t.Data)
	if err != nil {
		return err
	}
	for _, l := range links {
		if l.said == nil {
			t.Log.Debug("no LLDP data for interface", "interface", clipped(l.name))
			continue
		}
		facts, err := l.facts(t, wanted...)
		if err == nil {
			err = each(l, facts)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// knownInterfaces returns what validate_interfaces has put into all_interfaces.
func knownInterfaces(d *document.Document) (object, error) {
	const where = "all_interfaces"
	v := d.Value(where)
	if v.Kind() == document.None {
		return object{}, document.Failed("%s: it is missing; the hook validate_interfaces must come before this one", where)
	}
	return objectOf(where, v)
}

// place names where in the document the link's TLVs are.
func (l link) place() string {
	if l.raw {
		return "lldp_raw." + clipped(l.name)
	}
	return l.where + ".lldp"
}

// facts reads what the switch told by TLVs of the wanted types, or of all when
// none is named. A TLV that is of no use is passed over and logged: it is the
// switch's fault, and no node should fail for it.
func (l link) facts(t *inspector.Task, wanted ...byte) (*lldp.Facts, error) {
	if k := l.said.Kind(); k != document.List {
		return nil, document.Failed("%s: expected a list, got %s", l.place(), k.InWords())
	}
	said, all, err := l.said.Elements(maxTLVs)
	if err != nil {
		return nil, document.Failed("%s: %v", l.place(), err)
	}
	var facts lldp.Facts
	var first error // why a TLV was passed over
	passed := all - len(said)
	if passed > 0 {
		first = fmt.Errorf("%d TLVs are more than the %d that are read", all, maxTLVs)
	}
	var value [maxHex / 2]byte
	for i, tlv := range said {
		kind, text, ok := splitTLV(tlv)
		if !ok {
			return nil, document.Failed("%s[%d]: expected a list of a type and a value", l.place(), i)
		}
		if kind < 0 || len(wanted) > 0 && !slices.Contains(wanted, byte(kind)) {
			continue
		}
		size, err := decodeHex(value[:], text)
		if err == nil {
			err = facts.Add(byte(kind), value[:size])
		}
		if err != nil {
			passed++
			if first == nil {
				first = fmt.Errorf("[%d]: %w", i, err)
			}
		}
	}
	if passed > 0 {
		t.Log.Warn("malformed LLDP TLVs skipped", "interface", clipped(l.name), "count", passed, "first", first)
	}
	return &facts, nil
}

// splitTLV splits [type, value]. The type is -1 if it is out of range: no hook
// reads such a TLV.
func splitTLV(tlv *document.Value) (kind int, value *document.Value, ok bool) {
	pair, all, err := tlv.Elements(2)
	if err != nil || all != 2 {
		return 0, nil, false
	}
	if kind, err := strconv.ParseUint(string(pair[0].Raw()), 10, 7); err == nil {
		return int(kind), pair[1], true
	}
	return -1, pair[1], true
}

// decodeHex decodes a text of hexadecimal digits and returns how many bytes it
// has.
func decodeHex(value []byte, v *document.Value) (int, error) {
	text := v.Raw()
	switch k := v.Kind(); {
	case k != document.Text:
		return 0, fmt.Errorf("expected text, got %s", k.InWords())
	case len(text)-len(`""`) > maxHex:
		return 0, fmt.Errorf("%d digits are more than the %d of a TLV", len(text)-len(`""`), maxHex)
	}
	return hex.Decode(value, text[1:len(text)-1])
}

// changePort changes the port that Ironic has for a link, if it has one. change
// says what to send and makes the port what it will be then; nil sends nothing.
// What Ironic refuses as invalid is logged and left.
func changePort(ctx context.Context, t *inspector.Task, l link, what string,
	change func(p *ironic.Port) []ironic.Patch) error {
	ports, err := t.Ports(ctx)
	if err != nil {
		return fmt.Errorf("list ports of node %s: %w", t.Node().UUID, err)
	}
	i := slices.IndexFunc(ports, func(p ironic.Port) bool { return p.Address == l.mac })
	if i < 0 {
		return nil
	}
	port := ports[i]
	patch := change(&port)
	if patch == nil {
		return nil
	}
	var said *ironic.Error
	switch err := t.Ironic.PatchPort(ctx, port.UUID, patch); {
	case errors.As(err, &said) && said.Status == http.StatusBadRequest:
		t.Log.Warn("update port in Ironic refused", "port", port.UUID, "mac", port.Address, "change", what, "err", err)
		return nil
	case err != nil:
		return fmt.Errorf("set %s of port %s: %w", what, port.Address, err)
	}
	ports = slices.Clone(ports)
	ports[i] = port
	t.SetPorts(ports)
	return nil
}
