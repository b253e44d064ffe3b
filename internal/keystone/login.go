package keystone

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"github.com/trivet-ha/trivet/internal/servicecreds"
)

// Account is a user of Keystone with a password, in one project. All fields are
// needed.
type Account struct {
	URL                    string // of Keystone, with or without /v3
	User, UserDomain       string // by name
	Project, ProjectDomain string // by name
	Password               servicecreds.Password
}

// LogIn reads the password and shows it to Keystone, once. An error of
// Keystone's, or of the way to it, is an *Error.
func (a Account) LogIn(ctx context.Context, transport http.RoundTripper) (Grant, error) {
	secret, err := a.Password.Read()
	if err != nil {
		return Grant{}, err
	}
	return LogIn(ctx, transport, a.URL, tokens.AuthOptions{
		Username: a.User, Password: secret, DomainName: a.UserDomain,
		Scope: tokens.Scope{ProjectName: a.Project, DomainName: a.ProjectDomain},
	})
}

// Grant is what Keystone gave for a login.
type Grant struct {
	Token   string
	Expires time.Time // by Keystone's clock; zero if it did not say
	Call    string    // that was made for it

	result tokens.CreateResult
}

// Catalogue is the list of services that came with the token.
func (g Grant) Catalogue() ([]tokens.CatalogEntry, error) {
	catalogue, err := g.result.ExtractServiceCatalog()
	if err != nil {
		return nil, err
	}
	return catalogue.Entries, nil
}

// ErrNoToken is part of the error about a login that was taken and gave no token.
var ErrNoToken = errors.New("no token came with the answer to the login; is the URL that of Keystone?")

// LogIn makes one login as the options say. An error of Keystone's, or of the
// way to it, is an *Error.
func LogIn(ctx context.Context, transport http.RoundTripper, url string, o tokens.AuthOptions) (Grant, error) {
	identity, err := service(transport, url)
	if err != nil {
		return Grant{}, err
	}
	g := Grant{Call: "POST " + identity.Endpoint + "auth/tokens", result: tokens.Create(ctx, identity, &o)}
	if g.Token, err = g.result.ExtractTokenID(); err != nil {
		return Grant{}, &Error{Call: g.Call, Err: err}
	}
	if g.Token == "" {
		return Grant{}, &Error{Call: g.Call, Err: ErrNoToken}
	}
	if body, err := g.result.ExtractToken(); err == nil {
		g.Expires = body.ExpiresAt // without it a token serves until it is refused
	}
	return g, nil
}

// service is a client for Keystone that follows no redirect: that would take
// passwords and tokens along.
func service(transport http.RoundTripper, url string) (*gophercloud.ServiceClient, error) {
	provider, err := openstack.NewClient(url)
	if err != nil {
		return nil, fmt.Errorf("URL of Keystone: %w", err)
	}
	provider.HTTPClient = http.Client{Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	provider.UserAgent.Prepend("trivet")
	identity, err := openstack.NewIdentityV3(provider, gophercloud.EndpointOpts{})
	if err != nil {
		return nil, fmt.Errorf("URL of Keystone: %w", err)
	}
	return identity, nil
}
