package doctor

const checkPeers = "peers"

func judgePeers(hosts []Facts) []Finding {
	var out []Finding
	for _, f := range hosts {
		switch {
		case f.Error != "":
			out = append(out, newFinding(Error, f, []string{"# on that host:", "systemctl status trivet", "trivet status"},
				"it says nothing, so nothing is known of its host: %s", f.Error))
		case f.Offline && f.Absent != "":
			out = append(out, newFinding(Error, f, []string{"# " + f.Join}, "no peer runs on this host: %s", f.Absent))
		case f.Offline:
			out = append(out, newFinding(Error, f, []string{"systemctl start trivet"},
				"no peer runs on this host, so the others were not asked and what only a peer knows was not looked at"))
		}
	}
	return out
}
