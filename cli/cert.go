package cli

import (
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app"
	"github.com/trivet-ha/trivet/pki"
)

func (p *program) certCommand() *cobra.Command {
	return group("cert", "Certificates of peers and operators", p.certIssue(), p.certStatus(), p.certCA())
}

func (p *program) certIssue() *cobra.Command {
	return &cobra.Command{
		Use:   "issue-operator NAME",
		Short: "Issue a certificate with which an operator may control the cluster through the peers' port",
		Long: "Issue a certificate with which an operator may control the cluster through the peers' port, as through the socket.\n" +
			"Certificate, CA and key are printed as PEM, in this order; the key is not kept. Redirect it to a file that only its owner can read.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			var made api.Credentials
			if err := p.peer().call(c.Context(), "POST", "/v1/operators/"+url.PathEscape(args[0]), nil, &made); err != nil {
				return err
			}
			if p.format == "json" || p.format == "yaml" {
				return document(p.out, p.format, made)
			}
			_, err := fmt.Fprint(p.out, made.Cert, made.CA, made.Key)
			return err
		},
	}
}

func (p *program) certCA() *cobra.Command {
	return &cobra.Command{
		Use:   "ca",
		Short: "Print the cluster's CA, for clients of the API; reads the data directory alone",
		Long: "Print the certificate of the cluster's CA (PEM). It is no secret. Where api.tls.certificate is cluster, clients of the API that trust it,\n" +
			"as curl does with --cacert, trust every peer. It is the same on all peers, as long as the cluster lives.",
		Example: "  trivet cert ca > /etc/trivet/ca.pem\n  trivet introspection list --server https://192.0.2.1:5050 --cacert /etc/trivet/ca.pem",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			conf, err := p.load()
			if err != nil {
				return err
			}
			_, cred, err := app.Peek(conf.DataDir)
			if err != nil {
				return dirError(err)
			}
			_, err = p.out.Write(pki.EncodeCertificate(cred.CA))
			return err
		},
	}
}

// certificate is one line of cert status.
type certificate struct {
	Name      string `json:"name"`
	NotBefore string `json:"not_before"`
	NotAfter  string `json:"not_after"`
	ExpiresIn string `json:"expires_in"`
}

func (p *program) certStatus() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show this peer's certificate and the cluster's CA; reads the data directory alone",
		Long: "Show this peer's certificate and the cluster's CA, and until when they are good. It reads the data directory alone, also while the peer runs\n" +
			"or cannot. Peers renew their own certificates.",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			conf, err := p.load()
			if err != nil {
				return err
			}
			id, cred, err := app.Peek(conf.DataDir)
			if err != nil {
				return dirError(err)
			}
			rows := []certificate{
				p.certificate("peer "+id.Name, cred.Leaf.NotBefore, cred.Leaf.NotAfter),
				p.certificate("CA of cluster "+id.Cluster, cred.CA.NotBefore, cred.CA.NotAfter),
			}
			return table(p.out, p.format, rows, func(c certificate) string { return c.Name },
				column[certificate]{"CERTIFICATE", false, func(c certificate) string { return c.Name }},
				column[certificate]{"VALID UNTIL", false, func(c certificate) string { return c.NotAfter }},
				column[certificate]{"FOR ANOTHER", false, func(c certificate) string { return c.ExpiresIn }},
				column[certificate]{"SINCE", true, func(c certificate) string { return c.NotBefore }},
			)
		},
	}
}

func (p *program) certificate(name string, from, to time.Time) certificate {
	return certificate{
		Name: name, NotBefore: from.UTC().Format(time.RFC3339), NotAfter: to.UTC().Format(time.RFC3339),
		ExpiresIn: to.Sub(p.wall()).Round(time.Minute).String(),
	}
}
