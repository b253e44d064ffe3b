// Package serviceuser knows as which user the peer of this host runs, and sees files as
// that user does: root may read everything, so that what root sees says nothing of the
// peer (docs/design.md#eyes).
package serviceuser
