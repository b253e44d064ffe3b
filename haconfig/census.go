package haconfig

import (
	"slices"
	"sync"

	"github.com/trivet-ha/trivet/fsm/fencing"
)

// Census is which namespaces there are in all clusters together. The log has the
// zones that were chosen by the UID of the namespace and knows of no cluster: a choice
// is forgotten when its namespace is in no cluster at all, and while one of them does
// not say which it has, none is. It may be used concurrently.
type Census struct {
	clusters []string

	mu    sync.Mutex
	token fencing.Token              // of the leadership that counts
	there map[string]map[string]bool // UIDs, by cluster
}

// NewCensus returns the census of clusters whose namespaces are annotated, before
// any of them was listed.
func NewCensus(clusters ...string) *Census {
	return &Census{clusters: clusters, there: map[string]map[string]bool{}}
}

// keepUIDs keeps the UIDs of a cluster's namespaces, as listed under a token. It is called
// before anything is chosen for one of them. What was listed in an earlier leadership
// counts no more: another leader may have chosen since.
func (c *Census) keepUIDs(cluster string, token fencing.Token, uids map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if token < c.token {
		return
	}
	if token > c.token {
		clear(c.there)
	}
	c.token, c.there[cluster] = token, uids
}

// isGone reports whether a namespace is known to be in no cluster.
func (c *Census) isGone(token fencing.Token, uid string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.token == token && !slices.ContainsFunc(c.clusters, func(cluster string) bool {
		uids, listed := c.there[cluster]
		return !listed || uids[uid]
	})
}
