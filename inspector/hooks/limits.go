package hooks

// The limits of the hooks: how much of one machine's data they consider. Where a limit is
// passed the hook fails, and names the limit, unless the row says otherwise.
const (
	maxDeviceFile = 1 << 20  // bytes of the file of known accelerators
	maxDisks      = 4096     // disks of a machine: storage servers with two paths to each have a few hundred
	maxExtraItems = 1 << 17  // items of extra data; a large server has some 10,000
	maxFlags      = 4096     // flags of a CPU; kernels know some 250
	maxHex        = 2 * 511  // hexadecimal digits of a TLV's value
	maxPCIDevices = 16 << 10 // PCI devices of a machine; virtual functions make thousands
	maxSkipHints  = 256      // hints in a node's skip_block_devices
	// maxText is for bytes of a value that is compared, or that a message repeats, which
	// is cut: it is kept in the log and goes into answers.
	maxText = 4 << 10
	maxTLVs = 1024 // TLVs of an interface; more are passed over. A switch sends one Ethernet frame, with twenty to sixty
)
