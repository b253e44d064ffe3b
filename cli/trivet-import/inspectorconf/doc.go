// Package inspectorconf converts the configuration of ironic-inspector into
// Trivet's: options that have a counterpart become YAML, and for every other option
// the result says what is lost and what to do.
//
// A default of the original counts as written: where Trivet's default differs, the
// original's value is put into the YAML, so that a migration changes no behaviour
// unasked.
//
// The package reads no file and knows no hook; the caller hands in both.
package inspectorconf
