// Package servicecreds holds the credentials that this host presents to other
// services, and the CAs that it trusts there: passwords, certificates, and the
// session of a login.
//
// Files are read again when they change, so that a new password or certificate
// needs no restart. A file whose content is not valid is not used: until it is
// valid, the previous content stays in force, and the log reports it once.
package servicecreds
