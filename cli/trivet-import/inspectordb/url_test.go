package inspectordb

import (
	"context"
	"net/url"
	"reflect"
	"strings"
	"testing"
)

func TestURLsAreReadAsSQLAlchemyDoes(t *testing.T) {
	none := url.Values{}
	for text, want := range map[string]address{
		"sqlite:////var/lib/i.sqlite": {dialect: "sqlite", database: "/var/lib/i.sqlite",
			options: none},
		" sqlite:///i.sqlite\n": {dialect: "sqlite", database: "i.sqlite", options: none},
		"mysql+pymysql://u:p/w#?%25%40@db.example/insp?charset=utf8": {dialect: "mysql", user: "u", password: "p/w#?%@",
			host: "db.example", database: "insp", options: url.Values{"charset": {"utf8"}}},
		"mariadb://u@[2001:db8::1]:3307/insp": {dialect: "mysql", user: "u", host: "2001:db8::1", port: 3307,
			database: "insp", options: none},
		"postgresql+psycopg2://u:p@h:5433/insp": {dialect: "postgresql", user: "u", password: "p", host: "h", port: 5433,
			database: "insp", options: none},
		"postgresql:///insp?host=/run/pg@1": {dialect: "postgresql", database: "insp",
			options: url.Values{"host": {"/run/pg@1"}}},
	} {
		got, err := parse(text)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
}

// Whatever is wrong with a URL, and whatever a driver says of it: the password
// is nowhere in the text.
func TestNoErrorTellsThePassword(t *testing.T) {
	const secret = "s3cr3t"
	for _, text := range []string{
		"", "/var/lib/i.sqlite", "oracle://u:" + secret + "@h/d", secret, "mysql://u:" + secret + "@h",
		"mysql://u:" + secret + "@h:port/d",
		"mysql://u:" + secret + "%zz@h/d", "mysql://u:x@" + secret + "@h:1/d", "mysql://u:" + secret + "@h/d?%zz",
		"mysql://u:" + secret + "@h/d?ssl_mode=off",
		"sqlite://u:" + secret + "@h/d", "sqlite:////no/such/file", "sqlite://",
		"postgresql://u:" + secret + "@h/d?sslmode=" + secret,
		"postgresql://u:" + secret + "@127.0.0.1:1/d", "mysql://u:" + secret + "@127.0.0.1:1/d",
		"mysql://u:" + secret + "@h/d?ssl_ca=/no/such",
		"mysql://" + strings.Repeat("u", maxURL) + ":" + secret + "@h/d",
	} {
		_, err := Open(context.Background(), text)
		if err == nil {
			t.Errorf("%s: it was opened", text)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestNamesHaveNoUser(t *testing.T) {
	for text, want := range map[string]string{
		"sqlite:////var/i.sqlite": "sqlite /var/i.sqlite", "mysql://u:p@h/d": "mysql database d on h",
		"postgresql:///d": "postgresql database d",
	} {
		if a, err := parse(text); err != nil || a.String() != want {
			t.Errorf("%s: %q, %v", text, a, err)
		}
	}
}
