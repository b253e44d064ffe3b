// Package keystone is a client of OpenStack's identity service, version 3, through
// gophercloud: it logs in, and examines tokens.
//
// gophercloud's own re-authentication is not used: its login is shared between callers and
// made in the context of one of them, so that a caller that gives up would fail the requests
// of all. servicecreds.Session shares the result of a login instead. Proxies of the
// environment are not used: passwords and tokens must not reach a proxy.
//
// No error of this package quotes a token or a password.
package keystone
