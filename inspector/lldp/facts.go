// Package lldp reads what a switch says of itself by the Link Layer Discovery
// Protocol: the basic TLVs of IEEE 802.1AB-2016 and those of IEEE 802.1
// (802.1Q-2014, annex D) and IEEE 802.3 (802.3-2015, clause 79). It takes the
// values of TLVs, already taken apart by a ramdisk, and gives them the names
// that ironic-inspector gives them.
//
// A switch is not trusted: every length is checked, one TLV is at most 511
// bytes, and what cannot be read is an error of that TLV alone. Where the
// original is plainly wrong this package is not: 10BASE-T in full duplex is
// told by its own bit instead of half duplex', an IPv6 address below 2^32 is
// not written as an IPv4 address, an identifier that cannot be read is left out
// instead of being null, and organisations' TLVs count although none of the
// basic ones came before them.
package lldp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// The facts that say where a cable ends.
const (
	ChassisID  = "switch_chassis_id"
	PortID     = "switch_port_id"
	SystemName = "switch_system_name"
	PortVLAN   = "switch_port_untagged_vlan_id"
)

// Facts are what one switch says about one of its ports, in the order it says
// them. The zero value is empty. It is not safe for concurrent use.
type Facts struct{ list []fact }

// fact is a name and its value.
type fact struct {
	name  string
	value any
}

// vlan is a VLAN of the port with its name, which may be empty.
type vlan struct {
	Name string `json:"name"`
	ID   uint16 `json:"id"`
}

// Empty reports whether nothing was told.
func (f *Facts) Empty() bool { return len(f.list) == 0 }

// Text returns a fact that is text or a number, "" if it was not told.
func (f *Facts) Text(name string) string {
	if i := f.find(name); i >= 0 {
		switch v := f.list[i].value.(type) {
		case string:
			return v
		case uint16:
			return strconv.Itoa(int(v))
		}
	}
	return ""
}

func (f *Facts) find(name string) int {
	return slices.IndexFunc(f.list, func(known fact) bool { return known.name == name })
}

// set notes a fact that a frame states once.
func (f *Facts) set(name string, value any) {
	if f.find(name) < 0 {
		f.add(name, value)
	}
}

func (f *Facts) add(name string, value any) {
	if f.list == nil {
		f.list = make([]fact, 0, 24) // there are 23 names
	}
	f.list = append(f.list, fact{name, value})
}

// grow adds to a fact that is a list.
func grow[T any](f *Facts, name string, item T) {
	i := f.find(name)
	if i < 0 {
		f.add(name, []T{item})
		return
	}
	list, _ := f.list[i].value.([]T) // one name has one type
	f.list[i].value = append(list, item)
}

// MarshalJSON implements json.Marshaler: an object, in the order in which the switch
// told. Like the original it escapes nothing for HTML.
func (f *Facts) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	out.WriteByte('{')
	for i, fact := range f.list {
		if i > 0 {
			out.WriteByte(',')
		}
		fmt.Fprintf(&out, "%q:", fact.name)
		if err := enc.Encode(fact.value); err != nil {
			return nil, fmt.Errorf("%s: %w", fact.name, err)
		}
		out.Truncate(out.Len() - 1) // the newline of Encode
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}
