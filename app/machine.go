package app

import (
	"cmp"
	"path/filepath"
	"strings"

	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/failover"
	"github.com/trivet-ha/trivet/internal/bounds"
)

const (
	// maxMachineWord is more than any of the files with a word about the machine has.
	maxMachineWord = 256
	// bootVariable has the boot ID where /proc/sys is hidden; the unit sets it.
	bootVariable = "HOST_BOOT_ID"
)

// readMachine reads what this host tells of its machine, below root: as the kubelet does,
// and as much as this process may. The UUID is for root alone on most hosts.
func readMachine(root string, variable func(string) string) cluster.Machine {
	word := func(path string) string {
		text, _, err := bounds.ReadFile(filepath.Join(root, path), maxMachineWord)
		if err != nil {
			return "" // it is not told, and the peer is found by what is
		}
		return strings.TrimSpace(string(text))
	}
	return cluster.Machine{
		BootID:     cmp.Or(word("proc/sys/kernel/random/boot_id"), variable(bootVariable)),
		SystemUUID: word("sys/class/dmi/id/product_uuid"),
		MachineID:  word("etc/machine-id"),
	}
}

// machines tells failover what each peer told of its machine; nil where no peer is asked.
func machines(c *cluster.Contacts) func(peer string) (failover.Identity, bool) {
	if c == nil {
		return nil
	}
	return func(peer string) (failover.Identity, bool) {
		m, heard := c.MachineOf(peer)
		return failover.Identity(m), heard
	}
}
