package pxe

// Loader is the network boot program for one kind of firmware.
type Loader struct {
	File string // in the TFTP root
	What string // the kind of firmware
	// Sources are the files of distributions that File may be a link to, Package
	// says which packages have them.
	Sources []string
	Package string

	tag  string
	arch []int // as RFC 4578 and its registry number them
	http []int // the same firmware when it boots by HTTP
}

// Loaders returns all, in the order in which they are written.
func Loaders() []Loader {
	const x86 = "package ipxe of Debian and Ubuntu, ipxe-bootimgs-x86 of Fedora and RHEL"
	return []Loader{
		{"undionly.kpxe", "BIOS", []string{"/usr/lib/ipxe/undionly.kpxe", "/usr/share/ipxe/undionly.kpxe"}, x86, "bios",
			[]int{0}, nil},
		{"snponly.efi", "UEFI on x86-64", []string{
			"/usr/lib/ipxe/snponly.efi", "/usr/share/ipxe/ipxe-snponly-x86_64.efi",
		}, x86, "efi-x64", []int{7, 9}, []int{16}},
		{"snponly-arm64.efi", "UEFI on 64-bit ARM", []string{"/usr/share/ipxe/arm64-efi/snponly.efi"},
			"package ipxe-bootimgs-aarch64 of Fedora and RHEL, bin-arm64-efi/snponly.efi of iPXE's sources", "efi-arm64",
			[]int{11}, []int{19}},
	}
}

// Files lists what must be in the TFTP root for machines of every kind, the
// script aside.
func Files() []string {
	var files []string
	for _, l := range Loaders() {
		files = append(files, l.File)
	}
	return files
}
