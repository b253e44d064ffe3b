// Package keystone speaks to OpenStack's identity service, version 3, through
// gophercloud: it logs in, and asks who holds a token.
//
// gophercloud's own re-authentication is not used: its login is shared between
// callers and made in the context of one of them, so that one who goes away
// would fail everybody's requests. [servicecreds.Session] shares what a login
// gave, and nothing of its making. Proxies of the environment are not used
// either: passwords and tokens are nobody else's business.
//
// No error of this package quotes a token or a password.
package keystone
