// Package servicecreds holds the credentials that this host presents to other
// services, and the CAs that it trusts there: passwords, certificates, and the
// session of a login.
//
// What stands in files is read again when they change, so that a new password
// or certificate needs no restart. Nothing is ever taken from a file that does
// not hold together: until it does, what was read before stays, and the log
// says so once.
package servicecreds
