package datadir

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/trivet-ha/trivet/cluster"
)

// A join with Replace that fails leaves the data of the earlier peer, which may be a vote that
// the others need, where it is, unless the cluster may have admitted the host: not through a
// peer that has no leader, none that cannot tell, and none that refuses when it is asked to
// admit. Where it is set aside the error names the folder.
func TestFailedJoinKeepsTheEarlierPeer(t *testing.T) {
	answers := func(path string, status int) func(*admitting) {
		return func(a *admitting) { a.answers = map[string]int{path: status} }
	}
	for name, test := range map[string]struct {
		set   func(*admitting)
		aside bool
	}{
		"no leader":           {set: func(a *admitting) { a.leaderless = true }},
		"a peer of v0.2.0":    {set: answers(cluster.PathSettings, http.StatusNotFound)},
		"refused when asked":  {set: answers(cluster.PathJoin, http.StatusConflict)},
		"no leader any more":  {set: answers(cluster.PathJoin, http.StatusServiceUnavailable), aside: true},
		"the request is lost": {set: func(a *admitting) { a.lose.request = true }, aside: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStruck(t, true)
			test.set(s.by)
			d, err := openDataDir(s.root, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			err = s.admitted(d)
			if err == nil {
				t.Fatal("vote-set-aside: it joined")
			}
			has, missing := d.HasPeer()
			if missing != nil || has == test.aside {
				t.Errorf("vote-set-aside: the join failed with %v; the earlier peer is in its place: %v, want %v (%v)", err, has,
					!test.aside, missing)
			}
			var aside *AsideError
			if errors.As(err, &aside) != test.aside {
				t.Fatalf("aside-is-named: %v says that it was set aside: %v", err, aside != nil)
			}
			if aside == nil {
				return
			}
			if _, err := os.Stat(filepath.Join(aside.Folder, peerFile)); err != nil {
				t.Errorf("aside-is-named: %v", err)
			}
		})
	}
}
