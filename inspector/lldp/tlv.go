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
func (f *Facts) Add(kind byte, value []byte) (err error) {
	if len(value) > maxValue {
		return fmt.Errorf("TLV %d: %d bytes are more than the %d of a TLV", kind, len(value), maxValue)
	}
	switch kind {
	case TypeChassisID:
		err = f.identifier(ChassisID, value, chassisForms)
	case TypePortID:
		err = f.identifier(PortID, value, portForms)
	case typePortDescription:
		err = f.text("switch_port_description", value)
	case typeSystemName:
		err = f.text(SystemName, value)
	case typeSystemDescription:
		err = f.text("switch_system_description", value)
	case typeCapabilities:
		err = f.capabilities(value)
	case typeManagementAddress:
		err = f.managementAddress(value)
	case typeOrganisation:
		err = f.organisation(value)
	}
	if err != nil {
		return fmt.Errorf("TLV %d: %w", kind, err)
	}
	return nil
}
