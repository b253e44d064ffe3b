package app

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/app/health"
	"github.com/trivet-ha/trivet/haconfig"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
	"github.com/trivet-ha/trivet/lease/elector"
	"github.com/trivet-ha/trivet/raftstore"
)

// TestEachRouteHasAClass holds the class of every route of the peers' port, the webhook
// and the elector against a list that a reader of a change sees; those of the API are in
// package api. UPDATE_GOLDEN=1 writes the list.
func TestEachRouteHasAClass(t *testing.T) {
	p := &Peer{core: &Core{Store: new(raftstore.Store)}, self: new(health.Self),
		serving: &serving{doorway: &doorway{admission: admission.NewController()}}}
	p.opts.Logger = slog.New(slog.DiscardHandler)
	p.admin = p.newAdmin()
	var all []string
	for server, routes := range map[string]map[string]admission.Class{
		"peers": p.peerRoutes().Classes(), "webhook": haconfig.Routes(), "elector": {"* /": elector.Class},
	} {
		for route, class := range routes {
			if class == 0 {
				t.Errorf("route-class: %s %s has no class", server, route)
			}
			method, path, _ := strings.Cut(route, " ")
			all = append(all, fmt.Sprintf("%-8s %-7s %-42s %v", server, method, path, class))
		}
	}
	slices.Sort(all)
	text := strings.Join(all, "\n") + "\n"
	name := filepath.Join("testdata", "classes.txt")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil || string(want) != text {
		t.Errorf("route-class: %v; the classes of routes are not those of %s, but\n%s", err, name, text)
	}
}
