package accept_test

import (
	"bytes"
	"log/slog"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector/accept"
	"github.com/trivet-ha/trivet/inspector/document"
	"github.com/trivet-ha/trivet/inspector/identify"
	"github.com/trivet-ha/trivet/test/inspecttest"
)

// FuzzCallback takes anything in as from a ramdisk, up to where hooks begin
// (their own target is FuzzBefore of package hooks): what is received reads the
// same later, identifies its node in values that the log takes, and makes a node
// of a machine that nobody knows.
func FuzzCallback(f *testing.F) {
	f.Add(inspecttest.RamdiskSample(2))
	for _, body := range inspecttest.Hostile() {
		if len(body) < 4096 {
			f.Add([]byte(body))
		}
	}
	for _, more := range []string{
		"", `,"boot_interface":"01-52-54-00-00-00-0A","logs":"eA=="`, `,"ipmi_address":"198.18.0.1","ipmi_v6address":"::/0"`,
		`,"inventory ":{"interfaces":[{"mac_address":"zz"}]},"error":"disk on fire"`,
		`,"root_disk":{"size":1e300},"a":[1.0,-0,"\ud800\u0041"]`,
	} {
		f.Add([]byte(inspecttest.Callback(inspecttest.MacA, more)))
	}
	f.Add(
		[]byte(
			`{"inventory":{"interfaces":[{"name":"eth0","mac_address":"52:54:00:99:99:99"},{"name":"lo","mac_address":"00:00:00:00:00:00"},` +
				`{"name":"br0","mac_address":"FF:FF:FF:FF:FF:FF"},7,{}],"bmc_address":"0.0.0.0","bmc_v6address":"2001:DB8::1%eth0"}}`))
	conf := config.Default().Inspection.Discovery
	f.Fuzz(func(t *testing.T, raw []byte) {
		data, err := document.Receive(raw)
		if err != nil {
			if refused := err; len(refused.Error()) > 1000 {
				t.Fatalf("a long refusal: %v", refused)
			}
			return
		}
		machine := identify.Of(data)
		if text := machine.Unknown(); len(text) > 16<<10 {
			t.Fatalf("a long refusal: %s", text)
		}
		found, err := identify.NewSearch(inspecttest.NewIronicModel(), inspecttest.Zone{}, func() []string { return nil },
			slog.New(slog.DiscardHandler)).InIronic(t.Context(), machine)
		if err != nil {
			t.Fatal(err)
		}
		if a, err := found.New(nil); err == nil && a.Verdict == identify.New {
			start := introspection.Start{Node: a.Node, Event: introspection.EventEnroll, Timeout: time.Hour,
				Attributes: a.Attributes}
			if err := start.Validate(); err != nil {
				t.Fatalf("%q: the log does not take %+v: %v", raw, start, err)
			}
			if address := machine.Address(conf.EnabledBMCAddressVersion); len(address) > 64 {
				t.Fatalf("the node has the BMC address %q", address)
			}
		}
		accept.TakeLogs(data, machine.BMC, true)
		stored := data.JSON()
		if bytes.Contains(stored, []byte(`"logs"`)) && !bytes.Contains(raw[1:], []byte(`"logs"`)) {
			t.Fatalf("%q became %q", raw, stored)
		}
		later, err := document.Parse(stored)
		if err != nil {
			t.Fatalf("%q is stored as %q: %v", raw, stored, err)
		}
		if again := later.JSON(); !bytes.Equal(again, stored) {
			t.Fatalf("%q is stored as %q and read as %q", raw, stored, again)
		}
	})
}
