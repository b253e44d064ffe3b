package lldp

import "fmt"

// maxValue is how long a TLV's value can be: its length has nine bits.
const maxValue = 511

// The types of the TLVs of ChassisID and PortID (802.1AB, table 8-1).
const (
	TypeChassisID = 1
	TypePortID    = 2
)

// The types of others.
const (
	typePortDescription   = 4
	typeSystemName        = 5
	typeSystemDescription = 6
	typeCapabilities      = 7
	typeManagementAddress = 8
	typeOrganisation      = 127
)

// Add reads the value of one TLV. Of a fact that is told twice the first
// counts; lists grow. Types that mean nothing here are passed over. The error
// says why a TLV is of no use; then nothing of it was added. The value is not
// kept.
func (f *Facts) Add(kind byte, value []byte) error {
	if len(value) > maxValue {
		return fmt.Errorf("TLV %d: %d bytes are more than the %d of a TLV", kind, len(value), maxValue)
	}
	if err := f.readTLV(kind, value); err != nil {
		return fmt.Errorf("TLV %d: %w", kind, err)
	}
	return nil
}

func (f *Facts) readTLV(kind byte, value []byte) error {
	switch kind {
	case TypeChassisID:
		return f.identifier(ChassisID, value, chassisForm)
	case TypePortID:
		return f.identifier(PortID, value, portForm)
	case typePortDescription:
		return f.text("switch_port_description", value)
	case typeSystemName:
		return f.text(SystemName, value)
	case typeSystemDescription:
		return f.text("switch_system_description", value)
	case typeCapabilities:
		return f.capabilities(value)
	case typeManagementAddress:
		return f.managementAddress(value)
	case typeOrganisation:
		return f.organisation(value)
	default:
		return nil
	}
}
