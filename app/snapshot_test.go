package app

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/fsm"
)

func TestForeignSnapshotsAreRefused(t *testing.T) {
	const here, there = "11111111-2222-4333-8444-555555555555", "22222222-2222-4333-8444-555555555555"
	founded := func(id string) *fsm.State {
		s, err := fsm.Founded(fsm.Found{
			ClusterID: id, CACert: []byte("-----BEGIN X"), CAKey: []byte("-----BEGIN X"), GossipKey: make([]byte, 32),
			Member: fsm.Member{ID: "a", Name: "h1", Address: "192.0.2.1:7350", Version: fsm.Version},
		}, time.UnixMilli(1))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	recovered := founded(here)
	if err := recovered.Refound(fsm.Refound{Index: 9, NewIncarnation: true, Survivor: "a"}); err != nil {
		t.Fatal(err)
	}
	ours := founded(here).View()
	for name, test := range map[string]struct {
		theirs fsm.View
		from   string
		said   string // "": it is taken
	}{
		"our own":                       {founded(here).View(), "", ""},
		"another cluster's":             {founded(there).View(), "", "--from-cluster " + there},
		"another cluster's, named":      {founded(there).View(), there, ""},
		"another cluster's, misnamed":   {founded(there).View(), here, "as was said"},
		"our own, misnamed":             {founded(here).View(), there, "as was said"},
		"of those who went on":          {recovered.View(), "", "incarnation 2"},
		"of those who went on, named":   {recovered.View(), here, ""},
		"of nobody":                     {fsm.New().View(), "", "of no cluster"},
		"of nobody, and somebody named": {fsm.New().View(), here, "of no cluster"},
	} {
		err := foreign(test.theirs, ours, test.from)
		var refused *api.Error
		switch {
		case test.said == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case test.said == "":
		case !errors.As(err, &refused) || !strings.Contains(refused.Message+" "+refused.Hint, test.said) || refused.Status == http.StatusInternalServerError:
			t.Errorf("foreign-is-refused: %s: %v, want %q", name, err, test.said)
		}
	}
	if err := foreign(ours, recovered.View(), ""); err != nil {
		t.Errorf("a snapshot of before the recovery: %v", err)
	}
}
