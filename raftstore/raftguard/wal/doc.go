// Package wal is a write-ahead log in front of the log of a peer.
//
// bolt waits for the disk twice for each write, and writes about five pages of its tree. Here
// the entries are appended to a file that was laid out before, with one wait, and acknowledged;
// bolt gets them later, many in one transaction. bolt stays the log: the files hold only what it
// does not have yet, at most two files' worth. An orderly stop carries all over and removes the
// files, and an opening carries over what a crash has left, then begins with files of its own. So
// a peer changes between the two ways by a restart, and there is no second log to convert or to
// confuse with the first.
//
// There are two files. One is written while the other is carried over to bolt. Each use of a
// file is a generation, and the header of every batch names generation and place. bolt records
// the last generation that it has in full, after the entries; to carry a generation over twice is
// harmless, since nothing is deleted from the log between the two. A file is zeros behind the last
// batch, since it is cleared before it is used again.
//
// Entries hold bytes of clients, so nothing is believed for its form. The headers are authenticated with a
// secret that is made with the files and kept in bolt: no bytes that a client sends are a header,
// and no header counts in another place. The record that holds the secret also says that files
// are in use, so that one that is missing, or is another log's, is noticed.
//
// A batch that a crash cut short is the last one, and nothing was acknowledged after it. Each
// file also says how many batches of the other are acknowledged, so that damage to the last of
// them is told from such a batch. Where acknowledged entries cannot be read, the log is not
// opened.
package wal
