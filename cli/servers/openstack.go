package servers

import (
	"cmp"
	"context"
	"log/slog"

	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/internal/keystone"
	"github.com/trivet-ha/trivet/internal/servicecreds"
)

// tokenSource returns the source of a Keystone token where a peer asks for one: the
// flag, or the variables that every client of OpenStack reads; nil if neither is set.
func (f *Flags) tokenSource() (func(context.Context) (string, error), error) {
	if token := cmp.Or(f.token, f.term.Variable("OS_TOKEN", "")); token != "" {
		return func(context.Context) (string, error) { return token, nil }, nil
	}
	url := f.term.Variable("OS_AUTH_URL", "")
	if url == "" {
		return nil, nil
	}
	transport := f.term.Transport
	if transport == nil {
		secure, err := servicecreds.OpenTLS(servicecreds.Files{
			CA: f.term.Variable("OS_CACERT", ""), Cert: f.term.Variable("OS_CERT", ""), Key: f.term.Variable("OS_KEY", ""),
			Section: "keystone",
		}, slog.New(slog.DiscardHandler)) // a command is over before a file changes
		if err != nil {
			return nil, term.Fail(term.ExitUsage, "", "OS_CACERT, OS_CERT, OS_KEY: %w", err)
		}
		transport = keystone.NewTransport(secure)
	}
	return func(ctx context.Context) (string, error) {
		options, err := f.openstackUser()
		if err != nil {
			return "", err
		}
		grant, err := keystone.LogIn(ctx, transport, url, options)
		if keystone.Refused(err) {
			return "", term.Fail(term.ExitNotAuthorised, "check OS_USERNAME, OS_PASSWORD, the project and the domains",
				"OS_AUTH_URL %s: %w", url, err)
		}
		if err != nil {
			return "", term.Fail(term.ExitFailed, "check OS_AUTH_URL and OS_CACERT", "OS_AUTH_URL %s: %w", url, err)
		}
		return grant.Token, nil
	}, nil
}

// openstackUser reads who logs in, and what for, from the variables of an openrc
// file. gophercloud's own reader knows nothing of two domains, one of the user
// and one of the project, which every such file names.
func (f *Flags) openstackUser() (tokens.AuthOptions, error) {
	variable := func(names ...string) string {
		for _, name := range names {
			if value := f.term.Variable(name, ""); value != "" {
				return value
			}
		}
		return ""
	}
	o := tokens.AuthOptions{
		ApplicationCredentialID:     variable("OS_APPLICATION_CREDENTIAL_ID"),
		ApplicationCredentialName:   variable("OS_APPLICATION_CREDENTIAL_NAME"),
		ApplicationCredentialSecret: variable("OS_APPLICATION_CREDENTIAL_SECRET"),
		Username:                    variable("OS_USERNAME"),
		Password:                    variable("OS_PASSWORD"),
	}
	if o.UserID = variable("OS_USER_ID", "OS_USERID"); o.UserID != "" {
		o.Username = ""
	} else if o.Username != "" {
		o.DomainID, o.DomainName = domain(variable("OS_USER_DOMAIN_ID", "OS_DOMAIN_ID"),
			variable("OS_USER_DOMAIN_NAME", "OS_DOMAIN_NAME"))
	}
	if o.ApplicationCredentialSecret != "" {
		o.Password = ""
		return o, nil // it has a scope of its own
	}
	if o.Password == "" || o.Username == "" && o.UserID == "" {
		return o, term.Fail(term.ExitUsage, term.OpenstackHint, "OS_AUTH_URL is set, and OS_USERNAME or OS_PASSWORD is not")
	}
	switch {
	case variable("OS_SYSTEM_SCOPE") != "":
		o.Scope.System = true
	case variable("OS_PROJECT_ID", "OS_TENANT_ID") != "":
		o.Scope.ProjectID = variable("OS_PROJECT_ID", "OS_TENANT_ID")
	case variable("OS_PROJECT_NAME", "OS_TENANT_NAME") != "":
		o.Scope.ProjectName = variable("OS_PROJECT_NAME", "OS_TENANT_NAME")
		o.Scope.DomainID, o.Scope.DomainName = domain(variable("OS_PROJECT_DOMAIN_ID", "OS_DOMAIN_ID"),
			variable("OS_PROJECT_DOMAIN_NAME", "OS_DOMAIN_NAME"))
	}
	return o, nil
}

// domain is one by its ID or by its name, never both; Keystone's first one has
// the ID default.
func domain(id, name string) (theID, theName string) {
	switch {
	case id != "":
		return id, ""
	case name != "":
		return "", name
	}
	return "default", ""
}
