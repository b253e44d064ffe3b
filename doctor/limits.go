package doctor

import "fmt"

// What a peer needs at least, and which part of a limit is too near to it, in
// percent.
const (
	leastMemory   = 512 << 20 // bytes: 10,000 nodes, their snapshot, and the garbage of one collection
	leastTasks    = 256
	leastMilliCPU = 500
	leastWeight   = 500  // of the processor, as the packaged unit has it; 100 is the default
	leastFiles    = 4096 // a boot storm of 2,000 ramdisks, and Ironic's answers
	near          = 85
)

func judgeLimits(f Facts) (out []Finding) {
	l := f.Limits
	for _, path := range l.Needs {
		out = append(out, newFinding(Warning, f,
			[]string{"systemctl cat trivet   # and in the drop-in that has it write:", "ReadWritePaths=-" + path,
				"systemctl daemon-reload"},
			"systemd does not start its peer while %s is away: ReadWritePaths= of trivet.service names it without '-'",
			path))
	}
	if l.CPUWeight > 0 && l.CPUWeight < leastWeight {
		remedy := []string{"systemctl edit trivet   # and write:", "[Service]", "CPUWeight=500", "systemctl restart trivet",
			"# in a container: podman or docker run --cpu-shares 13100"}
		out = append(out, newFinding(Warning, f, remedy,
			"its peer's control group has a processor weight of %d, the packaged unit's is %d: when other programs want all processors, votes and heartbeats come late, and leadership moves",
			l.CPUWeight, leastWeight))
	}
	for _, r := range []struct {
		what, key, value   string
		limit, used, least uint64
		unit               string
		shown              uint64
	}{
		{"memory", "MemoryMax", "2G", l.Memory, l.MemoryUsed, leastMemory, "MiB", 1 << 20},
		{"threads", "TasksMax", "4096", l.Tasks, l.TasksUsed, leastTasks, "", 1},
		{"processor", "CPUQuota", "200%", l.MilliCPU, 0, leastMilliCPU, "thousandths of a core", 1},
		{"open files", "LimitNOFILE", "65536", l.Files, l.FilesUsed, leastFiles, "", 1},
	} {
		remedy := []string{"systemctl edit trivet   # and write:", "[Service]", r.key + "=" + r.value,
			"systemctl restart trivet"}
		switch {
		case r.limit == 0:
		case r.limit < r.least:
			out = append(out, newFinding(Warning, f, remedy, "its peer may have %s of %s%s; it needs %s",
				amount(r.limit/r.shown, r.unit), r.what, l.groupNamed(r.key), amount(r.least/r.shown, r.unit)))
		case r.used*100 > r.limit*near:
			out = append(out, newFinding(Warning, f, remedy, "its peer has %s of %s and may have %s%s",
				amount(r.used/r.shown, r.unit), r.what, amount(r.limit/r.shown, r.unit), l.groupNamed(r.key)))
		}
	}
	return out
}

func amount(n uint64, unit string) string {
	if unit == "" {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d %s", n, unit)
}

// groupNamed names the control group; open files are limited by none.
func (l Limits) groupNamed(key string) string {
	if l.Group == "" || key == "LimitNOFILE" {
		return ""
	}
	return " (control group " + l.Group + ")"
}
