// Package supportbundle builds the archive that operators send to support; it
// contains no secrets. It holds text files, the redactor that hides secrets in
// them, and the newest lines of a log. Everything is bounded.
package supportbundle
