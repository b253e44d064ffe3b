package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Configured is an option that peers do not have in common, on one of them.
type Configured struct {
	Key     string `json:"key"`
	Line    string `json:"line"`  // as it would stand in the file; secrets are hidden
	Where   string `json:"where"` // file and line, variable, flag, or "default"
	InFile  bool   `json:"in_file,omitempty"`
	Secret  bool   `json:"secret,omitempty"`
	Mark    string `json:"mark"` // equal where the values are
	Restart bool   `json:"restart,omitempty"`
}

const checkConfig = "config"

// setting is an option on one host.
type setting struct {
	host Facts
	Configured
}

func judgeConfig(hosts []Facts) []Finding {
	byKey := make(map[string][]setting)
	for _, f := range hosts {
		for _, c := range f.Configured {
			byKey[c.Key] = append(byKey[c.Key], setting{f, c})
		}
	}
	var out []Finding
	for _, f := range hosts {
		for _, u := range f.Plan.Useless {
			out = append(out, newFinding(Error, f,
				[]string{"# " + u.Do + ", then:", "trivet config check && systemctl restart trivet"}, "%s", u.What))
		}
		for _, u := range f.Plan.Unusable {
			out = append(out, newFinding(Error, f, []string{"# " + u.Do + ", then:", "trivet config check"}, "%s", u.What))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		out = append(out, judgeSettings(key, byKey[key])...)
	}
	return out
}

// judgeSettings compares one option on the hosts that told of it.
func judgeSettings(key string, all []setting) []Finding {
	byMark := make(map[string][]setting)
	for _, s := range all {
		byMark[s.Mark] = append(byMark[s.Mark], s)
	}
	if len(byMark) < 2 {
		return nil // the others are not there to be compared
	}
	var out []Finding
	for _, mark := range slices.Sorted(maps.Keys(byMark)) {
		if usual := byMark[mark]; 2*len(usual) > len(all) {
			for _, s := range all {
				if s.Mark != mark {
					out = append(out, s.unlike(key, usual))
				}
			}
			return out
		}
	}
	var values []string
	for _, s := range all {
		values = append(values, fmt.Sprintf("%s on %s (%s)", s.shown(), s.host.Peer, s.Where))
	}
	return []Finding{newFinding(Warning, all[0].host, []string{
		"# make it the same on all of them: a line '" + all[0].Line + "' in " + sectionOf(key) + ", then on each:",
		all[0].command(),
	}, "%s has to be equal on all peers: %s", key, strings.Join(values, ", "))}
}

// unlike is the finding on a host that differs from most.
func (s setting) unlike(key string, usual []setting) Finding {
	names := make([]string, len(usual))
	for i, u := range usual {
		names[i] = u.host.Peer
	}
	want := usual[0]
	line := "# write '" + want.Line + "' in " + sectionOf(key) + " of this host's file"
	switch {
	case s.InFile:
		line = "# at " + s.Where + " write '" + want.Line + "'"
	case s.Where != "default":
		line = "# " + s.Where + " sets it here: take that away, or let it say what stands in '" + want.Line + "'"
	}
	if want.Secret {
		line += ", with the secret that the others have"
	}
	return newFinding(Warning, s.host, []string{line, s.command()}, "%s is %s here (%s), and %s on %s", key, s.shown(),
		s.Where, want.shown(), strings.Join(names, ", "))
}

func (s setting) shown() string {
	if s.Secret {
		return "a secret of its own"
	}
	_, value, _ := strings.Cut(s.Line, ": ")
	return value
}

// command makes a peer take what was written.
func (s setting) command() string {
	if s.Restart {
		return "systemctl restart trivet"
	}
	return "systemctl reload trivet"
}

func sectionOf(key string) string {
	i := strings.LastIndexByte(key, '.')
	if i < 0 {
		return "the top"
	}
	return "section " + key[:i]
}
