package fsm

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Dump writes the state as indented JSON for a person to read: its hash, then each
// table under its name. Secrets are left out: keys are redacted, of join tokens only the
// ID is shown, and of results and documents only what they name. The form may change
// between versions.
func (v View) Dump(w io.Writer) error {
	hash := v.Hash()
	var all bytes.Buffer
	fmt.Fprintf(&all, `{"hash":%q`, hex.EncodeToString(hash[:]))
	t := v.data.txn()
	for _, s := range sections {
		text, err := json.Marshal(s.Show(t))
		if err != nil {
			return fmt.Errorf("dump state: table %s: %w", s.Name, err)
		}
		fmt.Fprintf(&all, ",%q:%s", strings.ReplaceAll(s.Name, " ", "_"), text)
	}
	all.WriteString("}\n")
	var indented bytes.Buffer
	if err := json.Indent(&indented, all.Bytes(), "", "  "); err != nil {
		return fmt.Errorf("dump state: %w", err)
	}
	if _, err := indented.WriteTo(w); err != nil {
		return fmt.Errorf("dump state: %w", err)
	}
	return nil
}
