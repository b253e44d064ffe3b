package doctor

import "time"

func judgeClock(f Facts) (out []Finding) {
	skew := time.Duration(f.Clock.SkewMS) * time.Millisecond
	limit := time.Duration(f.Clock.SkewLimitMS) * time.Millisecond
	set := []string{"chronyc makestep", "# without chrony: 'systemctl restart systemd-timesyncd', or set it by hand"}
	switch {
	case limit == 0: // no peer, or one that does not know yet
	case skew.Abs() > limit:
		out = append(out, newFinding(Error, f, set, "its clock is %v off the other hosts': its peer does not lead", skew))
	case skew.Abs() > limit/2:
		out = append(out, newFinding(Warning, f, set, "its clock is %v off the other hosts'; at %v its peer no longer leads",
			skew, limit))
	}
	if f.Clock.Asked && !f.Clock.Synchronised {
		out = append(out, newFinding(Warning, f,
			[]string{"apt-get install -y chrony", "systemctl enable --now chrony", "chronyc waitsync 10"},
			"the kernel says that nothing keeps its clock right: no chronyd, ntpd or systemd-timesyncd runs, or it has no source"))
	}
	return out
}
