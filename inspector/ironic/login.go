package ironic

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/httpbasic"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/noauth"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/inspector"
)

// microversion is what Trivet speaks, fixed: every Ironic since 18.2 knows it,
// and what a later one changes cannot surprise us.
const microversion = "1.78"

// loginPause is how long refused credentials are not shown again. Every call
// would otherwise repeat them, and a Keystone that counts would lock the user.
const loginPause = 5 * time.Second

// maxPassword bounds a password, in bytes.
const maxPassword = 4096

// A session is where Ironic is, and what every request shows. It is not changed
// any more once others see it, and may be used concurrently.
type session struct {
	base   string      // URL that paths are below, with a slash at its end
	header http.Header // credentials among it
}

// sessions keeps the session in use and logs in when there is none: never
// before the first call, so that Ironic and Keystone may start later than we.
type sessions struct {
	transport http.RoundTripper
	logIn     func(context.Context) (*session, error)
	renewable bool // whether logging in again may change anything
	current   atomic.Pointer[session]
	turn      chan struct{} // one place: whoever logs in holds it

	mu        sync.Mutex // guards the rest
	refusal   error      // of the last login, if it was one of the credentials
	refusedAt time.Time
}

// get returns the session, after logging in if need be. Callers who come
// meanwhile wait; if the login fails they try for themselves, because it was
// made in somebody else's context.
func (s *sessions) get(ctx context.Context) (*session, error) {
	if sc := s.current.Load(); sc != nil {
		return sc, nil
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, fmt.Errorf("somebody else's login goes on: %w", context.Cause(ctx))
	}
	if sc := s.current.Load(); sc != nil {
		return sc, nil
	}
	if err := s.pausing(); err != nil {
		return nil, err
	}
	sc, err := s.logIn(ctx)
	if err != nil {
		s.note(err)
		return nil, err
	}
	s.current.Store(sc)
	return sc, nil
}

// drop forgets a session that Ironic refused, unless another one took its place.
func (s *sessions) drop(sc *session) { s.current.CompareAndSwap(sc, nil) }

func (s *sessions) pausing() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.refusedAt) < loginPause {
		return s.refusal
	}
	return nil
}

// note remembers a refusal of the credentials; other failures may be over soon.
func (s *sessions) note(err error) {
	var e *inspector.IronicError
	if errors.As(err, &e) && (e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.refusal, s.refusedAt = err, time.Now()
	}
}

// newSessions returns the sessions of conf over the transport. Nothing is sent.
func newSessions(conf config.Ironic, t http.RoundTripper) (*sessions, error) {
	if _, err := password(conf); err != nil {
		return nil, err // said at the start rather than by the first call
	}
	s := &sessions{transport: t, turn: make(chan struct{}, 1)}
	switch conf.AuthType {
	case "keystone":
		client := http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // a followed redirect takes the password along
		}}
		s.logIn, s.renewable = keystone{conf, client}.logIn, true
	case "http_basic":
		s.logIn = func(context.Context) (*session, error) { return basic(conf) }
		s.renewable = conf.PasswordFile != ""
	case "none":
		s.logIn = func(context.Context) (*session, error) { return open(conf) }
	default:
		return nil, fmt.Errorf("ironic.auth_type: %q is not known; write none, http_basic or keystone", conf.AuthType)
	}
	return s, nil
}

func open(conf config.Ironic) (*session, error) {
	sc, err := noauth.NewBareMetalNoAuth(noauth.EndpointOpts{IronicEndpoint: conf.Endpoint})
	if err != nil {
		return nil, fmt.Errorf("ironic.endpoint: %w", err)
	}
	return settle(sc), nil
}

func basic(conf config.Ironic) (*session, error) {
	secret, err := password(conf)
	if err != nil {
		return nil, err
	}
	sc, err := httpbasic.NewBareMetalHTTPBasic(httpbasic.EndpointOpts{
		IronicEndpoint: conf.Endpoint, IronicUser: conf.Username, IronicUserPassword: secret,
	})
	if err != nil {
		return nil, fmt.Errorf("ironic.endpoint, ironic.username, ironic.password: %w", err)
	}
	return settle(sc), nil
}

// settle makes the session of a gophercloud client that knows the credentials.
func settle(sc *gophercloud.ServiceClient) *session {
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

// keystone logs in by password at the identity service, version 3.
type keystone struct {
	conf   config.Ironic
	client http.Client
}

func (k keystone) logIn(ctx context.Context) (*session, error) {
	secret, err := password(k.conf)
	if err != nil {
		return nil, err
	}
	provider, err := openstack.NewClient(k.conf.Keystone.AuthURL)
	if err != nil {
		return nil, fmt.Errorf("ironic.auth_url: %w", err)
	}
	provider.HTTPClient = k.client
	identity, err := openstack.NewIdentityV3(provider, gophercloud.EndpointOpts{})
	if err != nil {
		return nil, fmt.Errorf("ironic.auth_url: %w", err)
	}
	result := tokens.Create(ctx, identity, &tokens.AuthOptions{
		Username: k.conf.Username, Password: secret, DomainName: k.conf.Keystone.UserDomain,
		Scope: tokens.Scope{ProjectName: k.conf.Keystone.Project, DomainName: k.conf.Keystone.ProjectDomain},
	})
	call := "POST " + identity.Endpoint + "auth/tokens"
	token, err := result.ExtractTokenID()
	if err != nil {
		return nil, describe("Keystone", call, err)
	}
	if token == "" {
		return nil, garbled(call, "Keystone gave no token; is ironic.auth_url that of Keystone?")
	}
	endpoint := k.conf.Endpoint
	if endpoint == "" {
		catalogue, err := result.ExtractServiceCatalog()
		if err != nil {
			return nil, garbled(call, "Keystone's catalogue cannot be read: %v", err)
		}
		if endpoint, err = locate(catalogue.Entries, k.conf.Keystone.Region); err != nil {
			return nil, garbled(call, "%v", err)
		}
	}
	fresh := &gophercloud.ProviderClient{TokenID: token}
	return settle(&gophercloud.ServiceClient{ProviderClient: fresh, Endpoint: endpoint}), nil
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
			return "", fmt.Errorf("the catalogue of Keystone has %d %s endpoints of type baremetal; write ironic.region or ironic.endpoint", len(found), kind)
		case len(found) == 1:
			return found[0], checkEndpoint(found[0])
		}
	}
	return "", errors.New("the catalogue of Keystone has no endpoint of type baremetal; check ironic.region, or write ironic.endpoint")
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

func checkEndpoint(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("the catalogue of Keystone has %.200q where the URL of Ironic should be; mend it, or write ironic.endpoint", text)
	}
	return nil
}

// password returns the password to log in with, "" for none. A file is read
// each time, so that a new password needs no restart.
func password(conf config.Ironic) (string, error) {
	if conf.PasswordFile == "" {
		return conf.Password.Reveal(), nil
	}
	content, err := readSmall(conf.PasswordFile, maxPassword)
	if err != nil {
		return "", fmt.Errorf("ironic.password_file: %w", err)
	}
	secret := strings.TrimSuffix(strings.TrimSuffix(string(content), "\n"), "\r")
	if secret == "" || strings.ContainsAny(secret, "\r\n\x00") {
		return "", fmt.Errorf("ironic.password_file: %s does not hold one line; write the password and nothing else", conf.PasswordFile)
	}
	return secret, nil
}
