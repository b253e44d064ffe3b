package doctor

import (
	"slices"
	"strings"
)

func judgeServices(hosts []Facts) []Finding {
	var out []Finding
	versions := make(map[string]Facts) // where a version was seen first, by what
	first := make(map[string]string)
	for _, f := range hosts {
		for _, s := range f.Services {
			if s.Error != "" {
				out = append(out, f.away(hosts, s))
			}
			out = append(out, f.judgeRamdisks(s)...)
			switch {
			case s.Version == "":
			case first[s.What] == "":
				first[s.What], versions[s.What] = s.Version, f
			case first[s.What] != s.Version:
				out = append(out, newFinding(Warning, f,
					[]string{"# see whether both name the same endpoint:", "trivet config show --effective | grep -w " + s.Section},
					"%s says version %s here, %s on %s", s.What, s.Version, first[s.What], versions[s.What].Peer))
			}
		}
	}
	return out
}

// away is a service that a host does not reach: an error where no host does.
func (f Facts) away(hosts []Facts, s Service) Finding {
	var reach []string
	for _, h := range hosts {
		if slices.ContainsFunc(h.Services, func(o Service) bool { return o.What == s.What && o.Error == "" }) {
			reach = append(reach, h.Peer)
		}
	}
	remedy := []string{"trivet config show --effective | grep -w " + s.Section,
		"# mend the address (ironic.endpoint, api.keystone.auth_url) or the credentials, then:", "systemctl reload trivet"}
	if s.Section == "haconfig" {
		remedy = []string{"trivet config show --effective | grep -w haconfig.kubeconfigs",
			"# mend the server, its certificate or the token in that kubeconfig, or the way to it, then:",
			"systemctl restart trivet"}
	}
	if s.Section == "events" {
		remedy = []string{"trivet config show --effective | grep -w events",
			"# mend the receiver, its URL, events.ca_file, or the secret, which is the same on all hosts and at the receiver, then:",
			"systemctl reload trivet"}
	}
	if len(reach) == 0 {
		return newFinding(Error, f, remedy, "%s answers no peer: %s", s.What, s.Error)
	}
	return newFinding(Warning, f, remedy, "%s serves %s and not this peer: %s", s.What, strings.Join(reach, ", "), s.Error)
}

// judgeRamdisks finds an endpoint of Ironic that is to take what ramdisks send and does not. That
// another one refuses it is as it should be.
func (f Facts) judgeRamdisks(s Service) (out []Finding) {
	for _, e := range s.Ramdisks {
		name := strings.TrimSpace(e.Option + " " + e.URL)
		switch {
		case !e.Used:
		case e.Refusal != "":
			out = append(out, newFinding(Error, f, ramdiskRemedy(e, s.Ramdisks), "%s refuses what ramdisks send: %s", name,
				e.Refusal))
		case e.Error != "" && s.Error == "": // else it is told
			out = append(out, newFinding(Warning, f,
				[]string{"trivet config show --effective | grep -w " + e.Option,
					"# mend the address, or the way to it, then:", "systemctl reload trivet"},
				"%s cannot be asked whether it takes what ramdisks send: %s", name, e.Error))
		}
	}
	return out
}

// ramdiskRemedy says what to do about an endpoint that refuses ramdisks.
func ramdiskRemedy(refuses Ramdisks, endpoints []Ramdisks) []string {
	advice := "# write ironic.ramdisk_endpoint: the URL of an Ironic API with [api] enable_ramdisk_endpoints = True; then:"
	for _, other := range endpoints {
		switch {
		case other.Used:
		case other.Refusal == "" && other.Error == "":
			advice = "# take " + refuses.Option + " out: " + other.Option + " takes what ramdisks send; then:"
		case other.Refusal != "":
			advice = "# " + other.Option + " refuses it too (" + other.Refusal +
				"): set [api] enable_ramdisk_endpoints = True in an Ironic API, write its URL as " + refuses.Option + "; then:"
		}
	}
	return []string{"trivet config show --effective | grep -w ironic", advice, "systemctl reload trivet"}
}
