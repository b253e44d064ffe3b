package main

// hookMutants break what keeps a machine's data from harming a node.
func hookMutants() []Mutant {
	const pkg = "./inspector/hooks"
	return []Mutant{
		{
			Name:      "ports-of-a-deployed-node-deleted",
			Promise:   "contract",
			File:      "inspector/hooks/validate_interfaces.go",
			Old:       "\tif t.Deployed() {\n\t\treturn nil\n\t}\n",
			New:       "",
			Package:   pkg,
			Run:       "^TestPortsFollowInterfaces$",
			Assertion: "TestPortsFollowInterfaces/of_a_deployed_node_they_are_only_added",
		},
		{
			Name:      "local-gb-below-nothing",
			Promise:   "contract",
			File:      "inspector/hooks/root_disk_selection.go",
			Old:       "if size > 0 && h.spacing {",
			New:       "if h.spacing {",
			Package:   pkg,
			Run:       "^TestLocalGB$",
			Assertion: "local_gb is -1, want 0",
		},
		{
			Name:      "skipped-disk-chosen",
			Promise:   "contract",
			File:      "inspector/hooks/root_disk_selection.go",
			Old:       `t.Node().Properties["skip_block_devices"]; !isUnset(skip) {`,
			New:       `t.Node().Properties["skip_block_devices"]; !isUnset(skip) && len(disks) == 0 {`,
			Package:   pkg,
			Run:       "^TestRootDiskByHints$",
			Assertion: "TestRootDiskByHints/what_would_fit_is_skipped",
		},
		{
			Name:      "capabilities-of-the-senders-choice",
			Promise:   "contract",
			File:      "inspector/hooks/capabilities.go",
			Old:       `case strings.Contains(text, ",") || len(text) > maxText:`,
			New:       `case len(text) > maxText:`,
			Package:   pkg,
			Run:       "^TestCapabilitiesFail$",
			Assertion: "TestCapabilitiesFail/a_boot_mode_and_more",
		},
		{
			Name:      "hints-compared-as-they-are-written",
			Promise:   "contract",
			File:      "inspector/hooks/hint_expression.go",
			Old:       "text = strings.ToLower(strings.TrimSpace(text))",
			New:       "text = strings.TrimSpace(text)",
			Package:   pkg,
			Run:       "^TestHintsMeanWhatTheyMeanToIronic$",
			Assertion: "TestHintsMeanWhatTheyMeanToIronic",
		},
	}
}
