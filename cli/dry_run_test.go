package cli

import (
	"testing"

	"github.com/spf13/cobra"
)

// What a verb changes, for TestEveryVerbHasADryRun.
const (
	changesNothing = "changes nothing"
	hasDryRun      = "has --dry-run"
)

// dryRuns is one row for each verb: that it changes nothing, that it has --dry-run, or why
// it has none.
var dryRuns = map[string]string{
	"cert ca":                 changesNothing,
	"cert issue-operator":     hasDryRun,
	"cert renew":              hasDryRun,
	"cert revoke-operator":    hasDryRun,
	"cert status":             changesNothing,
	"completion bash":         changesNothing,
	"completion fish":         changesNothing,
	"completion powershell":   changesNothing,
	"completion zsh":          changesNothing,
	"config check":            changesNothing,
	"config reference":        changesNothing,
	"config reload":           hasDryRun,
	"config show":             changesNothing,
	"config template":         changesNothing,
	"datadir clean":           hasDryRun,
	"debug bundle":            changesNothing,
	"debug fsm check":         changesNothing,
	"debug fsm dump":          changesNothing,
	"debug profile":           changesNothing,
	"debug setting delete":    hasDryRun,
	"debug setting get":       changesNothing,
	"debug setting list":      changesNothing,
	"debug setting put":       hasDryRun,
	"dnsmasq-config":          hasDryRun,
	"doctor":                  changesNothing,
	"drill failover":          "it measures a change of leaders; 'trivet failover-safe' says whether one may be lost",
	"elector":                 "it runs, and takes part in an election",
	"failover history":        changesNothing,
	"failover list":           changesNothing,
	"failover manifest":       changesNothing,
	"failover pause":          hasDryRun,
	"failover release":        hasDryRun,
	"failover resume":         hasDryRun,
	"failover show":           changesNothing,
	"failover simulate":       changesNothing,
	"failover test-fence":     changesNothing,
	"failover-safe":           changesNothing,
	"firewall close":          "it closes this host's PXE service, the safe side; the leader opens it again",
	"firewall explain":        changesNothing,
	"firewall heard":          changesNothing,
	"firewall show":           changesNothing,
	"gossip rotate-key":       hasDryRun,
	"gossip status":           changesNothing,
	"haconfig check":          changesNothing,
	"haconfig lint":           changesNothing,
	"haconfig manifest":       changesNothing,
	"haconfig uninstall":      hasDryRun,
	"help":                    changesNothing,
	"init":                    hasDryRun,
	"introspection abort":     "it ends one introspection that is named",
	"introspection data save": changesNothing,
	"introspection list":      changesNothing,
	"introspection reprocess": "it processes the stored data of a node that is named",
	"introspection show":      changesNothing,
	"introspection start":     "it begins introspections of nodes that are named",
	"join":                    hasDryRun,
	"lease acquire":           "it asks for one lease that is named",
	"lease forget":            "it forgets one free lease that is named",
	"lease kubernetes-policy": changesNothing,
	"lease list":              changesNothing,
	"lease release":           "it gives back one lease of the caller",
	"lease renew":             "it renews one lease of the caller",
	"lease run":               "it runs a program",
	"lease show":              changesNothing,
	"leave":                   hasDryRun,
	"maintenance off":         hasDryRun,
	"maintenance on":          hasDryRun,
	"members":                 changesNothing,
	"members demote":          hasDryRun,
	"members promote":         hasDryRun,
	"members set-address":     hasDryRun,
	"node cabling":            changesNothing,
	"node diff":               changesNothing,
	"node expect":             hasDryRun,
	"node history":            changesNothing,
	"node relays":             changesNothing,
	"node sync":               "without --confirm it changes nothing",
	"peers":                   changesNothing,
	"recover":                 hasDryRun,
	"remove":                  hasDryRun,
	"rule import":             hasDryRun,
	"rule list":               changesNothing,
	"serve":                   "it runs a peer",
	"snapshot inspect":        changesNothing,
	"snapshot restore":        hasDryRun,
	"snapshot save":           "it writes one file that is named",
	"snapshot verify":         changesNothing,
	"status":                  changesNothing,
	"token create":            hasDryRun,
	"token list":              changesNothing,
	"token revoke":            hasDryRun,
	"token rotate":            hasDryRun,
	"top":                     changesNothing,
	"transfer":                "'trivet failover-safe' says whether leadership may be handed on",
	"upgrade finalize":        hasDryRun,
	"upgrade status":          changesNothing,
	"version":                 changesNothing,
	"watch":                   changesNothing,
}

// TestEveryVerbHasADryRun walks all verbs: a new one says what it changes.
func TestEveryVerbHasADryRun(t *testing.T) {
	met := make(map[string]bool)
	var walk func(c *cobra.Command, path string)
	walk = func(c *cobra.Command, path string) {
		for _, child := range c.Commands() {
			name := child.Name()
			if path != "" {
				name = path + " " + name
			}
			walk(child, name)
			if child.Hidden || child.HasSubCommands() && dryRuns[name] == "" {
				continue
			}
			met[name] = true
			says := dryRuns[name]
			if has := child.Flags().Lookup("dry-run") != nil; says == "" || has != (says == hasDryRun) {
				t.Errorf("dry-run-of-each-verb: 'trivet %s' has --dry-run: %v; its row in dryRuns says %q", name, has, says)
			}
		}
	}
	walk(Commands(), "")
	for name := range dryRuns {
		if !met[name] {
			t.Errorf("there is no verb 'trivet %s'", name)
		}
	}
}
