package inspectordb

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite" // registers the driver "sqlite"

	"github.com/trivet-ha/trivet/internal/bounds"
)

// Limits of what a database may take.
const (
	connectLimit = 10 * time.Second
	queryLimit   = time.Minute // with all of its rows
)

// dialect is what the databases do not have in common.
type dialect struct {
	isolation sql.IsolationLevel
	// moment writes an expression that gives a column's time as text, in
	// layoutMoment with up to six digits behind the second.
	moment func(column string) string
	text   string // the type that CAST makes text with
	mark   string // of the only parameter of a query
}

const layoutMoment = "2006-01-02 15:04:05"

func (a address) connect() (*sql.DB, dialect, error) {
	switch a.dialect {
	case "mysql":
		return a.mysql()
	case "postgresql":
		return a.postgresql()
	default:
		return a.sqlite()
	}
}

// sqlite opens a file that must be there: the driver would make one.
func (a address) sqlite() (*sql.DB, dialect, error) {
	d := dialect{moment: func(c string) string { return "CAST(" + c + " AS TEXT)" }, text: "TEXT", mark: "?"}
	if err := a.knows("timeout", "check_same_thread"); err != nil {
		return nil, d, err
	}
	_, err := os.Stat(a.database)
	if err != nil && !filepath.IsAbs(a.database) { // the path may be a misplaced password
		return nil, d, errors.New(
			"the URL of an SQLite file with three slashes names it from the working directory of ironic-inspector, and it is not in this one: " +
				"write four, sqlite:////var/lib/ironic-inspector/ironic-inspector.sqlite")
	}
	if err != nil {
		return nil, d, fmt.Errorf("the SQLite file of the database: %w", err)
	}
	db, err := sql.Open("sqlite", a.file("mode=ro&_pragma=query_only(1)&_pragma=busy_timeout(10000)"))
	return db, d, err
}

// file names the SQLite file as a URI of that library, so that a path may have
// any character.
func (a address) file(options string) string {
	name := url.URL{Scheme: "file", Opaque: (&url.URL{Path: a.database}).EscapedPath(), RawQuery: options}
	return name.String()
}

func (a address) mysql() (*sql.DB, dialect, error) {
	d := dialect{
		isolation: sql.LevelRepeatableRead, text: "CHAR", mark: "?",
		moment: func(c string) string { return "DATE_FORMAT(" + c + ", '%Y-%m-%d %H:%i:%s.%f')" },
	}
	if err := a.knows("charset", "use_unicode", "unix_socket", "ssl_ca", "ssl_cert", "ssl_key"); err != nil {
		return nil, d, err
	}
	c := mysql.NewConfig()
	c.User, c.Passwd, c.DBName = a.user, a.password, a.database
	c.Timeout, c.ReadTimeout, c.WriteTimeout = connectLimit, queryLimit, connectLimit
	c.Logger = &mysql.NopLogger{} // what it says is in the errors, too
	c.Net, c.Addr = "tcp", net.JoinHostPort(cmp.Or(a.host, "localhost"), strconv.Itoa(int(cmp.Or(a.port, 3306))))
	if socket := a.options.Get("unix_socket"); socket != "" {
		c.Net, c.Addr = "unix", socket
	}
	var err error
	if c.TLS, err = a.tls(); err != nil {
		return nil, d, err
	}
	connector, err := mysql.NewConnector(c)
	if err != nil { // not told: it may quote the configuration
		return nil, d, errors.New("the URL of the database is not understood by its driver")
	}
	return sql.OpenDB(connector), d, nil
}

// tls returns nil when no option asks for it.
func (a address) tls() (*tls.Config, error) {
	ca, cert, key := a.options.Get("ssl_ca"), a.options.Get("ssl_cert"), a.options.Get("ssl_key")
	if ca == "" && cert == "" && key == "" {
		return nil, nil
	}
	out := &tls.Config{ServerName: a.host, MinVersion: tls.VersionTLS12}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("option ssl_ca of the database's URL: %w", err)
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(bounds.WithoutMark(pem)) {
			return nil, fmt.Errorf("option ssl_ca of the database's URL: %s holds no certificate", ca)
		}
	}
	if cert == "" && key == "" {
		return out, nil
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("options ssl_cert and ssl_key of the database's URL: %w", err)
	}
	out.Certificates = []tls.Certificate{pair}
	return out, nil
}

func (a address) postgresql() (*sql.DB, dialect, error) {
	d := dialect{
		isolation: sql.LevelRepeatableRead, text: "TEXT", mark: "$1",
		moment: func(c string) string { return "to_char(" + c + ", 'YYYY-MM-DD HH24:MI:SS.US')" },
	}
	passed := []string{"sslmode", "sslrootcert", "sslcert", "sslkey"}
	if err := a.knows(append(passed, "host", "client_encoding")...); err != nil {
		return nil, d, err
	}
	words := map[string]string{"user": a.user, "dbname": a.database, "host": a.host, "default_transaction_read_only": "on"}
	if socket := a.options.Get("host"); socket != "" {
		words["host"] = socket
	}
	if a.port != 0 {
		words["port"] = strconv.Itoa(int(a.port))
	}
	for _, name := range passed {
		words[name] = a.options.Get(name)
	}
	c, err := pgx.ParseConfig(settings(words))
	if err != nil {
		return nil, d, errors.New(
			"the URL of the database is not understood by its driver, or a file that its options name cannot be read")
	}
	c.ConnectTimeout = connectLimit
	if a.password != "" { // never in the text that the driver reads and may quote
		c.Password = a.password
	}
	return sql.OpenDB(stdlib.GetConnector(*c)), d, nil
}

// settings writes libpq's form, in which every value can be quoted. What is
// empty is left to its default.
func settings(words map[string]string) string {
	quote := strings.NewReplacer(`\`, `\\`, `'`, `\'`)
	var out strings.Builder
	for name, value := range words {
		if value != "" {
			fmt.Fprintf(&out, "%s='%s' ", name, quote.Replace(value))
		}
	}
	return out.String()
}
