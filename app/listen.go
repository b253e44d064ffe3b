package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/trivet-ha/trivet/internal/portholder"
)

// ListenError says that nothing can listen on the address, or path, of an option.
type ListenError struct {
	Option  string // key of the configuration
	Address string // its value
	Err     error
	Holder  string // what has the port, as far as it is known; ""
}

// newListenError finds out what is in the way.
func newListenError(option, address string, err error) *ListenError {
	return &ListenError{option, address, err, portholder.InTheWay(err)}
}

// Error implements error.
func (e *ListenError) Error() string {
	reason := e.Err
	var number syscall.Errno
	var op *net.OpError
	switch { // what package net puts around it is said already
	case errors.As(e.Err, &number):
		reason = number
	case errors.As(e.Err, &op):
		reason = op.Err
	}
	text := fmt.Sprintf("listen on %s (%s): %v", e.Address, e.Option, reason)
	if e.Holder != "" {
		text += " by " + e.Holder
	}
	return text
}

// Unwrap gives the cause to errors.Is and errors.As.
func (e *ListenError) Unwrap() error { return e.Err }

// listen listens on an address of the configuration.
func listen(ctx context.Context, option, address string) (net.Listener, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, newListenError(option, address, err)
	}
	return ln, nil
}

// Reasons for which a socket's path is not taken over.
var (
	ErrSocketServed = errors.New("another process answers there")
	ErrNotSocket    = errors.New("a file that is no socket is in the way")
)

// listenSocket listens on a Unix socket that only this user may open. It replaces
// a socket that a killed process left, and nothing else: a process with another
// data directory may serve on the path.
func listenSocket(ctx context.Context, path string) (net.Listener, error) {
	failed := func(err error) error { return newListenError("socket", path, err) }
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, failed(err)
	}
	if err := removeStale(ctx, path); err != nil {
		return nil, failed(err)
	}
	lc := net.ListenConfig{Control: private}
	ln, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, failed(err)
	}
	return ln, nil
}

// private gives a socket the mode with which its file is made: a caller that connected
// before the mode was changed would stay connected. Linux makes the file with the
// mode of the socket, less the umask.
func private(_, _ string, raw syscall.RawConn) error {
	var set error
	err := raw.Control(func(fd uintptr) { set = syscall.Fchmod(int(fd), 0o600) })
	return errors.Join(err, set)
}

// socketLimit bounds the question whether a process listens on the socket.
const socketLimit = time.Second

// removeStale removes a socket on which no process listens.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return ErrNotSocket
	}
	d := net.Dialer{Timeout: socketLimit}
	conn, err := d.DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		return errors.Join(ErrSocketServed, conn.Close())
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(path)
	default:
		return err
	}
}
