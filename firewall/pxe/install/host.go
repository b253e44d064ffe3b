package install

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/firewall/pxe"
	"github.com/trivet-ha/trivet/internal/portholder"
)

// RecordFile holds, as JSON, what the host was before the first installation.
const RecordFile = "/etc/trivet/dnsmasq-install.json"

// unit is dnsmasq's, on Debian and on rpm distributions.
const unit = "dnsmasq.service"

// Bounds. A start of dnsmasq may have to wait for the PXE filter's unit.
const (
	commandLimit = 2 * time.Minute // one command
	undoLimit    = 5 * time.Minute // all steps that are taken back
	maxFile      = 1 << 20         // bytes of a configuration file
)

// Host is the host that is changed. One goroutine at a time uses it.
type Host struct {
	// Root is put before every path; "" is the host itself.
	Root string
	// Dry has Install and Uninstall look, refuse and report alike, and change nothing.
	Dry bool
	// Run runs a command and returns what it wrote to both outputs.
	Run func(ctx context.Context, name string, args ...string) (string, error)
	// Fetch reports why a URL of kernel or ramdisk cannot be fetched.
	Fetch func(ctx context.Context, url string) error
	// Holders are the programs that have a UDP port.
	Holders func(at netip.AddrPort) ([]portholder.Holder, error)
	// Bind reports why dnsmasq could not bind it.
	Bind func(ctx context.Context, at netip.AddrPort) error
}

// Change is one thing that was done, or was found done already.
type Change struct {
	Act    string `json:"act"`    // made, linked, wrote, saved, removed, restored, enabled, started, … or unchanged
	Object string `json:"object"` // a path or a unit
	Note   string `json:"note,omitempty"`
}

// Edit is what stood at a path before and stands there now: the text of a file, or in a
// line what else is there; "" is nothing.
type Edit struct {
	Path   string `json:"path"`
	Before string `json:"before"`
	After  string `json:"after"`
}

// Report is what Install or Uninstall did, or would do to a host that is Dry.
type Report struct {
	Changes  []Change `json:"changes"`
	Edits    []Edit   `json:"edits,omitempty"`    // of files, links and directories
	Warnings []string `json:"warnings,omitempty"` // what is missing or has to be done by hand
}

func (r *Report) warn(format string, args ...any) {
	r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...))
}

// ChangedError says that files were changed by hand. Nothing was done.
type ChangedError struct{ Files []string }

// Error implements error.
func (e *ChangedError) Error() string {
	return "changed by hand, or not written by trivet: " + strings.Join(e.Files, ", ")
}

// ErrMissing says that the host lacks a package. Nothing was done.
var ErrMissing = errors.New("missing on this host")

func (h Host) path(name string) string { return filepath.Join(h.Root, name) }

// runProgram runs a command within its bound. The error holds the last lines of what it
// wrote.
func (h Host) runProgram(ctx context.Context, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	out, err := h.Run(ctx, name, args...)
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, last(out))
	}
	return out, err
}

// last returns the last lines of an output, on one line.
func last(out string) string {
	const most = 5
	lines := strings.Split(strings.TrimSpace(out), "\n")
	return strings.Join(lines[max(0, len(lines)-most):], "; ")
}

// service is how dnsmasq's unit stands.
type service struct {
	Enabled bool `json:"enabled"`
	Active  bool `json:"active"`
}

// service asks systemd. A host without the unit lacks the package.
func (h Host) service(ctx context.Context) (service, error) {
	out, err := h.runProgram(ctx, "systemctl", "show", "--property=LoadState,UnitFileState,ActiveState", unit)
	if err != nil {
		return service{}, err
	}
	state := make(map[string]string)
	for line := range strings.Lines(out) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		state[key] = value
	}
	switch state["LoadState"] {
	case "loaded":
	case "masked":
		return service{}, fmt.Errorf("%s is masked: run 'systemctl unmask dnsmasq' first", unit)
	default:
		return service{}, fmt.Errorf("%w: %s; install package dnsmasq", ErrMissing, unit)
	}
	return service{Enabled: state["UnitFileState"] == "enabled", Active: state["ActiveState"] == "active"}, nil
}

// content is what stands at a path of the host.
type content struct {
	text   string
	exists bool
}

func (h Host) readContent(name string) (content, error) {
	info, err := os.Lstat(h.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return content{}, nil
	}
	if err != nil {
		return content{}, fmt.Errorf("look at %s: %w", name, err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return content{}, fmt.Errorf("%s is not a file of at most %d bytes: move it away", name, maxFile)
	}
	text, err := os.ReadFile(h.path(name))
	if err != nil {
		return content{}, fmt.Errorf("read %s: %w", name, err)
	}
	return content{string(text), true}, nil
}

// filled reports whether a name stands for a file that is not empty, by itself or
// as a link.
func (h Host) filled(name string) bool {
	at := h.path(name)
	if target, err := os.Readlink(at); err == nil {
		if at = filepath.Join(filepath.Dir(at), target); filepath.IsAbs(target) {
			at = h.path(target)
		}
	}
	info, err := os.Stat(at)
	return err == nil && info.Mode().IsRegular() && info.Size() > 0
}

// ours reports whether trivet wrote the file, and it is unchanged since.
func (c content) ours() bool {
	_, intact := pxe.Check(c.text)
	return intact
}

// signed reports whether trivet wrote the file, which may have been changed since.
func (c content) signed() bool {
	signed, _ := pxe.Check(c.text)
	return signed
}

// bindInterfaces reports whether dnsmasq's other files say bind-interfaces. Fedora's and
// RHEL's dnsmasq.conf does.
func (h Host) bindInterfaces() (bool, error) {
	names := []string{"/etc/dnsmasq.conf"}
	dir := filepath.Dir(pxe.ConfFile)
	entries, err := os.ReadDir(h.path(dir))
	if err != nil {
		return false, fmt.Errorf("list %s, from which dnsmasq of Debian and of rpm distributions reads: %w", dir, err)
	}
	for _, e := range entries {
		if name := filepath.Join(dir, e.Name()); e.Type().IsRegular() && !strings.HasSuffix(name, "~") &&
			e.Name()[0] != '.' && name != pxe.ConfFile {
			names = append(names, name)
		}
	}
	for _, name := range names {
		c, err := h.readContent(name)
		if err != nil {
			return false, err
		}
		for line := range strings.Lines(c.text) {
			if strings.TrimSpace(line) == "bind-interfaces" {
				return true, nil
			}
		}
	}
	return false, nil
}
