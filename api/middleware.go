package api

import (
	"fmt"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"

	"github.com/labstack/echo/v4"
)

// front does what the contract asks of every request, on any path: the original
// does it before it looks for a route, too.
func (i *Inspector) front(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		defer func() {
			if v := recover(); v != nil {
				err = panicked(v)
			}
		}()
		// The names are written as the original writes them, for scripts that compare bytes.
		h := c.Response().Header()
		h["X-OpenStack-Ironic-Inspector-API-Minimum-Version"] = minimumValue
		h["X-OpenStack-Ironic-Inspector-API-Maximum-Version"] = maximumValue
		r := c.Request()
		onlyOfProxies(r, i.Proxies)
		if err := i.Auth.WellFormed(r); err != nil {
			return err
		}
		if err := checkVersion(r.Header); err != nil {
			return err
		}
		if strings.Contains(r.URL.Path, "//") {
			return redirect(c)
		}
		routable(r.URL)
		return next(c)
	}
}

// routable prepares a path for the router. Routes are found by the decoded
// path, as with WSGI, so that no parameter can hold a slash; one slash at the
// end is nothing.
func routable(u *url.URL) {
	u.RawPath = ""
	if len(u.Path) > 1 {
		u.Path = strings.TrimSuffix(u.Path, "/")
	}
}

// redirect leads to the path without its empty segments.
func redirect(c echo.Context) error {
	r := c.Request()
	path := r.URL.Path
	for strings.Contains(path, "//") {
		path = strings.ReplaceAll(path, "//", "/")
	}
	to := url.URL{Path: path, RawQuery: r.URL.RawQuery}
	location := rootOf(r) + to.String()
	c.Response().Header().Set(echo.HeaderLocation, location)
	return refuse(http.StatusPermanentRedirect, "308 Permanent Redirect: an empty segment is in the path; use %s",
		location)
}

// panicked makes an error of a panic, so that a fault in one request ends
// neither the process nor the connection; it ends in the log.
func panicked(v any) error {
	if v == http.ErrAbortHandler {
		panic(v) // the way to cut a connection
	}
	return fmt.Errorf("panic: %v\n%s", v, debug.Stack())
}
