package api

import (
	"container/list"
	"crypto/sha256"
	"time"
)

// tokenID stands for a token: its HMAC under a key of this process. The token
// itself is not kept.
type tokenID [sha256.Size]byte

// recent keeps a bounded number of answers about tokens, each for a time of its
// own. When there is no room, the one that was asked for least recently goes. It
// is not safe for concurrent use.
type recent[V any] struct {
	limit int
	byID  map[tokenID]*list.Element
	order *list.List // of *remembered[V]; the front was asked for last
}

type remembered[V any] struct {
	id    tokenID
	value V
	until time.Time // by this process's own clock
	ends  time.Time // by the wall; zero: never
}

func newRecent[V any](limit int) *recent[V] {
	return &recent[V]{limit: limit, byID: make(map[tokenID]*list.Element), order: list.New()}
}

// get returns what counts now.
func (r *recent[V]) get(id tokenID, now time.Time) (value V, ok bool) {
	at, ok := r.byID[id]
	if !ok {
		return value, false
	}
	kept := at.Value.(*remembered[V])
	if !now.Before(kept.until) || !kept.ends.IsZero() && !now.Before(kept.ends) {
		r.drop(at)
		return value, false
	}
	r.order.MoveToFront(at)
	return kept.value, true
}

// put keeps an answer.
func (r *recent[V]) put(kept remembered[V]) {
	if at, ok := r.byID[kept.id]; ok {
		r.drop(at)
	}
	if r.order.Len() >= r.limit {
		r.drop(r.order.Back())
	}
	r.byID[kept.id] = r.order.PushFront(&kept)
}

func (r *recent[V]) drop(at *list.Element) {
	delete(r.byID, r.order.Remove(at).(*remembered[V]).id)
}
