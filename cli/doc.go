// Package cli is the trivet command: it parses arguments, calls a peer over its
// unix socket or API or prepares a data directory, and prints.
//
// Data goes to standard output, messages to standard error. Every refusal is an
// error line, a hint line, and an exit code that scripts can rely on
// (docs/design.md#exit-codes).
package cli
