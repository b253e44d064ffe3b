package doctor

import (
	"strings"
	"time"
)

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
	return append(out, judgeLogVersion(hosts)...)
}

// finalizeReminder is for how long all hosts run a release before doctor says that its
// upgrade is not finalized: until then an operator may want to go back.
const finalizeReminder = 14 * 24 * time.Hour

// judgeLogVersion says who keeps the cluster from using all that the newest host knows.
func judgeLogVersion(hosts []Facts) []Finding {
	var newest Facts
	for _, f := range hosts {
		if f.Build.Log > newest.Build.Log {
			newest = f
		}
	}
	b := newest.Build
	if b.InUse >= b.Log {
		return nil
	}
	var older []string
	for _, f := range hosts {
		if f.Build.Log < b.Log {
			older = append(older, f.Peer)
		}
	}
	ran := time.Duration(b.RunningFor) * time.Second
	switch {
	case len(older) > 0:
		return []Finding{newFinding(Warning, newest,
			[]string{"# upgrade them; a member that is gone for good is taken out with 'trivet remove':", "trivet members"},
			"version %d of the log is in use although %d is known: held back by %s", b.InUse, b.Log,
			strings.Join(older, ", "))}
	case ran >= finalizeReminder:
		return []Finding{newFinding(Info, newest,
			[]string{"# if no host needs to go back to the version before:", "trivet upgrade finalize"},
			"the upgrade is not finalized although all hosts run it for %d days: version %d of the log is in use, %d is known",
			int(ran.Hours()/24), b.InUse, b.Log)}
	}
	return nil
}
