package redact

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"
)

const planted = "s3cr3t-of-somebody"

// TestNoShapeOfASecretPasses hides what nobody told it, wherever programs put it.
func TestNoShapeOfASecretPasses(t *testing.T) {
	r := New()
	pem := "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEE" + planted + "\n-----END EC PRIVATE KEY-----"
	for _, text := range []string{
		"ipmi_password=" + planted, `"password": "` + planted + `"`, `{\"password\":\"` + planted + `\"}`,
		"redfish_password: '" + planted + " and more'", "os_password :" + planted,
		`err="login: passwd=` + planted + `"`, "token: " + planted, `X-Auth-Token: ` + planted,
		`"gossip_key":"` + planted + `"`, "Authorization: Basic " + planted,
		"authorization=bearer " + planted, "ask https://trivet:" + planted + "@ironic.example/v1", pem,
		strings.ReplaceAll(pem, "\n", `\n`), pem[:50],
		"client-key-data: LS0tLS1CRUdJTiBFQyBQUklWQVRF" + base64.StdEncoding.EncodeToString([]byte(planted)),
		"trivet1.AQID.abcdefgh." + planted + ".1800000000.AAAAAA",
		"PASSWORD=" + planted, "community=" + planted + ",", `password: "a\"` + planted + `"`,
		"$2y$05$abcdefghijklmnopqrstuuJZ3yY1x8T0xQd5" + strings.ReplaceAll(planted, "-", "."),
		"eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJ.k8s" + planted, "gAAAAABkabcdefghijklmnopqrstuvwxyz" + planted,
	} {
		for _, form := range []string{planted, strings.ReplaceAll(planted, "-", "."),
			base64.StdEncoding.EncodeToString([]byte(planted))} {
			if got := r.Text(text); strings.Contains(got, form) {
				t.Errorf("no-shape-passes: %s became %s", text, got)
			}
		}
	}
	for _, text := range []string{
		"token=57 door=open", `"token": "4711"`, `"token": 4711,`, "trivet_leader_token 4711", "the token of the leadership",
		`"password": null`, "no password was given",
		"basic authentication fails", "https://ironic.example:6385/v1", "goroutine 57 [chan receive, 5 minutes]:",
		`"secrets": []`, "ironic.password: (redacted)  # file:3",
	} {
		if got := r.Text(text); got != text {
			t.Errorf("%s became %s", text, got)
		}
	}
}

// TestNoFormOfAKnownSecretPasses hides a value that looks like nothing.
func TestNoFormOfAKnownSecretPasses(t *testing.T) {
	const plain, key = `quiet "word`, "\xa5\x01\x02 key of gossip!"
	body := strings.Repeat("A1b2", 10)
	r := New(plain, key, "-----BEGIN X-----\n"+body+"\n-----END X-----\n", "short")
	for _, v := range []string{plain, key} {
		for _, form := range []string{
			v, fmt.Sprintf("%q", v), url.QueryEscape(v), hex.EncodeToString([]byte(v)), fmt.Sprintf("%X", v),
			base64.StdEncoding.EncodeToString([]byte(v)),
			base64.URLEncoding.EncodeToString([]byte(v)), fmt.Sprint([]byte(v)), fmt.Sprintf("%q", fmt.Sprint([]byte(v))),
		} {
			if got := r.Text("it was " + form + "."); !strings.Contains(got, Redacted) ||
				strings.Contains(got, strings.Trim(form, `"`)) {
				t.Errorf("known-secret: %s became %s", form, got)
			}
		}
	}
	if got := r.Text("half a key: " + body); strings.Contains(got, body) {
		t.Errorf("known-secret: a line of a key: %s", got)
	}
	if got := r.Text("a short word, password=short"); got != "a short word, password="+Redacted {
		t.Errorf("a short one: %s", got)
	}
}

func FuzzRedactor(f *testing.F) {
	f.Add(`password="` + planted + `" \"token\": \"x\"`)
	f.Add(`secret: '\\' password=\`)
	r := New(planted)
	f.Fuzz(func(t *testing.T, text string) {
		if got := r.Text(text); strings.Contains(got, planted) || !utf8.ValidString(got) {
			t.Errorf("%q became %q", text, got)
		}
	})
}

// TestNamesOfSecrets: what hides a value in a text hides an attribute, too.
func TestNamesOfSecrets(t *testing.T) {
	for name, want := range map[string]bool{"/driver_info/ipmi_password": true, "driver_info.snmp_community": true,
		"X-Auth-Token": true, "client-key-data": true, "authorization": true, "irmc_snmp_priv_passphrase": true,
		"/extra/colour": false, "/driver_info/redfish_address": false} {
		if NamesSecret(name) != want {
			t.Errorf("names-secret: %s: %v", name, !want)
		}
	}
}
