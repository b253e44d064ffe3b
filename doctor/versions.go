package doctor

import "strings"

func judgeBuilds(hosts []Facts) []Finding {
	var out []Finding
	var first *Facts
	for _, f := range hosts {
		switch {
		case f.Build.Binary == "":
		case first == nil:
			first = &f
		case f.Build.Binary != first.Build.Binary:
			out = append(out, newFinding(Warning, f,
				[]string{"# end the upgrade: install the newer one where it is missing, host by host, then there:",
					"systemctl restart trivet"},
				"it runs trivet %s, %s runs %s", f.Build.Binary, first.Peer, first.Build.Binary))
		}
	}
	for _, f := range hosts {
		if b := f.Build; len(b.HeldBy) > 0 {
			return append(out, newFinding(Warning, f,
				[]string{"# upgrade them; a member that is gone for good is taken out with 'trivet remove':", "trivet members"},
				"version %d of the log is in use although %d is known: held back by %s", b.InUse, b.Log,
				strings.Join(b.HeldBy, ", ")))
		}
	}
	return out
}
