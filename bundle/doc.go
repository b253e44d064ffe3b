// Package bundle is what somebody gets who helps and must not get secrets:
// files of text, what hides secrets in them, the newest lines of a log, and the
// archive that holds it all. Everything is bounded.
package bundle
