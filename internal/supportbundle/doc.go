// Package supportbundle builds the archive that operators send to support; it
// contains no secrets. It holds text files. Everything is bounded.
package supportbundle
