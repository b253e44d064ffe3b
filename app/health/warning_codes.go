package health

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/trivet-ha/trivet/api"
)

// warningList grows by one warning after the other.
type warningList []api.Warning

func (l *warningList) add(code, remedy, format string, args ...any) {
	*l = append(*l, api.Warning{Code: code, Text: fmt.Sprintf(format, args...), Remedy: remedy})
}

// warningCodes are those that status may show. A test compares them with the
// source.
func warningCodes() []string {
	return []string{
		"address_conflict", "backup_failed", "backup_old", "ca_ends", "certificate_expired", "certificate_not_yet_valid",
		"certificate_old", "clock_skew",
		"config_refused", "dhcp_bypass", "disk_full", "disk_low", "drift", "failover_api_silent", "failover_held",
		"failover_left_open", "failover_no_vote", "failover_paused",
		"failover_stuck", "failover_unfenced", "failover_unplaced_peers", "few_voters", "file_unusable", "floating_ip",
		"floating_ip_unanswered", "former_member",
		"former_silent", "gossip_rotation", "haconfig_api_silent", "haconfig_not_kept", "inspections_unread", "ironic_away",
		"keystone_away",
		"lease_table_near_full", "log_unread", "maintenance", "no_leader", "no_margin", "no_peer_may_lead", "no_port_list",
		"old_port_list",
		"peer_silent", "peer_unreachable", "ramdisk_endpoint_away", "ramdisks_refused", "receiver_behind", "refuses_to_lead",
		"reload_needed", "restart_needed", "rules_not_programmed", "single_peer_may_lead", "sync_suspicion", "two_voters",
		"useless_options",
	}
}

// degrades reports whether status counts as degraded while it shows this warning:
// something is broken, or one more loss would break it. The others are advice: a
// decision of an operator, or something that is to be done some day.
func degrades(code string) bool {
	switch code {
	case "address_conflict", "certificate_expired", "certificate_not_yet_valid", "clock_skew", "dhcp_bypass", "disk_full",
		"failover_api_silent", "failover_held", "failover_left_open", "failover_no_vote",
		"failover_stuck", "file_unusable", "floating_ip", "floating_ip_unanswered", "former_silent", "haconfig_api_silent",
		"inspections_unread", "ironic_away", "keystone_away", "log_unread", "no_leader", "no_margin", "no_peer_may_lead",
		"no_port_list", "old_port_list", "peer_silent", "peer_unreachable", "ramdisk_endpoint_away",
		"ramdisks_refused", "refuses_to_lead", "rules_not_programmed", "single_peer_may_lead",
		"sync_suspicion", "useless_options":
		return true
	}
	return false
}

// warningFigures show what status warns of. Every warning is there, so that no alert waits for a
// series that was never seen.
func warningFigures(warnings func() []api.Warning) *Scraped {
	shown := Desc("warnings", "1 while 'trivet status' shows this warning of the cluster or of this host.", "warning")
	return &Scraped{[]*prometheus.Desc{shown}, func(show Show) {
		now := make(map[string]bool)
		for _, w := range warnings() {
			now[w.Code] = true
		}
		for _, code := range warningCodes() {
			show(shown, prometheus.GaugeValue, BoolValue(now[code]), code)
		}
	}}
}
