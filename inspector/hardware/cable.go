package hardware

import (
	"cmp"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/trivet-ha/trivet/inspector/lldp"
)

// maxTLVs is how many TLVs of one interface are read. A switch sends one Ethernet
// frame, with twenty to sixty of them.
const maxTLVs = 256

// Cable is where an interface is plugged in. What is not told is "".
type Cable struct {
	Interface string `json:"interface"` // the name that the ramdisk's kernel gave it
	MAC       string `json:"mac"`
	Link      string `json:"link"` // "yes", "no"
	Speed     string `json:"speed_mbps"`
	Switch    string `json:"switch"`    // its name
	SwitchID  string `json:"switch_id"` // what it shares with no other switch: its chassis ID
	Port      string `json:"port"`
	VLAN      string `json:"vlan"` // the port's own, untagged
}

// Cabling tells where each interface of a machine is plugged in, sorted by name: the
// document's order is that of a directory. Interfaces without a MAC are left out.
func Cabling(document []byte) ([]Cable, error) {
	d, err := decodeDocument(document)
	if err != nil {
		return nil, err
	}
	return cabling(d), nil
}

func cabling(d value) []Cable {
	list, _ := d.at("inventory.interfaces").list()
	raw, _ := d.at("lldp_raw").v.(map[string]any)
	var cables []Cable
	for _, v := range list {
		c := Cable{
			Interface: v.at("name").text(), MAC: strings.ToLower(v.at("mac_address").text()),
			Speed: v.at("speed_mbps").text(),
		}
		if _, told := v.at("has_carrier").v.(bool); told {
			c.Link = v.at("has_carrier").text()
		}
		if blank(c.MAC) {
			continue
		}
		said := v.at("lldp")
		if name, _ := v.at("name").v.(string); raw[name] != nil { // newer agents tell it there
			said = value{raw[name]}
		}
		c.hear(said)
		cables = append(cables, c)
	}
	slices.SortStableFunc(cables, func(a, b Cable) int { // eth2 is before eth10
		return cmp.Or(cmp.Compare(len(a.Interface), len(b.Interface)), cmp.Compare(a.Interface, b.Interface))
	})
	return cables
}

// hear reads what the switch said: type, and value in hexadecimal, of each TLV. One
// that cannot be read is passed over: it is the switch's fault.
func (c *Cable) hear(said value) {
	tlvs, _ := said.list()
	var facts lldp.Facts
	for _, tlv := range tlvs[:min(len(tlvs), maxTLVs)] {
		pair, _ := tlv.list()
		if len(pair) != 2 {
			continue
		}
		kind, err := strconv.ParseUint(pair[0].text(), 10, 7)
		if err != nil {
			continue
		}
		digits, _ := pair[1].v.(string)
		if octets, err := hex.DecodeString(digits); err == nil {
			_ = facts.Add(byte(kind), octets) // what it could not read says nothing
		}
	}
	c.Switch, c.SwitchID = line(facts.Text(lldp.SystemName)), line(facts.Text(lldp.ChassisID))
	c.Port, c.VLAN = line(facts.Text(lldp.PortID)), line(facts.Text(lldp.PortVLAN))
}

// cables reads the cables as parts: those of interfaces that have a link, or whose
// switch was heard.
func cables(d value) ([]Part, bool) {
	_, told := d.at("inventory.interfaces").list()
	var parts []Part
	for _, c := range cabling(d) {
		if c.Link == "no" && c.Port == "" {
			continue
		}
		p := Part{Facts: map[string]string{"speed_mbps": c.Speed, "switch": c.Switch, "port": c.Port, "vlan": c.VLAN}}
		maps.DeleteFunc(p.Facts, func(_, text string) bool { return text == "" })
		p.identify("mac", c.MAC)
		if c.Port != "" {
			p.Place = strings.TrimSpace(c.Switch + " " + c.Port)
			p.seat = c.SwitchID + " " + c.Port
		}
		parts = append(parts, p)
	}
	return parts, told
}
