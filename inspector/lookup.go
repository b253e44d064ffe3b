package inspector

import (
	"bytes"
	"net/netip"
	"slices"
	"strings"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector/document"
)

const (
	// maxInterfaces bounds the interfaces of a ramdisk that identify its node.
	maxInterfaces = 1024
	// maxNamed is how many of each a message names.
	maxNamed = 32
)

// Finder finds the nodes under introspection by what identifies them; an
// fsm.View is one.
type Finder interface {
	NodesByMAC(mac string) []string
	NodesByBMC(address string) []string
	Record(node string) (introspection.Record, bool)
}

var _ Finder = fsm.View{}

// MachineOf returns what a ramdisk's data say that identifies its node: the MACs of
// the inventory's interfaces, up to 1,024, and the BMC's addresses; and what tells
// the machine from others that share some of these. A value of the wrong shape
// identifies no machine and is left out: the hooks report it. Unlike the original
// it needs no hook to have succeeded, so that a node whose hooks fail is found and
// learns why. The result may be more than a record takes (128 of each).
func MachineOf(d *Document) Machine {
	inventory := inventoryOf(d)
	m := Machine{Serial: serialOf(inventory.Get("system_vendor"))}
	if interfaces, _, err := inventory.Get("interfaces").Elements(maxInterfaces); err == nil {
		for _, item := range interfaces { // one without a name is none: no hook would take it
			if nic, err := item.Members(); err == nil && nic.Get("name").Text() != "" {
				m.add(nic)
			}
		}
	}
	v4, v6 := BMCOf(d, inventory)
	m.BMC = addAddress(addAddress(nil, v4), v6)
	return m
}

// inventoryOf returns the members of the inventory, none if it has none.
func inventoryOf(d *Document) *document.Parts {
	members, err := d.Value("inventory").Members()
	if err != nil {
		return nil
	}
	return members
}

// BMCOf returns the BMC's addresses as a ramdisk's data give them, "" for those
// they do not give: the inventory's, or the document's own, of old ramdisks,
// where the inventory lacks the key.
func BMCOf(d *Document, inventory *document.Parts) (v4, v6 string) {
	v4 = bmcAddress(d, inventory, "bmc_address", "ipmi_address")
	v6 = bmcAddress(d, inventory, "bmc_v6address", "ipmi_v6address")
	if v4 == "0.0.0.0" {
		v4 = ""
	}
	if v6 == "::/0" {
		v6 = ""
	}
	return v4, v6
}

// bmcAddress reads a key of the inventory, or of the document if the inventory
// does not have it; null is having it.
func bmcAddress(d *Document, inventory *document.Parts, key, old string) string {
	if given := inventory.Get(key); given != nil {
		return given.Text()
	}
	return d.Value(old).Text()
}

func addMAC(macs []string, text string) []string {
	mac, ok := CanonicalMAC(text)
	if !ok || slices.Contains(macs, mac) {
		return macs
	}
	return append(macs, mac)
}

// CanonicalMAC returns a MAC in lower case. Only six bytes with colons between
// them are one, as in Ironic.
func CanonicalMAC(text string) (mac string, ok bool) {
	if len(text) != 17 {
		return "", false
	}
	mac = strings.ToLower(text)
	for i := range len(mac) {
		hex := '0' <= mac[i] && mac[i] <= '9' || 'a' <= mac[i] && mac[i] <= 'f'
		if i%3 == 2 && mac[i] != ':' || i%3 != 2 && !hex {
			return "", false
		}
	}
	return mac, true
}

func addAddress(addresses []string, text string) []string {
	ip, err := netip.ParseAddr(text)
	if err != nil || ip.IsUnspecified() {
		return addresses
	}
	address := ip.Unmap().WithZone("").String()
	if slices.Contains(addresses, address) {
		return addresses
	}
	return append(addresses, address)
}

// unknownError says that no node under introspection fits the data.
type unknownError struct{ attributes introspection.Attributes }

// Error implements error.
func (e *unknownError) Error() string {
	return "Could not find a node for attributes " + pythonAttributes(e.attributes)
}

// LookUp finds the node that a ramdisk runs on. A node scores one point if any of
// its MACs matches and one if any of its BMC addresses does; the highest score
// wins. MACs that cannot be a port's count for nothing, nor does a node
// that the rest contradicts, see contradicts. That no node matches, or several with
// the same score, is said in the contract's text after "Look up error: ".
func LookUp(v Finder, m Machine) (node string, err error) {
	score := make(map[string]int)
	count(score, v.NodesByMAC, portMACs(m.MACs))
	count(score, v.NodesByBMC, m.BMC)
	best, most := []string(nil), 0
	for node, points := range score {
		rec, _ := v.Record(node)
		switch {
		case contradicts(m, rec.Attributes):
		case points > most:
			best, most = []string{node}, points
		case points == most:
			best = append(best, node)
		}
	}
	switch len(best) {
	case 0:
		return "", &unknownError{m.Attributes}
	case 1:
		return best[0], nil
	default:
		return "", ambiguous(m.Attributes, best)
	}
}

// ambiguous says, in the contract's words, that several nodes match.
func ambiguous(a introspection.Attributes, nodes []string) error {
	slices.Sort(nodes)
	return Failed("Multiple nodes match the same number of attributes %s: %s", pythonAttributes(a), pythonList(nodes))
}

// count gives every node that any of the values finds one point.
func count(score map[string]int, find func(string) []string, values []string) {
	found := make(map[string]bool)
	for _, value := range values {
		for _, node := range find(value) {
			found[node] = true
		}
	}
	for node := range found {
		score[node]++
	}
}

// pythonAttributes writes attributes as the original does.
func pythonAttributes(a introspection.Attributes) string {
	return "{'bmc_address': " + pythonList(a.BMC) + ", 'mac': " + pythonList(a.MACs) + "}"
}

// pythonList writes the first 32 of a list of MACs, addresses or UUIDs, which
// need no escapes.
func pythonList(items []string) string {
	var out strings.Builder
	out.WriteByte('[')
	for i, item := range items {
		if i > 0 {
			out.WriteString(", ")
		}
		if i == maxNamed {
			out.WriteString("...")
			break
		}
		out.WriteString("'" + item + "'")
	}
	out.WriteByte(']')
	return out.String()
}

// maxSeen is how many MACs at the beginning of a document are looked up.
const maxSeen = 32

// macLength is that of a MAC's text between its quotes.
const macLength = len("00:00:00:00:00:00")

// Expects returns the node under introspection that the beginning of a ramdisk's document
// names by a MAC, as this peer has the state. It decides who waits for whom and nothing
// else: whose document it is, the whole document says.
func (s *Service) Expects(beginning []byte) (node string, ok bool) {
	v := s.o.Log.View()
	if !v.Introspecting() {
		return "", false
	}
	return expectedOf(v, beginning)
}

func expectedOf(v fsm.View, beginning []byte) (node string, ok bool) {
	for range maxSeen {
		mac, rest, found := nextMAC(beginning)
		if !found {
			return "", false
		}
		beginning = rest
		if nodes := v.NodesByMAC(mac); len(nodes) == 1 { // one of several would share with the others
			return nodes[0], true
		}
	}
	return "", false
}

// nextMAC finds a string that is a MAC in a piece of JSON.
func nextMAC(text []byte) (mac string, rest []byte, ok bool) {
	for {
		at := bytes.IndexByte(text, '"')
		if at < 0 || len(text) < at+macLength+2 {
			return "", nil, false
		}
		text = text[at+1:]
		if text[macLength] != '"' || text[2] != ':' {
			continue
		}
		if mac, ok := CanonicalMAC(string(text[:macLength])); ok {
			return mac, text[macLength+1:], true
		}
	}
}
