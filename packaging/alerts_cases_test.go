//go:build e2e

package main

import (
	"fmt"
	"strings"
)

// alertCase is a fault and what it sets off.
type alertCase struct {
	alone  bool              // without the healthy ones: a day of them takes long
	series map[string]string // beyond the healthy ones, or instead of them
	quiet  string            // nothing fires at this time
	at     string            // and at this one
	fires  map[string]int    // these alerts do, so often
}

// on names a series of a peer.
func on(peer, name string, labels ...string) string {
	all := append([]string{`job="trivet"`, fmt.Sprintf(`instance="%s:5050"`, peer)}, labels...)
	return name + "{" + strings.Join(all, ",") + "}"
}

// everywhere gives a series of all peers the same values.
func everywhere(values, name string, labels ...string) map[string]string {
	out := make(map[string]string)
	for _, peer := range []string{"h1", "h2", "h3"} {
		out[on(peer, name, labels...)] = values
	}
	return out
}

func merged(all ...map[string]string) map[string]string {
	out := make(map[string]string)
	for _, m := range all {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}

// healthySeries are those of three peers that do their work for as many scrapes:
// h1 leads, one introspection in ten fails, and 28 requests a minute are answered.
func healthySeries(scrapes int) map[string]string {
	steady := func(v string) string { return fmt.Sprintf("%sx%d", v, scrapes) }
	out := merged(
		everywhere(steady("1"), "up"), everywhere(steady("1"), "trivet_firewall_configured"),
		everywhere(steady("1"), "trivet_floating_ip_configured"),
		everywhere(steady("0"), "trivet_floating_ip_conflict"), everywhere(steady("0"), "trivet_firewall_bypass_servers"),
		everywhere(steady("1"), "trivet_firewall_in_step"),
		everywhere(steady("2"), "trivet_firewall_drift_total"), everywhere(steady("1"), "trivet_pass_rule_lapses_total"),
		everywhere(steady("9"), "trivet_firewall_port_list_age_seconds"),
		everywhere(steady("1"), "trivet_quorum_can_lose"), everywhere(steady("7"), "trivet_raft_term"),
		everywhere(steady("1"), "trivet_leader_fit"),
		everywhere(steady("0.02"), "trivet_clock_skew_seconds"),
		everywhere(steady("2000000"), "trivet_cert_expiry_timestamp_seconds"),
		everywhere(steady("1"), "trivet_build_info", `version="v1"`),
		everywhere(steady("100+4"), "trivet_raft_last_index"), everywhere(steady("100+4"), "trivet_raft_applied_index"),
		everywhere(steady("0"), "trivet_raft_write_seconds"),
		everywhere(steady("0"), "trivet_disk_full"), everywhere(steady("5000000000"), "trivet_disk_free_bytes"),
		everywhere(steady("9000000000"), "trivet_disk_size_bytes"),
		everywhere(steady("3600"), "trivet_backup_age_seconds"), everywhere(steady("0"), "trivet_backup_failing"),
		everywhere(steady("0"), "trivet_warnings", `warning="config_refused"`),
		everywhere(steady("0"), "trivet_warnings", `warning="restart_needed"`),
		everywhere(steady("0"), "trivet_warnings", `warning="maintenance"`),
		everywhere(steady("0"), "trivet_warnings", `warning="lease_table_near_full"`),
		everywhere(steady("1"), "trivet_ironic_reachable"), everywhere(steady("1"), "trivet_keystone_up"),
		everywhere(steady("0"), "trivet_relay_pending"), everywhere(steady("2"), "trivet_relay_failed"),
		everywhere(steady("0"), "trivet_ironic_inspected_nodes"),
		everywhere(steady("0 3 0 0 5 0"), "trivet_introspection_queue_length"),
		everywhere(steady("0+0"), "trivet_api_callbacks_throttled_total"),
		everywhere(steady("4"), "trivet_introspections", `state="waiting"`),
		everywhere(steady("2"), "trivet_introspections", `state="starting"`),
		everywhere(steady("9"), "trivet_introspections", `state="error"`),
		everywhere(steady("1"), "trivet_introspections_recently_ended", `state="error"`),
		everywhere(steady("9"), "trivet_introspections_recently_ended", `state="finished"`),
		everywhere(steady("0+7"), "trivet_api_request_seconds_count", `call="request"`, `code="200"`),
		everywhere(steady("0+0"), "trivet_api_request_seconds_count", `call="request"`, `code="503"`),
		everywhere(steady("0"), "trivet_failover_remediations", `state="stuck"`),
		everywhere(steady("0"), "trivet_failover_paused"),
		everywhere(steady("0"), "trivet_failover_votes_withdrawn", `cluster="prod"`),
		everywhere(steady("0"), "trivet_failover_fence_calls_total", `device="bmc"`, `call="off"`, `result="failed"`),
	)
	for _, name := range []string{"trivet_pass_rule_open", "trivet_floating_ip_held", "trivet_raft_leader"} {
		out[on("h1", name)], out[on("h2", name)], out[on("h3", name)] = steady("1"), steady("0"), steady("0")
	}
	out[on("h1", "trivet_failover_api_server_answers", `cluster="prod"`)] = steady("1")
	for le, perScrape := range map[string]string{"0.025": "14", "0.25": "15", "0.5": "15", "+Inf": "15"} {
		out[on("h1", "trivet_raft_commit_seconds_bucket", `le="`+le+`"`)] = "0+" + perScrape + steady("")
	}
	return out
}

// alertCases are the faults, by name.
func alertCases() map[string]alertCase {
	out := map[string]alertCase{
		"three healthy peers": {quiet: "30m", at: "70m"},
		// The old leader's figure is as old as its scrape; the terms rise by three.
		"a rolling upgrade": {at: "12m", series: map[string]string{
			on("h1", "trivet_pass_rule_open"): "1x8 0x100", on("h2", "trivet_pass_rule_open"): "0x7 1x12 0x100",
			on("h3", "trivet_pass_rule_open"): "0x18 1x100",
			on("h1", "trivet_raft_term"):      "7x8 8x11 9x100", on("h1", "up"): "1x9 0x3 1x100",
		}},
	}
	for _, more := range []map[string]alertCase{doorCases(), clusterCases(), introspectionCases(), failoverCases()} {
		for name, c := range more {
			out[name] = c
		}
	}
	return out
}

func fires(alert string, times int) map[string]int { return map[string]int{alert: times} }

func doorCases() map[string]alertCase {
	return map[string]alertCase{
		"two doors": {quiet: "45s", at: "75s", fires: fires("TrivetTwoDoors", 1),
			series: map[string]string{on("h2", "trivet_pass_rule_open"): "1x40"}},
		"two addresses": {quiet: "45s", at: "75s", fires: fires("TrivetTwoAddresses", 1),
			series: map[string]string{on("h2", "trivet_floating_ip_held"): "1x40"}},
		"no door": {quiet: "45s", at: "75s", fires: fires("TrivetNoDoor", 1),
			series: map[string]string{on("h1", "trivet_pass_rule_open"): "0x40"}},
		"no door, and no machine wants one": {at: "10m",
			series: merged(everywhere("0x60", "trivet_introspections", `state="waiting"`),
				everywhere("0x60", "trivet_introspections", `state="starting"`),
				map[string]string{on("h1", "trivet_pass_rule_open"): "0x60"})},
		"no door for what Ironic inspects": {quiet: "45s", at: "75s", fires: fires("TrivetNoDoor", 1),
			series: merged(everywhere("0x60", "trivet_introspections", `state="waiting"`),
				everywhere("0x60", "trivet_introspections", `state="starting"`),
				everywhere("3x60", "trivet_ironic_inspected_nodes"),
				map[string]string{on("h1", "trivet_pass_rule_open"): "0x60"})},
		"a leader with its door shut": {quiet: "14m", at: "16m", fires: fires("TrivetDoorStaysShut", 1),
			series: merged(everywhere("0x90", "trivet_introspections", `state="waiting"`),
				everywhere("0x90", "trivet_introspections", `state="starting"`),
				map[string]string{on("h1", "trivet_pass_rule_open"): "0x90"})},
		"no filter": {at: "20m",
			series: merged(everywhere("0x90", "trivet_firewall_configured"),
				map[string]string{on("h1", "trivet_pass_rule_open"): "0x90"})},
		"no address": {quiet: "45s", at: "75s", fires: fires("TrivetNoAddress", 1),
			series: map[string]string{on("h1", "trivet_floating_ip_held"): "0x40"}},
		"none is configured": {at: "10m",
			series: merged(everywhere("0x60", "trivet_floating_ip_configured"),
				map[string]string{on("h1", "trivet_floating_ip_held"): "0x60"})},
		"an address conflict": {quiet: "45s", at: "75s", fires: fires("TrivetAddressConflict", 1),
			series: map[string]string{on("h2", "trivet_floating_ip_conflict"): "1x40"}},
		"a server past it": {quiet: "90s", at: "150s", fires: fires("TrivetBypassDHCP", 2),
			series: map[string]string{on("h2", "trivet_firewall_bypass_servers"): "1x40",
				on("h3", "trivet_firewall_bypass_servers"): "1x40"}},
		"a filter out of step": {quiet: "45s", at: "75s", fires: fires("TrivetFilterOutOfStep", 1),
			series: map[string]string{on("h2", "trivet_firewall_in_step"): "0x40"}},
		"drift": {quiet: "1m", at: "10m", fires: fires("TrivetFilterDrift", 1),
			series: map[string]string{on("h2", "trivet_firewall_drift_total"): "2x10 3x60"}},
		"lapses": {quiet: "1m", at: "10m", fires: fires("TrivetDoorLapses", 1),
			series: map[string]string{on("h1", "trivet_pass_rule_lapses_total"): "1x10 2 3 4 5 6 7 8x60"}},
		"an old list": {quiet: "5m", at: "20m", fires: fires("TrivetOldPortList", 1),
			series: everywhere("9+15x100", "trivet_firewall_port_list_age_seconds")},
	}
}

func clusterCases() map[string]alertCase {
	return map[string]alertCase{
		"all are down": {quiet: "45s", at: "75s", fires: fires("TrivetAllDown", 1),
			series: everywhere("0x40", "up")},
		"all are down still": {at: "5m", fires: map[string]int{"TrivetAllDown": 1, "TrivetPeerDown": 3},
			series: everywhere("0x40", "up")},
		"no leader": {quiet: "30s", at: "60s", fires: fires("TrivetNoLeader", 1),
			series: map[string]string{on("h1", "trivet_raft_leader"): "0x40"}},
		"no margin": {quiet: "4m", at: "6m", fires: fires("TrivetNoMargin", 1),
			series: everywhere("0x60", "trivet_quorum_can_lose")},
		"one of five is cut off": {at: "10m", series: map[string]string{on("h3", "trivet_quorum_can_lose"): "0x60"}},
		"a peer is down": {quiet: "105s", at: "150s", fires: fires("TrivetPeerDown", 1),
			series: map[string]string{on("h2", "up"): "0x40"}},
		"another job": {at: "10m", series: map[string]string{`up{job="node",instance="h2:9100"}`: "0x60"}},
		"churn": {quiet: "1m", at: "6m", fires: fires("TrivetLeaderChurn", 1),
			series: map[string]string{on("h2", "trivet_raft_term"): "7x6 8x3 9x3 10x3 11x3 12x60"}},
		"one stands aside": {quiet: "9m", at: "11m", fires: fires("TrivetRefusesToLead", 1),
			series: map[string]string{on("h2", "trivet_leader_fit"): "0x60"}},
		"a clock behind": {quiet: "90s", at: "150s", fires: fires("TrivetClockSkew", 1),
			series: map[string]string{on("h3", "trivet_clock_skew_seconds"): "-3x40"}},
		"a certificate ends": {quiet: "30m", at: "70m", fires: fires("TrivetCertificateEnds", 1),
			series: map[string]string{on("h3", "trivet_cert_expiry_timestamp_seconds"): "600000x400"}},
		"half upgraded": {alone: true, quiet: "5h", at: "370m", fires: fires("TrivetVersionsDiffer", 1),
			series: map[string]string{on("h2", "trivet_build_info", `version="v1"`): "1x1500",
				on("h3", "trivet_build_info", `version="v2"`): "1x1500"}},
		"a reload is refused": {quiet: "9m", at: "11m", fires: fires("TrivetConfigRefused", 1),
			series: map[string]string{on("h2", "trivet_warnings", `warning="config_refused"`): "1x60"}},
		"a restart is due": {alone: true, quiet: "5h", at: "370m", fires: fires("TrivetRestartNeeded", 2),
			series: map[string]string{on("h1", "trivet_warnings", `warning="restart_needed"`): "1x1500",
				on("h2", "trivet_warnings", `warning="restart_needed"`): "1x1500"}},
		"maintenance is left on": {alone: true, quiet: "11h", at: "730m", fires: fires("TrivetMaintenanceLasts", 1),
			series: everywhere("1x3000", "trivet_warnings", `warning="maintenance"`)},
		"free leases pile up": {quiet: "9m", at: "11m", fires: fires("TrivetLeaseTableNearFull", 1),
			series: everywhere("1x60", "trivet_warnings", `warning="lease_table_near_full"`)},
		"one is behind": {quiet: "4m", at: "12m", fires: fires("TrivetLogBehind", 1),
			series: map[string]string{on("h3", "trivet_raft_applied_index"): "100x300",
				on("h1", "trivet_raft_last_index"): "2000+4x200", on("h1", "trivet_raft_applied_index"): "2000+4x200",
				on("h2", "trivet_raft_applied_index"): "1990+4x200"}},
		"slow writes": {quiet: "9m", at: "12m", fires: fires("TrivetSlowWrites", 1), series: map[string]string{
			on("h1", "trivet_raft_commit_seconds_bucket", `le="0.025"`): "0+1x100",
			on("h1", "trivet_raft_commit_seconds_bucket", `le="0.25"`):  "0+9x100"}},
		"a full disk": {quiet: "15s", at: "75s", fires: fires("TrivetDiskFull", 1),
			series: map[string]string{on("h2", "trivet_disk_full"): "1x40"}},
		"a disk fills": {quiet: "4m", at: "6m", fires: fires("TrivetDiskLow", 1),
			series: map[string]string{on("h2", "trivet_disk_free_bytes"): "300000000x40"}},
		"a small disk, half full": {at: "6m",
			series: merged(everywhere("300000000x40", "trivet_disk_free_bytes"),
				everywhere("600000000x40", "trivet_disk_size_bytes"))},
		"no recent backup": {quiet: "55m", at: "65m", fires: fires("TrivetBackupOld", 1),
			series: everywhere("180000x300", "trivet_backup_age_seconds")},
		"backups fail": {quiet: "55m", at: "65m", fires: fires("TrivetBackupFails", 1),
			series: map[string]string{on("h2", "trivet_backup_failing"): "1x300"}},
		"a disk hangs": {quiet: "15s", at: "45s", fires: fires("TrivetWriteHangs", 1),
			series: map[string]string{on("h2", "trivet_raft_write_seconds"): "3+15x40"}},
	}
}

func introspectionCases() map[string]alertCase {
	ended := func(state, values string) map[string]string {
		return everywhere(values, "trivet_introspections_recently_ended", `state="`+state+`"`)
	}
	return map[string]alertCase{
		"Ironic is away": {quiet: "90s", at: "10m", fires: fires("TrivetIronicAwayEverywhere", 1),
			series: everywhere("0x60", "trivet_ironic_reachable")},
		"Ironic is away from one": {quiet: "4m", at: "6m", fires: fires("TrivetIronicAway", 1),
			series: map[string]string{on("h2", "trivet_ironic_reachable"): "0x60"}},
		"Keystone is away": {quiet: "90s", at: "6m", fires: fires("TrivetKeystoneAway", 3),
			series: everywhere("0x60", "trivet_keystone_up")},
		// Callers come more seldom than every five minutes, and each fails.
		"Keystone is away from few callers": {quiet: "90s", at: "4m", fires: fires("TrivetKeystoneAway", 1),
			series: map[string]string{on("h2", "trivet_keystone_up"): "0x20 1x10 0x20"}},
		"most fail": {quiet: "4m", at: "6m", fires: fires("TrivetIntrospectionsFail", 1),
			series: merged(ended("error", "7x60"), ended("finished", "2x60"))},
		"two fail, and nothing else": {at: "10m", series: merged(ended("error", "2x60"), ended("finished", "0x60"))},
		"the queue grows": {quiet: "30m", at: "40m", fires: fires("TrivetQueueStuck", 1),
			series: everywhere("10+1x200", "trivet_introspection_queue_length")},
		"a long queue shrinks": {at: "60m", series: everywhere("900-2x300", "trivet_introspection_queue_length")},
		// They are given up after a quarter of an hour.
		"relays wait": {quiet: "4m", at: "8m", fires: fires("TrivetRelaysWait", 1),
			series: everywhere("0x4 3x56 0x40", "trivet_relay_pending")},
		"relays are given up": {quiet: "14m", at: "20m", fires: fires("TrivetRelaysFail", 1),
			series: everywhere("2x60 5x300", "trivet_relay_failed")},
		"relays were given up long ago": {at: "80m", series: everywhere("2x10 5x400", "trivet_relay_failed")},
		"throttled": {at: "10m", fires: fires("TrivetCallbacksThrottled", 1),
			series: map[string]string{on("h1", "trivet_api_callbacks_throttled_total"): "0+3x60"}},
		"the API fails": {quiet: "9m", at: "15m", fires: fires("TrivetAPIFails", 1),
			series: everywhere("0+1x80", "trivet_api_request_seconds_count", `call="request"`, `code="503"`)},
	}
}

func failoverCases() map[string]alertCase {
	return map[string]alertCase{
		"a remediation is stuck": {quiet: "45s", at: "75s", fires: fires("TrivetRemediationStuck", 1),
			series: everywhere("1x40", "trivet_failover_remediations", `state="stuck"`)},
		"a dead kube node is left alone": {quiet: "9m", at: "12m", fires: fires("TrivetKubeNodeHeld", 1),
			series: everywhere("1x100", "trivet_warnings", `warning="failover_held"`)},
		"paused": {quiet: "59m", at: "62m", fires: fires("TrivetFailoverPaused", 1),
			series: everywhere("1x400", "trivet_failover_paused")},
		"an API server is silent": {quiet: "90s", at: "150s", fires: fires("TrivetKubeAPISilent", 1),
			series: map[string]string{on("h1", "trivet_failover_api_server_answers", `cluster="prod"`): "0x40"}},
		"no opinion": {quiet: "9m", at: "11m", fires: fires("TrivetVotesWithdrawn", 1),
			series: map[string]string{on("h2", "trivet_failover_votes_withdrawn", `cluster="prod"`): "1x60"}},
		"a device fails": {at: "10m", fires: fires("TrivetFencesFail", 1),
			series: map[string]string{
				on("h1", "trivet_failover_fence_calls_total", `device="bmc"`, `call="off"`, `result="failed"`): "0+1x60"}},
	}
}
