// Package inspectorconf turns the configuration of ironic-inspector into one of
// Trivet: what has a meaning here becomes YAML, and of everything else it says
// what is lost and what to do about it.
//
// What the original does without being told counts as written: where a default
// differs, the original's is put into the YAML, so that a move changes nothing
// that nobody asked for.
//
// The package reads no file and knows no hook: the caller hands both in.
package inspectorconf
