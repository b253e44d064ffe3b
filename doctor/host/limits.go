package host

import (
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/doctor"
)

// Limits are those of the process that asks. root is "/", but in tests. What the
// kernel does not tell counts as no limit, as on a host without the second
// version of control groups.
func Limits(root string) doctor.Limits {
	l := doctor.Limits{CPUWeight: weight(root)}
	for at := group(root, ""); at != ""; at = path.Dir(at) { // the smallest limit counts
		dir := filepath.Join(root, "sys/fs/cgroup", at)
		if most := readNumber(dir, "memory.max"); most > 0 && (l.Memory == 0 || most < l.Memory) {
			l.Memory, l.MemoryUsed, l.Group = most, anonymous(dir), at
		}
		if most := readNumber(dir, "pids.max"); most > 0 && (l.Tasks == 0 || most < l.Tasks) {
			l.Tasks, l.TasksUsed, l.Group = most, readNumber(dir, "pids.current"), at
		}
		if most := readQuota(dir); most > 0 && (l.MilliCPU == 0 || most < l.MilliCPU) {
			l.MilliCPU, l.Group = most, at
		}
		if at == "/" {
			break
		}
	}
	var open unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &open); err == nil {
		l.Files = open.Cur
	}
	if names, err := (files{}).List(filepath.Join(root, "proc/self/fd")); err == nil {
		l.FilesUsed = uint64(len(names))
	}
	return l
}

// weight is the share of the processor of the group that this process competes in, where
// 100 is the default: of the nearest one that has a weight, since a group without the
// controller competes as the one above it. 0 where the kernel does not tell.
func weight(root string) uint64 {
	for at := group(root, ""); at != ""; at = path.Dir(at) {
		if w := readNumber(filepath.Join(root, "sys/fs/cgroup", at), "cpu.weight"); w > 0 {
			return w
		}
		if at == "/" {
			break
		}
	}
	// The first version of control groups, whose default is 1024. Its root competes with no
	// other group; a container may see its own group as the mount's root.
	at := group(root, "cpu")
	for _, dir := range []string{filepath.Join("sys/fs/cgroup/cpu", at), "sys/fs/cgroup/cpu"} {
		if shares := readNumber(filepath.Join(root, dir), "cpu.shares"); shares > 0 && at != "" && at != "/" {
			return max(shares*100/1024, 1)
		}
	}
	return 0
}

// group is the control group of this process in the hierarchy of a controller of the first
// version, or, without a name, of the second version; "" if there is none.
func group(root, controller string) string {
	for line := range strings.Lines(content(filepath.Join(root, "proc/self"), "cgroup")) {
		words := strings.SplitN(strings.TrimSpace(line), ":", 3) // number, controllers, path
		if len(words) == 3 && slices.Contains(strings.Split(words[1], ","), controller) {
			return path.Clean("/" + words[2])
		}
	}
	return ""
}

// maxGroupFile bounds one of the kernel's files about a control group, in bytes.
const maxGroupFile = 64 << 10

// content is what one of these files says, "" where it cannot be read.
func content(dir, name string) string {
	text, err := readBounded(filepath.Join(dir, name), maxGroupFile)
	if err != nil {
		return ""
	}
	return string(text)
}

// number is 0 for "max" and for a file that is missing.
func number(text string) uint64 {
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// readNumber reads a file that holds one.
func readNumber(dir, name string) uint64 { return number(content(dir, name)) }

// anonymous is the memory that the kernel cannot take back; memory.current
// counts what it keeps of files, too.
func anonymous(dir string) uint64 {
	for line := range strings.Lines(content(dir, "memory.stat")) {
		if value, ok := strings.CutPrefix(line, "anon "); ok {
			return number(value)
		}
	}
	return 0
}

// readQuota reads cpu.max, "QUOTA PERIOD" in microseconds, as thousandths of a core.
func readQuota(dir string) uint64 {
	words := strings.Fields(content(dir, "cpu.max"))
	if len(words) != 2 || number(words[1]) == 0 {
		return 0
	}
	return number(words[0]) * 1000 / number(words[1])
}
