package inspector

import "context"

// LogKeeper keeps what ramdisks log. Its methods are called concurrently.
type LogKeeper interface {
	// Wants reports whether logs are kept of an introspection that failed, or of
	// one that did not.
	Wants(failed bool) bool
	// Keep stores logs and says where, before ctx ends also where the file system hangs, or is slow for the
	// logs of many: a ramdisk waits. An error loses the logs and nothing else.
	Keep(ctx context.Context, logs RamdiskLogs) (path string, err error)
}

// RamdiskLogs is what came with a callback.
type RamdiskLogs struct {
	Node   string // "" if it is not known
	MAC    string // of the interface that booted, "" likewise
	BMC    string // address, "" likewise
	Base64 string // compressed archive
}
