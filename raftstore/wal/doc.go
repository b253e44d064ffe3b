// Package wal is a write-ahead log in front of the log of a peer.
//
// bolt waits for the disk twice for each write, and writes about five pages of its tree. Here
// the entries are appended to a file that was laid out before, with one wait, and acknowledged;
// bolt gets them later, many in one transaction. bolt stays the log: the files hold only what it
// does not have yet, at most two files' worth, and each opening of the log adds that first. So a peer
// changes between the two ways by a restart, and there is no second log to convert or to confuse
// with the first.
//
// There are two files. One is written while the other is carried over to bolt. Each use of a
// file is a generation, and every batch in it names generation and place, so that what an
// earlier use left is told from what was written now. bolt records the last generation that
// it has in full, after the entries; to carry a generation over twice is harmless, since
// nothing is deleted from the log between the two.
//
// A batch that a crash cut short is the last one: nothing was acknowledged after it. An intact
// batch of the same generation behind a damaged one says that the disk lost something that was
// acknowledged, and the log is not opened. Where this comes from: docs/design.md#wal.
package wal
