package inspectordb

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// maxURL bounds the text of a URL, in bytes.
const maxURL = 4096

// address is a database's URL taken apart. Nothing of it but the scheme may
// stand in an error: any other part may be a misplaced password.
type address struct {
	dialect        string // sqlite, mysql or postgresql
	user, password string
	host           string
	port           uint16 // 0: the usual one
	database       string // of sqlite: the file
	options        url.Values
}

// dialects maps the schemes of SQLAlchemy to what they mean. It is never changed.
var dialects = map[string]string{"sqlite": "sqlite", "mysql": "mysql", "mariadb": "mysql", "postgresql": "postgresql",
	"postgres": "postgresql"}

// parse reads a URL as SQLAlchemy writes it, scheme+driver://user:password@host:port/database?options.
// It is not net/url's: a password may have any character but @ there, and a
// refusal of net/url would print it.
func parse(text string) (a address, err error) {
	text = strings.TrimSpace(text)
	scheme, rest, found := strings.Cut(text, "://")
	family, _, _ := strings.Cut(scheme, "+")
	a.dialect = dialects[family]
	switch {
	case len(text) > maxURL:
		return a, fmt.Errorf("the URL of the database has more than %d bytes", maxURL)
	case !found || a.dialect == "":
		return a, errors.New(
			"the URL of the database must begin with sqlite://, mysql:// or postgresql://, as the connection in section [database] of inspector.conf does")
	}
	who, behind, found := strings.Cut(rest, "@") // the password ends at the first @
	if user, password, _ := strings.Cut(who, ":"); found && !strings.Contains(user, "/") {
		rest = behind
		if a.user, err = unescape("user", user); err != nil {
			return a, err
		}
		if a.password, err = unescape("password", password); err != nil {
			return a, err
		}
	}
	rest, query, _ := strings.Cut(rest, "?")
	if a.options, err = url.ParseQuery(query); err != nil {
		return a, errors.New("the options of the database's URL, behind its '?', cannot be read")
	}
	host, database, slash := strings.Cut(rest, "/")
	if a.database, err = unescape("name", database); err != nil {
		return a, err
	}
	if !slash || a.database == "" {
		return a, errors.New("the URL of the database names no database: scheme://host/NAME, or sqlite:////FILE")
	}
	if a.dialect == "sqlite" && (host != "" || a.user != "") {
		return a, errors.New(
			"the URL of an SQLite file has no host: sqlite:////var/lib/ironic-inspector/ironic-inspector.sqlite has four slashes")
	}
	return a, a.hostport(host)
}

func (a *address) hostport(text string) error {
	if strings.Contains(text, "@") {
		return errors.New("the URL of the database has more than one @; one in the password is written %40")
	}
	port := ""
	if i := strings.LastIndexByte(text, ':'); i >= 0 && !strings.HasSuffix(text, "]") {
		text, port = text[:i], text[i+1:]
	}
	a.host = strings.Trim(text, "[]")
	if port == "" {
		return nil
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return errors.New("the port in the URL of the database is no number from 1 to 65535")
	}
	a.port = uint16(n)
	return nil
}

func unescape(what, text string) (string, error) {
	plain, err := url.PathUnescape(text)
	if err != nil {
		return "", fmt.Errorf(
			"the %s in the URL of the database has a %% that no two hexadecimal digits follow; write it %%25", what)
	}
	return plain, nil
}

// knows refuses options that are not in the list: one that is passed over may
// have been what keeps a connection private.
func (a address) knows(names ...string) error {
	for name := range a.options {
		if !slices.Contains(names, name) {
			return fmt.Errorf("the URL of the database has the option %q, which is not known here; these are: %s", name,
				strings.Join(names, ", "))
		}
	}
	return nil
}

// String names the database without user, password and options.
func (a address) String() string {
	switch {
	case a.dialect == "sqlite":
		return "sqlite " + a.database
	case a.host == "":
		return a.dialect + " database " + a.database
	}
	return a.dialect + " database " + a.database + " on " + a.host
}
