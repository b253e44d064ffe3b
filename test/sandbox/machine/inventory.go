package machine

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
)

// Machine is one node's hardware.
type Machine struct {
	UUID string   // Ironic's UUID of the node; everything else follows from it
	MACs []string // of its network interfaces, lower case; it boots from the first
	BMC  string   // IPv4 address of its BMC, "" for none
	// Silent machines boot and never call back.
	Silent bool
	// Long documents have so many bytes more, of facts.
	Long int
}

// Number returns the n-th machine of a site, 0 to 65535, with so many network
// interfaces. The addresses of BMCs are those that RFC 2544 sets aside for measurements;
// a site with an even number and one with an odd number share none.
func Number(site byte, n, nics int) Machine {
	m := Machine{UUID: fmt.Sprintf("%02x000000-0000-4000-8000-%012d", site, n+1),
		BMC: fmt.Sprintf("198.%d.%d.%d", 18+site&1, n/250, 1+n%250)}
	for nic := range nics {
		m.MACs = append(m.MACs, fmt.Sprintf("52:54:%02x:%02x:%02x:%02x", site, n>>8, n&0xff, nic))
	}
	return m
}

// The document a ramdisk sends, as far as it is fixed: 30 KB, of which the
// extra hardware facts are half.
type document struct {
	Inventory     inventory     `json:"inventory"`
	BootInterface string        `json:"boot_interface"` // as pxelinux writes it
	Configuration configuration `json:"configuration"`
	Error         *string       `json:"error"`
	RootDisk      disk          `json:"root_disk"`
	PCIDevices    []pciDevice   `json:"pci_devices"`
	Data          [][4]string   `json:"data"`
	Logs          string        `json:"logs"`
}

type inventory struct {
	Interfaces   []nic  `json:"interfaces"`
	CPU          cpu    `json:"cpu"`
	Disks        []disk `json:"disks"`
	Memory       memory `json:"memory"`
	BMCAddress   string `json:"bmc_address"`
	BMCv6Address string `json:"bmc_v6address"`
	BMCMAC       string `json:"bmc_mac"`
	Vendor       vendor `json:"system_vendor"`
	Boot         boot   `json:"boot"`
	HostName     string `json:"hostname"`
}

type nic struct {
	Name       string   `json:"name"`
	MAC        string   `json:"mac_address"`
	IPv4       *string  `json:"ipv4_address"`
	IPv6       *string  `json:"ipv6_address"`
	HasCarrier bool     `json:"has_carrier"`
	LLDP       [][2]any `json:"lldp"`
	Vendor     *string  `json:"vendor"`
	Product    *string  `json:"product"`
	ClientID   *string  `json:"client_id"`
	BIOSName   *string  `json:"biosdevname"`
	SpeedMbps  *int     `json:"speed_mbps"`
	PCIAddress string   `json:"pci_address,omitempty"`
	Driver     string   `json:"driver,omitempty"`
}

type cpu struct {
	Model        string   `json:"model_name"`
	Frequency    string   `json:"frequency"` // MHz
	Count        int      `json:"count"`
	Architecture string   `json:"architecture"`
	Flags        []string `json:"flags"`
	Sockets      int      `json:"socket_count"`
}

type disk struct {
	Name            string  `json:"name"`
	Model           string  `json:"model"`
	Size            int64   `json:"size"` // bytes
	Rotational      bool    `json:"rotational"`
	WWN             string  `json:"wwn"`
	Serial          string  `json:"serial"`
	Vendor          string  `json:"vendor"`
	WWNExtension    string  `json:"wwn_with_extension"`
	VendorExtension *string `json:"wwn_vendor_extension"`
	HCTL            string  `json:"hctl"`
	ByPath          string  `json:"by_path"`
	LogicalSectors  int     `json:"logical_sectors"`
	PhysicalSectors int     `json:"physical_sectors"`
}

type memory struct {
	Total      int64 `json:"total"` // bytes
	PhysicalMB int   `json:"physical_mb"`
}

type vendor struct {
	Product      string   `json:"product_name"`
	Serial       string   `json:"serial_number"`
	Manufacturer string   `json:"manufacturer"`
	Firmware     firmware `json:"firmware"`
}

type firmware struct {
	Vendor    string `json:"vendor"`
	Version   string `json:"version"`
	BuildDate string `json:"build_date"`
}

type boot struct {
	Mode         string `json:"current_boot_mode"`
	PXEInterface string `json:"pxe_interface"`
}

type configuration struct {
	Collectors []string  `json:"collectors"`
	Managers   []manager `json:"managers"`
}

type manager struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

type pciDevice struct {
	Vendor   string `json:"vendor_id"`
	Product  string `json:"product_id"`
	Class    string `json:"class"`
	Revision string `json:"revision"`
	Bus      string `json:"bus"`
}

const cpuFlags = "fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat pse36 clflush dts acpi mmx fxsr sse sse2 ss ht tm pbe " +
	"syscall nx pdpe1gb rdtscp lm constant_tsc art arch_perfmon pebs bts rep_good nopl xtopology nonstop_tsc cpuid aperfmperf pni pclmulqdq " +
	"dtes64 monitor ds_cpl vmx smx est tm2 ssse3 sdbg fma cx16 xtpr pdcm pcid dca sse4_1 sse4_2 x2apic movbe popcnt tsc_deadline_timer aes " +
	"xsave avx f16c rdrand lahf_lm abm 3dnowprefetch cpuid_fault epb cat_l3 cdp_l3 ssbd mba ibrs ibpb stibp tpr_shadow vnmi flexpriority ept " +
	"vpid fsgsbase tsc_adjust bmi1 avx2 smep bmi2 erms invpcid cqm mpx rdt_a avx512f avx512dq rdseed adx smap clflushopt clwb avx512cd"

// logBytes is the size of the ramdisk's log archive before base64. It does not
// compress, and nobody stores it with the data.
const logBytes = 3 << 10

// Inventory returns the JSON document that the ramdisk on m posts: about 30 KB,
// always the same for the same machine.
func Inventory(m Machine) []byte {
	d := dice(m.UUID)
	disks := m.disks(d)
	doc := document{
		Inventory: inventory{
			Interfaces: m.interfaces(d), CPU: processors(d), Disks: disks, Memory: installed(d),
			BMCAddress: m.BMC, BMCv6Address: "::/0",
			BMCMAC: fmt.Sprintf("ac:1f:6b:%02x:%02x:%02x", d.IntN(256), d.IntN(256), d.IntN(256)),
			Vendor: vendor{"SimServer 2U", "SIM" + m.mark(), "Simulated Systems",
				firmware{"Simulated BIOS", "3.2.1", "01/02/2023"}},
			Boot: boot{"uefi", m.MACs[0]}, HostName: "ipa-" + m.mark(),
		},
		BootInterface: "01-" + strings.ReplaceAll(m.MACs[0], ":", "-"),
		Configuration: configuration{[]string{"default", "logs", "pci-devices", "extra-hardware"},
			[]manager{{"generic_hardware_manager", "1.1"}}},
		RootDisk:   disks[0],
		PCIDevices: pciDevices(d),
		Data:       m.facts(d),
		Logs:       logs(d),
	}
	out, err := json.Marshal(doc)
	if err != nil {
		panic(fmt.Sprintf("machine: an inventory that is not JSON: %v", err)) // it holds texts and numbers alone
	}
	return out
}

// dice are the node's own, so that its hardware is the same at every boot.
func dice(uuid string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(uuid)) // a hash takes everything
	return rand.New(rand.NewPCG(h.Sum64(), 0))
}

// mark is what serial numbers of the node end in.
func (m Machine) mark() string { return m.UUID[max(0, len(m.UUID)-12):] }

func (m Machine) interfaces(d *rand.Rand) []nic {
	product, maker, speed := "0x1572", "0x8086", 10000
	var out []nic
	for i, mac := range m.MACs {
		n := nic{
			Name: fmt.Sprintf("eth%d", i), MAC: mac, HasCarrier: i < 2, Vendor: &maker, Product: &product,
			PCIAddress: fmt.Sprintf("0000:18:00.%d", i), Driver: "i40e", LLDP: lldp(d, i),
		}
		if n.HasCarrier {
			n.SpeedMbps = &speed
		}
		if i == 0 {
			v4, v6 := fmt.Sprintf("172.24.%d.%d", d.IntN(256), 1+d.IntN(254)), "fe80::5054:ff:fe00:1%eth0"
			n.IPv4, n.IPv6 = &v4, &v6
		}
		out = append(out, n)
	}
	v4, v6 := "127.0.0.1", "::1"
	return append(out, nic{Name: "lo", MAC: "00:00:00:00:00:00", IPv4: &v4, IPv6: &v6, HasCarrier: true})
}

// lldp is what a switch tells about the port behind a NIC: type and value in
// hexadecimal digits, as the ramdisk reads them off the wire.
func lldp(d *rand.Rand, i int) [][2]any {
	text := func(s string) string { return fmt.Sprintf("%x", s) }
	return [][2]any{
		{1, fmt.Sprintf("04001b54aa%02x01", i)}, {2, "05" + text(fmt.Sprintf("Ethernet%d/%d", i+1, 1+d.IntN(48)))},
		{3, "0078"},
		{4, text(fmt.Sprintf("uplink to node port %d", i))}, {5, text(fmt.Sprintf("leaf-%d", i+1))},
		{6, text("Simulated switch, model X-1")},
		{7, "00140014"}, {8, "0501c0000264020000000100"}, {127, "0080c2010064"}, {127, "0080c203006408" + text("vlan-100")},
		{127, "0080c203006608" + text("vlan-102")}, {127, "00120f01036c010010"}, {127, "00120f030300000001"},
		{127, "00120f042400"}, {0, ""},
	}
}

func processors(d *rand.Rand) cpu {
	return cpu{"Simulated Xeon Gold 6130 CPU @ 2.10GHz", "2100.0000", 16 << d.IntN(3), "x86_64", strings.Fields(cpuFlags),
		2}
}

func installed(d *rand.Rand) memory {
	gib := int64(64) << d.IntN(4)
	const reserved = 12 << 20 // by the firmware
	return memory{gib<<30 - reserved, int(gib << 10)}
}

func (m Machine) disks(d *rand.Rand) []disk {
	const data, system = int64(4) << 40, int64(480) << 30
	out := make([]disk, 0, 12)
	for i := range 4 + d.IntN(9) {
		wwn := fmt.Sprintf("0x5000c500%08x", d.Uint32())
		v := disk{
			Name: "/dev/sd" + string(rune('a'+i)), Model: "SIMDISK 4T", Size: data, Rotational: true, WWN: wwn,
			WWNExtension: wwn,
			Serial:       fmt.Sprintf("S%s%02d", m.mark(), i), Vendor: "ATA", HCTL: fmt.Sprintf("0:0:%d:0", i),
			ByPath: fmt.Sprintf("/dev/disk/by-path/pci-0000:00:17.0-ata-%d", i+1), LogicalSectors: 512, PhysicalSectors: 4096,
		}
		if i == 0 {
			v.Model, v.Size, v.Rotational = "SIMDISK 480G", system, false
		}
		out = append(out, v)
	}
	return out
}

func pciDevices(d *rand.Rand) []pciDevice {
	out := make([]pciDevice, 0, 48)
	for i := range cap(out) {
		out = append(out, pciDevice{"8086", fmt.Sprintf("20%02x", i), "088000", "04",
			fmt.Sprintf("0000:%02x:%02x.%d", i/8, i%32, i%8)})
	}
	out[0] = pciDevice{"8086", "1572", "020000", "01", "0000:18:00.0"}
	if d.IntN(4) == 0 { // a GPU
		out[1] = pciDevice{"10de", "1eb8", "030200", "a1", "0000:82:00.0"}
	}
	return out
}

// facts are what the extra-hardware collector adds: item, name, key, value.
func (m Machine) facts(d *rand.Rand) [][4]string {
	out := [][4]string{{"system", "product", "name", "SimServer 2U"}, {"system", "product", "serial", "SIM" + m.mark()}}
	for i := range 64 {
		cpu := fmt.Sprintf("logical_%d", i)
		out = append(out, [4]string{"cpu", cpu, "bogomips", fmt.Sprintf("%d.%02d", 4190+d.IntN(20), d.IntN(100))},
			[4]string{"cpu", cpu, "loops_per_sec", fmt.Sprint(900 + d.IntN(200))})
	}
	for i := range 24 {
		bank := fmt.Sprintf("bank:%d", i)
		out = append(out, [4]string{"memory", bank, "size", "17179869184"}, [4]string{"memory", bank, "clock", "2666000000"},
			[4]string{"memory", bank, "serial", fmt.Sprintf("%08X", d.Uint32())},
			[4]string{"memory", bank, "slot", fmt.Sprintf("P%d-DIMM%c%d", i/12, 'A'+i%6, i%2)},
			[4]string{"memory", bank, "description", "DIMM DDR4 Synchronous 2666 MHz (0.4 ns)"})
	}
	for i, mac := range m.MACs {
		out = append(out, [4]string{"network", fmt.Sprintf("eth%d", i), "serial", mac},
			[4]string{"network", fmt.Sprintf("eth%d", i), "firmware", "6.01 0x800035cf 1.1747.0"})
	}
	const row = 80 // bytes
	for i := range m.Long / row {
		out = append(out, [4]string{"benchmark", fmt.Sprintf("sample:%06d", i), "result",
			fmt.Sprintf("%016x%016x", d.Uint64(), d.Uint64())})
	}
	return out
}

func logs(d *rand.Rand) string {
	raw := make([]byte, logBytes)
	for i := range raw {
		raw[i] = byte(d.Uint32())
	}
	return base64.StdEncoding.EncodeToString(raw)
}
