// Package httpserver makes the HTTP servers of a peer that strangers can reach,
// with bounds on what their connections cost: number, share of one source,
// descriptors, size of a head, and the least speed of bodies and answers.
//
// net/http has a time-out for a whole request and one for a whole answer. Neither
// fits here: a request may wait a minute for its answer, and an answer may be a
// large file on a slow line. So the bounds are on progress. A body that arrives
// and an answer that is taken may last; one that stalls is cut.
package httpserver
