// Package supportbundle builds the archive that operators send to support; it
// contains no secrets. It holds text files, and the redactor that hides secrets in
// them. Everything is bounded.
package supportbundle
