// Package web serves the page at /ui/: assets that are compiled in, a session for
// each user who logs in, and the few requests that the page makes. It asks nothing
// of other sites, and works without a quorum: every GET but those that only a
// leader can answer is answered from the state of this peer, with its age.
//
// The page is HTML, CSS and JavaScript modules as they lie in assets/; there is no
// build step. Data reaches the document as text alone: the Content-Security-Policy
// forbids inline scripts and styles, and has the browser refuse innerHTML.
package web
