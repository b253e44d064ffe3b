package web

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/valid"
	"github.com/trivet-ha/trivet/inspector/document"
)

// maxUnpacked bounds the documents that one search unpacks, in bytes: a thousand of the
// usual size, some tenths of a second.
const maxUnpacked = 32 << 20

// maxInterfaces bounds those of a document that are looked at.
const maxInterfaces = 64

// addressBook knows the addresses that ramdisks told. A record has its own only
// while the introspection is under way; afterwards they are in the document,
// which is read once.
type addressBook struct {
	packer *blobs.Packer
	logger *slog.Logger

	mu   sync.Mutex               // held during a search
	told map[blobs.Hash]addresses // by document
}

// addresses are those of a document, in lower case.
type addresses struct {
	bmc  string   // "": it has none
	macs []string // at most maxRowMACs
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
	found = make(map[string]bool)
	unpacked := 0
	for rec := range v.Records() {
		if rec.Unprocessed.IsZero() {
			continue
		}
		told, known := b.readLocked(v, rec.Node, rec.Unprocessed, &unpacked)
		if !known {
			left++
		} else if strings.Contains(told.bmc, text) {
			found[rec.Node] = true
		}
	}
	return found, left
}

// addresses adds to rows what the documents of ended introspections tell.
func (b *addressBook) addresses(v fsm.View, rows []machine) {
	b.mu.Lock()
	defer b.mu.Unlock()
	unpacked := 0
	for i, m := range rows {
		if m.document.IsZero() {
			continue
		}
		told, _ := b.readLocked(v, m.UUID, m.document, &unpacked) // one too many is read by the next
		if told.bmc != "" && len(m.BMC) == 0 {
			rows[i].BMC = []string{told.bmc}
		}
		for _, mac := range told.macs {
			rows[i].add(mac)
		}
	}
}

// readLocked returns the addresses of a node's document; ok is false for one that would unpack
// more than the bound, unpacked being what was.
func (b *addressBook) readLocked(v fsm.View, node string, hash blobs.Hash, unpacked *int) (told addresses, ok bool) {
	if told, known := b.told[hash]; known {
		return told, true
	}
	if *unpacked >= maxUnpacked {
		return told, false
	}
	if len(b.told) > introspection.MaxNodes { // most are of documents that are no more
		clear(b.told)
	}
	document, err := b.document(v, hash)
	if err == nil {
		*unpacked += len(document)
		told, err = addressesOf(document)
	}
	if err != nil {
		b.logger.Debug("read addresses of a stored document failed", "node", node, "err", err)
	}
	b.told[hash] = told
	return told, true
}

func (b *addressBook) document(v fsm.View, hash blobs.Hash) ([]byte, error) {
	blob, ok := v.Blob(hash)
	if !ok {
		return nil, fmt.Errorf("document %v is not in the state", hash)
	}
	return b.packer.Unpack(blob)
}

// addressesOf reads those of a ramdisk's document.
func addressesOf(text []byte) (out addresses, err error) {
	data, err := document.Parse(text)
	if err != nil {
		return out, err
	}
	inventory, err := data.Value("inventory").Members()
	if err != nil {
		return out, fmt.Errorf("inventory: %w", err)
	}
	interfaces, _, err := inventory.Get("interfaces").Elements(maxInterfaces)
	if err != nil {
		interfaces = nil // the BMC's address may be good
	}
	for _, item := range interfaces {
		nic, err := item.Members()
		if err != nil {
			continue
		}
		if mac := strings.ToLower(nic.Get("mac_address").Text()); valid.MAC(mac) && len(out.macs) < maxRowMACs {
			out.macs = append(out.macs, mac)
		}
	}
	address := inventory.Get("bmc_address")
	if k := address.Kind(); k != document.None && k != document.Text {
		return out, fmt.Errorf("bmc_address: expected text, got %s", k.InWords())
	}
	out.bmc = strings.ToLower(address.Text())
	return out, nil
}
