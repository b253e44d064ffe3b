//go:build e2e

package labtest

import (
	"cmp"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/testenv"
)

// pagesEnv names the variable with a regular expression of the pages to run
// besides docs/install.md, for whoever writes one.
const pagesEnv = "TRIVET_E2E_PAGES"

// quickPages are those that are run in every run of the tests: the others lose
// hosts, upgrade them or take them down, which takes minutes.
const quickPages = "install|migrate|operate|peers|pxe|api|failover|lease|metrics|configuration"

// TestDocuments does what README.md and docs/*.md say, word for word, on hosts of
// Debian with systemd: from bare hosts to a cluster, through every page, to bare
// hosts again.
func TestDocuments(t *testing.T) {
	t.Parallel()
	testenv.NeedRoot(t, "ip", "mmdebstrap", "systemd-nspawn", "nsenter", "dpkg-deb", "xz")
	usual := longer(quickPages, ".")
	only := regexp.MustCompile(cmp.Or(os.Getenv(pagesEnv), usual))
	began := time.Now()
	p := newPagesSite(t, buildPackage(t))
	for _, name := range []string{"h1", "h2", "h3"} {
		p.host(name)
	}
	t.Logf("hosts and package: %v", time.Since(began).Round(100*time.Millisecond))
	for i, d := range pages(t) {
		if i > 0 && !only.MatchString(d.name) {
			continue
		}
		p.run(d)
	}
	t.Logf("all: %v", time.Since(began).Round(100*time.Millisecond))
}
