// Package credentials holds what this host shows to services that are not its
// own, and whom it trusts there: passwords, certificates, CAs, and the session
// that a login gave.
//
// What stands in files is read again when they change, so that a new password
// or certificate needs no restart. Nothing is ever taken from a file that does
// not hold together: until it does, what was read before stays, and the log
// says so once.
package credentials
