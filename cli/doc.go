// Package cli is the trivet command: it parses words, calls one peer over its
// unix socket or prepares a data directory, and prints.
//
// Data goes to standard output, talk to standard error; every refusal is an
// error line and a hint line, and an exit code that scripts can rely on.
package cli
