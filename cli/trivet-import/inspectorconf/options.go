package inspectorconf

import (
	"strings"
	"time"
)

// option is one of the original's that has a counterpart here.
type option struct {
	name
	preset string // what the original takes when nothing is written
	to     string // key of our option
	turn   turn
}

// Longest values of ours, for an original whose 0 means never.
const (
	longestInspection = 7 * 24 * time.Hour
	longestCleanUp    = 365 * 24 * time.Hour
)

// plainOptions lists those that are carried over one by one. What several of
// them say together stands in compose.go.
func plainOptions() []option {
	return []option{
		{name{"DEFAULT", "timeout"}, "3600", "inspection.timeout", orNever(longestInspection)},
		{name{"DEFAULT", "clean_up_period"}, "60", "inspection.clean_up_period", orNever(longestCleanUp)},
		{name{"DEFAULT", "introspection_delay"}, "5", "inspection.reboot_throttle", asSeconds},
		{name{"DEFAULT", "ipmi_address_fields"}, "redfish_address,ilo_address,drac_host,drac_address,ibmc_address",
			"inspection.ipmi_address_fields", asList},
		{name{"DEFAULT", "api_max_limit"}, "1000", "inspection.api_max_limit", asNumber},
		{name{"DEFAULT", "can_manage_boot"}, "true", "inspection.can_manage_boot", asBool},
		{name{"discovery", "enroll_node_driver"}, "fake-hardware", "inspection.discovery.enroll_node_driver", asText},
		{name{"discovery", "enroll_node_fields"}, "", "inspection.discovery.enroll_node_fields", asPairs},
		{name{"discovery", "enabled_bmc_address_version"}, "4,6", "inspection.discovery.enabled_bmc_address_version", asList},
		{name{"pxe_filter", "sync_period"}, "15", "firewall.sync_period", asSeconds},
		{name{"healthcheck", "enabled"}, "false", "api.healthcheck", asBool},
		{name{"DEFAULT", "debug"}, "false", "log.level", asLogLevel},
		{name{"processing", "add_ports"}, "pxe", "inspection.processing.add_ports", asText},
		{name{"processing", "keep_ports"}, "all", "inspection.processing.keep_ports", asText},
		{name{"processing", "overwrite_existing"}, "true", "inspection.processing.overwrite_existing", asBool},
		{name{"processing", "update_pxe_enabled"}, "true", "inspection.processing.update_pxe_enabled", asBool},
		{name{"processing", "disk_partitioning_spacing"}, "true", "inspection.processing.disk_partitioning_spacing", asBool},
		{name{"processing", "power_off"}, "true", "inspection.processing.power_off", asBool},
		{name{"processing", "permit_active_introspection"}, "false", "inspection.processing.permit_active_introspection",
			asBool},
		{name{"processing", "always_store_ramdisk_logs"}, "false", "inspection.processing.always_store_ramdisk_logs", asBool},
		{name{"processing", "ramdisk_logs_dir"}, "", "inspection.processing.ramdisk_logs_dir", asText},
		{name{"processing", "ramdisk_logs_filename_format"}, "{uuid}_{dt:%Y%m%d-%H%M%S.%f}.tar.gz",
			"inspection.processing.ramdisk_logs_filename_format", asText},
		{name{"capabilities", "boot_mode"}, "false", "inspection.capabilities.boot_mode", asBool},
		{name{"capabilities", "cpu_flags"},
			"vmx:cpu_vt,svm:cpu_vt,aes:cpu_aes,pse:cpu_hugepages,pdpe1gb:cpu_hugepages_1g,smx:cpu_txt",
			"inspection.capabilities.cpu_flags", asPairs},
		{name{"port_physnet", "cidr_map"}, "", "inspection.port_physnet.cidr_map", asList},
		{name{"extra_hardware", "strict"}, "false", "inspection.extra_hardware.strict", asBool},
		{name{"accelerators", "known_devices"}, "", "inspection.accelerators.known_devices", asText},
	}
}

// presets are the defaults of options that are read in compose.go.
func composedPresets() map[name]string {
	return map[name]string{
		{"DEFAULT", "listen_address"}:            "::",
		{"DEFAULT", "listen_port"}:               "5050",
		{"DEFAULT", "auth_strategy"}:             "keystone",
		{"DEFAULT", "http_basic_auth_user_file"}: "/etc/ironic-inspector/htpasswd",
		{"DEFAULT", "use_ssl"}:                   "false",
		{"DEFAULT", "host"}:                      "localhost",
		{"processing",
			"default_processing_hooks"}: "ramdisk_error,root_disk_selection,scheduler,validate_interfaces,capabilities,pci_devices",
		{"processing", "processing_hooks"}:  "$default_processing_hooks",
		{"processing", "store_data"}:        "none",
		{"pxe_filter", "driver"}:            "iptables",
		{"pxe_filter", "deny_unknown_macs"}: "false",
		{"iptables", "dnsmasq_interface"}:   "br-ctlplane",
	}
}

// Group says what becomes of what an option did.
type Group uint8

// The groups, in the order in which an operator should read them.
const (
	Lost      Group = iota // Trivet does not do it
	Changed                // Trivet does it in another way, or the operator has to write it again
	NotNeeded              // Trivet works without it
)

// Groups lists them all.
func Groups() []Group { return []Group{Lost, Changed, NotNeeded} }

// String is the heading of a group's options.
func (g Group) String() string {
	return [...]string{"lost: Trivet does not do what these options did", "changed: Trivet does it in another way",
		"not needed"}[g]
}

// loss says why an option is not carried over, and what to do about it.
type loss struct {
	group    Group
	what, do string
}

// lostSections are those of which nothing is carried over but what is read
// elsewhere.
func lostSections() map[string]loss {
	broker := loss{NotNeeded, "Trivet needs no message broker", ""}
	return map[string]loss{
		"database": {Changed, "Trivet keeps its state in a log of its own",
			"take over what is in the database with 'trivet-import database' and 'trivet-import load'"},
		"coordination": {NotNeeded, "Trivet's peers coordinate themselves", ""},
		authtoken: {Changed, "has no counterpart, or api.auth_strategy is not keystone",
			"see the section api.keystone of 'trivet config template'"},
		"oslo_policy": {Lost,
			"Trivet reads no policy_file: administrators may do everything, readers may look", "see api.auth_strategy"},
		"oslo_middleware":              {NotNeeded, "the settings of that library have no counterpart", ""},
		"oslo_concurrency":             {NotNeeded, "the settings of that library have no counterpart", ""},
		"oslo_messaging_amqp":          broker,
		"oslo_messaging_kafka":         broker,
		"oslo_messaging_rabbit":        broker,
		"oslo_messaging_notifications": broker,
		"cors": {Lost, "Trivet's API allows no other origin",
			"put a proxy in front of it where browsers need one"},
		"mdns":            {Lost, "Trivet is not published by multicast DNS", "use the floating IP address"},
		"service_catalog": {NotNeeded, "Trivet does not look itself up: links lead to the address that was asked", ""},
		"swift": {Lost, "Trivet keeps the data in its own log, not in Swift",
			"fetch what is there before the original is switched off"},
		"dnsmasq_pxe_filter": {NotNeeded, "is for driver dnsmasq, which is not chosen",
			"take dhcp-hostsdir out of dnsmasq's configuration"},
		"firewall": {Changed,
			"releases before 2018 had this section; the filter's options are in [pxe_filter] and [iptables] since",
			"write the option there, and import the file again"},
		"healthcheck": {NotNeeded, "the check answers at /healthcheck and has no details", ""},
		"ssl":         {Changed, "has no counterpart", "see api.tls"},
		"profiler":    {NotNeeded, "has no counterpart", ""},
	}
}

// lostOptions are single ones. Those that are found in neither table are
// unknown to the original too, as far as is known here.
func lostOptions() map[name]loss {
	logging := loss{Changed, "Trivet writes its log to standard error, which is the journal's affair",
		"see 'trivet serve --help'"}
	before2018 := "releases before 2018 had this option; it is not carried over"
	unhonoured := "the original has not honoured it for years"
	lost := make(map[name]loss)
	for _, r := range []struct {
		section, keys string
		loss
	}{
		{"DEFAULT", "host", loss{Changed, "every peer has a name of its own",
			"write name where the host's name will not do"}},
		{"DEFAULT", "listen_unix_socket listen_unix_socket_mode", loss{Lost, "Trivet's API has a port alone",
			"let the proxy in front of it use api.listen"}},
		{"DEFAULT", "leader_election_interval", loss{NotNeeded,
			"a leader is elected when the last one is gone, not from time to time", "see raft.timing"}},
		{"DEFAULT", "max_concurrency", loss{Changed, "counts the original's green threads", "see inspection.workers"}},
		{"DEFAULT", "rootwrap_config", loss{NotNeeded, "Trivet needs no helper to become root", ""}},
		{"DEFAULT", "standalone", loss{NotNeeded, "Trivet is always several peers", ""}},
		{"DEFAULT", "enable_mdns", lostSections()["mdns"]},
		{"DEFAULT", `log_file log_dir logfile logdir log_config log_config_append log_date_format watch_log_file use_syslog
			use_journal syslog_log_facility use_json use_stderr use_eventlog verbose log_rotate_interval
			log_rotate_interval_type max_logfile_count max_logfile_size_mb log_rotation_type logging_context_format_string
			logging_default_format_string logging_debug_format_suffix logging_exception_prefix logging_user_identity_format
			default_log_levels publish_errors instance_format instance_uuid_format rate_limit_interval rate_limit_burst
			rate_limit_except_level fatal_deprecations log_options`, logging},
		{"DEFAULT", `rpc_conn_pool_size conn_pool_min_size conn_pool_ttl executor_thread_pool_size rpc_response_timeout
			transport_url control_exchange rpc_ping_enabled`, lostSections()["oslo_messaging_rabbit"]},
		{"DEFAULT", `backdoor_port backdoor_socket graceful_shutdown_timeout api_paste_config wsgi_log_format tcp_keepidle
			wsgi_default_pool_size max_header_line wsgi_keep_alive client_socket_timeout wsgi_server_debug`,
			loss{NotNeeded, "has no counterpart: that is how the original's web server is tuned", ""}},
		{"pxe_filter", "driver", loss{Changed, "is not known", "see firewall.driver"}},
		{"firewall", "manage_firewall", loss{Changed,
			"releases before 2018 had this option; true is what Trivet does, with firewall.driver auto",
			"for false, where nothing is to be filtered, write firewall.driver: noop"}},
		{"firewall", "dnsmasq_interface", loss{Changed, before2018, "write its value as firewall.interface"}},
		{"firewall", "firewall_update_period", loss{Changed, before2018, "see firewall.sync_period"}},
		{"iptables", "firewall_chain", loss{Changed, "the name of Trivet's rules is fixed", ""}},
		{"iptables", "ethoib_interfaces", loss{Lost,
			"Trivet does not filter Ethernet over InfiniBand by the gateway's MACs: the kernel's driver for it is gone",
			"machines behind such a gateway are unknown ones: see firewall.deny_unknown_macs"}},
		{"iptables", "ip_version", loss{NotNeeded, "Trivet filters IPv4 and IPv6", ""}},
		{"dnsmasq_pxe_filter", "purge_dhcp_hostsdir", loss{NotNeeded,
			"the unit trivet-firewall purges before dnsmasq starts, always", ""}},
		{"dnsmasq_pxe_filter", "dnsmasq_start_command dnsmasq_stop_command", loss{Changed,
			"Trivet starts and stops no dnsmasq: it runs all the time, and the kernel keeps the door",
			"'systemctl enable dnsmasq'; it starts after trivet-firewall"}},
		{"ironic", "max_retries", loss{NotNeeded, unhonoured, "see ironic.retries"}},
		{"ironic", "retry_interval", loss{NotNeeded, unhonoured, "see ironic.retry_interval"}},
		{"ironic", "valid_interfaces os_endpoint_type", loss{Changed,
			"of Keystone's catalogue Trivet takes the internal endpoint, else the public one",
			"write ironic.endpoint for another"}},
		{"ironic", `user_id user_domain_id project_id tenant_id project_domain_id domain_id domain_name default_domain_id
			trust_id system_scope`, loss{Changed,
			"Trivet names users, projects and domains at Keystone by name, and asks for a project",
			"see ironic.project_name"}},
		{"ironic", `collect_timing split_loggers min_version max_version version service_name service_type os_service_type
			connect_retries connect_retry_delay status_code_retries status_code_retry_delay auth_section`,
			loss{Changed, "has no counterpart", "see the section ironic of 'trivet config template'"}},
	} {
		for key := range strings.FieldsSeq(r.keys) {
			lost[name{r.section, key}] = r.loss
		}
	}
	return lost
}
