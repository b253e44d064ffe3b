package main

import "slices"

// doctorMutants break what 'trivet doctor' promises: that what it says is so,
// and that what is wrong is said.
func doctorMutants() []Mutant {
	return append(slices.Concat(ballastMutants(), healthMutants(), hostMutants()), []Mutant{
		{
			Name:      "doctor-pools-may-touch",
			Promise:   "doctor",
			File:      "doctor/dnsmasq/config.go",
			Old:       "r.First.Compare(o.Last) <= 0 && o.First.Compare(r.Last) <= 0",
			New:       "r.First.Compare(o.Last) < 0 && o.First.Compare(r.Last) < 0",
			Package:   "./doctor",
			Run:       "^TestEveryFaultIsFound$",
			Assertion: "overlap of IPv6: nothing was found",
		},
		{
			Name:      "doctor-guesses",
			Promise:   "doctor",
			File:      "doctor/inputrules/rules.go",
			Old:       "&out) && fits == Yes {",
			New:       "&out) {",
			Package:   "./doctor/inputrules",
			Run:       "^TestSaveRules$",
			Assertion: "drop of some sources: true",
		},
		{
			Name:      "doctor-blames-the-holder",
			Promise:   "doctor",
			File:      "doctor/address.go",
			Old:       "f.Offline || f.Address.Held ||",
			New:       "f.Offline ||",
			Package:   "./doctor",
			Run:       "^TestNothingIsFoundOnAHealthyCluster$",
			Assertion: "its peer does not hold it",
		},
		{
			Name:      "doctor-takes-silence-for-health",
			Promise:   "doctor",
			File:      "app/admin/doctor.go",
			Old:       "row = doctor.Facts{Error: a.Err.Error()}",
			New:       "row = doctor.Facts{}",
			Package:   "./app/admin",
			Run:       "^TestDoctorAsksEveryPeer$",
			Assertion: "all:",
		},
	}...)
}
