package fence

import (
	"os"
	"path/filepath"
	"strings"
)

// findProgram returns where a fence agent lies. The PATH of the process is not
// asked: what switches machines off should not depend on who started us.
func findProgram(name string) (path, what, do string) {
	if name == "" {
		return "", "", "" // which is told elsewhere
	}
	switch filepath.Base(name) {
	// The "off" of these programs of the collection leaves the machine running: they cut
	// it off from storage or the network, or only watch.
	case "fence_ack_manual", "fence_brocade", "fence_cisco_mds", "fence_compute", "fence_crosslink", "fence_evacuate",
		"fence_heuristics_ping", "fence_ifmib", "fence_kdump", "fence_mpath", "fence_sanbox2", "fence_sanlock", "fence_sbd",
		"fence_scsi":
		return "", name + " does not take the power away",
			"name a program that does: pods are moved only from a machine that is off"
	// These say off of a machine which is in no list of theirs, with any options
	// (fence-agents 4.12).
	case "fence_vmware", "fence_zvmip":
		return "", name + " says off of a machine that it does not know",
			"use another program or type of device: a wrong plug would be the proof that a machine is dead"
	}
	candidates := []string{name}
	switch {
	case filepath.IsAbs(name):
	case strings.ContainsRune(name, '/'):
		return "", name + " is neither a name nor an absolute path", "write fence_ipmilan, or /usr/sbin/fence_ipmilan"
	default:
		candidates = nil
		for _, dir := range []string{"/usr/sbin", "/sbin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/local/bin"} {
			candidates = append(candidates, filepath.Join(dir, name))
		}
	}
	for _, c := range candidates {
		if info, err := os.Stat(c); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return c, "", ""
		}
	}
	return "", name + " is not installed here",
		"install it on every peer (package fence-agents), or write its absolute path"
}
