// Package uitest looks at the page with a browser: three real peers in front of a
// simulated Ironic, and a Chromium that is driven as a person would. Its tests have
// the build tag e2e, since they need Debian's chromium; `make pictures` renews the
// picture of the README with them.
package uitest
