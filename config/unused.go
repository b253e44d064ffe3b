package config

import "slices"

// lookAtUnused warns of options that are written and count only with another one.
func (r *review) lookAtUnused() {
	p, b := r.Inspection.Processing, r.Backup
	hook := func(name string) bool { return slices.Contains(p.Hooks, name) }
	hooks := r.keyWithPlace("inspection.processing.processing_hooks")
	raft := slices.ContainsFunc(r.Elector.Elections(), func(e Election) bool { return e.Lease == "" })
	for _, o := range []struct {
		keys []string
		used bool
		why  string
	}{
		{[]string{"api.tls.names"}, r.API.TLS.Certificate == TLSCluster,
			r.keyWithPlace("api.tls.certificate") + " is " + r.API.TLS.Certificate},
		{[]string{"ironic.auth_url", "ironic.project_name", "ironic.user_domain_name", "ironic.project_domain_name",
			"ironic.region"},
			r.Ironic.AuthType == "keystone", r.keyWithPlace("ironic.auth_type") + " is " + r.Ironic.AuthType},
		{[]string{"ironic.ramdisk_endpoint"}, r.Inspection.ContinueInspection == ContinueRelay,
			r.keyWithPlace("inspection.continue_inspection") + " is " + r.Inspection.ContinueInspection},
		{[]string{"inspection.processing.always_store_ramdisk_logs", "inspection.processing.ramdisk_logs_filename_format",
			"inspection.processing.ramdisk_logs_quota"},
			p.RamdiskLogsDir != "", "inspection.processing.ramdisk_logs_dir is empty, so that no logs are kept"},
		{[]string{"inspection.discovery.enroll_node_driver", "inspection.discovery.enabled_bmc_address_version",
			"inspection.discovery.enroll_node_fields"},
			p.NodeNotFoundHook == "enroll", r.keyWithPlace("inspection.processing.node_not_found_hook") + " is not enroll"},
		{[]string{"inspection.capabilities.boot_mode", "inspection.capabilities.cpu_flags"}, hook("capabilities"),
			hooks + " lacks capabilities"},
		{[]string{"inspection.pci_devices.alias"}, hook("pci_devices"), hooks + " lacks pci_devices"},
		{[]string{"inspection.port_physnet.cidr_map"}, hook("physnet_cidr_map"), hooks + " lacks physnet_cidr_map"},
		{[]string{"inspection.extra_hardware.strict"}, hook("extra_hardware"), hooks + " lacks extra_hardware"},
		{[]string{"inspection.accelerators.known_devices"}, hook("accelerators"), hooks + " lacks accelerators"},
		{[]string{"firewall.dhcp_hostsdir"}, r.Firewall.Driver == "dnsmasq",
			r.keyWithPlace("firewall.driver") + " is " + r.Firewall.Driver},
		{[]string{"backup.every", "backup.keep"}, b.Directory != "",
			"backup.directory is empty, so that no snapshot is taken"},
		{[]string{"elector.identities"}, raft, r.keyWithPlace("elector.listen") + " has no election raft"},
		{[]string{"haconfig.listen", "haconfig.namespaces", "haconfig.components", "haconfig.disruption_budgets"},
			r.HAConfig.On(), "haconfig.kubeconfigs and haconfig.in_cluster are empty, so that the webhook is off"},
	} {
		for _, key := range o.keys {
			r.when(!o.used && r.Origin(key).Kind != FromDefault, key, "is not used: "+o.why, "write what it needs, or remove it")
		}
	}
}
