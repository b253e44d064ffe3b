package hooks

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"

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
