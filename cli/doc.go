// Package cli is the trivet command: it puts the verbs of the packages below it
// together, parses the arguments, and ends with the exit code of what came of it. It
// has help and completion, which are about all verbs.
package cli
