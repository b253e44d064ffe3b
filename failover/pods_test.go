package failover

import (
	"strings"
	"testing"
)

func TestWhatIsKept(t *testing.T) {
	safe := Settings{Mode: ModeSafe, Remedy: Remedy{Pods: func(p Pod) bool { return p.Namespace != "left" }}}
	compatible := Settings{Mode: ModeNooBaa, NooBaa: NooBaa{Namespace: "noobaa", Exempt: []string{"noobaa-db-pg-"}}}
	ours := map[string]string{noobaaLabel: noobaaApp}
	for _, test := range []struct {
		name string
		s    Settings
		pod  Pod
		want string // part of why; "": it is deleted
	}{
		{"plain", safe, Pod{Namespace: "a"}, ""},
		{"DaemonSet", safe, Pod{Namespace: "a", DaemonSet: true}, "DaemonSet"},
		{"static", safe, Pod{Namespace: "a", Mirror: true}, "static"},
		{"tolerates", safe, Pod{Namespace: "a", ToleratesOutOfService: true}, "tolerates"},
		{"ended", safe, Pod{Namespace: "a", Done: true}, "ended"},
		{"ended, and its deletion hangs", safe, Pod{Namespace: "a", Done: true, Deleting: true}, ""},
		{"left out", safe, Pod{Namespace: "left"}, "failover.namespaces"},
		{"no filter", Settings{Mode: ModeSafe}, Pod{Namespace: "left"}, ""},
		{"NooBaa's", compatible, Pod{Namespace: "noobaa", Name: "core", Labels: ours, DaemonSet: true}, ""},
		{"another namespace", compatible, Pod{Namespace: "a", Labels: ours}, "namespace"},
		{"no label", compatible, Pod{Namespace: "noobaa"}, "label"},
		{"exempt", compatible, Pod{Namespace: "noobaa", Name: "noobaa-db-pg-0", Labels: ours}, "exempt"},
	} {
		if got := test.s.Keeps(test.pod); (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}
