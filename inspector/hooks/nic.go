package hooks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/trivet-ha/trivet/inspector/ironic"

	"github.com/trivet-ha/trivet/inspector/document"
)

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

// with adds an interface, in the place of one with the same name.
func (l nics) with(n nic) nics {
	if i := slices.IndexFunc(l, func(old nic) bool { return old.name == n.name }); i >= 0 {
		l[i] = n
		return l
	}
	return append(l, n)
}

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

// python writes the interfaces as the original's messages do.
func (l nics) python() string {
	none := func(text *string) string {
		if text == nil {
			return "None"
		}
		return document.ReprText(*text)
	}
	var out strings.Builder
	for i, n := range l {
		if out.Len() > maxText {
			break // the caller shows no more
		}
		if i > 0 {
			out.WriteString(", ")
		}
		pxe := "False"
		if n.PXE {
			pxe = "True"
		}
		fmt.Fprintf(&out, "%s: {'ip': %s, 'mac': %s, 'client_id': %s, 'pxe': %s}", document.ReprText(n.name), none(n.IP),
			document.ReprText(n.MAC), none(n.Client), pxe)
	}
	return "{" + out.String() + "}"
}

// MarshalJSON implements json.Marshaler.
func (l nics) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	out.WriteByte('{')
	for i, n := range l {
		if i > 0 {
			out.WriteByte(',')
		}
		name, err := json.Marshal(n.name)
		if err != nil {
			return nil, fmt.Errorf("interface %q: %w", n.name, err)
		}
		data, err := json.Marshal(n.nicData)
		if err != nil {
			return nil, fmt.Errorf("interface %q: %w", n.name, err)
		}
		out.Write(name)
		out.WriteByte(':')
		out.Write(data)
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (l *nics) UnmarshalJSON(raw []byte) error {
	members, err := document.Checked(raw).Members()
	if err != nil {
		return err
	}
	*l = make(nics, len(members.Names))
	for i, name := range members.Names {
		(*l)[i].name = name
		if err := json.Unmarshal(members.Values[i].Raw(), &(*l)[i].nicData); err != nil {
			return fmt.Errorf("interface %q: %w", name, err)
		}
	}
	return nil
}
