package app

import (
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/doctor"
)

// TestDoctorComparesConfigurations: what has to be alike stands in the facts, also
// while it is; doctor finds what is not, and no secret is in them.
func TestDoctorComparesConfigurations(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a peer")
	}
	r := newReloadable(t)
	r.must("ironic.username", "trivet", "ironic.password", "quiet word")
	facts := func(name string) doctor.Facts {
		f := doctor.Facts{Peer: name}
		addConfigured(&f, r.conf.Current(), r.core.Store.View().Secrets().CAKey)
		return f
	}
	usual, same := facts("h1"), facts("h3")
	told := make(map[string]bool)
	for _, c := range usual.Configured {
		told[c.Key] = true
		if strings.Contains(c.Line, "quiet word") {
			t.Errorf("the facts hold a secret: %s", c.Line)
		}
	}
	for _, o := range config.Options() {
		if want := o.Extent == config.AllHosts && o.AliasOf == ""; told[o.Key] != want {
			t.Errorf("%s: told %t, want %t", o.Key, told[o.Key], want)
		}
	}
	r.must("inspection.report_expiry", "2h", "ironic.password", "another word")
	found, err := doctor.Judge([]doctor.Facts{usual, facts("h2"), same}, []string{"config"})
	if err != nil || len(found) != 2 || found[0].Peer != "h2" || found[1].Peer != "h2" ||
		!strings.Contains(found[0].Text+found[1].Text, "inspection.report_expiry is 2h") ||
		!strings.Contains(found[0].Text+found[1].Text, "ironic.password") {
		t.Errorf("config-differs-is-found: %+v, %v", found, err)
	}
}
