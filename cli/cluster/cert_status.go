package cluster

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/cli/local"
	"github.com/trivet-ha/trivet/cli/options"
	"github.com/trivet-ha/trivet/cli/term"
)

func certStatus(t *term.Terminal, peer term.Peer, set *options.Set) *cobra.Command {
	var offline bool
	c := &cobra.Command{
		Use:   "status",
		Short: "Show the certificates of all peers, the cluster's CA and the operators",
		Long: "Show the certificate that each peer shows at this moment, the cluster's CA, and the operators who were issued certificates, or had them revoked.\n" +
			"Where no peer runs, and with --offline, it reads the data directory of this host alone. Peers renew their own certificates, two thirds through\n" +
			"their life of 30 days. It exits with 1 if something is amiss.",
		Example: "trivet cert status",
	}
	c.Flags().BoolVar(&offline, "offline", false, "read the data directory of this host alone")
	c.RunE = func(c *cobra.Command, _ []string) error {
		var rows []admin.Certificate
		err := term.ErrNoPeerHere
		if !offline {
			err = peer.Call(c.Context(), "GET", "/v1/certificates", nil, &rows)
		}
		if errors.Is(err, term.ErrNoPeerHere) {
			if !offline {
				t.Say("no peer runs here; this is what the data directory holds")
			}
			rows, err = certificatesHere(set)
		}
		if err != nil {
			return err
		}
		if err := showCertificates(t, rows); err != nil {
			return err
		}
		for _, r := range rows {
			if r.Problem != "" {
				return term.Fail(term.ExitFailed, "on that host: 'trivet cert renew', and see its log; of the CA: docs/security.md",
					"%s %s: %s", r.Role, r.Name, r.Problem)
			}
		}
		return nil
	}
	return c
}

func showCertificates(t *term.Terminal, rows []admin.Certificate) error {
	type row struct {
		Key                                 string `col:"name"`
		Certificate, ValidUntil, ForAnother string
		Since                               string `col:"wide"`
		VoidUpTo, Problem                   string
	}
	return t.Show(rows, term.Each(rows, func(c admin.Certificate) row {
		what := c.Role + " " + c.Name
		if c.Role == "ca" {
			what = "CA of cluster " + c.Name
		}
		return row{c.Name, what, c.NotAfter, left(t, c.NotAfter), c.NotBefore, c.RevokedUpTo, c.Problem}
	}))
}

// left is how long until a moment.
func left(t *term.Terminal, moment string) string {
	at, err := time.Parse(time.RFC3339, moment)
	if err != nil {
		return "-"
	}
	return at.Sub(t.Wall()).Round(time.Minute).String()
}

// certificatesHere reads the data directory.
func certificatesHere(set *options.Set) ([]admin.Certificate, error) {
	conf, err := set.Load()
	if err != nil {
		return nil, err
	}
	id, cred, err := datadir.Peek(conf.DataDir)
	if err != nil {
		return nil, local.DirError(err)
	}
	row := func(role, name string, from, to time.Time) admin.Certificate {
		return admin.Certificate{Role: role, Name: name, NotBefore: from.UTC().Format(time.RFC3339),
			NotAfter: to.UTC().Format(time.RFC3339)}
	}
	return []admin.Certificate{
		row("peer", id.Name, cred.Leaf.NotBefore, cred.Leaf.NotAfter),
		row("ca", id.Cluster, cred.CA.NotBefore, cred.CA.NotAfter),
	}, nil
}
