package doctor

import (
	"strings"
	"testing"
)

func host(name, mark, line, where string, inFile bool) Facts {
	return Facts{Peer: name, Configured: []Configured{
		{Key: "raft.timing", Line: line, Where: where, InFile: inFile, Mark: mark, Restart: true}}}
}

// The host that differs from most is named, with the line to change and what to
// write there.
func TestConfigCheck(t *testing.T) {
	normal, slow := "timing: normal", "timing: slow"
	secret := func(f Facts) Facts { f.Configured[0].Secret = true; return f }
	for name, row := range map[string]struct {
		hosts []Facts
		want  []string // parts of the finding and its remedy; none: no finding
	}{
		"no peer differs":          {[]Facts{{Peer: "h1"}, {Peer: "h2"}}, nil},
		"the others do not answer": {[]Facts{host("h1", "a", normal, "default", false)}, nil},
		"a line of the file": {[]Facts{host("h1", "a", normal, "default", false),
			host("h2", "b", slow, "/etc/trivet/trivet.yaml:12", true), host("h3", "a", normal, "x.yaml:3", true)},
			[]string{"h2", "raft.timing is slow here (/etc/trivet/trivet.yaml:12), and normal on h1, h3",
				"at /etc/trivet/trivet.yaml:12 write 'timing: normal'", "systemctl restart trivet"}},
		"a default": {[]Facts{host("h1", "a", normal, "default", false), host("h2", "b", slow, "f:1", true),
			host("h3", "b", slow, "f:1", true)},
			[]string{"h1", "write 'timing: slow' in section raft of this host's file"}},
		"a variable": {[]Facts{host("h1", "a", normal, "TRIVET_RAFT_TIMING", false), host("h2", "b", slow, "f:1", true),
			host("h3", "b", slow, "f:1", true)},
			[]string{"h1", "TRIVET_RAFT_TIMING sets it here"}},
		"one against one": {[]Facts{host("h1", "a", normal, "default", false), host("h2", "b", slow, "f:1", true)},
			[]string{"h1", "normal on h1 (default), slow on h2 (f:1)", "make it the same"}},
		"a secret": {[]Facts{secret(host("h1", "a", "password: (redacted)", "f:1", true)),
			secret(host("h2", "b", "password: (redacted)", "f:1", true)),
			secret(host("h3", "b", "password: (redacted)", "f:1", true))},
			[]string{"h1", "is a secret of its own here (f:1)", "with the secret that the others have"}},
	} {
		t.Run(name, func(t *testing.T) {
			findings, err := Judge(row.hosts, []string{"config"})
			if err != nil || len(findings) != min(len(row.want), 1) {
				t.Fatalf("findings %+v, %v", findings, err)
			}
			for i, part := range row.want {
				f := findings[0]
				text := strings.Join(append([]string{f.Text}, f.Remedy...), "\n")
				if i == 0 && f.Peer != part || i > 0 && !strings.Contains(text, part) {
					t.Errorf("on %s: %q lacks %q", f.Peer, text, part)
				}
			}
		})
	}
}
