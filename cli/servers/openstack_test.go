package servers

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"github.com/trivet-ha/trivet/cli/term"
)

// TestOpenrcFiles reads the forms that such files have.
func TestOpenrcFiles(t *testing.T) {
	for _, c := range []struct {
		env  string
		want tokens.AuthOptions
	}{
		{"OS_USERNAME=a OS_PASSWORD=p OS_PROJECT_NAME=x OS_USER_DOMAIN_NAME=U OS_PROJECT_DOMAIN_NAME=P",
			tokens.AuthOptions{Username: "a", Password: "p", DomainName: "U",
				Scope: tokens.Scope{ProjectName: "x", DomainName: "P"}}},
		{"OS_USERNAME=a OS_PASSWORD=p OS_TENANT_NAME=x",
			tokens.AuthOptions{Username: "a", Password: "p", DomainID: "default",
				Scope: tokens.Scope{ProjectName: "x", DomainID: "default"}}},
		{"OS_USERNAME=a OS_PASSWORD=p OS_PROJECT_ID=1 OS_PROJECT_NAME=x OS_USER_DOMAIN_ID=u",
			tokens.AuthOptions{Username: "a", Password: "p", DomainID: "u", Scope: tokens.Scope{ProjectID: "1"}}},
		{"OS_USER_ID=1 OS_USERNAME=a OS_PASSWORD=p OS_SYSTEM_SCOPE=all",
			tokens.AuthOptions{UserID: "1", Password: "p", Scope: tokens.Scope{System: true}}},
		{"OS_APPLICATION_CREDENTIAL_ID=1 OS_APPLICATION_CREDENTIAL_SECRET=s OS_PROJECT_NAME=x",
			tokens.AuthOptions{ApplicationCredentialID: "1", ApplicationCredentialSecret: "s"}},
	} {
		f := &Flags{term: &term.Terminal{Env: strings.Fields(c.env)}}
		got, err := f.openstackUser()
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v; want %+v", c.env, got, err, c.want)
		}
		if scope, err := got.ToTokenV3ScopeMap(); err != nil {
			t.Errorf("%s: %v", c.env, err)
		} else if body, err := got.ToTokenV3CreateMap(scope); err != nil {
			t.Errorf("%s: %v", c.env, err)
		} else if _, err := json.Marshal(body); err != nil {
			t.Errorf("%s: %v", c.env, err)
		}
	}
}
