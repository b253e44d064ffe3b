// Package admission shares what a peer has among those who ask it: places for
// handlers, places for bytes. Each request belongs to a Class, by what it costs, and
// to a source, by where it comes from. Classes have places of their own, so that the
// work that strangers cause never takes those of machines and operators; within a
// class no source takes all, and those who wait are served source by source.
//
// It knows nothing of what is served. All of it may be used concurrently.
package admission
