package dnsmasq

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/trivet-ha/trivet/firewall"
)

// Bounds of the directory.
const (
	// maxFiles is more than a cluster may know MACs.
	maxFiles = 500_000
	// burst is how many files are written without a pause: their events, two a
	// file, fit into the 16,384 that the kernel holds for dnsmasq.
	burst = 6000
	// pause is how long dnsmasq is given for a burst; it reads more than 10,000
	// a second (measured).
	pause = 500 * time.Millisecond
	// dirMode and fileMode let dnsmasq read, which is a user of its own by then.
	dirMode  = 0o755
	fileMode = 0o644
)

// directory is the one that dnsmasq watches: that inode, even if another directory
// has its name by now. Its methods are for one goroutine.
type directory struct {
	path   string
	root   *os.Root
	ledger *ledger
}

func open(path string, l *ledger) (*directory, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil,
			fmt.Errorf("firewall.dhcp_hostsdir: %w; 'trivet firewall close --offline --purge' makes it, before dnsmasq starts",
				err)
	}
	return &directory{path: path, root: root, ledger: l}, nil
}

func (d *directory) close() error { return d.root.Close() }

// current fails when the directory is not the one of its name any more: dnsmasq
// does not see what is written to either.
func (d *directory) current() error {
	there, err := os.Stat(d.path)
	if err != nil {
		return fmt.Errorf("%w: firewall.dhcp_hostsdir: %w", firewall.ErrForeign, err)
	}
	ours, err := d.root.Stat(".")
	if err != nil {
		return fmt.Errorf("firewall.dhcp_hostsdir: %w", err)
	}
	if !os.SameFile(there, ours) {
		return fmt.Errorf("%w: another directory has the name %s", firewall.ErrForeign, d.path)
	}
	return nil
}

// names lists what dnsmasq looks at.
func (d *directory) names(ctx context.Context) (names []string, err error) {
	dir, err := d.root.Open(".")
	if err != nil {
		return nil, fmt.Errorf("list firewall.dhcp_hostsdir: %w", err)
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	for ctx.Err() == nil {
		some, err := dir.Readdirnames(4096)
		for _, name := range some {
			if !passedOver(name) {
				names = append(names, name)
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return names, nil
		case err != nil:
			return nil, fmt.Errorf("list firewall.dhcp_hostsdir: %w", err)
		case len(names) > maxFiles:
			return nil,
				fmt.Errorf("firewall.dhcp_hostsdir: more than %d files are in %s; restart dnsmasq and trivet-firewall to purge it",
					maxFiles, d.path)
		}
	}
	return nil, ctx.Err()
}

// readFile returns the content of a file that dnsmasq can read, "" if there is none;
// of anything longer than ours its beginning. What dnsmasq could not read, or is
// no file, is not as we left it.
func (d *directory) readFile(name string) (text string, err error) {
	info, err := d.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read firewall.dhcp_hostsdir: %w", err)
	}
	if !info.Mode().IsRegular() || info.Mode().Perm() != fileMode {
		return "", fmt.Errorf("%w: %s has mode %v, which dnsmasq may not be able to read", firewall.ErrForeign, name,
			info.Mode())
	}
	f, err := d.root.Open(name)
	if err != nil {
		return "", fmt.Errorf("read firewall.dhcp_hostsdir: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	buf := make([]byte, maxText+1)
	n, err := f.Read(buf) // all there is, of a file
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("read firewall.dhcp_hostsdir: %w", err)
	}
	return string(buf[:n]), nil
}

// write puts a whole file in the place of one of its name. The mode is set by
// hand: a unit's umask would keep dnsmasq out.
func (d *directory) write(name, text string) error {
	f, err := d.draft()
	if err != nil {
		return fmt.Errorf("write firewall.dhcp_hostsdir: %w", err)
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Chmod(fileMode), f.Close()); err != nil {
		return fmt.Errorf("write firewall.dhcp_hostsdir: %w", err)
	}
	d.ledger.expectEvents(name, 1)
	if err := d.root.Rename(draft, name); err != nil {
		d.ledger.expectEvents(name, -1)
		return fmt.Errorf("write firewall.dhcp_hostsdir: %w", err)
	}
	return nil
}

// draft creates the next file, in the place of one that a killed process left.
func (d *directory) draft() (*os.File, error) {
	const flags = os.O_WRONLY | os.O_CREATE | os.O_EXCL
	f, err := d.root.OpenFile(draft, flags, fileMode)
	if !errors.Is(err, fs.ErrExist) {
		return f, err
	}
	if err := d.root.Remove(draft); err != nil {
		return nil, err
	}
	return d.root.OpenFile(draft, flags, fileMode)
}

// remove deletes one of our files; for Prepare alone.
func (d *directory) remove(name string) error {
	if err := d.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("purge firewall.dhcp_hostsdir: %w", err)
	}
	return nil
}
