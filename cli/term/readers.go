package term

import (
	"os"
	"os/signal"
	"syscall"
)

// OutliveReaders has this process live on, for good, where the reader of its standard error or
// output is gone, as journald's is after a stop: a write there fails, as one to a socket does.
// It is for verbs that others rely on; all others end by SIGPIPE, as 'trivet status | head' wants.
// Programs that this one starts do not inherit it, as they would an ignored signal.
func OutliveReaders() {
	unread := make(chan os.Signal, 1) // nothing is sent to a full one; never closed
	signal.Notify(unread, syscall.SIGPIPE)
}
