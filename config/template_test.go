package config

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"
)

func TestTemplateLoads(t *testing.T) {
	text, err := Template(nil)
	if err != nil {
		t.Fatal(err)
	}
	c, problems := load(t, string(text))
	if len(problems) > 0 {
		t.Fatalf("%v\n%s", problems, text)
	}
	if len(c.origins) != 0 {
		t.Errorf("the template writes %v", c.origins)
	}
	for _, line := range strings.Split(string(text), "\n") {
		if len(line) > 160 {
			t.Errorf("line of %d bytes: %s", len(line), line)
		}
	}
}

// TestTemplateUncommented takes the # from every key: the defaults must come out.
func TestTemplateUncommented(t *testing.T) {
	text, err := Template(map[string]string{"name": "h1"})
	if err != nil {
		t.Fatal(err)
	}
	open := regexp.MustCompile(`(?m)^( *)#([a-z_]+: )`).ReplaceAllString(string(text), "$1$2")
	c, problems := load(t, open)
	if len(problems) > 0 {
		t.Fatalf("%v\n%s", problems, open)
	}
	for _, o := range Options() {
		if o.AliasOf == "" && c.Origin(o.Key).Kind != FromFile {
			t.Errorf("%s does not stand in the template", o.Key)
		}
	}
	want := Default()
	want.Name, want.API.RamdiskListen = "h1", ":5055"
	c.origins, c.warnings, c.Ironic.origins = nil, nil, loginOrigins{}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("%+v\nwant\n%+v", c, want)
	}
}

// TestTemplateKeepsValues writes arbitrary values and reads them back.
func TestTemplateKeepsValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		password := rapid.StringMatching(`[ -~äß€]{1,30}`).Draw(t, "password")
		values := map[string]string{
			"ironic.auth_type": "http_basic",
			"ironic.username":  rapid.StringMatching(`[ -~]{1,30}`).Draw(t, "username"),
			"ironic.password":  password,
			"data_dir":         "/" + rapid.StringMatching(`[ -~]{0,60}`).Draw(t, "path"),
			"inspection.processing.processing_hooks": strings.Join(
				rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z0-9_]{1,8}`), 0, 5, rapid.ID[string]).Draw(t, "hooks"), ","),
		}
		text, err := Template(values)
		if err != nil {
			t.Fatal(err)
		}
		c, err := Load(Sources{File: "f", Text: text})
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		for key, want := range values {
			o, _ := Lookup(key)
			parsed, f := o.parse(want)
			if got := reflect.ValueOf(o.field(&c)).Elem().Interface(); f != nil || !reflect.DeepEqual(got, parsed) {
				t.Fatalf("%s is %#v, want %#v\n%s", key, got, parsed, text)
			}
		}
	})
}

func TestTemplateRefusesBadValues(t *testing.T) {
	for _, values := range []map[string]string{{"raft.timing": "x"}, {"no.such": "1"}, {"ironic.username": "a\nb"}} {
		if _, err := Template(values); err == nil {
			t.Errorf("%v was accepted", values)
		}
	}
}

func TestSecretsStayHidden(t *testing.T) {
	c, problems := load(t, "ironic: {auth_type: http_basic, username: u, password: hunter2}\n")
	if len(problems) > 0 || c.Ironic.Password.Reveal() != "hunter2" {
		t.Fatalf("%v", problems)
	}
	j, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	y, err := yaml.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var logged strings.Builder
	slog.New(slog.NewTextHandler(&logged, nil)).Info("x", "config", c, "password", c.Ironic.Password)
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("x", "config", c, "password", c.Ironic.Password)
	for i, shown := range []string{
		string(j), string(y), logged.String(),
		fmt.Sprintf("%v %+v %#v %s %q", c, c, c, c.Ironic.Password, c.Ironic.Password),
		fmt.Sprint(c.Effective()),
	} {
		if strings.Contains(shown, "hunter2") || !strings.Contains(shown, "redacted") {
			t.Errorf("%d: %s", i, shown)
		}
	}
	if c.Ironic.Password.Reveal() != "hunter2" {
		t.Error("what was shown changed the original")
	}
}

func TestDurationsReadBack(t *testing.T) {
	for in, want := range map[string]string{"900s": "15m", "86400s": "24h", "90s": "1m30s", "300ms": "300ms", "0s": "0s",
		"3660s": "1h1m", "3601s": "1h0m1s", "10m": "10m", "20h": "20h"} {
		d, f := parseAs(new(time.Duration), in)
		if f != nil {
			t.Fatal(f)
		}
		o, _ := Lookup("inspection.report_expiry")
		c := Default()
		o.set(&c, d)
		if got := o.text(&c); got != want {
			t.Errorf("%s is shown as %s, want %s", in, got, want)
		}
	}
}

// TestListsReadBack: a list is the same after it was text of a variable, and a line of a file.
func TestListsReadBack(t *testing.T) {
	const key = "inspection.discovery.enroll_node_fields"
	o, _ := Lookup(key)
	for _, c := range []struct{ item, text string }{
		{"owner:me", "owner:me,driver:a"},
		{"description:new machine, rack unknown", `[TAB"description:new machine, rack unknown","driver:a"]`},
		{"description:see wiki, page:42", `[TAB"description:see wiki, page:42","driver:a"]`},
		{`description:a "b" [c], {d}`, `[TAB"description:a \"b\" [c], {d}","driver:a"]`},
		{" description:indented ", `[TAB" description:indented ","driver:a"]`},
	} {
		before, list := Default(), []string{c.item, "driver:a"}
		o.set(&before, list)
		text := o.text(&before)
		if want := strings.ReplaceAll(c.text, "TAB", "\t"); text != want {
			t.Errorf("list-as-text: %q is %q, want %q", list, text, want)
		}
		_, line, _ := strings.Cut(before.Line(key), ": ")
		for way, sources := range map[string]Sources{
			"flag":     {Flags: map[string]string{key: text}},
			"variable": {Env: []string{o.Env() + "=" + text}},
			"file":     {File: "f", Text: []byte("inspection:\n  discovery:\n    enroll_node_fields: " + line)},
		} {
			after, err := Load(sources)
			if got := after.Inspection.Discovery.EnrollNodeFields; err != nil || !slices.Equal(got, list) {
				t.Errorf("list-as-text: %q by %s is %q (%v)", list, way, got, err)
			}
		}
	}
}

func TestNearest(t *testing.T) {
	words := []string{"listen", "advertise", "timeout", "a"}
	for word, want := range map[string]string{"lisen": "listen", "litsen": "listen", "timout": "timeout",
		"advertised": "advertise", "x": "", "": "", "qqqqqqq": "", strings.Repeat("l", 200): ""} {
		if got := Nearest(word, words); got != want {
			t.Errorf("Nearest(%q) is %q, want %q", word, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := rapid.StringN(0, 8, 8).Draw(t, "a"), rapid.StringN(0, 8, 8).Draw(t, "b"), rapid.Byte().Draw(t, "c")
		if distance(a, b) != distance(b, a) || (distance(a, b) == 0) != (a == b) || distance(a, a+string(rune(c&0x7f))) != 1 {
			t.Fatalf("distance of %q and %q", a, b)
		}
	})
}
