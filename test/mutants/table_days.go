package main

// daysMutants break what an operator relies on when hosts are lost.
func daysMutants() []Mutant {
	return []Mutant{
		{
			Name: "wiped-host-does-not-wait-for-its-own-session", Promise: "days", File: "cli/data/join.go",
			Old:     "refused.Status == http.StatusServiceUnavailable || refused.Status == http.StatusConflict)",
			New:     "refused.Status == http.StatusServiceUnavailable)",
			Package: "./cli/data", Run: "^TestWhatAJoinerWaitsFor$",
			Assertion: "joiner: the dead peer's session passes by itself: false",
		},
		{
			Name: "wiped-host-stays-a-member-twice", Promise: "days", File: "fsm/member_jointoken.go",
			Old:     "\t\tt.discharge(old.ID)\n\t}\n\treturn t.admitMember(m)",
			New:     "\t}\n\treturn t.admitMember(m)",
			Package: "./fsm", Run: "^TestJoiningTakesThePlaceOfADeadNamesake$",
			Assertion: "the wiped host is still a member",
		},
	}
}
