package failover

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// Identity is what tells one machine from another; "" is what is not known. Only the
// boot ID cannot be shared: makers ship boards with one UUID, and cloned images have
// one machine ID.
type Identity struct {
	BootID     string // of the kernel that runs
	SystemUUID string // that the firmware tells
	MachineID  string // of the installed system (machine-id(5))
}

type uuid [16]byte

// KnownUUID reports whether a text is a UUID that can tell one machine from another:
// firmware that was never given one tells a placeholder, which many boards share.
func KnownUUID(text string) bool { return uuidMark(text) != "" }

// SameUUID reports whether two UUIDs are known and equal, in either byte order.
func SameUUID(a, b string) bool { return KnownUUID(a) && uuidMark(a) == uuidMark(b) }

// NoUUID says in a few words why what teller tells as a UUID identifies no machine, ""
// if it does.
func NoUUID(teller, text string) string {
	_, is := uuidOf(text)
	switch {
	case KnownUUID(text):
		return ""
	case is:
		return fmt.Sprintf("%s tells %s, a placeholder that many boards share", teller, strings.TrimSpace(text))
	}
	return teller + " tells none"
}

// UUIDSpellings returns both byte orders of a known UUID, the one that was given first;
// none of one that is not known.
func UUIDSpellings(text string) []string {
	if !KnownUUID(text) {
		return nil
	}
	id, _ := uuidOf(text)
	return slices.Compact([]string{id.spelled(), id.swapped().spelled()})
}

// uuidMark is one spelling for both byte orders of a known UUID, "" for any other text.
func uuidMark(text string) string {
	id, ok := uuidOf(text)
	if !ok || id.placeholder() || id.swapped().placeholder() {
		return ""
	}
	return min(id.spelled(), id.swapped().spelled())
}

// idMark is one spelling of a boot ID or a machine ID: Kubernetes writes hyphens into
// the one, and systemd none.
func idMark(text string) string {
	id, ok := uuidOf(text)
	switch {
	case !ok:
		return strings.TrimSpace(text)
	case id.placeholder():
		return ""
	}
	return id.spelled()
}

// uuidOf reads 32 hexadecimal digits, with hyphens or without.
func uuidOf(text string) (id uuid, ok bool) {
	raw, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(text), "-", ""))
	if err != nil || len(raw) != len(id) {
		return id, false
	}
	return uuid(raw), true
}

func (u uuid) spelled() string {
	digits := hex.EncodeToString(u[:])
	return strings.Join([]string{digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]}, "-")
}

// swapped returns the same UUID with the first three groups swapped byte by byte:
// SMBIOS changed its mind about their order with version 2.6.
func (u uuid) swapped() uuid {
	slices.Reverse(u[0:4])
	slices.Reverse(u[4:6])
	slices.Reverse(u[6:8])
	return u
}

// placeholder reports whether boards of many makers tell a UUID: one byte again and
// again (not present, not set), or an example that was never replaced.
func (u uuid) placeholder() bool {
	if !slices.ContainsFunc(u[1:], func(b byte) bool { return b != u[0] }) {
		return true
	}
	switch u.spelled() {
	case "03000200-0400-0500-0006-000700080009", "12345678-1234-5678-90ab-cddeefaabbcc",
		"12345678-1234-1234-1234-123456789abc",
		"00112233-4455-6677-8899-aabbccddeeff", "01234567-89ab-cdef-0123-456789abcdef",
		"00010203-0405-0607-0809-0a0b0c0d0e0f",
		// the last: Dell's, of an empty service tag
		"12345678-90ab-cdef-1234-567890abcdef", "4c4c4544-0000-2010-8020-80c04f202020":
		return true
	}
	return false
}

// marks are what two machines are compared by, each in one spelling; "" for what is
// not known.
type marks struct {
	boot, uuid, machine string
	addresses           []string // no names: two clusters have one name for two machines
}

func marksOf(id Identity, addresses []string) marks {
	m := marks{boot: idMark(id.BootID), uuid: uuidMark(id.SystemUUID), machine: idMark(id.MachineID)}
	for _, a := range addresses {
		if address, ok := plainAddress(a); ok {
			m.addresses = append(m.addresses, address)
		}
	}
	return m
}

// same names what shows that two kube nodes are one machine, "" if nothing does: the
// boot ID, or two marks of which each alone may be shared. Containers under one kernel
// are apart if all else that both tell differs.
func (m marks) same(o marks) string {
	var shared []string
	differ := false
	for _, pair := range [][3]string{{"system UUID", m.uuid, o.uuid}, {"machine ID", m.machine, o.machine}} {
		switch {
		case pair[1] == "" || pair[2] == "":
		case pair[1] == pair[2]:
			shared = append(shared, pair[0])
		default:
			differ = true
		}
	}
	if slices.ContainsFunc(m.addresses, func(a string) bool { return slices.Contains(o.addresses, a) }) {
		shared = append(shared, "address")
	}
	switch {
	case m.boot != "" && m.boot == o.boot && (len(shared) > 0 || !differ):
		return "boot ID"
	case len(shared) > 1:
		return strings.Join(shared, " and ")
	}
	return ""
}

// keys are what a census finds them by.
func (m marks) keys() (keys []string) {
	for _, pair := range [][2]string{{"boot ID", m.boot}, {"system UUID", m.uuid}, {"machine ID", m.machine}} {
		if pair[1] != "" {
			keys = append(keys, markKey(pair[0], pair[1]))
		}
	}
	for _, a := range m.addresses {
		keys = append(keys, markKey("address", a))
	}
	return keys
}

func markKey(name, value string) string { return name + " " + value }

// apart reports whether two machines are two beyond doubt. The boot ID alone does not
// show that: a kubelet that has been silent since its machine booted left the one from
// before.
func (m marks) apart(o marks) bool {
	differ := func(a, b string) bool { return a != "" && b != "" && a != b }
	return differ(m.boot, o.boot) && differ(m.machine, o.machine) && (m.uuid == "" || m.uuid != o.uuid)
}
