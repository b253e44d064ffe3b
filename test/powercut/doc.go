// Package powercut finds out what a power cut leaves of the files of a peer, at every moment
// of what real processes did to them.
//
// strace records each system call of a real process that changes a file or waits for the
// disk, with its bytes, and each answer to a client, in one order. It sees what bbolt and
// raft do as well as our own code, needs no root and no library, and the file system under
// it does not matter. A device below a file system (dm-log-writes) would show only the states
// that this file system leaves; POSIX allows more, and so do others.
//
// disk replays a recording: what was written to a file since it was last synced, and which
// names of a directory since that was, may be on the disk or not, in any combination (cut).
// Each such state is opened by the code of the product, and compared with what clients had
// been told when the power went (Claims).
//
// Not covered: what is written through a mapped file (a recording that has it is refused),
// modes and owners, and disks that lie about a flush.
package powercut
