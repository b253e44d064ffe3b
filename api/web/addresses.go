package web

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector/document"
)

// maxUnpacked bounds the documents that one search unpacks, in bytes: a thousand of the
// usual size, some tenths of a second.
const maxUnpacked = 32 << 20

// addressBook knows the BMC addresses that ramdisks told. A record has its own only
// while the introspection is under way; afterwards the address is in the document,
// which is read once.
type addressBook struct {
	packer *blobs.Packer
	logger *slog.Logger

	mu   sync.Mutex            // held during a search
	told map[blobs.Hash]string // by document; "": it has none
}

// search finds the nodes whose BMC address contains text, in lower case; left counts
// the documents that later searches will have read. A text that is no part of an
// address finds nothing.
func (b *addressBook) search(v fsm.View, text string) (found map[string]bool, left int) {
	dotted, colons := strings.Contains(text, "."), strings.Contains(text, "::")
	if !dotted && !colons || strings.Trim(text, "0123456789abcdef.:") != "" {
		return nil, 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.told) > introspection.MaxNodes { // most are of documents that are no more
		clear(b.told)
	}
	found = make(map[string]bool)
	unpacked := 0
	for rec := range v.Records() {
		if rec.Unprocessed.IsZero() {
			continue
		}
		address, known := b.told[rec.Unprocessed]
		if !known {
			if unpacked >= maxUnpacked {
				left++
				continue
			}
			document, err := b.document(v, rec.Unprocessed)
			if err == nil {
				unpacked += len(document)
				address, err = bmcAddress(document)
			}
			if err != nil {
				b.logger.Debug("read BMC address of a stored document failed", "node", rec.Node, "err", err)
			}
			b.told[rec.Unprocessed] = address
		}
		if strings.Contains(address, text) {
			found[rec.Node] = true
		}
	}
	return found, left
}

func (b *addressBook) document(v fsm.View, hash blobs.Hash) ([]byte, error) {
	blob, ok := v.Blob(hash)
	if !ok {
		return nil, fmt.Errorf("document %v is not in the state", hash)
	}
	return b.packer.Unpack(blob)
}

// bmcAddress reads the address of a ramdisk's document, in lower case.
func bmcAddress(text []byte) (string, error) {
	data, err := document.Parse(text)
	if err != nil {
		return "", err
	}
	inventory, err := data.Value("inventory").Members()
	if err != nil {
		return "", fmt.Errorf("inventory: %w", err)
	}
	address := inventory.Get("bmc_address")
	if k := address.Kind(); k != document.None && k != document.Text {
		return "", fmt.Errorf("bmc_address: expected text, got %s", k.InWords())
	}
	return strings.ToLower(address.Text()), nil
}
