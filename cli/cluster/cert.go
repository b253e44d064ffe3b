package cluster

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/cli/local"
	"github.com/trivet-ha/trivet/cli/options"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/cluster/pki"
)

// Cert is 'trivet cert'.
func Cert(t *term.Terminal, peer term.Peer, set *options.Set) *cobra.Command {
	issue := term.Verb[admin.Credentials]{
		Use:   "issue-operator NAME",
		Short: "Issue a certificate with which an operator may control the cluster through the peers' port",
		Long: "Issue a certificate with which an operator may control the cluster through the peers' port, as through the socket.\n" +
			"Certificate, CA and key are printed as PEM, in this order; the key is not kept. Redirect it to a file that only its owner can read.\n" +
			"It is good for 90 days, for every command that takes --peer and --operator-cert. 'trivet cert revoke-operator' ends it before.",
		Example: "  (umask 077; trivet cert issue-operator ann > ann.pem)\n  trivet status --peer h1 --operator-cert ann.pem",
		Method:  "POST", Path: "/v1/operators/{NAME}", Dry: t, Of: "operators",
		Show: func(made admin.Credentials, _ []string) error {
			return t.Show(made, func() error {
				_, err := fmt.Fprint(t.Out, made.Cert, made.CA, made.Key)
				return err
			})
		},
	}.Command(peer)
	revoke := term.Verb[term.None]{
		Use:   "revoke-operator NAME",
		Short: "Void every certificate that was issued to an operator up to now",
		Long: "Void every certificate that was issued to an operator up to now, also by older versions of trivet. A new one may be issued under the same name.\n" +
			"Each peer refuses them as soon as it has this from the log; one that is cut off from the others does when it is back.",
		Example: "trivet cert revoke-operator ann",
		Method:  "DELETE", Path: "/v1/operators/{NAME}", Dry: t, Of: "operators",
		Show: t.Said("what was issued to %s up to now is void"),
	}.Command(peer)
	renew := term.Verb[admin.Certificate]{
		Use:   "renew",
		Short: "Give this peer a new key and certificate at once",
		Long: "Give the peer of this host, or of --peer, a new key and certificate at once, also without a leader or a quorum. Peers do so by themselves in time,\n" +
			"and when they are started; this is for a key that others may have seen, and to find out why a renewal does not come. The old certificate\n" +
			"stays good until it ends: only 'trivet remove' shuts its owner out.",
		Example: "trivet cert renew",
		Method:  "POST", Path: "/v1/certificates/renewal", Dry: t, Of: "certificate",
		Show: func(made admin.Certificate, _ []string) error {
			t.Say("new connections use the new certificate")
			return showCertificates(t, []admin.Certificate{made})
		},
	}.Command(peer)
	return term.Group("cert", "Certificates of peers and operators", issue, revoke, certStatus(t, peer, set), renew,
		certCA(t, set))
}

func certCA(t *term.Terminal, set *options.Set) *cobra.Command {
	return &cobra.Command{
		Use:   "ca",
		Short: "Print the cluster's CA, for clients of the API; reads the data directory alone",
		Long: "Print the certificate of the cluster's CA (PEM). It is no secret. Where api.tls.certificate is cluster, clients of the API that trust it,\n" +
			"as curl does with --cacert, trust every peer. It is the same on all peers, as long as the cluster lives.",
		Example: "  trivet cert ca > /etc/trivet/ca.pem\n  trivet introspection list --server https://192.0.2.1:5050 --cacert /etc/trivet/ca.pem",
		RunE: func(*cobra.Command, []string) error {
			conf, err := set.Load()
			if err != nil {
				return err
			}
			_, cred, err := datadir.Peek(conf.DataDir)
			if err != nil {
				return local.DirError(err)
			}
			_, err = t.Out.Write(pki.EncodeCertificate(cred.CA))
			return err
		},
	}
}
