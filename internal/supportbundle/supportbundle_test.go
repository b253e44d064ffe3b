package supportbundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

const planted = "s3cr3t-of-somebody"

// TestNoShapeOfASecretPasses hides what nobody told it, wherever programs put it.
func TestNoShapeOfASecretPasses(t *testing.T) {
	r := NewRedactor()
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
	r := NewRedactor(plain, key, "-----BEGIN X-----\n"+body+"\n-----END X-----\n", "short")
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

func TestFilesAreCut(t *testing.T) {
	f := NewFiles(NewRedactor())
	f.Add("cut", 10, []byte("123456789ö and more"), nil)
	f.JSON("small", 1<<10, map[string]int{"a": 1}, nil)
	f.Add("gone", 1, nil, errors.New("login password=abc failed"))
	got := f.List()
	if !strings.HasPrefix(got[0].Text, "123456789\n… (") || !utf8.ValidString(got[0].Text) ||
		got[1].Text != "{\n  \"a\": 1\n}\n" ||
		got[2].Error != "login password="+Redacted+" failed" {
		t.Errorf("%.200v", got)
	}
}

func TestArchive(t *testing.T) {
	var out, again bytes.Buffer
	wall := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	folders := []Folder{{Files: []File{{Name: "a.txt", Text: "one"}}},
		{Name: "../h 1", Files: []File{{Name: "..", Text: "two"}, {Name: "gone", Error: "no\nanswer"}}}}
	if err := errors.Join(Archive(&out, "trivet-bundle", "title", wall, folders),
		Archive(&again, "trivet-bundle", "title", wall, folders)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(out.Bytes(), again.Bytes()) {
		t.Error("twice the same are not the same bytes")
	}
	plain, err := gzip.NewReader(&out)
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for archive := tar.NewReader(plain); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil || h.Mode != 0o600 {
			t.Fatal(h, err)
		}
		got += h.Name + ": " + string(text) + "\n"
	}
	want := "trivet-bundle/INDEX: title\na.txt                    3 bytes\n.._h_1/_                 3 bytes\n.._h_1/gone              missing: no answer\n\ntrivet-bundle/a.txt: one\ntrivet-bundle/.._h_1/_: two\n"
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

func FuzzRedactor(f *testing.F) {
	f.Add(`password="` + planted + `" \"token\": \"x\"`)
	f.Add(`secret: '\\' password=\`)
	r := NewRedactor(planted)
	f.Fuzz(func(t *testing.T, text string) {
		if got := r.Text(text); strings.Contains(got, planted) || !utf8.ValidString(got) {
			t.Errorf("%q became %q", text, got)
		}
	})
}
