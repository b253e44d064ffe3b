package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/cli/options"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/internal/program"
)

// browserLimit bounds xdg-open, which hands the address to a browser and ends.
const browserLimit = 10 * time.Second

// openPage prints the address of a peer's page and has the user's browser show it.
func openPage(ctx context.Context, t *term.Terminal, peer term.Peer, set *options.Set, s api.Status) error {
	var all []admin.Member
	if err := peer.Call(ctx, "GET", "/v1/members", nil, &all); err != nil {
		return err
	}
	at := slices.IndexFunc(all, func(m admin.Member) bool { return m.ID == s.ID })
	conf, err := set.Peruse()
	switch {
	case err != nil:
		return err
	case !conf.API.UI:
		return term.Fail(term.ExitFailed, "write 'api.ui: true' and 'systemctl reload trivet'",
			"open the page: api.ui is false")
	case at < 0 || all[at].API == "":
		return term.Fail(term.ExitFailed, "see 'trivet members'",
			"open the page: the address of the API of %s is not known", s.Name)
	}
	address := "http://" + all[at].API + "/ui/"
	if conf.API.TLS.Certificate != "" {
		address = "https://" + all[at].API + "/ui/"
	}
	fmt.Fprintln(t.Out, address)
	path, err := program.Find("xdg-open")
	if err == nil {
		_, err = program.Run(ctx, browserLimit, path, address)
	}
	if err != nil {
		return term.Fail(term.ExitFailed, "open that address yourself, also from another host", "open a browser: %w", err)
	}
	return nil
}
