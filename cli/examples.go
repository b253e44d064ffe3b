package cli

// exampleOf returns the examples of a command that only needs lines, "" for
// others: those that belong to a long help text stand with it.
func exampleOf(path string) string {
	for _, table := range []func() map[string]string{clusterExamples, nodeExamples, otherExamples} {
		if text := table()[path]; text != "" {
			return text
		}
	}
	return ""
}

// clusterExamples are of the commands that start, watch and change a cluster.
func clusterExamples() map[string]string {
	return map[string]string{
		"trivet":                      "trivet init\ntrivet status\ntrivet help introspection start",
		"trivet help":                 "trivet help\ntrivet help introspection start",
		"trivet version":              "trivet version\ntrivet version -o json",
		"trivet man":                  "trivet man trivet-join | man -l -\ntrivet man --dir /usr/local/share/man/man1",
		"trivet join":                 "trivet join 192.0.2.1 --token-file token\ntrivet join h1:7350 --token-file - < token",
		"trivet serve":                "trivet serve\ntrivet serve --config ./trivet.yaml --log-level debug",
		"trivet dev":                  "trivet dev --nodes 20\ntrivet dev --nodes 50 --kill-leader-every 10s --for 1m",
		"trivet status":               "trivet status\ntrivet status -o json\ntrivet status --peer h2 --operator-cert ann.pem",
		"trivet peers":                "trivet peers",
		"trivet watch":                "trivet watch\ntrivet watch --kind leadership,pxe,floating-ip\ntrivet watch --node node-1 -o json",
		"trivet members":              "trivet members\ntrivet members --stale -o wide",
		"trivet members promote":      "trivet members promote h4",
		"trivet members demote":       "trivet members demote h3",
		"trivet members set-address":  "trivet members set-address h2 192.0.2.22:7350",
		"trivet failover-safe":        "trivet failover-safe && systemctl restart trivet\ntrivet failover-safe h2",
		"trivet maintenance on":       "trivet maintenance on\ntrivet maintenance on h2",
		"trivet maintenance off":      "trivet maintenance off h2",
		"trivet transfer":             "trivet transfer\ntrivet transfer h2",
		"trivet leave":                "trivet leave",
		"trivet remove":               "trivet remove h3\ntrivet remove h3 --replace",
		"trivet recover":              "trivet recover --dry-run\ntrivet recover --yes-i-lost-the-majority --confirm h1",
		"trivet rejoin":               "trivet rejoin\ntrivet rejoin 192.0.2.1:7350",
		"trivet token create":         "trivet token create\ntrivet token create --ttl 1h",
		"trivet token list":           "trivet token list",
		"trivet token revoke":         "trivet token revoke 3f9c0a1b",
		"trivet token rotate":         "trivet token rotate",
		"trivet cert status":          "trivet cert status",
		"trivet cert renew":           "trivet cert renew",
		"trivet cert revoke-operator": "trivet cert revoke-operator ann",
		"trivet gossip rotate-key":    "trivet gossip rotate-key",
		"trivet gossip status":        "trivet gossip status",
		"trivet config check":         "trivet config check\ntrivet config check --config ./trivet.yaml",
		"trivet config reference":     "trivet config reference > configuration.md",
		"trivet config show":          "trivet config show --effective",
		"trivet config template":      "umask 027\ntrivet config template > trivet.yaml",
	}
}

// nodeExamples are of the commands about machines and what they boot.
func nodeExamples() map[string]string {
	return map[string]string{
		"trivet introspection start":          "trivet introspection start node-1 node-2\nopenstack baremetal node list -f value -c UUID | trivet introspection start --wait -",
		"trivet introspection status":         "trivet introspection status node-1 node-2",
		"trivet introspection show":           "trivet introspection show node-1",
		"trivet introspection list":           "trivet introspection list\ntrivet introspection list --state error,waiting -o wide",
		"trivet introspection abort":          "trivet introspection abort node-1",
		"trivet introspection reprocess":      "trivet introspection reprocess node-1\ntrivet introspection reprocess node-1 --data-file changed.json",
		"trivet introspection data save":      "trivet introspection data save node-1 --file node-1.json\ntrivet introspection data save --unprocessed node-1",
		"trivet introspection interface list": "trivet introspection interface list node-1\ntrivet introspection interface list node-1 --vlan 100",
		"trivet introspection interface show": "trivet introspection interface show node-1 eno1",
		"trivet rule import":                  "trivet rule import rules.json",
		"trivet rule list":                    "trivet rule list",
		"trivet rule show":                    "trivet rule show 7459bf7c-9ff9-43a8-ba9f-48542ecda66c",
		"trivet rule delete":                  "trivet rule delete 7459bf7c-9ff9-43a8-ba9f-48542ecda66c",
		"trivet rule purge":                   "trivet rule purge",
		"trivet node sync":                    "trivet node sync\ntrivet node sync --confirm",
		"trivet node relays":                  "trivet node relays",
		"trivet node history":                 "trivet node history node-1\ntrivet node history node-1 -o wide",
		"trivet firewall show":                "trivet firewall show\ntrivet firewall show --local -o wide",
		"trivet firewall explain":             "trivet firewall explain node-1\ntrivet firewall explain 52:54:00:ab:00:01",
		"trivet firewall close":               "trivet firewall close --offline",
	}
}

// otherExamples are of the rest.
func otherExamples() map[string]string {
	return map[string]string{
		"trivet failover list":         "trivet failover list",
		"trivet failover show":         "trivet failover show worker-1",
		"trivet failover history":      "trivet failover history\ntrivet failover history worker-1 --limit 5",
		"trivet failover simulate":     "trivet failover simulate worker-1",
		"trivet failover release":      "trivet failover release worker-1 --to fencing --reason 'new BMC password'",
		"trivet failover resume":       "trivet failover resume\ntrivet failover resume --cluster prod",
		"trivet failover test-fence":   "trivet failover test-fence worker-1\ntrivet failover test-fence worker-1 --off --confirm worker-1",
		"trivet snapshot save":         "trivet snapshot save /var/backups/trivet.snapshot",
		"trivet snapshot inspect":      "trivet snapshot inspect /var/backups/trivet.snapshot",
		"trivet snapshot verify":       "trivet snapshot verify /var/backups/trivet.snapshot",
		"trivet import inspector-conf": "trivet import inspector-conf /etc/ironic-inspector/inspector.conf > trivet.yaml",
		"trivet debug fsm check":       "trivet debug fsm check",
		"trivet debug fsm dump":        "trivet debug fsm dump > state.json",
		"trivet debug setting delete":  "trivet debug setting delete greeting",
		"trivet debug setting get":     "trivet debug setting get greeting",
		"trivet debug setting list":    "trivet debug setting list",
		"trivet debug setting put":     "trivet debug setting put greeting hello",
		"trivet completion":            "trivet completion bash > /etc/bash_completion.d/trivet",
		"trivet completion bash":       "source <(trivet completion bash)",
		"trivet completion zsh":        "trivet completion zsh > ~/.zfunc/_trivet",
		"trivet completion fish":       "trivet completion fish | source",
		"trivet completion powershell": "trivet completion powershell | Out-String | Invoke-Expression",
	}
}
