package ironic

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/httpbasic"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/noauth"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/internal/bounds"
	"github.com/trivet-ha/trivet/internal/keystone"
	"github.com/trivet-ha/trivet/internal/servicecreds"
)

// microversion is what Trivet speaks, fixed: every Ironic since 18.2 knows it,
// and what a later one changes cannot surprise us.
const microversion = "1.78"

// A session is where Ironic is, and what every request shows. It is not changed
// any more once others see it, and may be used concurrently.
type session struct {
	base   string      // URL that paths are below, with a slash at its end
	header http.Header // credentials among it
}

// sessions keeps the session in use and how it is come by.
type sessions struct {
	*servicecreds.Session[session]
	transport http.RoundTripper
	renewable bool // whether logging in again may change anything
}

// refused reports whether a login failed because of the credentials.
func refused(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && (e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden)
}

// newSessions returns the sessions of conf over the transport. Nothing is sent.
func newSessions(conf config.Ironic, t http.RoundTripper) (*sessions, error) {
	secret := password(conf)
	if _, err := secret.Read(); err != nil {
		return nil, err // said at the start rather than by the first call
	}
	s := &sessions{transport: t}
	var logIn func(context.Context) (*session, error)
	switch conf.AuthType {
	case "keystone":
		logIn, s.renewable = viaKeystone{conf, secret, t}.logIn, true
	case "http_basic":
		logIn = func(context.Context) (*session, error) { return basic(conf, secret) }
		s.renewable = conf.PasswordFile != ""
	case "none":
		logIn = func(context.Context) (*session, error) { return open(conf) }
	default:
		return nil, fmt.Errorf("ironic.auth_type: %q is not known; write none, http_basic or keystone", conf.AuthType)
	}
	s.Session = servicecreds.NewSession(logIn, refused)
	return s, nil
}

// password is the one to log in with. A file is read each time, so that a new
// password needs no restart.
func password(conf config.Ironic) servicecreds.Password {
	return servicecreds.Password{Text: conf.Password.Reveal(), File: conf.PasswordFile, Option: "ironic.password_file",
		Reads: new(bounds.Calls)}
}

func open(conf config.Ironic) (*session, error) {
	sc, err := noauth.NewBareMetalNoAuth(noauth.EndpointOpts{IronicEndpoint: conf.Endpoint})
	if err != nil {
		return nil, fmt.Errorf("ironic.endpoint: %w", err)
	}
	return newSession(sc), nil
}

func basic(conf config.Ironic, password servicecreds.Password) (*session, error) {
	secret, err := password.Read()
	if err != nil {
		return nil, err
	}
	sc, err := httpbasic.NewBareMetalHTTPBasic(httpbasic.EndpointOpts{
		IronicEndpoint: conf.Endpoint, IronicUser: conf.Username, IronicUserPassword: secret,
	})
	if err != nil {
		return nil, fmt.Errorf("ironic.endpoint, ironic.username, ironic.password: %w", err)
	}
	return newSession(sc), nil
}

// newSession makes the session of a gophercloud client that knows the credentials.
func newSession(sc *gophercloud.ServiceClient) *session {
	agent := gophercloud.UserAgent{}
	agent.Prepend("trivet")
	s := &session{base: strings.TrimSuffix(strings.TrimRight(sc.Endpoint, "/"), "/v1") + "/v1/", header: http.Header{
		"Accept":                         {contentJSON},
		"User-Agent":                     {agent.Join()},
		"Openstack-Api-Version":          {"baremetal " + microversion},
		"X-Openstack-Ironic-Api-Version": {microversion},
	}}
	for _, credentials := range []map[string]string{sc.MoreHeaders, sc.AuthenticatedHeaders()} {
		for name, value := range credentials {
			s.header.Set(name, value)
		}
	}
	return s
}

// viaKeystone logs in by password at the identity service.
type viaKeystone struct {
	conf      config.Ironic
	password  servicecreds.Password
	transport http.RoundTripper
}

func (k viaKeystone) logIn(ctx context.Context) (*session, error) {
	at := k.conf.Keystone
	grant, err := keystone.Account{
		URL: at.AuthURL, User: k.conf.Username, UserDomain: at.UserDomain,
		Project: at.Project, ProjectDomain: at.ProjectDomain, Password: k.password,
	}.LogIn(ctx, k.transport)
	if err != nil {
		return nil, fromKeystone(k.conf.Login(), err)
	}
	endpoint := k.conf.Endpoint
	if endpoint == "" {
		catalogue, err := grant.Catalogue()
		if err != nil {
			return nil, garbled(grant.Call, "Keystone's catalogue cannot be read: %v", err)
		}
		if endpoint, err = locate(catalogue, at.Region); err != nil {
			return nil, garbled(grant.Call, "%v", err)
		}
	}
	fresh := &gophercloud.ProviderClient{TokenID: grant.Token}
	return newSession(&gophercloud.ServiceClient{ProviderClient: fresh, Endpoint: endpoint}), nil
}

// fromKeystone makes of a login that failed what callers of Ironic meet: the call that it was for
// was not sent.
func fromKeystone(login string, err error) error {
	e, ok := errors.AsType[*keystone.Error](err)
	if !ok {
		return err
	}
	failed := describe("Keystone", login, e.Call, e.Err)
	if errors.Is(err, keystone.ErrNoToken) {
		failed = garbled(e.Call, "%v", err)
	}
	failed.Err = errors.Join(ErrNotSent, failed.Err)
	return failed
}

// locate finds the bare-metal service in the catalogue: its internal endpoint,
// else the public one, as ironic-inspector does.
func locate(entries []tokens.CatalogEntry, region string) (string, error) {
	for _, kind := range []string{"internal", "public"} {
		var found []string
		for _, entry := range entries {
			if entry.Type == "baremetal" {
				found = append(found, endpoints(entry, kind, region)...)
			}
		}
		slices.Sort(found)
		switch found = slices.Compact(found); {
		case len(found) > 1:
			return "",
				fmt.Errorf(
					"the catalogue of Keystone has %d %s endpoints of type baremetal; write ironic.region or ironic.endpoint",
					len(found), kind)
		case len(found) == 1:
			u, err := url.Parse(found[0])
			if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
				return "",
					fmt.Errorf(
						"the catalogue of Keystone has %.200q where the URL of Ironic should be; mend it, or write ironic.endpoint",
						found[0])
			}
			return found[0], nil
		}
	}
	return "",
		errors.New(
			"the catalogue of Keystone has no endpoint of type baremetal; check ironic.region, or write ironic.endpoint")
}

func endpoints(entry tokens.CatalogEntry, kind, region string) []string {
	var urls []string
	for _, e := range entry.Endpoints {
		if e.Interface == kind && (region == "" || e.Region == region || e.RegionID == region) {
			urls = append(urls, e.URL)
		}
	}
	return urls
}
