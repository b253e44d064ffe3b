package main

// fileMutants take from driver dnsmasq what makes files safe.
func fileMutants() []Mutant {
	return []Mutant{
		{
			Name:    "files-removed-instead-of-rewritten",
			Promise: "2",
			File:    "firewall/dnsmasq/hosts.go",
			Old: `		if err := h.dir.write(f.name, f.text); err != nil {
			return err
		}
`,
			New: `		write := h.dir.write
		if m, known := h.marks[f.name]; known && m == (mark{}) {
			write = func(name, _ string) error { return h.dir.remove(name) }
		}
		if err := write(f.name, f.text); err != nil {
			return err
		}
`,
			Package:   "./firewall/dnsmasq",
			Run:       "^TestLeftFollowUnknown$",
			Assertion: "never-removed:",
		},
		{
			Name:      "files-without-a-lease",
			Promise:   "2",
			File:      "firewall/host/filter.go",
			Old:       "	f, err := underLease(ctx, Filter{Driver: Dnsmasq, Chains: lists}, gaze, layout, log)\n",
			New:       "	f, err := Filter{Driver: Dnsmasq, Chains: lists, Lease: &firewall.Memory{}, Foreign: gaze.Changed(), Run: gaze.Run}, error(nil)\n",
			Package:   "./firewall/host",
			Run:       "^TestFilesAreBelowALease$",
			Assertion: "lease-in-the-kernel:",
		},
	}
}
