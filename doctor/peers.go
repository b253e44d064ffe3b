package doctor

import "slices"

const checkPeers = "peers"

// AskPeers is the command that hints name where a peer is not heard or not reached: the
// first check finds one that is down, the second where its network is cut.
const AskPeers = "'trivet doctor --check peers --check ports'"

func judgePeers(hosts []Facts) []Finding {
	var out []Finding
	for _, f := range hosts {
		switch {
		case f.Error != "":
			remedy := []string{"# on that host:", "systemctl status trivet", "trivet status"}
			if reached(f.Peer, hosts) { // it runs
				remedy = []string{"trivet doctor --check ports   # where the network is cut"}
			}
			out = append(out, newFinding(Error, f, remedy, "it says nothing, so nothing is known of its host: %s", f.Error))
		case f.Offline && f.Absent != "":
			out = append(out, newFinding(Error, f, []string{"# " + f.Join}, "no peer runs on this host: %s", f.Absent))
		case f.Offline:
			out = append(out, newFinding(Error, f, []string{"systemctl start trivet"},
				"no peer runs on this host, so the others were not asked and what only a peer knows was not looked at"))
		}
	}
	return out
}

// reached reports whether any host reaches the port of a peer.
func reached(peer string, hosts []Facts) bool {
	return slices.ContainsFunc(hosts, func(h Facts) bool {
		return slices.ContainsFunc(h.Routes, func(r Route) bool {
			return r.To == peer && r.What == "peers" && r.Error == ""
		})
	})
}
