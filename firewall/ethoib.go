package firewall

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/trivet-ha/trivet/fsm"
)

var _ Neighbours = (*EthoIB)(nil)

// maxNeighs bounds what is read of one interface's neighbours, in bytes.
const maxNeighs = 4 << 20

// EthoIB reads the neighbours of interfaces that carry Ethernet over InfiniBand
// (firewall.ethoib_interfaces), as the kernel shows them:
//
//	EMAC=a4:bf:01:00:00:07 … IMAC=80:00:…:7c:fe:90:03:00:29:26:52
//
// EMAC is the address in the frames, and the last eight bytes of IMAC are the
// GUID. One goroutine calls it.
type EthoIB struct {
	root       string
	interfaces []string
	log        *slog.Logger
	failed     map[string]bool // interfaces that could not be read the last time
}

// NewEthoIB returns the neighbours of these interfaces, below the root of sysfs.
func NewEthoIB(root string, interfaces []string, log *slog.Logger) *EthoIB {
	return &EthoIB{root: root, interfaces: interfaces, log: log, failed: make(map[string]bool)}
}

// Neighbours implements the interface of its name. An interface that cannot be
// read is told once, until it can.
func (e *EthoIB) Neighbours() map[string]string {
	out := make(map[string]string)
	for _, name := range e.interfaces {
		err := readNeighs(filepath.Join(e.root, "class/net", name, "eth/neighs"), out)
		if err != nil && !e.failed[name] {
			e.log.Warn("read neighbours of firewall.ethoib_interfaces failed; ports behind it are filtered by the MACs in Ironic", "interface", name, "err", err)
		}
		e.failed[name] = err != nil
	}
	return out
}

// readNeighs adds what one file says; of a GUID that is in several the first.
func readNeighs(path string, into map[string]string) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	lines := bufio.NewScanner(io.LimitReader(f, maxNeighs))
	for lines.Scan() {
		guid, mac, ok := neighbour(lines.Text())
		if _, known := into[guid]; ok && !known {
			into[guid] = mac
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// neighbour reads one line; not ok if it is about nobody.
func neighbour(line string) (guid, mac string, ok bool) {
	var inner string
	for word := range strings.FieldsSeq(strings.ToLower(line)) {
		if value, is := strings.CutPrefix(word, "emac="); is {
			mac = value
		} else if value, is := strings.CutPrefix(word, "imac="); is {
			inner = value
		}
	}
	at, err := ParseMAC(mac)
	if err != nil || len(inner) < fsm.GUIDLength {
		return "", "", false
	}
	return inner[len(inner)-fsm.GUIDLength:], at, true
}
