// Package config holds the options of one peer: what they are called, what they
// may be, where each value came from, and every reason why they will not do.
//
// One table ([Options]) says everything about a key: name, type, default,
// bounds, help; the tags of [Config] say which field has its value. The file, the
// environment, flags, the commented template and the listing of effective values are
// all derived from it, so adding an option is one row and one field.
//
// A value comes from the first of: flag, TRIVET_… variable, file, default
// (docs/design.md#configuration). Unknown keys and unknown TRIVET_… variables are errors, since a
// misspelt option that is silently ignored is found at the worst of times.
// [Load] reports all problems at once, each with the place to mend.
//
// The package reads no file and no environment: the caller hands in the bytes.
// A loaded Config is a value; nothing here changes it afterwards.
package config
