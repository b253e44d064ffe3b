package data

import (
	"context"
	"time"

	"github.com/trivet-ha/trivet/app/health"
	"github.com/trivet-ha/trivet/cli/options"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/doctor"
)

// Values of --inspection: who starts inspections and processes their data. A site that does
// not say is one of clients of ironic-inspector, as each was before the flag
// (docs/design.md#inspection).
const (
	byIronic = "ironic"
	byTrivet = "trivet"
)

const (
	keyInterfaces = "firewall.inspect_interfaces"
	keyContinue   = "inspection.continue_inspection"
	// askLimit bounds the question to Ironic, which may be away.
	askLimit = 2 * time.Second
)

// chooseInspection adds what --inspection stands for to the options that were given as flags. It
// refuses what contradicts the flag elsewhere: a file whose lines stay as they are would
// win, and the site would be of the other kind.
func chooseInspection(set *options.Set, conf config.Config, by string) error {
	var found config.Problems
	refuse := func(key, what, do string) {
		found = append(found, config.Problem{Where: conf.Origin(key), Key: key,
			What: what + ", and --inspection is " + by, Do: do})
	}
	interfaces, mode := conf.Firewall.InspectInterfaces, conf.Inspection.ContinueInspection
	written := func(key string) bool { return conf.Origin(key).Kind != config.FromDefault }
	switch by {
	case "":
	case byIronic:
		if written(keyInterfaces) && len(interfaces) == 0 {
			refuse(keyInterfaces, "is empty", "write agent, or remove the line")
		}
		if written(keyContinue) && mode != config.ContinueRelay {
			refuse(keyContinue, "is "+mode, "write relay, or remove the line")
		}
	case byTrivet:
		if len(interfaces) > 0 {
			refuse(keyInterfaces, "lets machines boot that Ironic inspects", "remove the line, or say --inspection ironic")
		}
		if mode == config.ContinueRelay {
			refuse(keyContinue, "is relay", "write off, or say --inspection ironic")
		}
	default:
		return term.Usage("--inspection %q: it is %s or %s", by, byIronic, byTrivet)
	}
	if len(found) > 0 {
		return options.Error(found)
	}
	if by == byIronic {
		for key, value := range map[string]string{keyInterfaces: "agent", keyContinue: config.ContinueRelay} {
			if !written(key) {
				set.Values[key] = value
			}
		}
	}
	return nil
}

// sayInspection says what is to be set in Ironic, and what it has that does not fit.
func sayInspection(ctx context.Context, t *term.Terminal, w settled, by string) {
	conf := w.conf
	if by == byIronic {
		if w.file.why != nil {
			t.Warn("no configuration is written: give each 'trivet serve' %s", listed(map[string]string{
				keyInterfaces: "agent", keyContinue: config.ContinueRelay}))
		}
		t.Say("Ironic inspects: set in its configuration, and restart its conductors:\n" +
			"  [DEFAULT]\n" +
			"  enabled_inspect_interfaces = agent,no-inspect\n" +
			"  default_inspect_interface = agent\n" +
			"  [inspector]\n" +
			"  require_managed_boot = False\n" +
			"  hooks = $default_hooks")
		t.Say(
			"keep other interfaces that are enabled; add to the hooks what else nodes are to be told, as root-device or local-link-connection")
		t.Say("what Ironic can boot itself, as by virtual media, it still does; of that Trivet sees nothing")
		t.Say("nodes that have another interface: 'openstack baremetal node set NODE --inspect-interface agent'")
	}
	if conf.Origin("ironic.endpoint").Kind == config.FromDefault && conf.Ironic.Endpoint != "" {
		return // no Ironic was named
	}
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	found, away := health.InspectionProblems(ctx, conf)
	if away != nil && by != "" {
		t.Say("Ironic does not say whether it fits, 'trivet doctor' will: %v", away)
	}
	for _, problem := range found {
		if problem.Severity == doctor.Warning {
			t.Warn("%s; %s", problem.Text, problem.Advice())
		}
	}
}
